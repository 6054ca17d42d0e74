/**
 * The composition of the monitor: store, engine, API, prober, catalogue, evaluations, screenshots and agents.
 *
 *     open    store ─► engine ─► port ─► catalogue ─► prober
 *     drain   not ready ─► responses sent ─► prober, screenshots ─► evaluations ─► store ─► port
 */
import type { RulesImage } from '../../engine/config/rules.ts'
import type { Engine } from '../../engine/decision/engine.ts'
import { openEngine } from '../../engine/open-engine.ts'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { Stats } from '../../engine/stats/stats.ts'
import type { CounterStore } from '../../engine/stores/counter-store.ts'
import { Api } from '../api/api.ts'
import { ClientConnections } from '../api/client-connections.ts'
import { defaultRules, quotaRules } from '../api/default-rules.ts'
import { ApiError } from '../api/errors.ts'
import type { RequestLine } from '../api/options.ts'
import type { QuotaKind } from '../api/quota.ts'
import type { OpenedPort, OpenPort } from '../api/sockets.ts'
import { DetectionQueue } from '../detections/detection-queue.ts'
import { DetectionRunner } from '../detections/detection-runner.ts'
import { Egress, egressSettings } from '../egress/egress.ts'
import type { FromProber } from '../prober/messages.ts'
import { findBrowser } from '../screenshots/find-browser.ts'
import { ImageCache } from '../screenshots/image-cache.ts'
import { imagesFolder } from '../screenshots/image-files.ts'
import { toOwner } from '../screenshots/run-folder.ts'
import { Screenshots } from '../screenshots/screenshots.ts'
import { WebSite } from '../site/web-site.ts'
import { databasePath } from '../storage/path.ts'
import type { Write } from '../storage/rows.ts'
import { openStore, type Store } from '../storage/store.ts'
import { Agents, type AgentsOptions } from './agents.ts'
import { CatalogueSync } from './catalogue-sync.ts'
import { dispatch } from './dispatch.ts'
import { Evaluations } from './evaluations.ts'
import type { FromMonitor, MonitorTask } from './messages.ts'
import { collectGauges, Metrics } from './metrics.ts'
import { type MonitorOptions, monitorOptions, ownHosts } from './options.ts'
import { ProberSupervisor } from './prober-supervisor.ts'
import { type PlacedSite, toSightings } from './sites.ts'
import { Ticks } from './ticks.ts'

interface MonitorParts {
  task: MonitorTask
  options: MonitorOptions
  store: Store
  vantageId: number
  engine: Engine
  counters: CounterStore
  stats: Stats
  builtInRules: RulesImage
  send: (message: FromMonitor) => void
  log: Log
}

export class MonitorService {
  private readonly parts: MonitorParts
  private readonly ownVantage: string | null // null = nothing is probed from here
  private readonly egress: Egress // checks submitted URLs; sends no request
  private readonly queue: DetectionQueue
  private readonly detections: DetectionRunner
  private readonly api: Api
  private readonly site: WebSite
  private readonly metrics: Metrics
  private readonly connections: ClientConnections
  private readonly evaluations: Evaluations
  private readonly screenshots: Screenshots
  private readonly sites: CatalogueSync
  private readonly opened: OpenedPort
  private readonly ticks: Ticks
  private readonly prober: ProberSupervisor
  private readonly agents: Agents | null
  private readonly refusals = new Map<string, number>() // of submitted URLs: reason → count
  private hasBegun = false
  private isEnding = false

  /** Resolves when the port is open and the catalogue was read once. Throws ConfigurationError. */
  static async open(
    task: MonitorTask,
    openPort: OpenPort,
    send: (message: FromMonitor) => void,
    log: Log,
  ): Promise<MonitorService> {
    const { settings, memoryTable } = task
    const options = monitorOptions(settings, process.env)
    const path = databasePath(settings.MONITOR_DATA_DIR)
    const store = await openStore({ path, log, isRunner: true })
    const { VANTAGE_NAME: name, VANTAGE_REGION: region, VANTAGE_COUNTRY: country } = settings
    const vantageId = await store.request({ kind: 'vantage', name, region, country: country || null })
    const stats = new Stats()
    // Quotas are few requests, each on its own: polling or delaying the replies of Redis would gain nothing.
    const { engine, store: counters } = await openEngine(
      { ...settings, REDIS_BUSY_POLL: 0, REDIS_REPLY_COALESCE_DELAY: 0 },
      { memoryTable, stats, log, decisionsStat: 'sluice.monitor.decisions' },
    )
    const builtInRules = await defaultRules()
    const parts = { task, options, store, vantageId, engine, counters, stats, builtInRules, send, log }
    const monitor = new MonitorService(parts, openPort)
    monitor.queue.restore(await store.request({ kind: 'restart-detections', nowSec: nowSec() }))
    await monitor.sites.start()
    monitor.begin()
    return monitor
  }

