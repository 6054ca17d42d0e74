/**
 * One Redis server as its callers see it: a call gets one answer within one timeout, whatever the server does.
 *
 *     call ──► EVALSHA ──────────────────► reply ──► answered
 *                │ no reply in time ──► StoreError for the caller; a late reply is thrown away
 *                └ connection lost ───► StoreError; nobody knows whether Redis ran it, so it is not sent again
 *
 * A call without a reply stays known until the reply or the end of the connection. While one is overdue nothing more is
 * sent: Redis answers in order, so it would be late too. Four timeouts late, the connection is given up.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ReplyError } from 'ioredis'
import { StoreError } from '../errors.ts'
import type { Log } from '../messages.ts'
import type { RedisAddress } from './redis-address.ts'
import { RedisConnection, type Reply } from './redis-connection.ts'
import { goDuration } from './retry.ts'
import type { TlsTo } from './tls.ts'

export interface Command {
  name: 'evalsha' | 'mget' | 'cluster'
  args: (string | number)[]
}

/** The error is Redis' own (`isReply`), or a StoreError. */
export type Answer = (error: Error | null, value?: unknown) => void

export interface NodeOptions {
  name: string // for people
  locate: () => Promise<RedisAddress>
  tls: TlsTo | null
  isMasterOnly: boolean
  timeoutMs: number
  operationTimeoutMs: number // from the moment the caller began to wait
  log: Log
  onChange: () => void // of isConnected
}

/** A connection whose oldest call has waited so many operation timeouts is given up for a new one. */
const OVERDUE_TIMEOUTS_MAX = 4

/** Errors that say "not this server, or not yet": trying the same connection again would give the same answer. */
const WRONG_SERVER = /^-?(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN)\b/

const script = readFileSync(new URL('add-hits.lua', import.meta.url), 'utf8')
export const scriptSha = createHash('sha1').update(script).digest('hex')

interface Call {
  command: Command
  isAsking: boolean
  sentMs: number
  answer: Answer | null // null = told that it is overdue
}

export class RedisNode {
  readonly createdMs = performance.now()
  lastUsedMs = this.createdMs
  wasConnected = false
  private readonly options: NodeOptions
  private readonly connection: RedisConnection
  private readonly calls = new Set<Call>() // oldest first
  private overdueCount = 0
  private sweepTimer: NodeJS.Timeout | undefined
  private lostMs = 0
  private lostReason = 'not connected yet'
  private isClosing = false

  constructor(options: NodeOptions) {
    this.options = options
    this.connection = new RedisConnection({
      ...options,
      script,
      onConnected: () => this.connected(),
      onLost: (reason) => this.lost(reason),
    })
  }

  get isConnected(): boolean {
    return this.connection.isConnected
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
    if (this.isConnected) this.connection.drop(reason)
    this.connection.hurry()
  }

  drop(reason: string): void {
    this.connection.drop(reason)
  }

  /** Whoever still waits is answered with an error. */
  async close(): Promise<void> {
    this.isClosing = true
    clearTimeout(this.sweepTimer)
    await this.connection.close()
    this.failAll('closed')
  }

  /** `answer` is called exactly once. `isAsking` tells a cluster node that another one sent us. */
  call(command: Command, sentMs: number, isAsking: boolean, answer: Answer): void {
    const { refusal } = this
    if (refusal !== null) {
      answer(this.error(refusal))
      return
    }
    this.lastUsedMs = sentMs
    const call: Call = { command, isAsking, sentMs, answer }
    this.calls.add(call)
    if (this.sweepTimer === undefined)
      this.sweepIn(sentMs + this.options.operationTimeoutMs - performance.now())
    this.send(call, command.name, command.args)
  }

  private send(call: Call, name: string, args: (string | number)[]): void {
    const reply: Reply = (error, value) => this.replied(call, error, value)
    if (call.isAsking) this.connection.call('asking', [], () => {})
    this.connection.call(name, args, reply)
  }

  private replied(call: Call, error: Error | null | undefined, value: unknown): void {
    if (!this.calls.has(call)) return // given up with its connection
    if (error && !isReply(error)) return // of the client: the connection is going, `lost` follows
    if (error?.message.startsWith('NOSCRIPT') && call.answer !== null) {
      // Somebody flushed the scripts, so nothing was run: sending it again counts once. EVAL loads the script as well.
      this.send(call, 'eval', [script, ...call.command.args.slice(1)])
      return
    }
    this.calls.delete(call)
    if (call.answer === null) this.overdueCount--
    else call.answer(error ?? null, value)
    const wrong = wrongServer(call, error, value)
    if (wrong !== null && this.isConnected) this.drop(wrong)
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
    for (const call of this.calls) {
      const waitedMs = nowMs - call.sentMs
      if (call.answer === null || waitedMs >= operationTimeoutMs) {
        this.overdue(call)
        nextMs = Math.min(nextMs, operationTimeoutMs * OVERDUE_TIMEOUTS_MAX - waitedMs)
      } else {
        nextMs = Math.min(nextMs, operationTimeoutMs - waitedMs)
      }
    }
    if (nextMs <= 0) this.drop(`no reply for ${goDuration(operationTimeoutMs * OVERDUE_TIMEOUTS_MAX)}`)
    else if (nextMs !== Number.POSITIVE_INFINITY && this.sweepTimer === undefined) this.sweepIn(nextMs)
  }

  private overdue(call: Call): void {
    const { answer } = call
    if (answer === null) return
    this.overdueCount++
    call.answer = null
    answer(this.error(`no reply within ${this.timeout()}; the hits may have been counted`))
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

  private failAll(why: string): void {
    const given = [...this.calls]
    this.calls.clear()
    this.overdueCount = 0
    const error = this.error(`${why}; the hits may have been counted`)
    for (const { answer } of given) answer?.(error)
  }

  private timeout(): string {
    return goDuration(this.options.operationTimeoutMs)
  }

  private error(what: string): StoreError {
    return new StoreError(`redis ${this.options.name}: ${what}`)
  }
}

/** Whether Redis itself has said so; then nothing was run. */
export function isReply(error: Error | null): error is Error {
  return error instanceof ReplyError
}

/** The error that says so: of the whole call, or of one key in the script's reply. */
function wrongServer({ command }: Call, error: Error | null | undefined, value: unknown): string | null {
  if (error) return WRONG_SERVER.test(error.message) ? error.message : null
  if (command.name !== 'evalsha' || !Array.isArray(value)) return null
  return value.find((one) => typeof one === 'string' && WRONG_SERVER.test(one)) ?? null
}
