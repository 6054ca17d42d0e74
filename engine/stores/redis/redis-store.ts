/**
 * The Redis store: a batch becomes one pipelined write per node (pipelined-batch.ts), and each hit is counted at most once.
 *
 *     add(batch) ──► PipelinedBatch ──► main instance ────────────────────► server, master of sentinels, or cluster
 *                                   └──► instance for limits per second ──► another of these, if configured
 *                    done(batch) when every slot has its count or an error
 *
 * `done` is called within one operation timeout, whatever Redis does. At most IN_FLIGHT_BATCHES_MAX batches are in flight, or
 * IN_FLIGHT_BATCHES_IDLE_MAX while one node keeps others from working, and one more waits as long as REDIS_POOL_ON_EMPTY_BEHAVIOR allows.
 */
import { StoreError } from '../../runtime/errors.ts'
import type { Diagnostic } from '../../runtime/inspection/messages.ts'
import type { Log } from '../../runtime/messages.ts'
import type { Stats } from '../../stats/stats.ts'
import type { Batch } from '../batch.ts'
import { Breakers, NO_BREAKER } from '../breakers.ts'
import { createCancelled, goDuration, openWithRetries } from '../connect-retry.ts'
import { ConnectionMetrics } from '../connection-metrics.ts'
import type { CounterStore } from '../counter-store.ts'
import { HealthReporter, type InstanceHealth, type OnHealth, type Working } from '../store-health.ts'
import { maskRedisUrl } from './address.ts'
import { checkThenIncrement } from './check-then-increment.ts'
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
  signal?: AbortSignal // cancels `connect`
}

/** Beyond, one batch waits and hits collect in the next; when that is full, calls fail. */
const IN_FLIGHT_BATCHES_MAX = 64

/** While a node has nothing to do. */
const IN_FLIGHT_BATCHES_IDLE_MAX = 1_024

/** By index into `topologies`, for reports. */
const INSTANCE_NAMES = ['redis', 'redis per second']

interface WaitingBatch {
  pipelined: PipelinedBatch
  timer: NodeJS.Timeout
}

export class RedisStore implements CounterStore {
  readonly isSynchronous = false

  private readonly options: RedisOptions
  private readonly hooks: RedisHooks
  private readonly breakers: readonly Breakers[] // by instance
  private readonly topologies: readonly RedisTopology[] // main, and the one for limits per second if there is one
  private readonly poller: ReplyPoller
  private inFlightCount = 0
  private waiting: WaitingBatch | null = null
  private fullSinceMs = 0 // since when the next batch has been waiting for capacity; 0 = it is not
  private readonly wasConnected: boolean[] // by instance
  private readonly isReached: boolean[] // by instance: it has been connected once
  private onAllConnected: (() => void) | null = null
  private readonly healthCheck: HealthCheck
  private healthReporter: HealthReporter | null = null // set when all instances have been connected once
  private isClosing = false
  private onIdle: (() => void) | null = null

  /** Throws a ConfigurationError for an invalid address or unreadable TLS files. */
  constructor(options: RedisOptions, hooks: RedisHooks) {
    this.options = options
    this.hooks = hooks
    this.poller = new ReplyPoller({
      busyPollMs: options.busyPollMs ?? 0,
      coalesceDelayMs: options.coalesceDelayMs ?? 0,
    })
    const { log, stats } = hooks
    const { perSecond } = options
    this.breakers = [options, ...(perSecond ? [perSecond] : [])].map(({ breaker = NO_BREAKER }) => {
      return new Breakers(breaker, stats ?? null, () => this.onConnectionChange())
    })
    const createTopology = (topologyOptions: RedisOptions, index: number, metricName: string) => {
      const Topology = topologyOptions.type === 'cluster' ? RedisCluster : RedisSingleNode
      const pool = stats ? new ConnectionMetrics(metricName, stats) : null
      const breakers = this.breakers[index]
      return new Topology(topologyOptions, { log, pool, breakers, onChange: () => this.onConnectionChange() })
    }
    const main = createTopology(options, 0, 'redis_pool')
    this.topologies = perSecond ? [main, createTopology(perSecond, 1, 'redis_per_second_pool')] : [main]
    this.wasConnected = this.topologies.map(() => false)
    this.isReached = this.topologies.map(() => false)
    this.healthCheck = new HealthCheck(this.topologies.length, (batch, done) => this.sendCheck(batch, done))
  }

  get isConnected(): boolean {
    return this.topologies.every((topology) => topology.isConnected)
  }

