/**
 * The main thread: settings, rules, health, totals. It handles no requests and parses no rules.
 *
 *     start   statistics ─► rules loaded ┐
 *                           Redis there  ┴─► ports claimed ─► workers listen ─► debug port
 *     stop    health first ─► DRAIN_DELAY ─► workers finish and close ─► debug port ─► rules ─► last statistics
 *
 * Until Redis answers and the first load has ended, no port accepts connections (spec 8.1); with STORE_START_WAIT, Redis is waited for
 * no longer than that.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RulesImage } from '../engine/config/rules.ts'
import type { RulesSource } from '../engine/config/rules-loader.ts'
import { ConfigurationError } from '../engine/runtime/errors.ts'
import { Health } from '../engine/runtime/health.ts'
import { workerThread } from '../engine/runtime/inspection/messages.ts'
import type { FromWorker, Log, ToWorker } from '../engine/runtime/messages.ts'
import { resolveModule } from '../engine/runtime/module-url.ts'
import { collectLater, collectWhenIdle } from '../engine/runtime/release-memory.ts'
import { RepeatedLines } from '../engine/runtime/repeated-lines.ts'
import { ServePool } from '../engine/runtime/serve-pool.ts'
import type { Settings } from '../engine/settings/parse.ts'
import type { Deltas } from '../engine/stats/stats.ts'
import { Totals } from '../engine/stats/totals.ts'
import { BreakerLog } from '../engine/stores/breaker-log.ts'
import { goDuration } from '../engine/stores/connect-retry.ts'
import {
  createMemoryTable,
  getLiveEvictions,
  getPublicLiveEvictions,
  PUBLIC_BYTES,
} from '../engine/stores/memory/table-layout.ts'
import { StoreHealth } from '../engine/stores/store-health.ts'
import { debugAddress, openDebugPort } from './debug/open.ts'
import type { DebugServer } from './debug/server.ts'
import type { TlsFiles } from './grpc/tls-files.ts'
import { type Address, claimPorts, claimSocket } from './ports.ts'
import { rulesSource } from './rules.ts'
import { Statistics } from './statistics.ts'

/** Gauge: 1 until Redis has responded for the first time. */
const STORE_WAITING = 'sluice.store.waiting'

const EVICTION_LOG_MS = 60_000 // between two warnings that the memory store is full

export class Service {
  private readonly settings: Settings
  private readonly hasPublicCounters: boolean
  private readonly log: Log
  private readonly totals = new Totals()
  private readonly health: Health
  private readonly storeHealth = new StoreHealth()
  private readonly breakerLog = new BreakerLog()
  private readonly repeatedLines = new RepeatedLines()
  private readonly onFatal: (error: Error) => void
  private pool: ServePool | null = null
  private debug: DebugServer | null = null
  private source: RulesSource | null = null
  private statistics: Statistics | null = null
  private rules: RulesImage | null = null
  private loadFailure: string | null = null // error of the last load, if it failed
  private tlsFiles: TlsFiles | null = null
  private memoryTable: SharedArrayBuffer | null = null
  private isStoreUnreached = false // STORE_START_WAIT has passed without Redis, and it has not been connected since
  private reportedEvictions = 0
  private reportedPublicEvictions = 0
  /** After `stop`: a worker could not be ended. An ordinary exit would terminate its thread, which aborts the process (serve-pool.ts). */
  hasBlockedWorker = false
  onRules: (rules: RulesImage) => void = () => {} // called when rules come into force
  private evictionTimer: NodeJS.Timeout | undefined

  /**
   * `onFatal` is called when workers cannot be kept running; the owner should then `stop` and exit with 1. `hasPublicCounters`:
   * the memory table has buckets for counters that anybody can create.
   */
  constructor(
    settings: Settings,
    log: Log,
    onFatal: (error: Error) => void,
    { hasPublicCounters = false } = {},
  ) {
    this.settings = settings
    this.hasPublicCounters = hasPublicCounters
    this.log = log
    this.onFatal = onFatal
    this.health = new Health(
      {
        sigterm: true,
        ...(settings.BACKEND_TYPE === 'redis' && { redis: false }),
        ...(settings.HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED && { config: false }),
      },
      (health) => this.pool?.update({ health }),
    )
  }

