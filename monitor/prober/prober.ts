/**
 * Probes sites and detections as the planner schedules them, and sends the results.
 *
 *     sites  ─► planner ─► due ─► light or full probe ─► planner: store, again, drop ─► connectivity check ─► sent
 *     detect ─► planner ─► due ─► detect, step by step ─► down? a connectivity check of its own ────────────► sent
 *
 * Keeps no results except failures whose minute is not checked yet (pending-results.ts). One timer is set to the planner's
 * next due time; after every run the planner is asked for the next.
 */
import { type KeyFile, readKey } from '../catalogue/key-file.ts'
import type { Egress } from '../egress/egress.ts'
import type { Outcome, Region } from '../facts.ts'
import { type DetectionOutcome as Detected, detect } from '../probe/detect.ts'
import { type FullProbeResult, fullProbe } from '../probe/full.ts'
import { lightProbe, type ProbeAttempt, type ProbeContext, type ProbeTarget } from '../probe/probe.ts'
import { Planner, type PlannerOptions, type Run } from '../scheduler/planner.ts'
import { getSlotNumber, inTurn } from '../scheduler/schedule.ts'
import { ConnectivityCheck } from './connectivity-check.ts'
import type { FromProber, ProberMetrics, ProberSite, ToProber } from './messages.ts'
import { type PendingResult, PendingResults } from './pending-results.ts'

const DETECTION_MS = 45_000
const WAKE_MAX_MS = 60_000

export interface ProberOptions {
  context: ProbeContext
  egress: Pick<Egress, 'visit' | 'denials'> & { optOut: Iterable<string> }
  region: Region
  vantage: string // its name, for the rotation
  isSingleVantage: boolean
  intervalSec: number // PROBE_INTERVAL_S
  lightMax: number // PROBE_CONCURRENCY
  detectionsMax: number // DETECTION_CONCURRENCY
  repeatsMax: number // PROBE_RETRIES
  connectivityUrls: readonly string[]
  planner?: Pick<PlannerOptions, 'isTurn' | 'fullMax'> // agents have their own rotation and make no full probes
  send: (message: FromProber) => void
}

interface RunningDetection {
  url: string
  abort: AbortController
}

export class Prober {
  private readonly options: ProberOptions
  private readonly planner: Planner
  private readonly connectivity: ConnectivityCheck
  private readonly pending: PendingResults
  private readonly closing = new AbortController()
  private sites = new Map<string, ProberSite>() // by slug
  private readonly detections = new Map<string, RunningDetection>() // bounded by the planner's queue and places
  private online: readonly string[] = [] // in its region; empty = this vantage probes every slot
  private isSingleVantage: boolean
  private readonly running = new Set<Promise<void>>()
  private timer: NodeJS.Timeout | undefined

  constructor(options: ProberOptions) {
    this.options = options
    const { lightMax, detectionsMax, repeatsMax, egress, context, connectivityUrls, send } = options
    this.planner = new Planner({
      random: Math.random,
      lightMax,
      detectionsMax,
      repeatsMax,
      isTurn: (slug, dueMs) => this.isTurn(slug, dueMs),
      ...options.planner,
    })
    this.connectivity = new ConnectivityCheck({
      urls: connectivityUrls,
      egress,
      nowSec: () => this.nowSec(),
      onChange: (isAnswering) => {
        const text = isAnswering
          ? 'the connectivity check addresses respond again'
          : 'the connectivity check addresses do not respond; until they do, failures of sites are not counted'
        send({ kind: 'log', level: 'warning', text })
      },
      onCheck: () => this.pending.releaseSettled(),
    })
    this.pending = new PendingResults(
      (probe) => this.connectivity.isSettled(probe),
      (found) => this.sendResult(found),
    )
    this.context = context
    this.isSingleVantage = options.isSingleVantage
  }

  private readonly context: ProbeContext

  receive(message: ToProber): void {
    if (message.kind === 'sites') this.setSites(message.sites, message.optOut)
    else if (message.kind === 'detect') this.detect(message.id, message.url, message.slug)
    else if (message.kind === 'cancel') this.cancel(message.id)
    else if (message.kind === 'turns') this.setTurns(message.online, message.isSingleVantage)
    else void this.close()
  }

