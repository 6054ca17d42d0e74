/**
 * The composition of the monitor's thread, around one port. No socket library is loaded here: the caller passes `openPort`.
 *
 *     start   store ─► engine ─► port ─► catalogue ─► prober
 *     drain   not ready ─► requests answered ─► prober ─► evaluation ─► store ─► port
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { RulesImage } from '../../engine/config/rules.ts'
import type { Engine } from '../../engine/decision/engine.ts'
import { openEngine } from '../../engine/open-engine.ts'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { endHeadResponse, endResponse } from '../../engine/runtime/http-response.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { Stats } from '../../engine/stats/stats.ts'
import type { CounterStore } from '../../engine/stores/counter-store.ts'
import type { AgentApiOptions } from '../agent/agent-api.ts'
import { Api } from '../api/api.ts'
import { ClientConnections } from '../api/client-connections.ts'
import { defaultRules, quotaRules } from '../api/default-rules.ts'
import { ApiError } from '../api/errors.ts'
import type { HttpRequest, HttpResponse, ServedApp } from '../api/sockets.ts'
import { DetectionQueue } from '../detections/detection-queue.ts'
import { DetectionRunner } from '../detections/detection-runner.ts'
import { Egress, egressSettings } from '../egress/egress.ts'
import type { FromProber } from '../prober/messages.ts'
import { plainPages } from '../site/plain-pages.ts'
import { databasePath } from '../storage/path.ts'
import type { Write } from '../storage/rows.ts'
import { openStore, type Store } from '../storage/store.ts'
import { Agents } from './agents.ts'
import { CatalogueSync, type PlacedSite } from './catalogue-sync.ts'
import { Evaluations } from './evaluations.ts'
import { HEALTH_CHECKS } from './health-checks.ts'
import type { FromMonitor, MonitorTask, ToMonitor } from './messages.ts'
import { collectGauges, Metrics } from './metrics.ts'
import { type MonitorOptions, monitorOptions, ownHosts } from './options.ts'
import { ProberSupervisor } from './prober-supervisor.ts'
import { toSightings } from './sites.ts'

const TICK_MS = 1_000
const SEEN_TICKS = 10 // between two times that this place says that it probes
const FULL_TICKS = 60 // between two lines that connections are refused

/** A port that can be opened; transports/uws.ts has it. Null: somebody else holds it. */
export type OpenPort = (
  host: string,
  port: number,
  addRoutes: (app: ServedApp) => void,
) => { readonly port: number; stopListening(): void; close(): void } | null

/** The whole life of the thread: resolves when it has drained. Rejects when it cannot start. */
export async function runMonitorThread(openPort: OpenPort): Promise<void> {
  const port = parentPort as MessagePort
  const send = (message: FromMonitor) => port.postMessage(message)
  const log: Log = (level, text, fields) => send({ kind: 'log', level, text, fields })
  const monitor = await MonitorService.open(workerData as MonitorTask, openPort, send, log)
  const timeoutMs = await new Promise<number>((resolve) => {
    port.on('message', (message: ToMonitor) => {
      if (message.kind === 'rules') monitor.setRules(message.rules)
      else if (message.kind === 'ending') monitor.beginShutdown()
      else resolve(message.timeoutMs)
    })
    send({ kind: 'ready', port: monitor.port })
  })
  await monitor.drain(timeoutMs)
  port.close()
}

interface MonitorParts {
  task: MonitorTask
  options: MonitorOptions
  store: Store
  vantageId: number
  engine: Engine
  counters: CounterStore
  stats: Stats
  builtInRules: RulesImage
}

class MonitorService {
  private readonly parts: MonitorParts
  private readonly send: (message: FromMonitor) => void
  private readonly log: Log
  private readonly egress: Egress // asks nobody here: for what can be said without
  private readonly desk: DetectionQueue
  private readonly detections: DetectionRunner
  private readonly api: Api
  private readonly metrics: Metrics
  private readonly connections: ClientConnections
  private readonly evaluations: Evaluations
  private readonly sites: CatalogueSync
  private readonly opened: NonNullable<ReturnType<OpenPort>>
  private readonly ticks: NodeJS.Timeout
  private readonly prober: ProberSupervisor
  private readonly pages: ReturnType<typeof plainPages>
  private readonly agents: Agents | null
  private readonly refusals = new Map<string, number>() // of submitted addresses: reason → how many
  private ticksCount = 0
  private reportedFull = 0 // connections that were refused
  private hasBegun = false
  private isEnding = false

