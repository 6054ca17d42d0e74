/**
 * The Redis store: one script call per batch, and each hit counted at most once.
 *
 *     add(batch) ──► EVALSHA add-hits ──────► reply: a count or an error per slot ──► done(batch)
 *                      │ no reply in time ──► StoreError for all its callers; a late reply is thrown away
 *                      └ connection lost ───► StoreError; nobody knows whether Redis counted, so nothing is sent again
 *
 * A batch without an answer stays a *trip* until its reply or the end of the connection. While one is overdue nothing
 * more is sent: Redis answers in order, so it would be late too. Four timeouts late, the connection is given up.
 * So a caller hears from us within one timeout, whatever Redis does, and memory is bounded by TRIPS_MAX batches.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { StoreError } from '../errors.ts'
import type { Log } from '../messages.ts'
import type { Settings } from '../settings/parse.ts'
import type { Batch } from './batch.ts'
import { maskRedisUrl, parseRedisAddress } from './redis-address.ts'
import { RedisConnection } from './redis-connection.ts'
import { goDuration, openWithRetries, type Startup } from './retry.ts'
import type { CounterStore } from './store.ts'

/** Plain, so it can be posted to a worker. */
export interface RedisOptions {
  url: string // REDIS_URL
  socketType: string // tcp, tcp4, tcp6 or unix
  auth: string // REDIS_AUTH; '' = what the URL says
  timeoutMs: number // for making a connection
  operationTimeoutMs: number // from sending a batch to its reply
  startup: Startup
}

export interface RedisHooks {
  log: Log
  onConnected?: (isConnected: boolean) => void // on every change
  signal?: AbortSignal // ends the waiting in `connect`
}

/** Batches in flight at most. Beyond: hits join the next batch; that one full: callers get an error. */
const TRIPS_MAX = 64

/** A connection whose oldest batch has waited so many operation timeouts is given up for a new one. */
const OVERDUE_TIMEOUTS_MAX = 4

const script = readFileSync(new URL('add-hits.lua', import.meta.url), 'utf8')
const scriptSha = createHash('sha1').update(script).digest('hex')

interface Trip {
  batch: Batch | null // null = its callers were told that it is overdue
  done: (batch: Batch) => void
  args: (string | number)[]
  sentMs: number
}

export function redisOptions(settings: Settings): RedisOptions {
  return {
    url: settings.REDIS_URL,
    socketType: settings.REDIS_SOCKET_TYPE,
    auth: settings.REDIS_AUTH,
    timeoutMs: settings.REDIS_TIMEOUT,
    operationTimeoutMs: settings.REDIS_OPERATION_TIMEOUT,
    startup: {
      initialMs: settings.REDIS_STARTUP_INITIAL_INTERVAL,
      maxMs: settings.REDIS_STARTUP_MAX_INTERVAL,
      maxElapsedMs: settings.REDIS_STARTUP_MAX_ELAPSED_TIME,
    },
  }
}

export class RedisStore implements CounterStore {
  readonly answersAtOnce = false

  private readonly options: RedisOptions
  private readonly hooks: RedisHooks
  private readonly address: string // masked
  private readonly connection: RedisConnection
  private readonly trips = new Set<Trip>() // oldest first
  private overdueCount = 0
  private sweepTimer: NodeJS.Timeout | undefined
  private lostMs = 0 // when the connection was lost; 0 = never
  private lostReason = 'not connected yet'
  private isClosing = false
  private whenIdle: (() => void) | null = null

  /** Throws an OperatorError when the options name no Redis. */
  constructor(options: RedisOptions, hooks: RedisHooks) {
    this.options = options
    this.hooks = hooks
    this.address = maskRedisUrl(options.url)
    this.connection = new RedisConnection({
      address: parseRedisAddress(options),
      timeoutMs: options.timeoutMs,
      script,
      onConnected: () => this.connected(),
      onLost: (reason) => this.lost(reason),
    })
  }

  get isConnected(): boolean {
    return this.connection.isConnected
  }

  get canAdd(): boolean {
    return this.trips.size < TRIPS_MAX || this.refusal() !== null
  }

  /** Resolves when Redis answers. Rejects with an OperatorError after `startup.maxElapsedMs`, or on the signal. */
  async connect(): Promise<void> {
    const { log, signal } = this.hooks
    const open = () => this.connection.open()
    const stop = () => void this.connection.close() // ends the attempt that is running
    signal?.addEventListener('abort', stop)
    try {
      await openWithRetries({ open, address: this.address, startup: this.options.startup, log, signal })
    } finally {
      signal?.removeEventListener('abort', stop)
    }
  }

  async close(): Promise<void> {
    this.isClosing = true
    if (this.trips.size > this.overdueCount) {
      await new Promise<void>((resolve) => {
        this.whenIdle = resolve
      })
    }
    clearTimeout(this.sweepTimer)
    await this.connection.close()
  }

  add(batch: Batch, _nowSec: number, done: (batch: Batch) => void): void {
    const refusal = this.refusal() ?? (this.trips.size < TRIPS_MAX ? null : 'too many batches in flight')
    if (refusal !== null) {
      batch.failAll(this.error(refusal))
      done(batch)
      return
    }
    const trip: Trip = { batch, done, args: scriptArgs(batch), sentMs: performance.now() }
    this.trips.add(trip)
    if (this.sweepTimer === undefined) this.sweepIn(this.options.operationTimeoutMs)
    this.connection.call('evalsha', trip.args, (error, reply) => this.answered(trip, error, reply))
  }