  /** Whether a batch is sent at once. A node that does not reply must not keep hits from others that have nothing to do. */
  private get hasRoom(): boolean {
    if (this.inFlightCount < IN_FLIGHT_BATCHES_MAX) return true
    if (this.inFlightCount >= IN_FLIGHT_BATCHES_IDLE_MAX) return false
    return this.topologies.some((topology) => topology.isAnyIdle)
  }

  get hasCapacity(): boolean {
    if (this.hasRoom || this.waiting === null || this.isClosing) return true
    return this.topologies.every((topology) => topology.refusal !== null) // hits fail immediately
  }

  /**
   * Resolves when every instance has replied, the one for limits per second first, or after `startWaitMs`. Rejects with a
   * ConfigurationError when the signal aborts or, without `startWaitMs`, after `startup.maxElapsedMs`.
   */
  async connect(): Promise<void> {
    const { startWaitMs = null } = this.options
    const needsDiscovery = ({ type = 'single' }: RedisOptions) => type !== 'single'
    if (needsDiscovery(this.options) || (this.options.perSecond && needsDiscovery(this.options.perSecond)))
      await loadClient() // before the timeout of the first attempt starts
    if (startWaitMs === null) await this.openAll()
    else await this.keepAll(startWaitMs)
    const { onHealth } = this.hooks
    if (onHealth) this.healthReporter = new HealthReporter(() => this.instancesHealth(), onHealth)
    this.onConnectionChange()
  }

  private async openAll(): Promise<void> {
    const { log, signal } = this.hooks
    for (const topology of this.topologies.toReversed()) {
      const open = () => topology.open()
      const stop = () => void topology.close() // cancels the current attempt
      signal?.addEventListener('abort', stop)
      try {
        await openWithRetries({ open, address: topology.name, startup: this.options.startup, log, signal })
      } catch (error) {
        await this.closeAll() // the other instance may be connected
        throw error
      } finally {
        signal?.removeEventListener('abort', stop)
      }
    }
  }