  /**
   * Resolves with the ports when all listen (0 for gRPC on a unix socket), or with null if `signal` ended the start. Rejects with
   * ConfigurationError; `stop` must be called in any case.
   */
  async start(signal: AbortSignal): Promise<{ http: number; grpc: number } | null> {
    const { settings, log, totals } = this
    const collect = () => this.collectStats()
    this.statistics = await Statistics.open({ settings, totals, collect, rules: () => this.rules, log })
    const traced = await this.traceSettings()
    await this.readTlsFiles()
    const onRules = (rules: RulesImage) => this.install(rules)
    const onRefused = (message: string) => {
      this.loadFailure = message
      this.health.loaded(null, new Date())
    }
    const onRecovered = () => {
      this.loadFailure = null
      this.health.recovered()
    }
    const onDisconnected = (since: Date | null) => this.health.serverAway(since)
    this.source = await rulesSource({
      settings,
      totals,
      log,
      onRules,
      onRefused,
      onRecovered,
      onDisconnected,
    })
    const firstLoad = this.source.start()
    await Promise.race([firstLoad, null]) // a source that fails at once ends the start
    firstLoad.catch(() => {}) // awaited below, unless Redis fails first
    if (settings.BACKEND_TYPE === 'redis') await this.waitForRedis(signal)
    if (settings.BACKEND_TYPE === 'memcache') await this.checkMemcache()
    if (!settings.FORCE_START_WITHOUT_INITIAL_CONFIG) await this.waitForRules(firstLoad, signal)
    if (signal.aborted) return null
    const { httpPort, grpcPort, debugPort } = await this.claim()
    // with Redis and memcached for the policy local; pages without counters take no memory
    const publicBytes = this.hasPublicCounters ? PUBLIC_BYTES : 0
    this.memoryTable = createMemoryTable(settings.MEMORY_STORE_BYTES, publicBytes)
    const options = {
      settings: {
        ...{ ...settings, ...traced, PORT: httpPort, GRPC_PORT: grpcPort },
        ...(this.isStoreUnreached && { STORE_START_WAIT: 0 }), // main has waited
      },
      memoryTable: this.memoryTable,
      rules: this.rules,
      health: this.health.state,
      tls: this.tlsFiles?.tls ?? null,
    }
    this.pool = new ServePool(resolveModule('./worker.ts', import.meta.url), settings.WORKERS, options, {
      message: (index, message) => this.receive(index, message),
      died: (index, error, willRestart) => this.onWorkerDied(index, error, willRestart),
      unresponsive: (index, forSec) =>
        log(
          'error',
          `worker ${index} is unresponsive: its event loop has not turned for ${forSec} s; its calls wait`,
        ),
      responsive: (index, afterSec) => log('warning', `worker ${index} responds again after ${afterSec} s`),
    })
    const started = this.pool.start()
    started.catch(() => {}) // it is not awaited after a signal
    await Promise.race([started, aborted(signal)]) // each worker also waits for Redis
    if (signal.aborted) return null
    this.debug = this.openDebugPort(debugPort)
    collectWhenIdle()
    this.evictionTimer = setInterval(() => this.reportEvictions(), EVICTION_LOG_MS).unref()
    log('warning', `Listening for gRPC on '${settings.GRPC_UDS || `${settings.GRPC_HOST}:${grpcPort}`}'`)
    if (settings.GRPC_UDS !== '' && settings.WORKERS > 1)
      log('info', `gRPC is answered by worker 0 alone, since a unix socket cannot be shared; HTTP by all`)
    log('warning', `Listening for HTTP on '${settings.HOST}:${httpPort}'`)
    if (this.rules === null)
      log('warning', 'no rules are in force: every call fails until a configuration loads')
    return { http: httpPort, grpc: grpcPort }
  }

  /** Health first, then everything else in order; always resolves. */
  async stop(): Promise<void> {
    const { settings } = this
    this.health.set('sigterm', false)
    this.pool?.beginShutdown()
    await sleep(this.pool ? settings.DRAIN_DELAY : 0)
    for (const index of (await this.pool?.drain(settings.DRAIN_TIMEOUT)) ?? []) {
      this.hasBlockedWorker = true
      this.log(
        'error',
        `worker ${index} is unresponsive and has not ended within DRAIN_TIMEOUT; its calls are cut`,
      )
    }
    this.repeatedLines.close()
    clearInterval(this.evictionTimer)
    this.debug?.close()
    this.tlsFiles?.close()
    await this.source?.close()
    await this.statistics?.close()
  }

  /** What another thread of this process needs to share the workers' counters. */
  get shared(): { memoryTable: SharedArrayBuffer | null; rules: RulesImage | null } {
    return { memoryTable: this.memoryTable, rules: this.rules }
  }

  /** Merges statistics of a thread outside the pool. */
  mergeStats(deltas: Deltas, gauges: readonly (readonly [name: string, value: number])[]): void {
    this.totals.merge(deltas, 'monitor')
    for (const [name, value] of gauges) this.totals.set(name, value)
  }

