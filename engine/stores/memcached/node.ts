/**
 * One memcached node: one connection with pipelined commands.
 *
 *     send ─┬─► unsent ── end of the turn: one write ──► memcached ── replies, in order of the commands ──► onEnd
 *           │                                              └ VALUE lines of a multi-get ──► onValue, then END ──► onEnd
 *           └ no connection: the first command opens one and waits in `unsent` with those that follow
 *
 * Every command ends within the timeout, counted from `send`: when the oldest has waited that long, or the connection breaks,
 * all pending commands fail, and whether they ran is unknown. The next command opens a new connection, after a pause if the last
 * attempt failed, too; during the pause commands fail immediately, as they do while the node's circuit breaker is open. Nothing
 * is sent twice.
 *
 * A trip of the breaker ends well when hits are counted: with the number that `incr` returns, or when `add` has stored it or found
 * the counter there. A `gets`, or an `incr` that found no counter, says nothing about that: a memcached without memory for new
 * items (-M) replies to both and refuses the `add`. So probes read and add, and a node that has refused a write is failing until a
 * probe has succeeded. Counters whose writes were refused are known until then (`getRefusal`).
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
import { type CommandKind, isError, isServerError, ReplyReader, RequestedKeys } from './reply-reader.ts'

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

const RECONNECT = { initialMs: 50, maxMs: 500 }
const KEEPALIVE_MS = 10_000

/** Counters whose writes were refused. Beyond, the oldest is forgotten: its next hit is answered by its count again. */
const REFUSALS_MAX = 10_000

/** What a probe adds while no write was refused. It expires by itself. */
const PROBE_KEY = 'sluice_probe'
const PROBE_EXPIRY_SEC = 1

interface Command {
  kind: CommandKind
  keys: RequestedKeys | null // of gets
  onEnd: OnEnd
  onValue: OnValue
  sentMs: number
  next: Command | null
}

export class MemcacheNode {
  readonly address: MemcacheAddress
  isConnected = false
  private isSilent = false // the last command got no reply or a SERVER_ERROR, or the last attempt to connect failed
  private readonly refusals = new Map<string, string>() // since the last probe that succeeded: key to reason
  private lastRefused = { key: PROBE_KEY, expiry: PROBE_EXPIRY_SEC }
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
  private isFlushScheduled = false
  private sweepTimer: NodeJS.Timeout | undefined
  private isRetired = false
  private isProbing = false // the probe of the caller waits for its reply
  private probesCount = 0 // commands that wait for a reply and are probes

  constructor(options: NodeOptions) {
    this.options = options
    this.address = options.address
    this.breaker = options.breakers.create(options.address.text, {
      probe: (done) => this.sendProbe(done),
      waitingSinceMs: () => this.first?.sentMs ?? null,
      onSilent: () => this.failReads(),
    })
  }

  // Commands. Each calls `onEnd` once, immediately or within the timeout. Keys are wire keys.

  /** `onValue` is called for each key that has a value, before `onEnd`. */
  read(keys: readonly string[], onEnd: OnEnd, onValue: OnValue): void {
    if (this.isOpenFor(onEnd)) this.sendRead(keys, onEnd, onValue)
  }

  /** `expiry` of the counter, for probes. */
  incr(key: string, hits: number, expiry: number, onEnd: OnEnd): void {
    if (this.isOpenFor(onEnd)) this.sendWrite('incr', `incr ${key} ${hits}\r\n`, key, expiry, onEnd)
  }

  /** `expiry` in seconds, or a Unix time beyond 30 days. */
  add(key: string, hits: number, expiry: number, onEnd: OnEnd): void {
    if (this.isOpenFor(onEnd)) this.sendWrite('add', toAdd(key, hits, expiry), key, expiry, onEnd)
  }

  /** Why the node refused a write of this key; null if it did not, if a probe has succeeded since, or if that is forgotten. */
  getRefusal(key: string): string | null {
    return this.refusals.size === 0 ? null : (this.refusals.get(key) ?? null)
  }

  private isOpenFor(onEnd: OnEnd): boolean {
    if (!this.breaker.isOpen) return true
    onEnd(new Error(`the circuit breaker is open (${this.breaker.reason})`), '')
    return false
  }

  private sendRead(keys: readonly string[], onEnd: OnEnd, onValue: OnValue): void {
    this.send('gets', `gets ${keys.join(' ')}\r\n`, onEnd, onValue, new RequestedKeys(keys))
  }

  private sendWrite(kind: CommandKind, text: string, key: string, expiry: number, onEnd: OnEnd): void {
    this.send(kind, text, (error, line) => {
      if (error !== null && isServerError(error.message)) this.onRefused(key, expiry, error.message)
      onEnd(error, line)
    })
  }

