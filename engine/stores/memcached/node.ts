/**
 * One memcached node: one connection, on which commands are sent ahead of their replies.
 *
 *     send ─┬─► out ── end of the turn: one write ──► memcached ── replies, in the order of the commands ──► onEnd
 *           │                                            └ VALUE lines of a multi-get ──► onValue, then END ──► onEnd
 *           └ no connection: the first command opens one and waits in `out` with those that follow
 *
 * Every command ends within the timeout, counted from `send`: when the oldest has waited that long, or the connection
 * breaks, all that wait fail, and whether they ran is unknown. The next command opens a new connection, after a pause
 * when the last attempt failed too; during the pause commands fail at once. Nothing is sent twice.
 *
 * Why there is no client library here: none can reach a unix socket and end each command in time. memcache 1.10, the one
 * that is maintained, has no deadline per command, cuts idle connections, and reads half a reply of a lost connection as
 * the start of the next one (tried: a wrong count). memcached 2.2 has no TLS, knows only a hash ring, and starts `ping`.
 * memjs 1.3 speaks only the binary protocol, without TLS. memcache-client 1.0 keeps replies in an object by key.
 */
import { connect, type Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { backoffMs, errorText, goDuration } from '../connect-retry.ts'
import type { TlsTo } from '../tls.ts'

/** `line` is the reply's last line, '' with an error. */
export type OnEnd = (error: Error | null, line: string) => void
export type OnValue = (key: string, value: string) => void

export interface MemcacheAddress {
  text: string // as the operator or the DNS wrote it
  path: string // of a unix socket, else ''
  host: string
  port: number
}

export interface NodeOptions {
  address: MemcacheAddress
  tls: TlsTo | null
  timeoutMs: number
  onLost: (reason: string) => void
  onState: () => void // isFailing or isConnected may have changed
}

/** Commands without a reply at most; further ones fail at once. */
const COMMANDS_MAX = 65_536

/** A longer value, or a longer line, is not ours: the connection is given up. */
const VALUE_BYTES_MAX = 1_048_576
const LINE_BYTES_MAX = 2_048

const RECONNECT = { initialMs: 50, maxMs: 1_000 }
const KEEPALIVE_MS = 10_000

/** Errors that are the reply to one well-formed command. After any other, replies may not fit commands any more. */
const REFUSAL = /^(SERVER_ERROR|CLIENT_ERROR (cannot increment|invalid numeric))/

interface Command {
  onEnd: OnEnd
  onValue: OnValue | null
  sentMs: number
  next: Command | null
}

export class MemcacheNode {
  readonly address: MemcacheAddress
  isConnected = false
  isFailing = false // the last command got no answer or an error of the server, or the last attempt to connect failed
  private readonly options: NodeOptions
  private socket: Socket | null = null
  private openedMs = 0
  private failures = 0 // attempts to connect since the last reply
  private pausedUntilMs = 0
  private lostReason = ''
  private first: Command | null = null // oldest without a reply
  private last: Command | null = null
  private commandsCount = 0
  private out = '' // not yet written; a character per byte
  private rest = '' // received, not yet complete; a character per byte
  private isFlushScheduled = false
  private sweepTimer: NodeJS.Timeout | undefined
  private isRetired = false
  private isLooking = false // a look waits for its reply

  constructor(options: NodeOptions) {
    this.options = options
    this.address = options.address
  }

  /** Sends one command, `text` with a character per byte. Calls `onEnd` once, now or within the timeout. */
  send(text: string, onEnd: OnEnd, onValue: OnValue | null = null): void {
    const refusal = this.refusal()
    if (refusal !== '') {
      onEnd(new Error(refusal), '')
      return
    }
    const command: Command = { onEnd, onValue, sentMs: performance.now(), next: null }
    if (this.last === null) this.first = command
    else this.last.next = command
    this.last = command
    this.commandsCount++
    this.out += text
    if (this.socket === null) this.open()
    else if (this.isConnected) this.flushSoon()
    if (this.sweepTimer === undefined) this.sweepIn(this.options.timeoutMs)
  }

  /** Connects, if there is no connection, so that the first command need not wait for it. */
  open(): void {
    if (this.socket !== null) return
    const { address, tls } = this.options
    const { path, host, port } = address
    const target = path === '' ? { host, port } : { path }
    const socket = tls === null ? connect(target) : tlsConnect({ ...target, ...tls(host) })
    this.socket = socket
    this.openedMs = performance.now()
    socket.setEncoding('latin1').setNoDelay(true).setKeepAlive(true, KEEPALIVE_MS)
    socket.on(tls === null ? 'connect' : 'secureConnect', () => {
      if (this.socket !== socket) return
      this.isConnected = true
      this.flush()
    })
    socket.on('data', (text: string) => {
      if (this.socket === socket) this.receive(text)
    })
    socket.on('error', (error) => {
      if (this.socket === socket) this.lose(errorText(error))
    })
    socket.on('close', () => {
      if (this.socket === socket) this.lose('closed by the other side')
    })
    if (this.sweepTimer === undefined) this.sweepIn(this.options.timeoutMs)
  }

  /** Asks the node something harmless, so that its state is known again. What fails here is not told. */
  look(): void {
    if (this.isLooking) return
    this.isLooking = true
    this.send('version\r\n', () => {
      this.isLooking = false
    })
  }

  /** No further commands will come, but those that follow from replies: closes when none waits. */
  retire(): void {
    this.isRetired = true
    if (this.first === null) this.close()
  }

  /** Ends the connection. Commands that wait fail; the owner waits for them before. */
  close(): void {
    this.drop('closing')
  }

  /** Why a command would fail at once, or ''. */
  private refusal(): string {
    if (this.commandsCount >= COMMANDS_MAX) return `${COMMANDS_MAX} commands wait for a reply`
    if (this.socket !== null || performance.now() >= this.pausedUntilMs) return ''
    return `no connection (${this.lostReason})`
  }

  private flushSoon(): void {
    if (this.isFlushScheduled) return
    this.isFlushScheduled = true
    process.nextTick(() => {
      this.isFlushScheduled = false
      if (this.isConnected) this.flush()
    })
  }

  private flush(): void {
    if (this.out === '') return
    this.socket!.write(this.out, 'latin1')
    this.out = ''
  }

  private receive(chunk: string): void {
    const text = this.rest + chunk
    const { socket } = this
    let at = 0
    this.rest = ''
    while (this.socket === socket) {
      const end = text.indexOf('\r\n', at)
      if (end === -1) break
      if (!text.startsWith('VALUE ', at)) {
        this.answer(text.slice(at, end))
        at = end + 2
        continue
      }
      const [, key, , bytes] = text.slice(at, end).split(' ')
      const valueEnd = end + 2 + Number(bytes)
      if (!(Number(bytes) <= VALUE_BYTES_MAX) || !this.first?.onValue) {
        this.lose(`it sent an unexpected value: ${JSON.stringify(text.slice(at, end))}`)
        return
      }
      if (text.length < valueEnd + 2) break
      this.first.onValue(key, text.slice(end + 2, valueEnd))
      at = valueEnd + 2
    }
    if (this.socket !== socket) return // given up meanwhile, or already another one
    this.rest = text.slice(at)
    if (this.rest.length > VALUE_BYTES_MAX + LINE_BYTES_MAX) this.lose('it sent a line that does not end')
  }

  /** The last line of the oldest command's reply. */
  private answer(line: string): void {
    const command = this.first
    if (command === null) {
      this.lose(`it sent what nobody asked for: ${JSON.stringify(line.slice(0, LINE_BYTES_MAX))}`)
      return
    }
    const isError = /^(ERROR|CLIENT_ERROR|SERVER_ERROR)\b/.test(line)
    if ((isError && !REFUSAL.test(line)) || (!isError && command.onValue !== null && line !== 'END')) {
      this.lose(`it does not understand us: ${JSON.stringify(line.slice(0, LINE_BYTES_MAX))}`)
      return
    }
    this.failures = 0
    this.first = command.next
    if (this.first === null) this.last = null
    this.commandsCount--
    this.setFailing(isError && line.startsWith('SERVER_ERROR'))
    if (isError) command.onEnd(new Error(line), '')
    else command.onEnd(null, line)
    if (this.isRetired && this.first === null) this.close()
  }

  /** The sweep runs after what has arrived meanwhile was read, so a pause of our own is not taken for one of the node. */
  private sweepIn(ms: number): void {
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
    if (leftMs > 0) this.sweepIn(leftMs)
    else this.lose(`no ${isOpening ? 'connection' : 'reply'} within ${goDuration(timeoutMs)}`)
  }

  /** The connection, or the attempt to make it, has failed. */
  private lose(reason: string): void {
    this.lostReason = reason
    const pauseMs = this.failures === 0 ? 0 : backoffMs(this.failures, RECONNECT, Math.random)
    this.pausedUntilMs = performance.now() + pauseMs
    this.failures++
    if (!this.isLooking || this.commandsCount > 1) this.options.onLost(reason)
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
    this.out = ''
    this.rest = ''
    socket?.on('error', () => {}) // what it still has to say is of no interest
    socket?.destroy()
    const error = new Error(reason)
    for (; command !== null; command = command.next) command.onEnd(error, '')
  }
}
