/**
 * Thirty days in a minute: the real planner decides on a clock of its own when each site is looked at, chance and the site's
 * story say what would have been found, and everything after that is real: roll-ups, evaluations, tiers, boards.
 *
 *     planner.due ─► what the site was like then ─► planner.finish ─► store ── each hour: flush, tick, evaluate ──► store
 *
 * The place in cn looks once for every AGENT_EVERY looks of the server, which keeps the demo's start short.
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
const AGENT_SLOWER = 1.7 // its way to the relays is longer
const MOOD_SEC = 120 // for so long chance keeps to what it said, so that a failure is there when it is looked for again

export interface HistoryOptions {
  store: Store
  path: string // of its database
  sites: readonly DemoSite[]
  ids: Readonly<Record<string, number>>
  vantage: { id: number; name: string }
  agentId: number // vantage of the place in cn
  observations: ReadonlyMap<string, Observation> // what a full probe of each finds today
  days: number
  nowSec: number
  onProgress: (share: number) => void
}

/** Returns how many probes were made. */
export async function fillHistory(options: HistoryOptions): Promise<number> {
  const { store, sites, days, nowSec, onProgress } = options
  const startSec = Math.floor((nowSec - days * DAY_SEC) / HOUR_SEC) * HOUR_SEC
  const past = new Past(options, startSec)
  for (let atSec = startSec; atSec < nowSec; atSec += HOUR_SEC) {
    const toSec = Math.min(atSec + HOUR_SEC, nowSec)
    for (const site of sites)
      if (site.ageDays === undefined || atSec >= nowSec - site.ageDays * DAY_SEC) past.know(site, atSec)
    past.run(toSec)
    past.see(toSec)
    await store.flush()
    await store.tick(toSec)
    await past.judge(toSec)
    onProgress((toSec - startSec) / (nowSec - startSec))
  }
  await store.flush()
  return past.probesCount
}

class Past {
  probesCount = 0
  private readonly options: HistoryOptions
  private readonly startSec: number
  private readonly planner: Planner
  private readonly known = new Map<string, DemoSite>()
  private nowMs = 0

  constructor(options: HistoryOptions, startSec: number) {
    this.options = options
    this.startSec = startSec
    const chance = seededRandom('planner')
    let turn = 0
    this.planner = new Planner({ random: () => chance(turn++) })
  }

  know(site: DemoSite, atSec: number): void {
    if (this.known.has(site.slug)) return
    this.known.set(site.slug, site)
    this.planner.put({ slug: site.slug, intervalMs: INTERVAL_SEC * 1_000 }, (atSec - this.startSec) * 1_000)
  }

  /** Everything that the planner has due before `toSec`. */
  run(toSec: number): void {
    const endMs = (toSec - this.startSec) * 1_000
    for (; this.nowMs < endMs; this.nowMs = Math.max(this.nowMs + 1, this.planner.wakeMs(this.nowMs))) {
      for (const { id, kind, key } of this.planner.due(this.nowMs)) this.look(id, kind as Probe['kind'], key)
    }
    this.nowMs = endMs
  }

  /** Both places are online. */
  see(atSec: number): void {
    const { store, vantage, agentId } = this.options
    for (const vantageId of [vantage.id, agentId]) store.write({ kind: 'vantage-seen', vantageId, atSec })
  }

  async judge(nowSec: number): Promise<void> {
    const { store, path, vantage } = this.options
    const task = { path, nowSec, intervalSec: INTERVAL_SEC, ownVantage: vantage.name }
    for (const write of await evaluate(task)) store.write(write)
  }

  private look(runId: number, kind: Probe['kind'], slug: string): void {
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
      store.write({ kind: 'probe', siteId, vantageId: agentId, probe: fromCn(probe, site, hoursAgo) })
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

/** What is broken today was well while the site answered. */
function withValidCertificate(profile: NetworkFacts): NetworkFacts {
  return { ...profile, tls: profile.tls && { ...profile.tls, isValid: true } }
}

/** What a probe would have found `hoursAgo`. */
function simulateProbe(site: DemoSite, kind: Probe['kind'], atSec: number, hoursAgo: number): Probe {
  const chapter = site.story?.find(({ fromHours, toHours }) => hoursAgo <= fromHours && hoursAgo >= toHours)
  const mood = Math.floor(atSec / MOOD_SEC)
  const isUp = seededRandom(site.slug)(mood) < site.upShare
  const error = chapter?.error ?? (isUp ? null : site.error)
  if (error === null || error === 'slow' || error === 'challenge') {
    const timings = simulateTimings(site, atSec, error === 'slow' ? 1.6 : 1)
    const outcome = error === null ? 'up' : 'degraded'
    return { atSec, kind, outcome, error, httpStatus: error === 'challenge' ? 403 : 200, timings }
  }
  const httpStatus = error === 'http_5xx' ? 502 : error === 'http_4xx' ? 404 : error === 'parked' ? 200 : null
  const none = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null }
  return { atSec, kind, outcome: 'down', error, httpStatus, timings: none }
}

/** What the place in cn found in the same second. */
function fromCn(probe: Probe, { blockedFromHours = -1 }: DemoSite, hoursAgo: number): Probe {
  if (hoursAgo <= blockedFromHours) {
    const timings = { ...probe.timings, tlsMs: null, ttfbMs: null, totalMs: null }
    return { ...probe, kind: 'light', outcome: 'down', error: 'tls_reset', httpStatus: null, timings }
  }
  const slower = Object.entries(probe.timings).map(([phase, ms]) => [
    phase,
    ms && Math.round(ms * AGENT_SLOWER),
  ])
  return { ...probe, kind: 'light', timings: Object.fromEntries(slower) }
}

/** Slower in the evenings of UTC+8, as such sites are. */
function simulateTimings(
  { slug, ttfbMs, certificate }: DemoSite,
  atSec: number,
  factor: number,
): Probe['timings'] {
  const chance = seededRandom(`${slug} latency`)(atSec)
  const hour = ((atSec / HOUR_SEC + 8) % 24) - 21
  const wave = 1 + 0.35 * Math.exp(-(hour * hour) / 8)
  const ttfb = Math.round(ttfbMs * factor * wave * Math.exp(0.5 * (chance + seededRandom(slug)(atSec) - 1)))
  const [dnsMs, connectMs] = [4 + Math.round(chance * 9), Math.round(ttfb * 0.12)]
  const tlsMs = certificate === 'none' ? null : Math.round(ttfb * 0.15)
  return { dnsMs, connectMs, tlsMs, ttfbMs: ttfb, totalMs: ttfb + 6 }
}

/** The same numbers in every demo: 0 to 1 for each whole number, 1 excluded. */
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
