/**
 * Writes the history of the demo's sites into a database, in about a second instead of 30 days: what a monitor of these sites
 * would have left there.
 *
 *     planner ─► simulated probes ─┬─► buckets in memory ─► each hour and day as one row        (all of the history)
 *                                  └─► the newest results as raw rows, only where a pass reads them:
 *                                      a region's result changed ─► pass over this site
 *                                      every midnight, and now   ─► pass over all sites, and boards
 *
 * Everything is written by the monitor's own code (applyBatch, writeBucket, RollUp), and evaluated by it. Raw rows are read
 * by three things only: the state of regions and the dates of incidents (the newest results of each vantage), the raw history
 * of the API (48 hours), and the back-off of sites that are down. All else is computed from hours and days.
 * test/scripts/commands/demo/history.test.ts compares both with a database that got every probe as a raw row.
 *
 * Passes over all sites are a day apart, so a tier changes at most a day later than with a pass every 5 minutes.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { evaluateAll } from '../../../monitor/evaluation/pass.ts'
import type { Observation, Probe, Region } from '../../../monitor/facts.ts'
import { Planner } from '../../../monitor/scheduler/planner.ts'
import {
  type Bucket,
  betterBucket,
  bucketStartSec,
  DAY_SEC,
  HOUR_SEC,
  mergeBuckets,
} from '../../../monitor/scoring/bucket.ts'
import { toSightings } from '../../../monitor/service/sites.ts'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { writeBucket } from '../../../monitor/storage/bucket-rows.ts'
import type { Database } from '../../../monitor/storage/database.ts'
import { RollUp } from '../../../monitor/storage/roll-up.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { RESULTS_KEPT_SEC, RegionHistory, type StoredResult } from './region-history.ts'
import { SimulatedRegion } from './simulation.ts'
import { DEMO_GAPS, type DemoSite, modelsAt } from './sites.ts'

const INTERVAL_SEC = 300
const PASS_EVERY_SEC = DAY_SEC
const PASS_RESULTS = 12 // per vantage: 30 minutes of evidence (monitor/evaluation/regions.ts), and those that decide a state
const RAW_SHOWN_SEC = 2 * DAY_SEC // by the API (spec 3.2)
const DAILY_AFTER_SEC = 7 * DAY_SEC // older observations are kept once a day (spec 8.2)
const LAST_QUARTER_SEC = 18 * HOUR_SEC // full probes are 6 hours apart, so one falls into a day's last quarter
/** After a crash the demo starts again; and the whole history fits into the cache. */
const PRAGMAS = 'PRAGMA synchronous=OFF; PRAGMA cache_size=-65536; PRAGMA wal_autocheckpoint=8000;'
const REGIONS: readonly Region[] = ['cn', 'overseas']

export interface HistoryOptions {
  database: Database // with the sites of the catalogue and the vantages
  sites: readonly DemoSite[]
  ids: Readonly<Record<string, number>> // slug → site
  vantages: Record<Region, { id: number; name: string }>
  ownVantage: string // name of the server's
  observations: ReadonlyMap<string, { well: Observation; now: Observation }> // of full probes today
  days: number // whole UTC days before today
  nowSec: number
  passResults?: number // default PASS_RESULTS; Infinity = all results become raw rows
  onProbe?: (siteId: number, vantageId: number, probe: Probe) => void
  onProgress?: (share: number) => void // 0 to 1, each simulated day
}

/** Returns the number of probes. */
export async function fillHistory(options: HistoryOptions): Promise<number> {
  const { database, nowSec, days, onProgress } = options
  database.raw.exec(PRAGMAS)
  const startSec = bucketStartSec(nowSec, DAY_SEC) - days * DAY_SEC
  const history = new History(options, startSec)
  for (let atSec = startSec; atSec < nowSec; atSec += HOUR_SEC) {
    const endSec = Math.min(atSec + HOUR_SEC, nowSec)
    history.probeUntil(endSec)
    if (endSec === atSec + HOUR_SEC) history.closeHour(atSec)
    if (endSec % PASS_EVERY_SEC === 0) history.pass(endSec - 1)
    if (endSec % DAY_SEC !== 0) continue
    onProgress?.((endSec - startSec) / (nowSec - startSec))
    await nextTurn() // for signals
  }
  history.finish()
  onProgress?.(1)
  return history.probesCount
}

class History {
  probesCount = 0
  private readonly options: HistoryOptions
  private readonly startSec: number
  private readonly planner: Planner
  private readonly sites: readonly SiteHistory[]
  private readonly bySlug: ReadonlyMap<string, SiteHistory>
  private observations: Write[] = [] // not stored yet
  private closedSecs: number[] = [] // hours that are over, without rows so far; at most those of a day
  private nowMs = 0 // since startSec