  metrics(): ProberMetrics {
    const { starts, skippedSlots, lostRuns } = this.planner.totals
    const lagSec = Math.round(this.planner.lagMs('light', performance.now()) / 1_000)
    const denials = [...this.options.egress.denials]
    return {
      starts,
      skippedSlots,
      lostRuns,
      lagSec,
      denials,
      hasConnectivity: this.connectivity.isAnswering,
    }
  }

  /** Aborts what runs, without results; sends pending results. Resolves when everything has ended. */
  async close(): Promise<void> {
    this.closing.abort()
    clearTimeout(this.timer)
    this.connectivity.close()
    this.pending.releaseAll()
    for (const { abort } of this.detections.values()) abort.abort()
    await Promise.all(this.running)
  }

  private setSites(sites: readonly ProberSite[], optOut: readonly string[]): void {
    this.options.egress.optOut = optOut
    const before = this.sites
    this.sites = new Map(sites.map((site) => [site.slug, site]))
    for (const [slug, site] of before) {
      const next = this.sites.get(slug)
      // With another address it is a new site for the planner.
      if (next && next.apiBase === site.apiBase && next.url === site.url) continue
      this.planner.remove(slug)
      this.pending.drop(site.siteId)
    }
    const nowMs = performance.now()
    for (const site of sites) this.planner.put(this.toPlannedSite(site), nowMs)
    this.connectivity.isNeeded = sites.length > 0
    this.startDue()
  }

  private toPlannedSite({ slug, intervalSec, addresses, lastFullSec, downs, downSinceSec }: ProberSite) {
    const agoMs = (sec: number) => Math.max(0, this.nowSec() - sec) * 1_000
    return {
      slug,
      intervalMs: (intervalSec ?? this.options.intervalSec) * 1_000,
      addresses,
      lastFullAgoMs: lastFullSec === null ? null : agoMs(lastFullSec),
      downs,
      downForMs: downSinceSec === null ? 0 : agoMs(downSinceSec),
    }
  }

  private detect(id: string, url: string, slug: string | null): void {
    const isAccepted = this.planner.detect(id, slug ?? url, performance.now())
    if (isAccepted) this.detections.set(id, { url, abort: new AbortController() })
    else this.options.send({ kind: 'detected', id, result: null, failure: 'internal_error' })
    this.startDue()
  }

  private setTurns(online: readonly string[], isSingleVantage: boolean): void {
    this.online = online
    this.isSingleVantage = isSingleVantage
  }

  /** Slots are counted from the epoch, so that all vantages agree on them. */
  private isTurn(slug: string, dueMs: number): boolean {
    const { vantage, intervalSec } = this.options
    const atMs = this.context.nowMs() + dueMs - performance.now()
    const slot = getSlotNumber(atMs / 1_000, this.sites.get(slug)?.intervalSec ?? intervalSec)
    return this.online.length === 0 || inTurn(slug, slot, this.online).includes(vantage)
  }

  private cancel(id: string): void {
    this.detections.get(id)?.abort.abort()
    if (this.planner.cancel(id)) this.detections.delete(id)
  }

  /** Starts what is due, and sets the timer for the next. */
  private startDue(): void {
    if (this.closing.signal.aborted) return
    clearTimeout(this.timer)
    const nowMs = performance.now()
    for (const run of this.planner.due(nowMs)) {
      const ended = this.run(run)
        .catch((error: Error) => this.onUnexpectedError(run, error))
        .finally(() => {
          this.running.delete(ended)
          this.startDue()
        })
      this.running.add(ended)
    }
    const waitMs = Math.min(WAKE_MAX_MS, Math.max(1, this.planner.wakeMs(nowMs) - nowMs))
    this.timer = setTimeout(() => this.startDue(), waitMs)
  }

  private async run(run: Run): Promise<void> {
    if (run.kind === 'detection') return this.runDetection(run)
    const site = this.sites.get(run.key)
    if (!site) return this.finish(run, 'inconclusive')
    const target = await this.createTarget(site, run)
    const { signal } = this.closing
    if (run.kind === 'light') return this.report(run, site, await lightProbe(this.context, target, signal))
    this.report(run, site, await fullProbe(this.context, target, { signal }))
  }