  /** Connects in the background, for as long as it takes; resolves when all are connected, after `waitMs` at the latest. */
  private async keepAll(waitMs: number): Promise<void> {
    const { signal } = this.hooks
    for (const topology of this.topologies) topology.keep()
    if (waitMs > 0 && !signal?.aborted) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs)
        this.onAllConnected = () => {
          clearTimeout(timer)
          resolve()
        }
        signal?.addEventListener('abort', this.onAllConnected, { once: true })
      })
      if (this.onAllConnected !== null) signal?.removeEventListener('abort', this.onAllConnected)
      this.onAllConnected = null
    }
    if (signal?.aborted) {
      await this.closeAll()
      throw createCancelled(this.topologies[0].name)
    }
    for (const topology of this.topologies) topology.onStartTimedOut()
  }

  /** Batches in flight are completed first. */
  async close(): Promise<void> {
    this.isClosing = true
    this.healthCheck.close()
    if (this.inFlightCount > 0) {
      await new Promise<void>((resolve) => {
        this.onIdle = resolve
      })
    }
    await this.closeAll()
  }

  private async closeAll(): Promise<void> {
    this.healthReporter?.close()
    await Promise.all(this.topologies.map((topology) => topology.close()))
  }

  add(batch: Batch, _nowSec: number, done: (batch: Batch) => void): void {
    const nowMs = performance.now()
    const startMs = this.fullSinceMs || nowMs // the oldest hits have waited since then
    this.fullSinceMs = 0
    const pipelined = this.createPipelined(batch, startMs, done)
    if (this.isClosing) this.refuse(batch, 'closing', done)
    else if (nowMs - startMs >= this.options.operationTimeoutMs)
      this.refuse(batch, overCapacity(nowMs - startMs), done)
    else if (this.hasRoom) this.start(pipelined)
    else if (this.waiting === null) this.wait(pipelined, done)
    else this.refuse(batch, 'too many batches in flight', done)
  }

  onLate(): void {
    for (const breakers of this.breakers) breakers.onLate()
  }

  /** Sends a PING to each instance on the connection of the hits; in a cluster, to one node. */
  async diagnostics(): Promise<Diagnostic[]> {
    const { recentRequests } = this.poller
    const lately = recentRequests === null ? '' : `, lately ${recentRequests.toFixed(1)} requests each`
    const pings = await Promise.all(this.topologies.map(measurePing))
    return [['Redis', `${this.inFlightCount} batches in flight${lately}`], ...pings]
  }

  private createPipelined(batch: Batch, startMs: number, done: (batch: Batch) => void): PipelinedBatch {
    return new PipelinedBatch(batch, this.topologies, startMs, () => this.onFinished(batch, done))
  }

  private start(pipelined: PipelinedBatch): void {
    const { batch } = pipelined
    this.inFlightCount++
    if (batch.stopIncrementWhenOverLimit) checkThenIncrement(pipelined)
    else pipelined.sendAll()
    if (this.inFlightCount > 0) this.poller.onSent(batch.requestsCount)
  }

  /** Without capacity the check is skipped: the batches in flight show whether Redis works. */
  private sendCheck(batch: Batch, done: () => void): void {
    if (this.isClosing || this.inFlightCount >= IN_FLIGHT_BATCHES_MAX) done()
    else this.start(this.createPipelined(batch, performance.now(), done))
  }

  private onFinished(batch: Batch, done: (batch: Batch) => void): void {
    this.inFlightCount--
    if (this.healthReporter !== null && (batch.hasErrors || this.healthCheck.isAnyFailing)) {
      this.healthCheck.update(batch)
      if (!this.isClosing) this.healthReporter.scheduleReport()
    }
    if (this.inFlightCount === 0) this.poller.onAllReplied()
    const { waiting } = this
    if (waiting !== null) {
      this.waiting = null
      clearTimeout(waiting.timer)
      this.start(waiting.pipelined)
    }
    done(batch)
    if (this.fullSinceMs > 0 && this.hasCapacity) setImmediate(() => this.forgetWaiting())
    if (this.inFlightCount === 0) this.onIdle?.()
  }

  /** Hits that waited for capacity have been added in the meantime, or there were none: those of a later batch have not waited. */
  private forgetWaiting(): void {
    if (this.hasCapacity) this.fullSinceMs = 0
  }

  private wait(pipelined: PipelinedBatch, done: (batch: Batch) => void): void {
    const { emptyWaitMs = Number.POSITIVE_INFINITY, operationTimeoutMs } = this.options
    const ms = Math.min(emptyWaitMs, operationTimeoutMs - (performance.now() - pipelined.startMs))
    const giveUp = () => {
      if (this.waiting?.pipelined !== pipelined) return
      this.waiting = null
      this.refuse(pipelined.batch, overCapacity(Math.min(emptyWaitMs, operationTimeoutMs)), done)
    }
    // after a pause of this thread, replies that wait in the socket are read first
    const timer = setTimeout(() => setImmediate(giveUp), ms)
    this.waiting = { pipelined, timer }
    this.fullSinceMs = performance.now()
  }

  private refuse(batch: Batch, reason: string, done: (batch: Batch) => void): void {
    batch.failAll(new StoreError(`redis ${maskRedisUrl(this.options.url)}: ${reason}`))
    done(batch)
  }

  private onConnectionChange(): void {
    for (const [index, { isConnected }] of this.topologies.entries()) {
      if (isConnected && !this.wasConnected[index]) this.healthCheck.reset(index)
      this.wasConnected[index] = isConnected
      if (isConnected) this.isReached[index] = true
    }
    if (this.isConnected) this.onAllConnected?.()
    if (!this.isClosing) this.healthReporter?.reportNow()
  }

  private instancesHealth(): InstanceHealth[] {
    return this.topologies.map(({ isConnected, refusal }, index) => {
      let working: Working = refusal === null ? 'partly' : 'failing'
      if (isConnected) working = this.healthCheck.isFailing(index) ? 'failing' : 'ok'
      const { open } = this.breakers[index]
      return {
        name: INSTANCE_NAMES[index],
        isConnected,
        working,
        ...(!this.isReached[index] && { isUnreached: true }),
        ...(open.length > 0 && { openBreakers: open }),
      }
    })
  }
}

/** Round-trip time of a PING. */
function measurePing(topology: RedisTopology): Promise<Diagnostic> {
  const node = topology.findNode('')
  if (node === null) return Promise.resolve(['Redis PING', `${topology.name}: no node`])
  const sentMs = performance.now()
  return new Promise((resolve) => {
    node.request([['PING']], sentMs, (error) => {
      const text = error?.message ?? `${node.name}: ${(performance.now() - sentMs).toFixed(2)} ms`
      resolve(['Redis PING', text])
    })
  })
}

function overCapacity(ms: number): string {
  return `${IN_FLIGHT_BATCHES_MAX} batches in flight for ${goDuration(ms)}`
}
