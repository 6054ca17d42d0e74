/**
 * Generates thirty days of history in a minute. The planner of the monitor decides on a simulated clock when each site is
 * probed; a seeded random number and the site's incidents give the result; the monitor's code rolls up and evaluates.
 *
 *     planner.due ─► simulated probe ─► planner.finish ─► store ── each hour: flush, tick, evaluate ──► store
 *
 * The vantage in cn probes once per AGENT_EVERY probes of the server, which keeps the demo's start short.
 */
import evaluate from '../../../monitor/evaluation/job.ts'
import type { NetworkFacts, Observation, Probe } from '../../../monitor/facts.ts'
import { Planner } from '../../../monitor/scheduler/planner.ts'
import { toSightings } from '../../../monitor/service/sites.ts'
import type { Store } from '../../../monitor/storage/store.ts'
import type { DemoSite } from './sites.ts'

const HOUR_SEC = 3_600
const DAY_SEC = 24 * HOUR_SEC
const INTERVAL_SEC = 300
const AGENT_EVERY = 3
const AGENT_LATENCY_FACTOR = 1.7
const OUTCOME_SEC = 120 // a random outcome holds this long, so that a retry sees the same failure

export interface HistoryOptions {
  store: Store
  path: string // of its database
  sites: readonly DemoSite[]
  ids: Readonly<Record<string, number>>
  vantage: { id: number; name: string }
  agentId: number // vantage in cn
  observations: ReadonlyMap<string, Observation> // of a full probe of each site today
  days: number
  nowSec: number
  onProgress: (share: number) => void // 0 to 1
}

/** Returns the number of probes. */
export async function fillHistory(options: HistoryOptions): Promise<number> {
  const { store, sites, days, nowSec, onProgress } = options
  const startSec = Math.floor((nowSec - days * DAY_SEC) / HOUR_SEC) * HOUR_SEC
  const simulation = new HistorySimulation(options, startSec)
  for (let atSec = startSec; atSec < nowSec; atSec += HOUR_SEC) {
    const toSec = Math.min(atSec + HOUR_SEC, nowSec)
    for (const site of sites)
      if (site.ageDays === undefined || atSec >= nowSec - site.ageDays * DAY_SEC)
        simulation.addSite(site, atSec)
    simulation.run(toSec)
    simulation.markVantagesSeen(toSec)
    await store.flush()
    await store.tick(toSec)
    await simulation.evaluate(toSec)
    onProgress((toSec - startSec) / (nowSec - startSec))
  }
  await store.flush()
  return simulation.probesCount
}

class HistorySimulation {
  probesCount = 0
  private readonly options: HistoryOptions
  private readonly startSec: number
  private readonly planner: Planner
  private readonly known = new Map<string, DemoSite>()
  private nowMs = 0

  constructor(options: HistoryOptions, startSec: number) {
    this.options = options
    this.startSec = startSec
    const random = seededRandom('planner')
    let turn = 0
    this.planner = new Planner({ random: () => random(turn++) })
  }

  addSite(site: DemoSite, atSec: number): void {
    if (this.known.has(site.slug)) return
    this.known.set(site.slug, site)
    this.planner.put({ slug: site.slug, intervalMs: INTERVAL_SEC * 1_000 }, (atSec - this.startSec) * 1_000)
  }

  /** Makes all probes that are due before `toSec`. */
  run(toSec: number): void {
    const endMs = (toSec - this.startSec) * 1_000
    for (; this.nowMs < endMs; this.nowMs = Math.max(this.nowMs + 1, this.planner.wakeMs(this.nowMs))) {
      for (const { id, kind, key } of this.planner.due(this.nowMs)) this.probe(id, kind as Probe['kind'], key)
    }
    this.nowMs = endMs
  }

  markVantagesSeen(atSec: number): void {
    const { store, vantage, agentId } = this.options
    for (const vantageId of [vantage.id, agentId]) store.write({ kind: 'vantage-seen', vantageId, atSec })
  }

  async evaluate(nowSec: number): Promise<void> {
    const { store, path, vantage } = this.options
    const task = { path, nowSec, intervalSec: INTERVAL_SEC, ownVantage: vantage.name }
    for (const write of await evaluate(task)) store.write(write)
  }