  static async open(
    task: MonitorTask,
    openPort: OpenPort,
    say: (message: FromMonitor) => void,
    log: Log,
  ): Promise<MonitorService> {
    const { settings, memoryTable } = task
    const options = monitorOptions(settings, process.env)
    const path = databasePath(settings.MONITOR_DATA_DIR)
    const store = await openStore({ path, log, isRunner: true })
    const { VANTAGE_NAME: name, VANTAGE_REGION: region, VANTAGE_COUNTRY: country } = settings
    const vantageId = await store.ask({ kind: 'vantage', name, region, country: country || null })
    const stats = new Stats()
    // Few questions, each alone: this thread sleeps while it waits for Redis.
    const opened = await openEngine(
      { ...settings, REDIS_BUSY_POLL: 0, REDIS_REPLY_COALESCE_DELAY: 0 },
      {
        ...{ memoryTable, stats, log },
        decisionsStat: 'sluice.monitor.decisions',
      },
    )
    const builtInRules = await defaultRules()
    const { engine, store: counters } = opened
    const parts = { task, options, store, vantageId, engine, counters, stats, builtInRules }
    const monitor = new MonitorService(parts, openPort, say, log)
    monitor.desk.restore(await store.ask({ kind: 'restart-detections', nowSec: nowSec() }))
    await monitor.sites.start()
    monitor.begin()
    return monitor
  }

  private constructor(
    parts: MonitorParts,
    openPort: OpenPort,
    send: (message: FromMonitor) => void,
    log: Log,
  ) {
    const { task, options, store, engine, builtInRules } = parts
    const { settings, version } = task
    this.parts = parts
    this.send = send
    this.log = log
    this.metrics = new Metrics(parts.stats)
    this.connections = new ClientConnections(options.address)
    engine.setRules(quotaRules(task.rules, builtInRules))
    this.egress = new Egress({ settings: egressSettings(process.env), version, ownHosts: ownHosts(settings) })
    this.pages = plainPages({
      intervalSec: settings.PROBE_INTERVAL_S,
      userAgent: this.egress.userAgent,
      supportEmail: settings.SUPPORT_EMAIL,
    })
    this.prober = new ProberSupervisor(
      { settings, version, ownHosts: ownHosts(settings) },
      { log, message: (message) => this.receive(message), lost: () => this.proberLost() },
    )
    this.desk = new DetectionQueue({
      ...{ store, nowMs: Date.now, onQueued: () => this.startDetections() },
      reuseSec: settings.DETECTION_REUSE_S,
      queueMax: settings.DETECTION_QUEUE,
      runningMax: settings.DETECTION_CONCURRENCY,
    })
    this.detections = new DetectionRunner(
      this.desk,
      settings.VANTAGE_NAME,
      this.prober,
      ({ host }) => this.sites.findSlug(host), // so that no two probes of a site run at once
    )
    this.api = new Api({
      limiter: engine,
      nowMs: Date.now,
      snapshot: () => (this.isLoaded ? store.snapshot : null),
      details: store,
      detections: this.desk,
      checkUrl: (url) => this.checked(url),
      address: options.address,
      version,
      hasDetections: settings.DETECTIONS_ENABLED,
      hasDraftFields: settings.RATELIMIT_DRAFT_FIELDS,
      isSharedCache: settings.API_SHARED_CACHE,
      supportEmail: settings.SUPPORT_EMAIL,
      publicBaseUrl: options.publicBaseUrl,
      probeIntervalSec: settings.PROBE_INTERVAL_S,
      log,
      onRequest: (line) => {
        this.metrics.request(line)
        const { requestId: request_id, ...fields } = line
        log('info', 'monitor request', { request_id, ...fields })
      },
      onLimited: (quotaClass) => this.metrics.limited(quotaClass),
      onQuotaFailure: (kind) => this.metrics.quotaFailed(kind),
    })
    this.evaluations = new Evaluations({
      ...{ store, nowSec, log },
      path: databasePath(settings.MONITOR_DATA_DIR),
      intervalSec: settings.PROBE_INTERVAL_S,
      ownVantage: this.ownVantage,
    })
    this.sites = new CatalogueSync({
      ...{ store, path: settings.CATALOGUE_PATH, ports: options.ports, nowSec, log },
      onSites: (sites, optOut) => this.setSites(sites, optOut),
    })
    const port = openPort(options.host, options.port, (app) =>
      this.connections.serve(app, (res, req) => this.handleRequest(res, req)),
    )
    if (port === null) {
      const where = `MONITOR_ADDR ${settings.MONITOR_ADDR}`
      const fix = 'Stop what listens there, or set another address.'
      throw new ConfigurationError({ code: 'PORT_IN_USE', where, what: 'cannot be listened on.', fix })
    }
    this.opened = port
    this.agents = this.openAgents(openPort)
    this.ticks = setInterval(() => this.tick(), TICK_MS)
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
    clearInterval(this.ticks)
    await this.sites.close()
    await this.api.drain(timeoutMs)
    await this.prober.close()
    await this.evaluations.close()
    this.agents?.close()
    const lost = await this.parts.store.close()
    if (lost > 0) this.log('error', `the monitor ends with ${lost} writes that the disk did not take`)
    this.opened.close()
    await this.parts.counters.close()
    this.sendStats()
  }

  private begin(): void {
    const { PROBER_ENABLED, DETECTIONS_ENABLED } = this.parts.task.settings
    if (PROBER_ENABLED || DETECTIONS_ENABLED) this.prober.start()
    if (PROBER_ENABLED || this.agents) this.evaluations.start()
    this.hasBegun = true
    this.startDetections()
  }

