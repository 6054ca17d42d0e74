/**
 * One memcached node: one connection with pipelined commands.
 *
 *     send ─┬─► unsent ── end of the turn: one write ──► memcached ── replies, in order of the commands ──► onEnd
 *           │                                              └ VALUE lines of a multi-get ──► onValue, then END ──► onEnd
 *           └ no connection: the first command opens one and waits in `unsent` with those that follow
 *
 * Every command ends within the timeout, counted from `send`: when the oldest has waited that long, or the connection breaks,
 * all pending commands fail, and whether they ran is unknown. The next command opens a new connection, after a pause if the last
 * attempt failed, too; during the pause commands fail immediately, as they do while the node's circuit breaker is open. Each
 * command is a trip of that. Nothing is sent twice.
 *
 * Why not a client library: none supports unix sockets and a deadline per command. memcache 1.10, the maintained one, has no
 * such deadline, cuts idle connections, and takes half a reply of a lost connection as the start of the next one (a wrong count
 * in our test). memcached 2.2 has no TLS, only a hash ring, and starts `ping`. memjs 1.3 has only the binary protocol, without
 * TLS. memcache-client 1.0 keeps replies in an object by key.
 */
import { connect, type Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { backoffMs } from '../../runtime/backoff.ts'
import type { Breakers } from '../breakers.ts'
import type { CircuitBreaker } from '../circuit-breaker.ts'
import { errorText, goDuration } from '../connect-retry.ts'
import type { TlsTo } from '../tls.ts'

/** `line` is the reply's last line, '' with an error. */
export type OnEnd = (error: Error | null, line: string) => void
export type OnValue = (key: string, value: string) => void

export interface MemcacheAddress {
  text: string // as in the setting or the DNS record
  path: string // unix socket; '' = host and port
  host: string
  port: number
}

export interface NodeOptions {
  address: MemcacheAddress
  tls: TlsTo | null
  timeoutMs: number
  breakers: Breakers
  onLost: (reason: string) => void
  onBack: (afterMs: number) => void // the first reply after `onLost`
  onState: () => void // isFailing or isConnected may have changed
}

/** Commands without a reply; further ones fail immediately. */
const COMMANDS_MAX = 65_536

/** Longer values and lines are not replies to our commands: the connection is closed. */
const VALUE_BYTES_MAX = 1_048_576
const LINE_BYTES_MAX = 2_048

const RECONNECT = { initialMs: 50, maxMs: 500 }
const KEEPALIVE_MS = 10_000

/** Error replies to a well-formed command. After any other error, replies may no longer match commands. */
const COMMAND_ERROR = /^(SERVER_ERROR|CLIENT_ERROR (cannot increment|invalid numeric))/

interface Command {
  onEnd: OnEnd
  onValue: OnValue | null
  sentMs: number
  next: Command | null
}

export class MemcacheNode {
  readonly address: MemcacheAddress
  isConnected = false
  isFailing = false // the last command got no reply or a SERVER_ERROR, or the last attempt to connect failed
  private readonly options: NodeOptions
  private readonly breaker: CircuitBreaker
  private socket: Socket | null = null
  private openedMs = 0
  private failures = 0 // attempts to connect since the last reply
  private pausedUntilMs = 0
  private lostReason = ''
  private lostMs = 0 // when a loss was reported; 0 = none since the last reply
  private first: Command | null = null // the oldest without a reply
  private last: Command | null = null
  private commandsCount = 0
  private unsent = '' // one character per byte
  private partial = '' // received but incomplete; one character per byte
  private isFlushScheduled = false
  private sweepTimer: NodeJS.Timeout | undefined
  private isRetired = false
  private isProbing = false // the probe of the caller waits for its reply
  private probesCount = 0 // commands that wait for a reply and are probes

  constructor(options: NodeOptions) {
    this.options = options
    this.address = options.address
    this.breaker = options.breakers.create(options.address.text, {
      probe: (done) => this.probeForBreaker(done),
      waitingSinceMs: () => this.first?.sentMs ?? null,
      onSilent: () => this.failReads(),
    })
  }

  /** Sends one command; `text` has one character per byte. Calls `onEnd` once, immediately or within the timeout. */
  send(text: string, onEnd: OnEnd, onValue: OnValue | null = null): void {
    if (this.breaker.isOpen) onEnd(new Error(`the circuit breaker is open (${this.breaker.reason})`), '')
    else this.sendAlways(text, onEnd, onValue)
  }

  /** The same, whatever the breaker says. */
  private sendAlways(text: string, onEnd: OnEnd, onValue: OnValue | null = null): void {
    const refusal = this.refusal()
    if (refusal !== '') {
      this.breaker.onFailure(refusal)
      onEnd(new Error(refusal), '')
      return
    }
    const command: Command = { onEnd, onValue, sentMs: performance.now(), next: null }
    if (this.last === null) this.first = command
    else this.last.next = command
    this.last = command
    this.commandsCount++
    this.unsent += text
    if (this.socket === null) this.open()
    else if (this.isConnected) this.scheduleFlush()
    if (this.sweepTimer === undefined) this.scheduleSweep(this.options.timeoutMs)
  }

  /** Connects unless connected, so that the first command need not wait for it. */
  open(): void {
    if (this.socket !== null) return
    const { address, tls } = this.options
    const { path, host, port } = address
    const remote = path === '' ? { host, port } : { path }
    const socket = tls === null ? connect(remote) : tlsConnect({ ...remote, ...tls(host) })
    this.socket = socket
    this.openedMs = performance.now()
    socket.setEncoding('latin1').setNoDelay(true).setKeepAlive(true, KEEPALIVE_MS)
    socket.on(tls === null ? 'connect' : 'secureConnect', () => {
      if (this.socket !== socket) return
      this.isConnected = true
      this.flush()
    })
    socket.on('data', (text: string) => {
      if (this.socket === socket) this.onData(text)
    })
    socket.on('error', (error) => {
      if (this.socket === socket) this.onLost(errorText(error))
    })
    socket.on('close', () => {
      if (this.socket === socket) this.onLost('closed by the other side')
    })
    if (this.sweepTimer === undefined) this.scheduleSweep(this.options.timeoutMs)
  }

  get isIdle(): boolean {
    return this.first === null
  }

  get isBreakerOpen(): boolean {
    return this.breaker.isOpen
  }

  /**
   * Reads fail now; their replies are dropped when they come. Batches that wait for this node only would take the place of those for
   * others. Increments go on: no caller waits for them.
   */
  private failReads(): void {
    const error = new Error(`the circuit breaker is open (${this.breaker.reason})`)
    for (let command = this.first; command !== null; command = command.next) {
      if (command.onValue === null) continue
      const { onEnd } = command
      command.onEnd = () => {}
      command.onValue = () => {}
      onEnd(error, '')
    }
  }

  /** Sends a harmless command to update the node's state. Failures are not logged. */
  probe(): void {
    if (this.isProbing) return
    this.isProbing = true
    this.sendProbe('version\r\n', null, () => {
      this.isProbing = false
    })
  }

  /** Reads as hits do. */
  private probeForBreaker(done: (isOk: boolean) => void): void {
    const ignore = () => {} // such an item may exist
    this.sendProbe('gets sluice\r\n', ignore, (error) => done(error === null))
  }

  private sendProbe(text: string, onValue: OnValue | null, onEnd: (error: Error | null) => void): void {
    this.probesCount++
    const onProbeEnd: OnEnd = (error) => {
      this.probesCount--
      onEnd(error)
    }
    this.sendAlways(text, onProbeEnd, onValue)
  }

  /** Only commands that follow from replies will still be sent: closes when none is pending. */
  retire(): void {
    this.isRetired = true
    if (this.first === null) this.close()
  }

  /** Closes the connection. Pending commands fail; callers wait for them first. */
  close(): void {
    this.options.breakers.remove(this.breaker)
    this.drop('closing')
  }

  /** Why a command would fail immediately, or ''. */
  private refusal(): string {
    if (this.commandsCount >= COMMANDS_MAX) return `${COMMANDS_MAX} commands wait for a reply`
    if (this.socket !== null || performance.now() >= this.pausedUntilMs) return ''
    return `no connection (${this.lostReason})`
  }

  private scheduleFlush(): void {
    if (this.isFlushScheduled) return
    this.isFlushScheduled = true
    process.nextTick(() => {
      this.isFlushScheduled = false
      if (this.isConnected) this.flush()
    })
  }

  private flush(): void {
    if (this.unsent === '') return
    this.socket!.write(this.unsent, 'latin1')
    this.unsent = ''
  }

  private onData(chunk: string): void {
    const text = this.partial + chunk
    const { socket } = this
    let at = 0
    this.partial = ''
    while (this.socket === socket) {
      const end = text.indexOf('\r\n', at)
      if (end === -1) break
      if (!text.startsWith('VALUE ', at)) {
        this.onReply(text.slice(at, end))
        at = end + 2
        continue
      }
      const [, key, , bytes] = text.slice(at, end).split(' ')
      const valueEnd = end + 2 + Number(bytes)
      if (!(Number(bytes) <= VALUE_BYTES_MAX) || !this.first?.onValue) {
        this.onLost('a value that was not asked for, or is too long') // without the key, which contains values of callers
        return
      }
      if (text.length < valueEnd + 2) break
      this.first.onValue(key, text.slice(end + 2, valueEnd))
      at = valueEnd + 2
    }
    if (this.socket !== socket) return // closed or replaced since
    this.partial = text.slice(at)
    if (this.partial.length > VALUE_BYTES_MAX + LINE_BYTES_MAX) this.onLost('it sent a line without an end')
  }

  /** `line` is the last line of the oldest command's reply. */
  private onReply(line: string): void {
    const command = this.first
    if (command === null) {
      this.onLost(`unexpected reply: ${quoteLine(line)}`)
      return
    }
    const isError = /^(ERROR|CLIENT_ERROR|SERVER_ERROR)\b/.test(line)
    if ((isError && !COMMAND_ERROR.test(line)) || (!isError && command.onValue !== null && line !== 'END')) {
      this.onLost(`protocol error: ${quoteLine(line)}`)
      return
    }
    this.failures = 0
    this.onReplied()
    this.first = command.next
    if (this.first === null) this.last = null
    this.commandsCount--
    this.setFailing(isError && line.startsWith('SERVER_ERROR'))
    if (isError && line.startsWith('SERVER_ERROR')) this.breaker.onFailure(line)
    else this.breaker.onSuccess(this.breaker.isTiming ? performance.now() - command.sentMs : 0)
    if (isError) command.onEnd(new Error(line), '')
    else command.onEnd(null, line)
    if (this.isRetired && this.first === null) this.close()
  }

  private onReplied(): void {
    if (this.lostMs === 0) return
    this.options.onBack(performance.now() - this.lostMs)
    this.lostMs = 0
  }

  /** setImmediate lets data that has arrived be read first, so a pause of this thread is not taken for one of the node. */
  private scheduleSweep(ms: number): void {
    this.sweepTimer = setTimeout(() => setImmediate(() => this.sweep()), Math.max(1, Math.ceil(ms)))
  }

  private sweep(): void {
    this.sweepTimer = undefined
    const { timeoutMs } = this.options
    const isOpening = this.socket !== null && !this.isConnected
    let sinceMs = isOpening ? this.openedMs : Number.POSITIVE_INFINITY
    if (this.first !== null) sinceMs = Math.min(sinceMs, this.first.sentMs)
    if (sinceMs === Number.POSITIVE_INFINITY) return
    const leftMs = sinceMs + timeoutMs - performance.now()
    if (leftMs > 0) this.scheduleSweep(leftMs)
    else this.onTimeout(`no ${isOpening ? 'connection' : 'reply'} within ${goDuration(timeoutMs)}`)
  }

  /** A stopped server accepts the next connection, too: its calls would wait as long again, so one timeout is enough. */
  private onTimeout(reason: string): void {
    this.breaker.trip(reason)
    this.onLost(reason)
  }

  /** The connection or the attempt to connect has failed. */
  private onLost(reason: string): void {
    this.lostReason = reason
    const pauseMs = this.failures === 0 ? 0 : backoffMs(this.failures, RECONNECT, Math.random)
    this.pausedUntilMs = performance.now() + pauseMs
    this.failures++
    if (this.probesCount === 0 || this.commandsCount > this.probesCount) {
      if (this.lostMs === 0) this.lostMs = performance.now()
      this.options.onLost(reason)
    }
    const isFailure = !this.isConnected || this.commandsCount > 0
    this.drop(reason)
    if (isFailure) this.setFailing(true)
    else this.options.onState()
  }

  private setFailing(isFailing: boolean): void {
    if (isFailing === this.isFailing) return
    this.isFailing = isFailing
    this.options.onState()
  }

  private drop(reason: string): void {
    const { socket } = this
    let command = this.first
    clearTimeout(this.sweepTimer)
    this.sweepTimer = undefined
    this.socket = null
    this.isConnected = false
    this.first = null
    this.last = null
    this.commandsCount = 0
    this.unsent = ''
    this.partial = ''
    socket?.on('error', () => {}) // later errors are irrelevant
    socket?.destroy()
    const error = new Error(reason)
    for (; command !== null; command = command.next) {
      this.breaker.onFailure(reason)
      command.onEnd(error, '')
    }
  }
}

/** For the log. Lines that begin with VALUE contain keys, and so values of callers. */
function quoteLine(line: string): string {
  return line.startsWith('VALUE') ? 'a VALUE line' : JSON.stringify(line.slice(0, LINE_BYTES_MAX))
}