  private probe(runId: number, kind: Probe['kind'], slug: string): void {
    const { store, ids, vantage, agentId, observations } = this.options
    const site = this.known.get(slug)!
    const atSec = this.startSec + Math.floor(this.nowMs / 1_000)
    const hoursAgo = (this.options.nowSec - atSec) / HOUR_SEC
    const probe = simulateProbe(site, kind, atSec, hoursAgo)
    if (this.planner.finish(runId, { outcome: probe.outcome }, this.nowMs) !== 'store') return
    this.probesCount++
    const siteId = ids[slug]
    store.write({ kind: 'probe', siteId, vantageId: vantage.id, probe })
    if (this.probesCount % AGENT_EVERY === 0)
      store.write({
        kind: 'probe',
        siteId,
        vantageId: agentId,
        probe: simulateCnProbe(probe, site, hoursAgo),
      })
    const today = observations.get(slug)
    if (kind === 'light' || probe.outcome === 'down' || !today) return
    const observation = { ...today, atSec, isParked: false, profile: withValidCertificate(today.profile) }
    store.write({
      kind: 'observation',
      siteId,
      observation,
      models: toSightings(observation),
    })
  }
}

/** A certificate that is invalid today was valid while the site was up. */
function withValidCertificate(profile: NetworkFacts): NetworkFacts {
  return { ...profile, tls: profile.tls && { ...profile.tls, isValid: true } }
}

/** The result of a probe `hoursAgo`. */
function simulateProbe(site: DemoSite, kind: Probe['kind'], atSec: number, hoursAgo: number): Probe {
  const incident = site.incidents?.find(
    ({ fromHours, toHours }) => hoursAgo <= fromHours && hoursAgo >= toHours,
  )
  const period = Math.floor(atSec / OUTCOME_SEC)
  const isUp = seededRandom(site.slug)(period) < site.upShare
  const error = incident?.error ?? (isUp ? null : site.error)
  if (error === null || error === 'slow' || error === 'challenge') {
    const timings = simulateTimings(site, atSec, error === 'slow' ? 1.6 : 1)
    const outcome = error === null ? 'up' : 'degraded'
    return { atSec, kind, outcome, error, httpStatus: error === 'challenge' ? 403 : 200, timings }
  }
  const httpStatus = error === 'http_5xx' ? 502 : error === 'http_4xx' ? 404 : error === 'parked' ? 200 : null
  const none = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null }
  return { atSec, kind, outcome: 'down', error, httpStatus, timings: none }
}

/** The result from the vantage in cn at the same second. */
function simulateCnProbe(probe: Probe, { blockedFromHours = -1 }: DemoSite, hoursAgo: number): Probe {
  if (hoursAgo <= blockedFromHours) {
    const timings = { ...probe.timings, tlsMs: null, ttfbMs: null, totalMs: null }
    return { ...probe, kind: 'light', outcome: 'down', error: 'tls_reset', httpStatus: null, timings }
  }
  const timings = Object.entries(probe.timings).map(([phase, ms]) => [
    phase,
    ms && Math.round(ms * AGENT_LATENCY_FACTOR),
  ])
  return { ...probe, kind: 'light', timings: Object.fromEntries(timings) }
}

/** Slower in the evenings of UTC+8, like real sites. */
function simulateTimings(
  { slug, ttfbMs, certificate }: DemoSite,
  atSec: number,
  factor: number,
): Probe['timings'] {
  const noise = seededRandom(`${slug} latency`)(atSec)
  const hour = ((atSec / HOUR_SEC + 8) % 24) - 21
  const eveningFactor = 1 + 0.35 * Math.exp(-(hour * hour) / 8)
  const ttfb = Math.round(
    ttfbMs * factor * eveningFactor * Math.exp(0.5 * (noise + seededRandom(slug)(atSec) - 1)),
  )
  const [dnsMs, connectMs] = [4 + Math.round(noise * 9), Math.round(ttfb * 0.12)]
  const tlsMs = certificate === 'none' ? null : Math.round(ttfb * 0.15)
  return { dnsMs, connectMs, tlsMs, ttfbMs: ttfb, totalMs: ttfb + 6 }
}

/** A number in [0, 1) for each integer; the same in every demo. */
function seededRandom(seed: string): (turn: number) => number {
  let base = 2_166_136_261
  for (const letter of seed) base = Math.imul(base ^ letter.charCodeAt(0), 16_777_619)
  return (turn) => {
    let x = Math.imul(base ^ (turn | 0), 2_654_435_769)
    x = Math.imul(x ^ (x >>> 15), 2_246_822_519)
    x = Math.imul(x ^ (x >>> 13), 3_266_489_917)
    return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32
  }
}
