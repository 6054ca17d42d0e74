/**
 * One Redis server as its callers see it: a call gets one answer within one timeout, whatever the server does.
 *
 *     send(text, call) ──► one write ──► replies, in order ──► call.integer, call.reply
 *                            │ not all in time ──► call.fail; late replies are thrown away
 *                            └ connection lost ──► call.fail; nobody knows what Redis ran, so it is not sent again
 *
 * A call without all its replies stays known until the last one or the end of the connection. While one is overdue nothing
 * more is sent: Redis answers in order, so it would be late too. Four timeouts late, the connection is given up.
 */
import { StoreError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/messages.ts'
import { goDuration } from '../connect-retry.ts'
import type { ConnectionMetrics } from '../connection-metrics.ts'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'
import { RedisConnection } from './connection.ts'
import { commandText, ErrorReply, type Reply, type ReplySink } from './resp.ts'

/** Some commands in one write, and who takes their replies. */
export interface NodeCall {
  readonly sentMs: number // when the callers began to wait
  leftCount: number // of replies; the node's to count down
  isGivenUp: boolean // has failed: the replies that still come are not for it
  integer(value: number): void
  reply(value: Reply): void
  /** Nothing will be told any more. The call need not have been sent. */
  fail(error: StoreError): void
}

/** A call that wants all its replies together. */
export class ListCall implements NodeCall {
  readonly sentMs: number
  leftCount: number
  isGivenUp = false
  private readonly replies: Reply[] = []
  private readonly done: (error: StoreError | null, replies: Reply[]) => void

  constructor(sentMs: number, leftCount: number, done: (error: StoreError | null, replies: Reply[]) => void) {
    this.sentMs = sentMs
    this.leftCount = leftCount
    this.done = done
  }

  integer(value: number): void {
    this.reply(value)
  }

  reply(value: Reply): void {
    this.replies.push(value)
    if (this.leftCount === 0) this.done(null, this.replies)
  }

  fail(error: StoreError): void {
    this.done(error, [])
  }
}

export interface NodeOptions {
  name: string // for people
  locate: () => Promise<RedisAddress>
  tls: TlsTo | null
  isMasterOnly: boolean
  timeoutMs: number
  operationTimeoutMs: number // from the moment the caller began to wait
  log: Log
  pool: ConnectionMetrics | null
  onChange: () => void // of isConnected
}

/** A connection whose oldest call has waited so many operation timeouts is given up for a new one. */
const OVERDUE_TIMEOUTS_MAX = 4

/** Reasons told while Redis is away, one line each. Beyond: the log has said enough. */
const REASONS_MAX = 8

/** Errors that say "not this server, or not yet": trying the same connection again would give the same answer. */
const WRONG_SERVER = /^-?(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN)\b/

export class RedisNode implements ReplySink {
  readonly name: string
  readonly createdMs = performance.now()
  lastUsedMs = this.createdMs
  wasConnected = false
  private readonly options: NodeOptions
  private readonly connection: RedisConnection
  private readonly calls: NodeCall[] = [] // oldest first
  private overdueCount = 0
  private wrong = '' // why this server is the wrong one; it is left when the call that heard so has all its replies
  private sweepTimer: NodeJS.Timeout | undefined
  private lostMs = 0
  private lostReason = 'not connected yet'
  private readonly reasons = new Set<string>() // told since the connection was lost
  private isClosing = false

  constructor(options: NodeOptions) {
    this.options = options
    this.name = options.name
    this.connection = new RedisConnection({
      ...options,
      sink: this,
      onConnected: () => this.connected(),
      onLost: (reason) => this.lost(reason),
      onFailed: (reason) => this.failed(reason),
    })
  }

  get isConnected(): boolean {
    return this.connection.isConnected
  }

  /** Of the connection: a number that no other connection of this thread has, to any server. */
  get generation(): number {
    return this.connection.generation
  }

  /** Where it is, or was last; null before the first attempt. */
  get address(): RedisAddress | null {
    return this.connection.address
  }

  /** Why a call would fail at once, without being sent; or null. */
  get refusal(): string | null {
    if (!this.isConnected) return `no connection (${this.lostReason})`
    if (this.overdueCount > 0) return `no reply to earlier hits for ${this.timeout()}`
    return null
  }

  /** One attempt to connect; after the first success the connection comes back by itself. */
  open(): Promise<void> {
    return this.connection.open()
  }

  /** Connects in the background, for ever. */
  keep(): void {
    this.connection.keep()
  }

  /** The server is not where it was: leaves it, and connects anew at once. */
  move(reason: string): void {
    this.drop(reason)
    this.connection.reconnectNow()
  }

  drop(reason: string): void {
    if (this.isConnected) this.connection.drop(reason)
  }

  /** Whoever still waits is answered with an error. */
  async close(): Promise<void> {
    this.isClosing = true
    clearTimeout(this.sweepTimer)
    await this.connection.close()
    this.failAll('closed')
  }

  /** Sends commands that have `call.leftCount` replies, only while there is no `refusal`. False: the bytes are still needed. */
  send(commands: string | Buffer, call: NodeCall): boolean {
    const { sentMs } = call
    this.lastUsedMs = sentMs
    this.calls.push(call)
    if (this.sweepTimer === undefined)
      this.sweepIn(sentMs + this.options.operationTimeoutMs - performance.now())
    return this.connection.write(commands)
  }

  /** Commands whose replies are wanted together. `done` is called exactly once, maybe at once. */
  ask(
    commands: readonly (readonly (string | number)[])[],
    sentMs: number,
    done: (error: StoreError | null, replies: Reply[]) => void,
  ): void {
    const { refusal } = this
    if (refusal === null)
      this.send(commands.map(commandText).join(''), new ListCall(sentMs, commands.length, done))
    else done(this.error(refusal), [])
  }

  /** What is sent in this turn leaves in one packet. */
  cork(): void {
    this.connection.cork()
  }

  // hot: a reply of one hit allocates nothing

  integer(value: number): void {
    const call = this.next()
    if (call === null) return
    if (!call.isGivenUp) call.integer(value)
    if (this.wrong !== '' && call.leftCount === 0) this.drop(this.wrong)
  }

  reply(value: Reply): void {
    const call = this.next()
    if (call === null) return
    if (value instanceof ErrorReply && this.wrong === '' && isWrongServer(value.text)) this.wrong = value.text
    if (!call.isGivenUp) call.reply(value)
    if (this.wrong !== '' && call.leftCount === 0) this.drop(this.wrong)
  }

  /** Whose reply this one is. */
  private next(): NodeCall | null {
    const { calls } = this
    if (calls.length === 0) {
      this.drop('a reply to nothing')
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
   * One timer for all calls: they are looked at when the oldest could be overdue. Timers run before sockets are read, so
   * after a pause of this thread replies may be waiting; setImmediate lets them be read first.
   */
  private sweepIn(ms: number): void {
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
        this.overdue(call)
        nextMs = Math.min(nextMs, operationTimeoutMs * OVERDUE_TIMEOUTS_MAX - waitedMs)
      } else {
        nextMs = Math.min(nextMs, operationTimeoutMs - waitedMs)
      }
    }
    if (nextMs <= 0) this.drop(`no reply for ${goDuration(operationTimeoutMs * OVERDUE_TIMEOUTS_MAX)}`)
    else if (nextMs !== Number.POSITIVE_INFINITY && this.sweepTimer === undefined) this.sweepIn(nextMs)
  }

  private overdue(call: NodeCall): void {
    if (call.isGivenUp) return
    this.overdueCount++
    call.isGivenUp = true
    call.fail(this.error(`no reply within ${this.timeout()}; the hits may have been counted`))
  }

  private connected(): void {
    const { name, log } = this.options
    if (!this.wasConnected) log('info', `Redis at ${name} is connected`)
    else {
      log(
        'warning',
        `Redis at ${name} is connected again, after ${goDuration(performance.now() - this.lostMs)}`,
      )
    }
    this.wasConnected = true
    this.reasons.clear()
    this.options.onChange()
  }

  private lost(reason: string): void {
    this.lostMs = performance.now()
    this.lostReason = reason
    if (!this.isClosing) {
      const { name, log } = this.options
      log('warning', `Redis at ${name} is not connected any more: ${reason}; reconnecting`)
      this.options.onChange()
    }
    this.failAll(`connection lost (${reason})`)
  }

  private failed(reason: string): void {
    this.lostReason = reason
    if (this.reasons.has(reason) || this.reasons.size === REASONS_MAX) return
    this.reasons.add(reason)
    this.options.log('warning', `Redis at ${this.name} cannot be connected: ${reason}; trying on`)
  }

  private failAll(why: string): void {
    const given = this.calls.splice(0)
    this.overdueCount = 0
    this.wrong = ''
    const error = this.error(`${why}; the hits may have been counted`)
    for (const call of given) {
      if (call.isGivenUp) continue
      call.isGivenUp = true
      call.fail(error)
    }
  }

  private timeout(): string {
    return goDuration(this.options.operationTimeoutMs)
  }

  /** An error of this server. */
  error(what: string): StoreError {
    return new StoreError(`redis ${this.name}: ${what}`)
  }
}

/** Whether the server says that it is the wrong one. */
export function isWrongServer(text: string): boolean {
  return WRONG_SERVER.test(text)
}