  /** Why a batch would fail at once, without being sent; or null. */
  private refusal(): string | null {
    if (this.isClosing) return 'closing'
    if (!this.connection.isConnected) return `no connection (${this.lostReason})`
    if (this.overdueCount > 0) return `no reply to earlier hits for ${this.timeout()}`
    return null
  }

  private answered(trip: Trip, error: Error | null | undefined, reply: unknown): void {
    if (!this.trips.has(trip)) return // given up with its connection
    if (error?.message.startsWith('NOSCRIPT') && trip.batch !== null) {
      // Somebody flushed the scripts, so nothing was run: sending it again counts once. EVAL loads the script as well.
      trip.args[0] = script
      this.connection.call('eval', trip.args, (evalError, value) => this.answered(trip, evalError, value))
      return
    }
    this.trips.delete(trip)
    const { batch } = trip
    if (batch === null) {
      this.overdueCount--
      return
    }
    if (Array.isArray(reply) && reply.length === batch.slotsCount) this.read(reply, batch)
    else batch.failAll(this.error(error ? error.message : 'the reply is not one count per key'))
    this.finish(trip, batch)
  }

  private read(reply: unknown[], batch: Batch): void {
    for (let slot = 0; slot < reply.length; slot++) {
      const count = reply[slot]
      if (typeof count === 'number' && count >= 0) {
        batch.setAfter(slot, Math.min(count, Number.MAX_SAFE_INTEGER)) // ioredis reads 2^53-1 as 2^53
      } else {
        const text = typeof count === 'number' ? `its count is negative: ${count}` : String(count)
        batch.setError(slot, this.error(`counter "${batch.keys[slot]}": ${text}`))
        this.connection.dropIfWrongServer(text)
      }
    }
  }

  private finish(trip: Trip, batch: Batch): void {
    trip.batch = null // the caller may use it again
    trip.done(batch)
    if (this.whenIdle !== null && this.trips.size === this.overdueCount) this.whenIdle()
  }

  /**
   * One timer for all trips: they are looked at when the oldest could be overdue. Timers run before sockets are read, so
   * after a pause of this thread replies may be waiting; setImmediate lets them be read first.
   */
  private sweepIn(ms: number): void {
    this.sweepTimer = setTimeout(() => setImmediate(() => this.sweep()), Math.max(1, Math.ceil(ms)))
  }

  private sweep(): void {
    const { operationTimeoutMs } = this.options
    const nowMs = performance.now()
    let nextMs = Number.POSITIVE_INFINITY
    this.sweepTimer = undefined
    for (const trip of this.trips) {
      const waitedMs = nowMs - trip.sentMs
      if (trip.batch === null || waitedMs >= operationTimeoutMs) {
        if (trip.batch !== null) this.overdue(trip, trip.batch)
        nextMs = Math.min(nextMs, operationTimeoutMs * OVERDUE_TIMEOUTS_MAX - waitedMs)
      } else {
        nextMs = Math.min(nextMs, operationTimeoutMs - waitedMs)
      }
    }
    if (nextMs <= 0)
      this.connection.drop(`no reply for ${goDuration(operationTimeoutMs * OVERDUE_TIMEOUTS_MAX)}`)
    else if (nextMs !== Number.POSITIVE_INFINITY) this.sweepIn(nextMs)
  }

  private overdue(trip: Trip, batch: Batch): void {
    this.overdueCount++
    batch.failAll(this.error(`no reply within ${this.timeout()}; the hits may have been counted`))
    this.finish(trip, batch)
  }

  private connected(): void {
    if (this.lostMs === 0) {
      this.hooks.log('info', `Redis at ${this.address} is connected`)
    } else {
      const gap = goDuration(performance.now() - this.lostMs)
      this.hooks.log('warning', `Redis at ${this.address} is connected again, after ${gap}`)
    }
    this.hooks.onConnected?.(true)
  }

  private lost(reason: string): void {
    this.lostMs = performance.now()
    this.lostReason = reason
    if (!this.isClosing) {
      this.hooks.log('warning', `Redis at ${this.address} is not connected any more: ${reason}; reconnecting`)
      this.hooks.onConnected?.(false)
    }
    const given = [...this.trips]
    this.trips.clear()
    this.overdueCount = 0
    const error = this.error(`connection lost (${reason}); the hits may have been counted`)
    for (const trip of given) {
      if (trip.batch === null) continue
      trip.batch.failAll(error)
      this.finish(trip, trip.batch)
    }
  }

  private timeout(): string {
    return goDuration(this.options.operationTimeoutMs)
  }

  private error(what: string): StoreError {
    return new StoreError(`redis ${this.address}: ${what}`)
  }
}

/** SHA, number of keys, keys, then hits and expiry of each (add-hits.lua). */
function scriptArgs(batch: Batch): (string | number)[] {
  const { slotsCount, keys, hits, expirySec } = batch
  const args: (string | number)[] = [scriptSha, slotsCount]
  for (let slot = 0; slot < slotsCount; slot++) args.push(keys[slot])
  for (let slot = 0; slot < slotsCount; slot++) args.push(hits[slot], expirySec[slot])
  return args
}
