/**
 * The Redis store: a batch becomes one write per node (pipelined-batch.ts) and each hit is counted at most once.
 *
 *     add(batch) ──► Trip ──► main instance ────────────► server, master of sentinels, or cluster
 *                        └──► limits per second (maybe) ─► another of these
 *                done(batch) when every slot has its count or an error
 *
 * So a caller hears from us within one operation timeout, whatever Redis does. Memory is bounded by TRIPS_MAX batches on
 * their way; one more may wait for its turn, as long as REDIS_POOL_ON_EMPTY_BEHAVIOR says.
 */
import { StoreError } from '../../runtime/errors.ts'
import type { Diagnostic } from '../../runtime/inspection/messages.ts'
import type { Log } from '../../runtime/messages.ts'
import type { Stats } from '../../stats/stats.ts'
import type { Batch } from '../batch.ts'
import { goDuration, openWithRetries } from '../connect-retry.ts'
import { ConnectionMetrics } from '../connection-metrics.ts'
import type { CounterStore } from '../counter-store.ts'
import { HealthReporter, type InstanceHealth, type OnHealth } from '../store-health.ts'
import { maskRedisUrl } from './address.ts'
import { RedisCluster } from './cluster.ts'
import { loadClient } from './discovery.ts'
import { HealthCheck } from './health-check.ts'
import type { RedisOptions } from './options.ts'
import { PipelinedBatch } from './pipelined-batch.ts'
import { ReplyPoller } from './reply-poller.ts'
import { RedisSingleNode, type RedisTopology } from './topology.ts'

export { type RedisOptions, redisOptions, redisWarnings } from './options.ts'

export interface RedisHooks {
  log: Log
  stats?: Stats
  onHealth?: OnHealth // on every change
  signal?: AbortSignal // ends the waiting in `connect`
}

/** Batches on their way at most. Beyond: one waits, hits join the next; that one full: callers get an error. */
const TRIPS_MAX = 64

/** Of `instances`, for people. */
const INSTANCE_NAMES = ['redis', 'redis per second']

interface Waiting {
  trip: PipelinedBatch
  timer: NodeJS.Timeout
}

export class RedisStore implements CounterStore {
  readonly isSynchronous = false

  private readonly options: RedisOptions
  private readonly hooks: RedisHooks
  private readonly topologies: readonly RedisTopology[] // main, and the one for limits per second if there is one
  private readonly poller: ReplyPoller
  private tripsCount = 0
  private waiting: Waiting | null = null
  private fullMs = 0 // since when hits wait in the next batch, as no more may be on their way; 0 = they do not
  private readonly wasConnected: boolean[] // by instance
  private readonly healthCheck: HealthCheck
  private health: HealthReporter | null = null // from the first moment on that all instances have been connected
  private isClosing = false
  private whenIdle: (() => void) | null = null

  /** Throws an OperatorError when the options name no Redis, or files that cannot be read. */
  constructor(options: RedisOptions, hooks: RedisHooks) {
    this.options = options
    this.hooks = hooks
    this.poller = new ReplyPoller({
      busyPollMs: options.busyPollMs ?? 0,
      coalesceDelayMs: options.coalesceDelayMs ?? 0,
    })
    const { log, stats } = hooks
    const create = (one: RedisOptions, name: string) => {
      const Kind = one.type === 'cluster' ? RedisCluster : RedisSingleNode
      const pool = stats ? new ConnectionMetrics(name, stats) : null
      return new Kind(one, { log, pool, onChange: () => this.changed() })
    }
    const main = create(options, 'redis_pool')
    this.topologies = options.perSecond ? [main, create(options.perSecond, 'redis_per_second_pool')] : [main]
    this.wasConnected = this.topologies.map(() => false)
    this.healthCheck = new HealthCheck(this.topologies.length, (batch, done) => this.sendCheck(batch, done))
  }

  get isConnected(): boolean {
    return this.topologies.every((instance) => instance.isConnected)
  }

  get hasCapacity(): boolean {
    if (this.tripsCount < TRIPS_MAX || this.waiting === null || this.isClosing) return true
    return this.topologies.every((instance) => instance.refusal !== null) // then hits fail at once
  }

  /**
   * Resolves when every instance answers, the one for limits per second first. Rejects with an OperatorError after
   * `startup.maxElapsedMs`, or on the signal.
   */
  async connect(): Promise<void> {
    const { log, signal } = this.hooks
    const needsDiscovery = ({ type = 'single' }: RedisOptions) => type !== 'single'
    if (needsDiscovery(this.options) || (this.options.perSecond && needsDiscovery(this.options.perSecond)))
      await loadClient() // not in the time that attempts have
    for (const instance of this.topologies.toReversed()) {
      const open = () => instance.open()
      const stop = () => void instance.close() // ends the attempt that is running
      signal?.addEventListener('abort', stop)
      try {
        await openWithRetries({ open, address: instance.name, startup: this.options.startup, log, signal })
      } catch (error) {
        await this.closeAll() // one may stand already
        throw error
      } finally {
        signal?.removeEventListener('abort', stop)
      }
    }
    const { onHealth } = this.hooks
    if (onHealth) this.health = new HealthReporter(() => this.instancesHealth(), onHealth)
    this.changed()
  }