  /** For tests of faults; workers crash and stall only under NODE_ENV=test. */
  provoke(index: number, message: Extract<ToWorker, { kind: 'crash' | 'stall' }>): void {
    this.pool?.send(index, message)
  }

  /** The gRPC port is 0 for a unix socket. A debug port that cannot be claimed is NO_PORT and does not end the start. */
  private async claim(): Promise<{ httpPort: number; grpcPort: number; debugPort: number }> {
    const { HOST, PORT, GRPC_HOST, GRPC_PORT, GRPC_UDS } = this.settings
    const http: Address = { variable: 'PORT', host: HOST, port: PORT }
    const debug = debugAddress(this.settings, this.log)
    const grpc: Address = { variable: 'GRPC_PORT', host: GRPC_HOST, port: GRPC_PORT }
    if (GRPC_UDS !== '') {
      await claimSocket(GRPC_UDS)
      const [httpPort, debugPort] = await claimPorts([http, debug])
      return { httpPort, grpcPort: 0, debugPort }
    }
    const [httpPort, grpcPort, debugPort] = await claimPorts([http, grpc, debug])
    return { httpPort, grpcPort, debugPort }
  }

  /** Checks and logs what the workers' tracing has in common (spec 8.1). */
  private async traceSettings(): Promise<Pick<Settings, 'TRACING_SERVICE_INSTANCE_ID'>> {
    const { settings, log } = this
    const id = settings.TRACING_SERVICE_INSTANCE_ID || randomUUID()
    if (settings.TRACING_ENABLED) {
      await (await import('./tracing/exporter.ts')).checkExporter(settings)
      const parameters = [
        `protocol ${settings.TRACING_EXPORTER_PROTOCOL}`,
        `service.name ${settings.TRACING_SERVICE_NAME}`,
        `service.namespace ${settings.TRACING_SERVICE_NAMESPACE || '(none)'}`,
        `service.instance.id ${id}`,
        `sampling rate ${settings.TRACING_SAMPLING_RATE}`,
      ]
      log('info', `Tracing enabled: ${parameters.join(', ')}`)
    } else log('info', 'Tracing disabled')
    return { TRACING_SERVICE_INSTANCE_ID: id }
  }

  /** Before Redis, since a start that must fail should not wait for it (spec 8.1). */
  private async readTlsFiles(): Promise<void> {
    const { settings, log, totals } = this
    const { GRPC_SERVER_USE_TLS: usesTls, GRPC_CLIENT_TLS_CACERT: ca, GRPC_CLIENT_TLS_SAN: san } = settings
    if (!usesTls && ca === '' && san === '') return
    const { TlsFiles, getTlsWarnings } = await import('./grpc/tls-files.ts')
    for (const warning of getTlsWarnings(settings)) log('warning', warning)
    if (!usesTls) return
    this.tlsFiles = new TlsFiles({ settings, log, totals, onChange: (tls) => this.pool?.update({ tls }) })
  }

  /** Resolves after the first load, successful or not (Q2), or on the signal. */
  private async waitForRules(firstLoad: Promise<void>, signal: AbortSignal): Promise<void> {
    this.log('info', 'Waiting for initial ratelimit config update event')
    await Promise.race([firstLoad, aborted(signal)])
    if (this.rules !== null) this.log('info', 'Successfully loaded the initial ratelimit configs')
  }

  private async waitForRedis(signal: AbortSignal): Promise<void> {
    const { RedisStore, redisOptions, redisWarnings } = await import('../engine/stores/redis/redis-store.ts')
    for (const warning of redisWarnings(this.settings)) this.log('warning', warning)
    const { STORE_START_WAIT: waitMs, REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: needsConnection } = this.settings
    const limit =
      waitMs === null ? null : waitMs === 0 ? AbortSignal.abort() : AbortSignal.timeout(Math.ceil(waitMs))
    const options = { ...redisOptions(this.settings), startWaitMs: null }
    const hooks = { log: this.log, signal: limit === null ? signal : AbortSignal.any([signal, limit]) }
    this.totals.set(STORE_WAITING, 1)
    const store = new RedisStore(options, hooks)
    try {
      await store.connect()
      await store.close()
      this.totals.set(STORE_WAITING, 0)
    } catch (error) {
      if (signal.aborted || !limit?.aborted) throw error
      this.isStoreUnreached = true
      this.log('warning', storeUnreached(waitMs!))
    }
    if (!this.isStoreUnreached || !needsConnection) this.health.set('redis', true)
  }

