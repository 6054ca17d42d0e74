/**
 * The results of probing one demo site from one region, at any time of its history.
 *
 *     incident, outage? ─► its error     block (cn)? ─► dns_bogus, tls_reset     isolated failure? ─► one of its errors     else ─► up
 *
 * Failures of the site are the same in both regions, those of the path to it are not. Isolated failures are at least 16 minutes
 * apart, so they never make up 2 of 3 results: only incidents and outages change the state of a region. Latency follows the
 * evening of UTC+8. Everything is a function of site, region and time, so a retry sees the same and every demo is alike.
 */
import type { ErrorCode, Probe, Region, Timings } from '../../../monitor/facts.ts'
import { DAY_SEC, HOUR_SEC } from '../../../monitor/scoring/bucket.ts'
import { type DemoIncident, type DemoSite, SLOW_FACTOR } from './sites.ts'

const SLOT_SEC = 1_200 // has at most one isolated failure
const FAILURE_SEC = 240 // less than between two probes
const PATH_FAILING: Record<Region, number> = { cn: 0.006, overseas: 0.0005 } // share of probes lost on the path
const PATH_ERRORS: readonly ErrorCode[] = ['connect_timeout', 'tls_timeout', 'dns_timeout', 'http_timeout']
const PEAK_HOURS = { first: 19, last: 22 } // UTC+8
const DEGRADING: readonly ErrorCode[] = ['slow', 'challenge', 'http_429']
const NOT_MEASURED: Timings = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null }
const RETRANSMIT_MS = 1_000 // what a lost first packet costs
const LOST_SHARE = 1 / 400
const OUTAGES_HOURS = 31 * 24
const STATUSES: Partial<Record<ErrorCode, number>> = {
  ...{ http_5xx: 502, http_4xx: 404, http_429: 429, challenge: 403, parked: 200, slow: 200 },
}

export class SimulatedRegion {
  private readonly site: DemoSite
  private readonly region: Region
  private readonly nowSec: number
  private readonly incidents: readonly DemoIncident[]
  private readonly siteSeed: number
  private readonly pathSeed: number
  private day = 0 // of dayFactor
  private dayFactor = 0

  /** Hours before now are counted from `nowSec`. */
  constructor(site: DemoSite, region: Region, nowSec: number) {
    this.site = site
    this.region = region
    this.nowSec = nowSec
    this.siteSeed = toSeed(site.slug)
    this.pathSeed = toSeed(`${site.slug} ${region}`)
    const all = [...(site.incidents ?? []), ...listOutages(site, this.siteSeed)]
    this.incidents = all.filter((each) => (each.region ?? region) === region)
  }

  probe(kind: Probe['kind'], atSec: number): Probe {
    const error = this.errorAt(kind, atSec)
    const timings = this.timingsAt(atSec, error === 'slow' ? SLOW_FACTOR : 1)
    const httpStatus = error === null ? (this.site.listed ? 200 : 401) : (STATUSES[error] ?? null)
    if (error === null) return { atSec, kind, outcome: 'up', error, httpStatus, timings }
    if (DEGRADING.includes(error)) return { atSec, kind, outcome: 'degraded', error, httpStatus, timings }
    return { atSec, kind, outcome: 'down', error, httpStatus, timings: phasesBefore(error, timings) }
  }

  private errorAt(kind: Probe['kind'], atSec: number): ErrorCode | null {
    const { site, region } = this
    const hoursAgo = (this.nowSec - atSec) / HOUR_SEC
    for (const { fromHours, toHours, error } of this.incidents)
      if (hoursAgo <= fromHours && hoursAgo > toHours) return error
    const block = region === 'cn' ? site.blockedInCn : undefined
    if (block && hoursAgo <= block.hours) return block.layer === 'dns' ? 'dns_bogus' : 'tls_reset'
    if (kind === 'full') return null // it follows a failure at once, and would be the second of 3 results
    const failing =
      (1 - site.upShare) * this.dayFactorAt(atSec) + (isPeak(atSec) ? (site.peak?.failing ?? 0) : 0)
    return (
      isolatedError(this.siteSeed, atSec, failing, site.errors) ??
      isolatedError(this.pathSeed, atSec, PATH_FAILING[region], PATH_ERRORS)
    )
  }