  private constructor(parts: MonitorParts, openPort: OpenPort) {
    const { task, options, store, engine, builtInRules, log } = parts
    const { settings, version } = task
    this.parts = parts
    this.ownVantage = settings.PROBER_ENABLED ? settings.VANTAGE_NAME : null
    this.metrics = new Metrics(parts.stats)
    this.connections = new ClientConnections(options.address)
    engine.setRules(quotaRules(task.rules, builtInRules))
    this.egress = new Egress({ settings: egressSettings(process.env), version, ownHosts: ownHosts(settings) })
    this.prober = new ProberSupervisor(
      { settings, version, ownHosts: ownHosts(settings) },
      { log, message: (message) => this.onProberMessage(message), lost: () => this.onProberLost() },
    )
    this.queue = new DetectionQueue({
      ...{ store, nowMs: Date.now, onQueued: () => this.startDetections() },
      reuseSec: settings.DETECTION_REUSE_S,
      queueMax: settings.DETECTION_QUEUE,
      runningMax: settings.DETECTION_CONCURRENCY,
    })
    this.detections = new DetectionRunner(
      this.queue,
      settings.VANTAGE_NAME,
      this.prober,
      ({ host }) => this.sites.findSlug(host), // the prober runs no two probes of a site at once
    )
    this.screenshots = this.createScreenshots()
    this.api = this.createApi()
    this.site = this.createSite()
    this.evaluations = new Evaluations({
      ...{ store, nowSec, log, ownVantage: this.ownVantage },
      path: databasePath(settings.MONITOR_DATA_DIR),
      intervalSec: settings.PROBE_INTERVAL_S,
    })
    this.sites = new CatalogueSync({
      ...{ store, path: settings.CATALOGUE_PATH, ports: options.ports, nowSec, log },
      onSites: (sites, optOut) => this.setSites(sites, optOut),
    })
    this.opened = this.openPublicPort(openPort)
    this.agents = this.openAgents(openPort)
    this.ticks = new Ticks({
      ...{ store, nowSec, log, agents: this.agents, prober: this.prober, connections: this.connections },
      vantageId: settings.PROBER_ENABLED ? parts.vantageId : null,
      detections: this.queue,
      startDetections: () => this.startDetections(),
      sendStats: () => this.sendStats(),
    })
  }

  get port(): number {
    return this.opened.port
  }

  setRules(rules: RulesImage): void {
    this.parts.engine.setRules(quotaRules(rules, this.parts.builtInRules))
  }

  beginShutdown(): void {
    this.isEnding = true
    this.api.beginShutdown()
    this.agents?.beginShutdown()
  }

  async drain(timeoutMs: number): Promise<void> {
    this.beginShutdown()
    this.opened.stopListening()
    this.ticks.stop()
    await this.sites.close()
    await this.api.drain(timeoutMs)
    await Promise.all([this.prober.close(), this.screenshots.close()])
    await this.evaluations.close()
    this.agents?.close()
    const lostCount = await this.parts.store.close()
    if (lostCount > 0)
      this.parts.log('error', `${lostCount} writes of the monitor were lost: the disk refused them`)
    this.opened.close()
    await this.parts.counters.close()
    this.sendStats()
  }

  private begin(): void {
    const { PROBER_ENABLED, DETECTIONS_ENABLED } = this.parts.task.settings
    if (PROBER_ENABLED || DETECTIONS_ENABLED) this.prober.start()
    if (PROBER_ENABLED || this.agents) this.evaluations.start()
    this.screenshots.start()
    this.hasBegun = true
    this.startDetections()
  }

  private createApi(): Api {
    const { settings, version } = this.parts.task
    return new Api({
      ...this.publicOptions(),
      version,
      hasDraftFields: settings.RATELIMIT_DRAFT_FIELDS,
      hasScreenshots: () => this.screenshots.isEnabled,
    })
  }

  private createScreenshots(): Screenshots {
    const { task, store, log } = this.parts
    const { settings, version } = task
    return new Screenshots({
      ...{ store, version, nowSec, log, ownHosts: ownHosts(settings) },
      browser: findBrowser(settings, process.env),
      folder: imagesFolder(settings.MONITOR_DATA_DIR),
      owner: toOwner(settings.MONITOR_DATA_DIR, 'monitor'),
      onResult: (result) => this.metrics.screenshot(result),
    })
  }

  private createSite(): WebSite {
    const { store, task } = this.parts
    const images = new ImageCache(store, imagesFolder(task.settings.MONITOR_DATA_DIR))
    return new WebSite({
      ...this.publicOptions(),
      images,
      userAgent: this.egress.userAgent,
      hasScreenshots: () => this.screenshots.isEnabled,
    })
  }

  /** What the API and the web site share. */
  private publicOptions() {
    const { task, options, store, engine, log } = this.parts
    const { settings } = task
    return {
      limiter: engine,
      nowMs: Date.now,
      snapshot: () => (this.isLoaded ? store.snapshot : null),
      details: store,
      detections: this.queue,
      checkUrl: (url: string) => this.checkUrl(url),
      hasDetections: settings.DETECTIONS_ENABLED,
      probeIntervalSec: settings.PROBE_INTERVAL_S,
      address: options.address,
      isSharedCache: settings.API_SHARED_CACHE,
      supportEmail: settings.SUPPORT_EMAIL,
      publicBaseUrl: options.publicBaseUrl,
      log,
      onRequest: (line: RequestLine) => {
        this.metrics.request(line)
        const { requestId: request_id, ...fields } = line
        log('info', 'monitor request', { request_id, ...fields })
      },
      onLimited: (quotaClass: string) => this.metrics.limited(quotaClass),
      onQuotaFailure: (kind: QuotaKind) => this.metrics.quotaFailed(kind),
    }
  }