  /** Checks settings and DNS only: the nodes may be down, so they are not part of health (Q5). */
  private async checkMemcache(): Promise<void> {
    const { checkMemcache } = await import('../engine/stores/memcached/options.ts')
    try {
      await checkMemcache(this.settings)
    } catch (error) {
      const isDnsFailure = error instanceof ConfigurationError && error.cause !== undefined
      if (this.settings.STORE_START_WAIT === null || !isDnsFailure) throw error
      this.log('warning', `${error.message}; no hit can be counted until the DNS replies`)
    }
  }

  private install(rules: RulesImage): void {
    collectLater(this.rules?.memory.byteLength ?? 0)
    this.rules = rules
    this.loadFailure = null
    this.pool?.update({ rules })
    this.health.loaded(rules.domainsCount, new Date())
    this.onRules(rules)
  }

  private receive(index: number, message: FromWorker): void {
    if (message.kind === 'stats') this.totals.merge(message.deltas, `worker ${index}`)
    else if (message.kind === 'log') {
      const { level } = message
      const write = (line: string) => this.log(level, line)
      if (level === 'warning' || level === 'error') this.repeatedLines.log(message.message, write)
      else write(message.message)
    } else if (message.kind === 'store') {
      this.storeHealth.set(index, message.instances)
      this.onStoreChanged()
    }
  }

  /** Spec 8.2: after the start, lost connections change the status only with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION; the report always shows them. */
  private onStoreChanged(): void {
    const { instances } = this.storeHealth
    if (this.settings.REDIS_HEALTH_CHECK_ACTIVE_CONNECTION)
      this.health.set(
        'redis',
        instances.every(({ isConnected }) => isConnected),
      )
    if (this.isStoreUnreached && instances.every(({ isConnected }) => isConnected)) {
      this.isStoreUnreached = false
      this.totals.set(STORE_WAITING, 0)
    }
    this.health.setStore(instances, new Date())
    for (const line of this.breakerLog.takeLines(instances, performance.now())) this.log('warning', line)
  }

  private onWorkerDied(index: number, error: Error, willRestart: boolean): void {
    this.totals.forget(`worker ${index}`)
    this.storeHealth.forget(index)
    this.onStoreChanged()
    const next = willRestart ? 'starting another' : 'not starting it again'
    this.log(
      willRestart ? 'error' : 'fatal',
      `worker ${index} ended: ${error.stack ?? error.message}; ${next}`,
    )
    if (!willRestart) this.onFatal(error)
  }

  /** Totals over all workers and the main thread. */
  private async readStats(): Promise<[name: string, value: number][]> {
    await this.collectStats()
    return this.totals.sorted()
  }

  private async collectStats(): Promise<void> {
    const unresponsiveCount = await this.pool?.collectStats()
    this.totals.set('sluice.workers.unresponsive', unresponsiveCount ?? 0)
    if (!this.memoryTable) return
    this.totals.set('sluice.memory_store.live_evictions', getLiveEvictions(this.memoryTable))
    if (!this.hasPublicCounters) return
    this.totals.set('sluice.memory_store.public_live_evictions', getPublicLiveEvictions(this.memoryTable))
  }

  private reportEvictions(): void {
    if (!this.memoryTable) return
    const evictions = getLiveEvictions(this.memoryTable)
    const publicEvictions = getPublicLiveEvictions(this.memoryTable)
    const count = evictions - this.reportedEvictions
    const publicCount = publicEvictions - this.reportedPublicEvictions
    this.reportedEvictions = evictions
    this.reportedPublicEvictions = publicEvictions
    const evicted = 'counters were evicted before their windows ended'
    if (count !== 0)
      this.log('warning', `the memory store is full: ${count} ${evicted}. Raise MEMORY_STORE_BYTES.`)
    if (publicCount !== 0)
      this.log(
        'warning',
        `the memory store's part for the monitor's quotas is full: ${publicCount} ${evicted}. No other counters are affected. Use Redis to count more clients.`,
      )
  }

  private openDebugPort(port: number): DebugServer | null {
    const { settings, log } = this
    const workers = Array.from({ length: settings.WORKERS }, (_, index) => workerThread(index))
    return openDebugPort({
      ...{ settings, port, log, threads: ['main', ...workers] },
      rules: () => this.rules,
      loadFailure: () => this.loadFailure,
      stats: () => this.readStats(),
    })
  }
}

function storeUnreached(waitMs: number): string {
  const waited =
    waitMs === 0 ? 'Redis is not waited for' : `Redis did not respond within ${goDuration(waitMs)}`
  return `${waited} (STORE_START_WAIT): the ports open, and until it responds each rule answers by its on_store_error`
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