  /** Most days are good and some are bad: 0 to 4, 1 on average. */
  private dayFactorAt(atSec: number): number {
    const day = Math.floor(atSec / DAY_SEC)
    if (day !== this.day) this.dayFactor = 4 * createRandom(this.siteSeed - day)() ** 3
    this.day = day
    return this.dayFactor
  }

  /** Round trips and server time; slower in the evenings of UTC+8, more so from cn. */
  private timingsAt(atSec: number, factor: number): Timings {
    const { site, region } = this
    const random = createRandom(this.pathSeed + atSec)
    const noise = () => Math.exp(0.4 * (random() + random() - 1))
    const hour = ((atSec / HOUR_SEC + 8) % 24) - 21
    const evening = 1 + (region === 'cn' ? 0.5 : 0.25) * Math.exp(-(hour * hour) / 8)
    const serverMs = site.serverMs * evening * (isPeak(atSec) ? (site.peak?.factor ?? 1) : 1)
    const rttMs = site.rttMs[region] * evening
    const connectMs = Math.round(rttMs * noise()) + (random() < LOST_SHARE ? RETRANSMIT_MS : 0)
    const dnsMs = Math.round(3 + 22 * random() ** 3 * evening)
    const tlsMs = site.scheme === 'https' ? Math.round(rttMs * 1.15 * noise()) : null
    const ttfbMs = Math.round((rttMs + serverMs) * factor * noise())
    return { dnsMs, connectMs, tlsMs, ttfbMs, totalMs: dnsMs + connectMs + (tlsMs ?? 0) + ttfbMs + 6 }
  }
}

/** At most one in each slot, so that `share` of all probes fail; 0.2 is the most that fits. */
function isolatedError(
  seed: number,
  atSec: number,
  share: number,
  errors: readonly ErrorCode[],
): ErrorCode | null {
  if (atSec % SLOT_SEC >= FAILURE_SEC) return null
  const random = createRandom(seed ^ Math.floor(atSec / SLOT_SEC))
  if (random() >= (share * SLOT_SEC) / FAILURE_SEC) return null
  return errors[Math.floor(random() * errors.length)]
}

/** `outagesPerWeek` short incidents, spread over the history; none in the last six hours. */
function listOutages({ outagesPerWeek = 0, errors }: DemoSite, seed: number): DemoIncident[] {
  const stepHours = 168 / outagesPerWeek
  const random = createRandom(seed)
  const outages: DemoIncident[] = []
  for (let hours = 6 + stepHours; hours < OUTAGES_HOURS; hours += stepHours) {
    const toHours = hours - random() * stepHours * 0.6
    const error = errors[Math.floor(random() * errors.length)]
    outages.push({ fromHours: toHours + 0.4 + 1.4 * random(), toHours, error })
  }
  return outages
}

/** A failed probe has the times of the phases before the one that failed. */
function phasesBefore(error: ErrorCode, { dnsMs, connectMs, tlsMs }: Timings): Timings {
  if (error.startsWith('dns_')) return NOT_MEASURED
  if (error.startsWith('connect_')) return { ...NOT_MEASURED, dnsMs }
  if (error.startsWith('tls_')) return { ...NOT_MEASURED, dnsMs, connectMs }
  return { ...NOT_MEASURED, dnsMs, connectMs, tlsMs }
}

function isPeak(atSec: number): boolean {
  const hour = Math.floor(atSec / HOUR_SEC + 8) % 24
  return hour >= PEAK_HOURS.first && hour <= PEAK_HOURS.last
}

/** Numbers in [0, 1) that follow from the seed. */
function createRandom(seed: number): () => number {
  let state = Math.imul(seed, 2_654_435_769)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
}

function toSeed(text: string): number {
  let seed = 2_166_136_261
  for (const letter of text) seed = Math.imul(seed ^ letter.charCodeAt(0), 16_777_619)
  return seed
}