  constructor(options: HistoryOptions, startSec: number) {
    this.options = options
    this.startSec = startSec
    let turn = 0
    this.planner = new Planner({ random: () => (turn++ * 0.618_034) % 1 }) // evenly spread, the same in every demo
    const todaySec = bucketStartSec(options.nowSec, DAY_SEC)
    this.sites = options.sites.map((site) => {
      const firstSec = Math.max(startSec, todaySec - (site.historyDays ?? options.days) * DAY_SEC)
      return new SiteHistory(site, { id: options.ids[site.slug], firstSec, nowSec: options.nowSec })
    })
    this.bySlug = new Map(this.sites.map((each) => [each.site.slug, each]))
  }

  /** Makes all probes that are due before `endSec`. */
  probeUntil(endSec: number): void {
    for (const { site, firstSec } of this.sites) {
      if (firstSec >= endSec || firstSec < endSec - HOUR_SEC) continue
      this.planner.put({ slug: site.slug, intervalMs: INTERVAL_SEC * 1_000 }, this.toMs(firstSec))
    }
    const endMs = this.toMs(endSec)
    while (this.nowMs < endMs) {
      const gapEndSec = findGapEnd(this.atSec, this.options.nowSec)
      if (gapEndSec !== null) {
        this.nowMs = Math.min(endMs, this.toMs(gapEndSec))
        continue
      }
      for (const { id, kind, key } of this.planner.due(this.nowMs)) this.probe(id, kind as Probe['kind'], key)
      this.nowMs = Math.max(this.nowMs + 1, this.planner.wakeMs(this.nowMs))
    }
    this.nowMs = endMs
  }

  /** An hour is over, and perhaps a day. Their rows are written with the next pass. */
  closeHour(atSec: number): void {
    this.closedSecs.push(atSec)
  }

  /** Evaluates one site, or all and the boards. */
  pass(atSec: number, site?: SiteHistory): void {
    const { database, ownVantage, passResults = PASS_RESULTS } = this.options
    this.writeClosed()
    this.store(site ? [site] : this.sites, atSec, (results) => results.slice(-passResults))
    const siteIds = site && [site.id]
    const writes = evaluateAll(database, { nowSec: atSec, intervalSec: INTERVAL_SEC, ownVantage, siteIds })
    this.apply(writes, atSec)
    for (const write of writes) {
      if (write.kind !== 'region') continue
      const { regions } = this.sites.find((each) => each.id === write.siteId)!
      regions[write.region].pass = { state: write.state.state, isPending: write.pending !== null }
    }
  }

  finish(): void {
    const { database, nowSec } = this.options
    this.writeClosed()
    this.store(this.sites, nowSec, (results) => {
      const lastUp = results.findLast(({ probe }) => probe.outcome !== 'down')?.probe.atSec ?? 0
      const sinceSec = Math.max(nowSec - RESULTS_KEPT_SEC, Math.min(nowSec - RAW_SHOWN_SEC, lastUp))
      return results.filter(({ probe }) => probe.atSec >= sinceSec)
    })
    this.pass(nowSec)
    const rollUp = new RollUp(database) // hours that became due with their raw rows; the result is the same
    while (rollUp.step(nowSec)) {}
  }

  private probe(runId: number, kind: Probe['kind'], slug: string): void {
    const { options, atSec } = this
    const { nowSec, vantages, onProbe } = options
    const history = this.bySlug.get(slug)!
    const { id, regions } = history
    const probe = regions.overseas.simulated.probe(kind, atSec)
    if (this.planner.finish(runId, { outcome: probe.outcome }, this.nowMs) !== 'store') return
    const isInCn = kind === 'light' && !isCnGap(atSec, nowSec) // agents make light probes only
    const inCn = isInCn ? regions.cn.simulated.probe(kind, atSec) : null
    for (const [region, result] of [
      ['overseas', probe],
      ['cn', inCn],
    ] as const) {
      if (result === null || !regions[region].add(result)) continue
      this.probesCount++
      onProbe?.(id, vantages[region].id, result)
    }
    this.observe(history, probe)
    if (REGIONS.some((region) => regions[region].needsPass)) this.pass(atSec, history)
  }

  private observe({ site, id }: SiteHistory, { atSec, kind, outcome, error }: Probe): void {
    const { observations, nowSec } = this.options
    const known = observations.get(site.slug)
    const isKept = nowSec - atSec < DAILY_AFTER_SEC || atSec % DAY_SEC >= LAST_QUARTER_SEC
    if (kind === 'light' || !isKept || !known) return
    const isAsNow = site.incidents?.some((each) => each.toHours === 0 && each.error === error) ?? false
    if (outcome === 'down' && !isAsNow) return
    const { listed, claimed } = modelsAt(site, (nowSec - atSec) / HOUR_SEC)
    const { well } = known
    const then = { ...well, models: well.models && listed, claimed: well.claimed.length > 0 ? claimed : [] }
    const observation = { ...(isAsNow && error !== 'slow' ? known.now : then), atSec }
    this.observations.push({ kind: 'observation', siteId: id, observation, models: toSightings(observation) })
  }