  /** An incomplete full probe is planned again as an inconclusive one is; its outcome is stored. */
  private report(run: Run, site: ProberSite, attempt: ProbeAttempt & Partial<FullProbeResult>): void {
    if (this.closing.signal.aborted) return
    const { retryAfterMs, observation = null, isIncomplete = false } = attempt
    const { outcome: stored } = this.connectivity.evaluate(attempt.probe)
    const outcome = isIncomplete && stored !== 'down' ? 'inconclusive' : stored
    const verdict = this.planner.finish(run.id, { outcome, retryAfterMs }, performance.now())
    if (verdict === 'store') this.pending.add({ siteId: site.siteId, probe: attempt.probe, observation })
  }

  private sendResult({ siteId, probe: found, observation }: PendingResult): void {
    const probe = this.connectivity.evaluate(found)
    this.options.send({ kind: 'probe', siteId, probe })
    if (observation && probe.outcome !== 'inconclusive') {
      this.options.send({ kind: 'observation', siteId, observation })
    }
  }

  private async runDetection(run: Run): Promise<void> {
    const detection = this.detections.get(run.key)
    const { send, region } = this.options
    const { isSingleVantage } = this
    const id = run.key
    if (!detection) return this.finish(run, 'inconclusive')
    let isPostponed = false
    const signal = AbortSignal.any([detection.abort.signal, AbortSignal.timeout(DETECTION_MS)])
    const detected = await detect(this.context, {
      ...{ url: detection.url, region, isSingleVantage },
      signal,
      onStep: (step) => send({ kind: 'step', id, step }),
      onResolved: (addresses) => {
        isPostponed = !this.planner.resolved(run.id, addresses, performance.now())
        return !isPostponed
      },
    })
    if (isPostponed && !detection.abort.signal.aborted) return // it is back in the planner's queue
    const found = await this.confirmDown(detected, signal)
    this.finish(run, 'up')
    this.detections.delete(id)
    if (this.closing.signal.aborted) return
    const [result, failure] = found.status === 'done' ? [found.result, null] : [null, found.code]
    send({ kind: 'detected', id, result, failure })
  }

  /**
   * That a target is down is a finding only while this host has network. The finding is shown for minutes and, without sites,
   * no other check runs, so it must be confirmed by a check that begins after it. The run keeps its place until then.
   */
  private async confirmDown(detected: Detected, signal: AbortSignal): Promise<Detected> {
    if (detected.status !== 'done' || detected.result.probe.outcome !== 'down') return detected
    const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    const isAnswering = await Promise.race([this.connectivity.check(), aborted])
    if (signal.aborted) return { status: 'failed', code: 'deadline_exceeded' }
    const { outcome } = this.connectivity.evaluate(detected.result.probe)
    return isAnswering && outcome === 'down' ? detected : { status: 'failed', code: 'internal_error' }
  }

  private async createTarget(site: ProberSite, run: Run): Promise<ProbeTarget> {
    const { url, apiBase, extraPort, keyFile } = site
    return {
      ...{ url, apiBase, purpose: 'catalogue', extraPort: extraPort ?? undefined },
      key: run.kind === 'full' && keyFile !== null ? await this.readKey(keyFile, site.slug) : null,
      onResolved: (addresses) => this.planner.resolved(run.id, addresses, performance.now()),
    }
  }

  /** A site whose key cannot be read is probed without it. */
  private async readKey(file: KeyFile, slug: string): Promise<string | null> {
    try {
      return await readKey(file)
    } catch (error) {
      const text = `site ${slug}: its key file cannot be used, so it is probed without a key: ${(error as Error).message}`
      this.options.send({ kind: 'log', level: 'warning', text })
      return null
    }
  }

  /** An unexpected error: the run must not stay open, and its site is probed again like others. */
  private onUnexpectedError(run: Run, error: Error): void {
    this.finish(run, 'inconclusive')
    const { send } = this.options
    send({
      kind: 'log',
      level: 'error',
      text: `a ${run.kind} probe failed unexpectedly, please report it: ${error.stack}`,
    })
    if (run.kind !== 'detection' || !this.detections.delete(run.key)) return
    send({ kind: 'detected', id: run.key, result: null, failure: 'internal_error' })
  }

  private finish(run: Run, outcome: Outcome): void {
    this.planner.finish(run.id, { outcome }, performance.now())
  }

  private nowSec(): number {
    return Math.floor(this.context.nowMs() / 1_000)
  }
}