  private onRefused(key: string, expiry: number, reason: string): void {
    const wasFailing = this.isFailing
    this.lastRefused = { key, expiry }
    this.refusals.set(key, reason)
    if (this.refusals.size > REFUSALS_MAX) this.refusals.delete(this.refusals.keys().next().value!)
    if (!wasFailing) this.options.onState()
  }

  /** Sends a command whatever the breaker says. `text` has one character per byte. */
  private send(
    kind: CommandKind,
    text: string,
    onEnd: OnEnd,
    onValue: OnValue = ignoreValue,
    keys: RequestedKeys | null = null,
  ): void {
    const refusal = this.refusal()
    if (refusal !== '') {
      this.breaker.onFailure(refusal)
      onEnd(new Error(refusal), '')
      return
    }
    const command: Command = { kind, keys, onEnd, onValue, sentMs: performance.now(), next: null }
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
    const replies = new ReplyReader({
      getExpected: () => this.first,
      onValue: (key, value) => this.first!.onValue(key, value),
      onReply: (line) => {
        this.onReply(line)
        if (this.socket !== socket) replies.close()
      },
    })
    socket.on('data', (text: string) => {
      if (this.socket !== socket) return
      const defect = replies.read(text)
      if (defect !== null && this.socket === socket) this.onLost(defect)
    })
    socket.on('error', (error) => {
      if (this.socket === socket) this.onLost(errorText(error))
    })
    socket.on('close', () => {
      if (this.socket === socket) this.onLost('closed by the other side')
    })
    if (this.sweepTimer === undefined) this.scheduleSweep(this.options.timeoutMs)
  }

  /** It does not reply, or it refuses to store counters. */
  get isFailing(): boolean {
    return this.isSilent || this.refusals.size > 0
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
      if (command.kind !== 'gets') continue
      const { onEnd } = command
      command.onEnd = () => {}
      command.onValue = ignoreValue
      onEnd(error, '')
    }
  }

  /** Sends a probe to update the node's state. Failures are not logged. */
  probe(): void {
    if (this.isProbing) return
    this.isProbing = true
    this.sendProbe(() => {
      this.isProbing = false
    })
  }

  /** Reads and adds, as a first hit does, the counter whose write was refused last if there is one: memcached has memory by item size. */
  private sendProbe(done: (isOk: boolean) => void): void {
    const { key, expiry } = this.lastRefused
    let isRead = false
    this.probesCount += 2
    const onRead: OnEnd = (error) => {
      this.probesCount--
      isRead = error === null
    }
    const onAdded: OnEnd = (error) => {
      this.probesCount--
      if (error === null && key === this.lastRefused.key) this.clearRefusals()
      done(isRead && error === null)
    }
    this.sendRead([key], onRead, ignoreValue)
    this.send('add', toAdd(key, 0, expiry), onAdded)
  }

  private clearRefusals(): void {
    const wasFailing = this.isFailing
    this.refusals.clear()
    this.lastRefused = { key: PROBE_KEY, expiry: PROBE_EXPIRY_SEC }
    if (this.isFailing !== wasFailing) this.options.onState()
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

  /** The oldest command has its reply. */
  private onReply(line: string): void {
    const command = this.first!
    this.failures = 0
    this.onReplied()
    this.first = command.next
    if (this.first === null) this.last = null
    this.commandsCount--
    this.setSilent(isServerError(line))
    const tookMs = this.breaker.isTiming ? performance.now() - command.sentMs : 0
    if (isServerError(line)) this.breaker.onFailure(line)
    else if (isCounted(line, command.kind)) this.breaker.onSuccess(tookMs)
    else this.breaker.onPart(tookMs)
    if (isError(line)) command.onEnd(new Error(line), '')
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
    if (isFailure) this.setSilent(true)
    else this.options.onState()
  }

  private setSilent(isSilent: boolean): void {
    const wasFailing = this.isFailing
    this.isSilent = isSilent
    if (this.isFailing !== wasFailing) this.options.onState()
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
    socket?.on('error', () => {}) // later errors are irrelevant
    socket?.destroy()
    const error = new Error(reason)
    for (; command !== null; command = command.next) {
      this.breaker.onFailure(reason)
      command.onEnd(error, '')
    }
  }
}

function ignoreValue(): void {}

function toAdd(key: string, hits: number, expiry: number): string {
  const value = String(hits)
  return `add ${key} 0 ${expiry} ${value.length}\r\n${value}\r\n`
}

/** Whether this reply ends a hit: it is in its counter, or in that of another client that `incr` will find now. */
function isCounted(line: string, kind: CommandKind): boolean {
  return kind === 'add' || (kind === 'incr' && line !== 'NOT_FOUND' && !isError(line))
}