  private openPublicPort(openPort: OpenPort): OpenedPort {
    const { options, task } = this.parts
    const { settings } = task
    const destinations = {
      api: this.api,
      site: this.site,
      isReady: () => this.isLoaded && !this.isEnding,
    }
    const opened = openPort(options.host, options.port, (app) =>
      this.connections.serve(app, (res, req) => dispatch(res, req, destinations)),
    )
    if (opened !== null) return opened
    const where = `MONITOR_ADDR ${settings.MONITOR_ADDR}`
    const fix = 'Stop the process that listens there, or set another address.'
    throw new ConfigurationError({ code: 'PORT_IN_USE', where, what: 'cannot be listened on.', fix })
  }

  private openAgents(openPort: OpenPort): Agents | null {
    const { options, store, task, log } = this.parts
    if (!options.agents) return null
    const { PROBE_INTERVAL_S: intervalSec, VANTAGE_REGION: region } = task.settings
    return new Agents(openPort, {
      ...options.agents,
      ...{ region, intervalSec, ownVantage: this.ownVantage, address: options.address },
      ...{ store: this.observeProbes(store), nowMs: Date.now, log },
    })
  }

  /** The store as agents use it: each probe they write is also counted and reported to the evaluations. */
  private observeProbes(store: Store): AgentsOptions['store'] {
    const write = (each: Write) => {
      store.write(each)
      if (each.kind !== 'probe') return
      this.evaluations.probed(each.siteId)
      const agent = store.snapshot.agents.find(({ vantageId }) => vantageId === each.vantageId)
      if (agent) this.metrics.probe(agent.region, each.probe)
    }
    return {
      get snapshot() {
        return store.snapshot
      },
      write,
      read: (...query) => store.read(...query),
      metrics: () => store.metrics(),
    }
  }

  /** Hosts that opted out are neither shown nor probed, so nothing is before the opt-outs are known. */
  private get isLoaded(): boolean {
    return this.hasBegun && this.sites.catalogue !== null
  }

  private checkUrl(url: string): ReturnType<Egress['check']> {
    if (!this.isLoaded) throw new ApiError('not_ready', 'the catalogue is not loaded yet')
    const checked = this.egress.check(url)
    if ('refusal' in checked) {
      const { reason } = checked.refusal
      this.refusals.set(reason, (this.refusals.get(reason) ?? 0) + 1)
    }
    return checked
  }

  private startDetections(): void {
    if (this.isLoaded) this.detections.start()
  }

  private setSites(all: PlacedSite[], optOut: string[]): void {
    const { PROBER_ENABLED, VANTAGE_REGION } = this.parts.task.settings
    const probedHere = PROBER_ENABLED ? all.filter(({ regions }) => regions.includes(VANTAGE_REGION)) : []
    this.egress.optOut = optOut
    this.agents?.setSites(all, optOut)
    this.prober.setSites({ kind: 'sites', sites: probedHere, optOut })
    this.screenshots.setSites(
      all.filter(({ hasScreenshot }) => hasScreenshot),
      optOut,
    )
  }

  private onProberMessage(message: FromProber): void {
    const { store, vantageId } = this.parts
    if (message.kind === 'step') this.detections.step(message)
    else if (message.kind === 'detected') this.detections.ended(message)
    else if (message.kind === 'observation') {
      const { siteId, observation } = message
      const models = toSightings(observation)
      store.write({ kind: 'observation', siteId, observation, models })
    } else if (message.kind === 'probe') {
      store.write({ kind: 'probe', siteId: message.siteId, vantageId, probe: message.probe })
      this.metrics.probe(this.parts.task.settings.VANTAGE_REGION, message.probe)
      this.evaluations.probed(message.siteId)
    }
  }

  private onProberLost(): void {
    this.detections.lost()
    this.sites.renew() // the next prober starts with what this one measured
  }

  private sendStats(): void {
    const { store, stats, send } = this.parts
    const gauges = collectGauges({
      prober: this.prober.metrics,
      denials: [this.refusals, this.screenshots.denials],
      hasScreenshots: this.screenshots.isEnabled,
      vantages: store.snapshot.vantages,
      nowSec: nowSec(),
      store: store.metrics(),
      agents: this.agents?.metrics() ?? {},
      refusedConnections: this.connections.refusedCount,
      sites: this.sites.catalogue?.entries.length ?? 0,
      catalogueErrors: this.sites.errorsCount,
      detections: { ...this.queue.counts, held: this.queue.waiting.count },
    })
    send({ kind: 'stats', deltas: stats.takeDeltas(), gauges })
  }
}

function nowSec(): number {
  return Math.floor(Date.now() / 1_000)
}