  /** What is on its way is answered first. */
  async close(): Promise<void> {
    this.isClosing = true
    this.healthCheck.close()
    if (this.tripsCount > 0) {
      await new Promise<void>((resolve) => {
        this.whenIdle = resolve
      })
    }
    await this.closeAll()
  }

  private async closeAll(): Promise<void> {
    this.health?.close()
    await Promise.all(this.topologies.map((instance) => instance.close()))
  }

  add(batch: Batch, _nowSec: number, done: (batch: Batch) => void): void {
    const nowMs = performance.now()
    const startMs = this.fullMs || nowMs // the oldest of them have waited since then
    this.fullMs = 0
    const trip: PipelinedBatch = new PipelinedBatch(batch, this.topologies, startMs, () =>
      this.finished(trip, done),
    )
    if (this.isClosing) this.refuse(batch, 'closing', done)
    else if (nowMs - startMs >= this.options.operationTimeoutMs)
      this.refuse(batch, tooMany(nowMs - startMs), done)
    else if (this.tripsCount < TRIPS_MAX) this.start(trip)
    else if (this.waiting === null) this.wait(trip, batch, done)
    else this.refuse(batch, 'too many batches in flight', done)
  }

  /** One more command per instance, a PING that takes the way of the hits; of a cluster, one node is asked. */
  async diagnostics(): Promise<Diagnostic[]> {
    const { recentRequests } = this.poller
    const lately = recentRequests === null ? '' : `, lately ${recentRequests.toFixed(1)} requests each`
    const answers = await Promise.all(this.topologies.map(pingText))
    return [['Redis', `${this.tripsCount} batches in flight${lately}`], ...answers]
  }

  private start(trip: PipelinedBatch): void {
    this.tripsCount++
    trip.start()
    if (this.tripsCount > 0) this.poller.onSent(trip.batch.requestsCount)
  }

  /** With all places taken there are calls enough to tell whether Redis works. */
  private sendCheck(batch: Batch, done: () => void): void {
    if (this.isClosing || this.tripsCount >= TRIPS_MAX) {
      done()
      return
    }
    const trip: PipelinedBatch = new PipelinedBatch(batch, this.topologies, performance.now(), () =>
      this.finished(trip, done),
    )
    this.start(trip)
  }

  private finished(trip: PipelinedBatch, done: (batch: Batch) => void): void {
    this.tripsCount--
    if (this.health !== null && (trip.batch.hasErrors || this.healthCheck.isAnyFailing)) {
      this.healthCheck.update(trip.batch)
      if (!this.isClosing) this.health.soon()
    }
    if (this.tripsCount === 0) this.poller.onAllReplied()
    const { waiting } = this
    if (waiting !== null) {
      this.waiting = null
      clearTimeout(waiting.timer)
      this.start(waiting.trip)
    }
    done(trip.batch)
    if (this.tripsCount === 0) this.whenIdle?.()
  }

  private wait(trip: PipelinedBatch, batch: Batch, done: (batch: Batch) => void): void {
    const { emptyWaitMs = Number.POSITIVE_INFINITY, operationTimeoutMs } = this.options
    const ms = Math.min(emptyWaitMs, operationTimeoutMs - (performance.now() - trip.startMs))
    const giveUp = () => {
      if (this.waiting?.trip !== trip) return
      this.waiting = null
      this.refuse(batch, tooMany(Math.min(emptyWaitMs, operationTimeoutMs)), done)
    }
    // replies may wait in the socket after a pause of this thread: they are read first
    const timer = setTimeout(() => setImmediate(giveUp), ms)
    this.waiting = { trip, timer }
    this.fullMs = performance.now()
  }

  private refuse(batch: Batch, why: string, done: (batch: Batch) => void): void {
    batch.failAll(new StoreError(`redis ${maskRedisUrl(this.options.url)}: ${why}`))
    done(batch)
  }

  private changed(): void {
    for (const [index, { isConnected }] of this.topologies.entries()) {
      if (isConnected && !this.wasConnected[index]) this.healthCheck.reset(index)
      this.wasConnected[index] = isConnected
    }
    if (!this.isClosing) this.health?.now()
  }

  private instancesHealth(): InstanceHealth[] {
    return this.topologies.map(({ isConnected, refusal }, index) => ({
      name: INSTANCE_NAMES[index],
      isConnected,
      working: isConnected
        ? this.healthCheck.isFailing(index)
          ? 'failing'
          : 'ok'
        : refusal === null
          ? 'partly'
          : 'failing',
    }))
  }
}

/** How long an instance takes to answer. */
function pingText(instance: RedisTopology): Promise<Diagnostic> {
  const node = instance.findNode('')
  if (node === null) return Promise.resolve(['Redis PING', `${instance.name}: no node`])
  const sentMs = performance.now()
  return new Promise((resolve) => {
    node.ask([['PING']], sentMs, (error) => {
      const text = error?.message ?? `${node.name}: ${(performance.now() - sentMs).toFixed(2)} ms`
      resolve(['Redis PING', text])
    })
  })
}

function tooMany(ms: number): string {
  return `${TRIPS_MAX} batches in flight for ${goDuration(ms)}`
}