  /** Stores those of the results so far that `select` returns, oldest first as it gets them. */
  private store(
    sites: readonly SiteHistory[],
    atSec: number,
    select: (results: StoredResult[]) => StoredResult[],
  ): void {
    const { database, vantages, nowSec } = this.options
    const writes: Write[] = this.observations
    const touched: { id: number; region: Region; bucket: Bucket }[] = []
    this.observations = []
    for (const { id, regions } of sites) {
      for (const region of REGIONS) {
        const results = select(regions[region].results).filter(({ isStored }) => !isStored)
        const hours = new Set<number>()
        for (const result of results) {
          result.isStored = true
          hours.add(bucketStartSec(result.probe.atSec, HOUR_SEC))
          writes.push({ kind: 'probe', siteId: id, vantageId: vantages[region].id, probe: result.probe })
        }
        for (const hourSec of hours) touched.push({ id, region, bucket: regions[region].hourAt(hourSec)! })
        regions[region].forget(nowSec - RESULTS_KEPT_SEC)
      }
    }
    for (const { id } of Object.values(vantages)) writes.push({ kind: 'vantage-seen', vantageId: id, atSec })
    this.apply(writes, atSec)
    // applyBatch has added these results to hours which have rows already: replaced by the complete hour.
    database.transaction(() => {
      for (const { id, region, bucket } of touched) writeBucket(database, id, region, bucket)
    })
  }

  private writeClosed(): void {
    if (this.closedSecs.length === 0) return
    const { database } = this.options
    database.transaction(() => {
      for (const atSec of this.closedSecs) for (const site of this.sites) writeHour(database, site, atSec)
    })
    this.closedSecs = []
  }

  private apply(writes: Write[], atSec: number): void {
    const [refusal] = applyBatch(this.options.database, writes, atSec)
    if (refusal) throw new Error(`the demo's history was refused: ${refusal.write.kind}: ${refusal.why}`)
  }

  private get atSec(): number {
    return this.startSec + Math.floor(this.nowMs / 1_000)
  }

  private toMs(atSec: number): number {
    return (atSec - this.startSec) * 1_000
  }
}

class SiteHistory {
  readonly site: DemoSite
  readonly id: number
  readonly firstSec: number
  readonly regions: Record<Region, RegionHistory>

  constructor(site: DemoSite, { id, firstSec, nowSec }: { id: number; firstSec: number; nowSec: number }) {
    this.site = site
    this.id = id
    this.firstSec = firstSec
    this.regions = {
      cn: new RegionHistory(new SimulatedRegion(site, 'cn', nowSec)),
      overseas: new RegionHistory(new SimulatedRegion(site, 'overseas', nowSec)),
    }
  }
}

/** The rows of an hour that is over, and of the day that ends with it. */
function writeHour(database: Database, { id, regions }: SiteHistory, atSec: number): void {
  const hours = REGIONS.map((region) => regions[region].hourAt(atSec))
  writeRows(database, id, hours)
  const daySec = bucketStartSec(atSec, DAY_SEC)
  if (atSec + HOUR_SEC !== daySec + DAY_SEC) return
  const days = REGIONS.map((region) => mergeBuckets(regions[region].listHours(daySec), daySec, DAY_SEC))
  writeRows(database, id, days)
}

function writeRows(database: Database, siteId: number, [cn, overseas]: (Bucket | null)[]): void {
  if (cn) writeBucket(database, siteId, 'cn', cn)
  if (overseas) writeBucket(database, siteId, 'overseas', overseas)
  const better = betterBucket(cn, overseas)
  if (better) writeBucket(database, siteId, 'all', better)
}

/** null = `atSec` is in no gap of all regions. */
function findGapEnd(atSec: number, nowSec: number): number | null {
  const gap = DEMO_GAPS.find((each) => !each.region && isIn(each, atSec, nowSec))
  return gap ? nowSec - gap.toHours * HOUR_SEC : null
}

function isCnGap(atSec: number, nowSec: number): boolean {
  return DEMO_GAPS.some((each) => each.region === 'cn' && isIn(each, atSec, nowSec))
}

function isIn(
  { fromHours, toHours }: { fromHours: number; toHours: number },
  atSec: number,
  nowSec: number,
): boolean {
  const hoursAgo = (nowSec - atSec) / HOUR_SEC
  return hoursAgo <= fromHours && hoursAgo > toHours
}