  /** Whoever has opted out is neither shown nor looked at, so nobody is before the opt-outs are known. */
  private get isLoaded(): boolean {
    return this.hasBegun && this.sites.catalogue !== null
  }

  private checked(url: string): ReturnType<Egress['check']> {
    if (!this.isLoaded) throw new ApiError('not_ready', 'the catalogue is not loaded yet')
    const found = this.egress.check(url)
    if ('refusal' in found) {
      const { reason } = found.refusal
      this.refusals.set(reason, (this.refusals.get(reason) ?? 0) + 1)
    }
    return found
  }

  private startDetections(): void {
    if (this.isLoaded) this.detections.start()
  }

  private get ownVantage(): string | null {
    const { PROBER_ENABLED, VANTAGE_NAME } = this.parts.task.settings
    return PROBER_ENABLED ? VANTAGE_NAME : null
  }

  private openAgents(openPort: OpenPort): Agents | null {
    const { options, store, task } = this.parts
    if (!options.agents) return null
    const { PROBE_INTERVAL_S: intervalSec, VANTAGE_REGION: region } = task.settings
    return new Agents(openPort, {
      ...options.agents,
      ...{ region, intervalSec, ownVantage: this.ownVantage, address: options.address },
      ...{ store: this.noticing(store), nowMs: Date.now, log: this.log },
    })
  }

  /** The store, where a site's first probe is noticed, whoever made it. */
  private noticing(store: Store): AgentApiOptions['store'] {
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
      read: (...question) => store.read(...question),
      metrics: () => store.metrics(),
    }
  }

  private handleRequest(res: HttpResponse, req: HttpRequest): void {
    const path = req.getUrl()
    if (path === '/api' || path.startsWith('/api/')) this.api.handle(res, req)
    else this.respondPlain(res, path, req.getCaseSensitiveMethod() === 'HEAD')
  }

  private respondPlain(res: HttpResponse, path: string, isHead: boolean): void {
    const [status, line] = this.plainAnswer(path)
    const text = `${line}\n`
    res.cork(() => {
      res.writeStatus(status)
      res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
      res.writeHeader('X-Content-Type-Options', 'nosniff')
      if (isHead) endHeadResponse(res, Buffer.byteLength(text))
      else endResponse(res, text, false)
    })
  }

  private plainAnswer(path: string): [status: string, line: string] {
    if (Object.hasOwn(HEALTH_CHECKS, path)) return HEALTH_CHECKS[path](this.isLoaded && !this.isEnding)
    if (Object.hasOwn(this.pages, path)) return ['200 OK', this.pages[path].trimEnd()]
    return ['404 Not Found', 'The API is below /api/v1.']
  }

  private tick(): void {
    const { store, vantageId, task } = this.parts
    void store.tick(nowSec())
    this.desk.tick()
    this.startDetections()
    if (this.ticksCount++ % SEEN_TICKS === 0) {
      if (task.settings.PROBER_ENABLED) store.write({ kind: 'vantage-seen', vantageId, atSec: nowSec() })
      if (this.agents) this.prober.send(this.agents.turns())
    }
    if (this.ticksCount % FULL_TICKS === 1) this.reportFull()
    this.sendStats()
  }

  private reportFull(): void {
    const { allMax, fullCount } = this.connections
    const count = fullCount - this.reportedFull
    this.reportedFull = fullCount
    if (count > 0)
      this.log(
        'warning',
        `the monitor has ${allMax} connections, as many as it takes: ${count} more were closed`,
      )
  }

  private sendStats(): void {
    const gauges = collectGauges({
      prober: this.prober.metrics,
      denials: this.refusals,
      vantages: this.parts.store.snapshot.vantages,
      nowSec: nowSec(),
      store: this.parts.store.metrics(),
      agents: this.agents?.metrics() ?? {},
      refusedConnections: this.connections.refusedCount,
      sites: this.sites.catalogue?.entries.length ?? 0,
      catalogueErrors: this.sites.errorsCount,
      detections: { ...this.desk.counts, held: this.desk.waiting.count },
    })
    this.send({ kind: 'stats', deltas: this.parts.stats.takeDeltas(), gauges })
  }

  private setSites(all: PlacedSite[], optOut: string[]): void {
    const { PROBER_ENABLED, VANTAGE_REGION } = this.parts.task.settings
    const ours = PROBER_ENABLED ? all.filter(({ regions }) => regions.includes(VANTAGE_REGION)) : []
    this.egress.optOut = optOut
    this.agents?.setSites(all, optOut)
    this.prober.setSites({ kind: 'sites', sites: ours, optOut })
  }

  private proberLost(): void {
    this.detections.lost()
    this.sites.renew() // the next one begins with what this one has seen
  }

  private receive(message: FromProber): void {
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
}

function nowSec(): number {
  return Math.floor(Date.now() / 1_000)
}
