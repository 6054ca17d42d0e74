/**
 * One Redis server: each call gets one result within one timeout, whatever the server does.
 *
 *     send(commands, call) ──► one write ──► replies, in order ──► call.integer, call.reply
 *                                │ not all in time ──► call.fail; late replies are dropped
 *                                └ connection lost ──► call.fail; Redis may have run the commands, so they are not sent again
 *
 * A call stays queued until its last reply or the end of the connection. While one is overdue nothing more is sent: Redis
 * replies in order, so it would be late too. After OVERDUE_TIMEOUTS_MAX timeouts the connection is replaced.
 *
 * Each call is a trip of the node's circuit breaker; while that is open, calls fail without being sent.
 */
import { StoreError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/messages.ts'
import type { Breakers } from '../breakers.ts'
import type { CircuitBreaker } from '../circuit-breaker.ts'
import { goDuration } from '../connect-retry.ts'
import type { ConnectionMetrics } from '../connection-metrics.ts'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'
import { RedisConnection } from './connection.ts'
import { isServerError, isWrongServer } from './error-replies.ts'
import { ListCall, type NodeCall, type Sample } from './node-call.ts'
import { commandText, ErrorReply, type Reply, type ReplySink } from './resp.ts'

export interface NodeOptions {
  name: string // in logs and errors
  locate: () => Promise<RedisAddress>
  tls: TlsTo | null
  isMasterOnly: boolean
  isNamedWhenConnected?: boolean // until then its statistics are those of all such nodes together
  logUnreachable?: (line: string) => void // instead of `log`
  timeoutMs: number
  operationTimeoutMs: number // from when the caller began to wait
  log: Log
  pool: ConnectionMetrics | null
  breakers: Breakers
  onChange: () => void // of isConnected
}

/** A connection whose oldest call has waited this many operation timeouts is replaced. */
const OVERDUE_TIMEOUTS_MAX = 4

/** Distinct connection errors logged while disconnected; further ones are not logged. */
const LOGGED_REASONS_MAX = 8

const OUT_OF_STEP = 'a reply of a type that its command does not get'

export class RedisNode implements ReplySink {
  readonly name: string
  readonly createdMs = performance.now()
  lastUsedMs = this.createdMs
  wasConnected = false
  private readonly options: NodeOptions
  private readonly connection: RedisConnection
  private readonly calls: NodeCall[] = [] // oldest first
  private readonly breaker: CircuitBreaker
  private callError = '' // an error of the server in the replies of the oldest call so far
  private replyingCall: NodeCall | null = null // that of the last reply other than a count
  private sample: Sample | null = null // of the last call that failed
  private overdueCount = 0
  private closeReason = '' // the connection is closed once the call whose reply caused this has all its replies
  private isOutOfStep = false // it is closed now: a reply was not that of its command, so later ones may not be either
  private sweepTimer: NodeJS.Timeout | undefined
  private sweepAtMs = 0 // when it fires; later than a timeout of new calls while it waits for an overdue one
  private lostMs = 0
  private lostReason = 'not connected yet'
  private readonly loggedReasons = new Set<string>() // since the connection was lost
  private isClosing = false

  constructor(options: NodeOptions) {
    this.options = options
    this.name = options.name
    this.breaker = options.breakers.create(options.name, {
      isNamed: options.isNamedWhenConnected !== true,
      probe: (done) => this.probe(done),
      waitingSinceMs: () => this.calls[0]?.sentMs ?? null,
      onSilent: () => this.failWaiting(),
    })
    this.connection = new RedisConnection({
      ...options,
      sink: this,
      onConnected: () => this.onConnected(),
      onLost: (reason) => this.onLost(reason),
      onFailed: (reason) => this.onAttemptFailed(reason),
    })
  }

  get isConnected(): boolean {
    return this.connection.isConnected
  }

  get isIdle(): boolean {
    return this.calls.length === 0 && this.refusal === null
  }

  /** Number of the connection, unique in this thread over all servers. */
  get generation(): number {
    return this.connection.generation
  }

  /** Address of the last attempt to connect; null before the first. */
  get address(): RedisAddress | null {
    return this.connection.address
  }

  /** Why a call would fail immediately, without being sent; or null. */
  get refusal(): string | null {
    if (!this.isConnected) return `no connection (${this.lostReason})`
    if (this.breaker.isOpen) return `the circuit breaker is open (${this.breaker.reason})`
    if (this.overdueCount > 0) return `no reply to earlier hits for ${this.timeoutText()}`
    return null
  }

  /** One attempt to connect. After the first success, a lost connection is restored automatically. */
  open(): Promise<void> {
    return this.connection.open()
  }

  /** Connects in the background and retries until `close`. */
  keep(): void {
    this.connection.keep()
  }

  /** Not connected within STORE_START_WAIT: its callers do not wait. */
  onStartTimedOut(): void {
    if (!this.isConnected) this.breaker.trip(`not reached since the start (${this.lostReason})`)
  }

  /** The server has another address now: reconnects immediately. */
  move(reason: string): void {
    this.drop(reason)
    this.connection.reconnectNow()
  }

  drop(reason: string): void {
    if (this.isConnected) this.connection.drop(reason)
  }

  /** Pending calls fail. */
  async close(): Promise<void> {
    this.isClosing = true
    this.options.breakers.remove(this.breaker)
    clearTimeout(this.sweepTimer)
    await this.connection.close()
    this.failAll('closed')
  }

  /** Sends commands that get `call.leftCount` replies; only while `refusal` is null. False: the buffer must stay unchanged. */
  send(commands: string | Buffer, call: NodeCall): boolean {
    const { sentMs } = call
    this.lastUsedMs = sentMs
    this.calls.push(call)
    const dueMs = sentMs + this.options.operationTimeoutMs
    if (this.sweepTimer === undefined || dueMs < this.sweepAtMs) this.scheduleSweep(dueMs - performance.now())
    return this.connection.write(commands)
  }

  /** Sends commands and collects their replies. `done` is called exactly once, possibly before this returns. */
  request(
    commands: readonly (readonly (string | number)[])[],
    sentMs: number,
    done: (error: StoreError | null, replies: Reply[]) => void,
    sample: Sample | null = null,
  ): void {
    const { refusal } = this
    if (refusal === null)
      this.send(commands.map(commandText).join(''), new ListCall(sentMs, commands.length, done, sample))
    else done(this.refuse(refusal, sample), [])
  }

  /** The error of hits that are not sent because of `refusal`. */
  refuse(refusal: string, sample: Sample | null): StoreError {
    if (!this.breaker.isOpen) this.onTripFailed(refusal, sample)
    return this.error(refusal)
  }

  /** A reply to the call that is being completed says that the server could not do its work. */
  onServerError(text: string): void {
    this.callError = text
    this.sample = this.replyingCall?.sample ?? this.sample // now, because a completed call's batch is reused
  }

  /**
   * The reply that is being handled has a type that its command never gets. Replies are matched to commands by their order alone, so a
   * later one could be taken for the count of another key: the connection is closed.
   */
  onUnexpectedReply(): void {
    this.isOutOfStep = true
    this.closeReason = OUT_OF_STEP
    this.callError = OUT_OF_STEP
  }

  /** Repeats a hit with an increment of 0, because PING succeeds while writes are refused. */
  private probe(done: (isOk: boolean) => void): void {
    if (!this.isConnected || this.overdueCount > 0) {
      done(false)
      return
    }
    const { sample } = this
    const commands =
      sample === null
        ? [['PING']]
        : [
            ['INCRBY', sample.key, 0],
            ['EXPIRE', sample.key, sample.expirySec],
          ]
    const onReplies = (error: StoreError | null, replies: Reply[]) =>
      done(error === null && !replies.some(isServerError))
    this.send(commands.map(commandText).join(''), new ListCall(performance.now(), commands.length, onReplies))
  }

  private onTripFailed(reason: string, sample: Sample | null): void {
    this.sample = sample ?? this.sample
    this.breaker.onFailure(reason)
  }

  /** All replies of a call have arrived in time. */
  private onTripEnded(call: NodeCall): void {
    const { breaker, callError } = this
    if (callError !== '') {
      this.callError = ''
      this.onTripFailed(callError, null)
    } else breaker.onSuccess(breaker.isTiming ? performance.now() - call.sentMs : 0)
  }

  /** Sends the writes of this turn in one packet. */
  cork(): void {
    this.connection.cork()
  }

  // hot: no allocation for the reply to a hit

  integer(value: number): void {
    const call = this.nextCall()
    if (call === null) return
    if (!call.isGivenUp) {
      call.integer(value)
      if (call.leftCount === 0) this.onTripEnded(call)
    } else if (call.leftCount === 0) this.callError = ''
    if (this.closeReason !== '' && (call.leftCount === 0 || this.isOutOfStep)) this.drop(this.closeReason)
  }

  reply(value: Reply): void {
    const call = this.nextCall()
    if (call === null) return
    if (value instanceof ErrorReply && this.closeReason === '' && isWrongServer(value.text))
      this.closeReason = value.text
    this.replyingCall = call
    if (isServerError(value)) this.onServerError(value.text)
    if (!call.isGivenUp) {
      call.reply(value)
      if (call.leftCount === 0) this.onTripEnded(call)
    } else if (call.leftCount === 0) this.callError = ''
    if (this.closeReason !== '' && (call.leftCount === 0 || this.isOutOfStep)) this.drop(this.closeReason)
  }

  /** The call that the next reply belongs to. */
  private nextCall(): NodeCall | null {
    const { calls } = this
    if (calls.length === 0) {
      this.drop('unexpected reply')
      return null
    }
    const call = calls[0]
    if (--call.leftCount === 0) {
      calls.shift()
      if (call.isGivenUp) this.overdueCount--
    }
    return call
  }

  /**
   * One timer for all calls, for when the oldest could be overdue. Timers run before sockets are read, so after a pause of
   * this thread, setImmediate lets waiting replies be read first.
   */
  private scheduleSweep(ms: number): void {
    clearTimeout(this.sweepTimer)
    this.sweepAtMs = performance.now() + ms
    this.sweepTimer = setTimeout(() => setImmediate(() => this.sweep()), Math.max(1, Math.ceil(ms)))
  }

  private sweep(): void {
    if (this.isClosing) return
    const { operationTimeoutMs } = this.options
    const nowMs = performance.now()
    let nextMs = Number.POSITIVE_INFINITY
    this.sweepTimer = undefined
    for (const call of [...this.calls]) {
      const waitedMs = nowMs - call.sentMs
      if (call.isGivenUp || waitedMs >= operationTimeoutMs) {
        this.giveUp(call, `no reply within ${this.timeoutText()}`)
        nextMs = Math.min(nextMs, operationTimeoutMs * OVERDUE_TIMEOUTS_MAX - waitedMs)
      } else {
        nextMs = Math.min(nextMs, operationTimeoutMs - waitedMs)
      }
    }
    if (nextMs <= 0) this.drop(`no reply for ${goDuration(operationTimeoutMs * OVERDUE_TIMEOUTS_MAX)}`)
    else if (nextMs !== Number.POSITIVE_INFINITY && this.sweepTimer === undefined) this.scheduleSweep(nextMs)
  }

  private giveUp(call: NodeCall, reason: string): void {
    if (call.isGivenUp) return
    this.overdueCount++
    call.isGivenUp = true
    this.onTripFailed(reason, call.sample)
    call.fail(this.error(`${reason}; the hits may have been counted`, true))
  }

  /** Batches in flight that wait for this node only would take the place of those for others. */
  private failWaiting(): void {
    for (const call of [...this.calls])
      this.giveUp(call, `the circuit breaker is open (${this.breaker.reason})`)
  }

  private onConnected(): void {
    const { name, log } = this.options
    if (!this.wasConnected) log('info', `Redis at ${name} is connected`)
    else {
      log(
        'warning',
        `Redis at ${name} is connected again after ${goDuration(performance.now() - this.lostMs)}`,
      )
    }
    this.wasConnected = true
    this.options.breakers.name(this.breaker)
    this.loggedReasons.clear()
    this.breaker.probeSoon()
    this.options.onChange()
  }

  private onLost(reason: string): void {
    this.lostMs = performance.now()
    this.lostReason = reason
    if (!this.isClosing) {
      const { name, log } = this.options
      log('warning', `Redis at ${name} is disconnected: ${reason}; reconnecting`)
      this.options.onChange()
    }
    this.failAll(`connection lost (${reason})`)
  }

  private onAttemptFailed(reason: string): void {
    this.lostReason = reason
    if (this.loggedReasons.has(reason) || this.loggedReasons.size === LOGGED_REASONS_MAX) return
    this.loggedReasons.add(reason)
    const { logUnreachable = (line) => this.options.log('warning', line) } = this.options
    logUnreachable(`Cannot connect to Redis at ${this.name}: ${reason}; retrying`)
  }

  private failAll(reason: string): void {
    const calls = this.calls.splice(0)
    this.overdueCount = 0
    this.closeReason = ''
    this.isOutOfStep = false
    this.callError = ''
    const error = this.error(`${reason}; the hits may have been counted`, true)
    for (const call of calls) {
      if (call.isGivenUp) continue
      call.isGivenUp = true
      this.onTripFailed(reason, call.sample)
      call.fail(error)
    }
  }

  private timeoutText(): string {
    return goDuration(this.options.operationTimeoutMs)
  }

  /** An error that names this server. */
  error(message: string, isUnknown = false): StoreError {
    return new StoreError(`redis ${this.name}: ${message}`, isUnknown)
  }
}
