/**
 * Buckets as rows: one site, one region, one hour or day (spec 8.2). Buckets and their merging are defined in
 * scoring/bucket.ts; this file stores them.
 *
 *     probe ──► bucket of its hour and region, in memory during a batch ──► one row
 *                                                                       └──► roll_up_due: hour, touched + 1
 *
 * Equal counts give equal rows, byte by byte, in any order of arrival, so a repeated roll-up changes nothing.
 */
import type { Probe, Region } from '../facts.ts'
import {
  addProbe,
  type Bucket,
  bucketStartSec,
  type Counts,
  countProbes,
  DAY_SEC,
  emptyBucket,
  HOUR_SEC,
  type WindowSec,
} from '../scoring/bucket.ts'
import { packHistogram, unpackHistogram } from '../scoring/histogram.ts'
import type { Database } from './database.ts'

/** `all`: the better of the two regions. */
export type BucketRegion = Region | 'all'

const TABLE: Record<WindowSec, string> = { [HOUR_SEC]: 'probe_hour', [DAY_SEC]: 'probe_day' }
const LATE_MAX_SEC = 7 * DAY_SEC // as long as raw rows are kept; an agent buffers a day at most
const EARLY_MAX_SEC = HOUR_SEC // clocks differ; beyond, a bucket would be rolled up long after it is needed

/** With `nowSec` 0 the time is not known yet, and every time is accepted. */
export function isTooFar(atSec: number, nowSec: number): boolean {
  return nowSec > 0 && (atSec < nowSec - LATE_MAX_SEC || atSec > nowSec + EARLY_MAX_SEC)
}

/** The hour buckets that one batch touches. */
export class TouchedBuckets {
  private readonly database: Database
  private readonly touched = new Map<string, { siteId: number; region: Region; bucket: Bucket }>()
  private readonly regions = new Map<number, Region | null>() // by vantage

  constructor(database: Database) {
    this.database = database
  }

  /** null = there is no such vantage. */
  getRegion(vantageId: number): Region | null {
    let region = this.regions.get(vantageId)
    if (region === undefined) {
      const row = this.database.get<{ region: Region }>('SELECT region FROM vantage WHERE id = ?', vantageId)
      region = row?.region ?? null
      this.regions.set(vantageId, region)
    }
    return region
  }

  add(siteId: number, region: Region, probe: Probe): void {
    const atSec = bucketStartSec(probe.atSec, HOUR_SEC)
    const key = `${siteId} ${region} ${atSec}`
    let entry = this.touched.get(key)
    if (!entry) {
      const stored = readBuckets(this.database, {
        siteId,
        region,
        windowSec: HOUR_SEC,
        fromSec: atSec,
        toSec: atSec + 1,
      })
      entry = { siteId, region, bucket: stored[0] ?? emptyBucket(atSec, HOUR_SEC) }
      this.touched.set(key, entry)
    }
    addProbe(entry.bucket, probe)
  }

  save(): void {
    const hours = new Set<number>()
    for (const { siteId, region, bucket } of this.touched.values()) {
      writeBucket(this.database, siteId, region, bucket)
      hours.add(bucket.atSec)
    }
    for (const atSec of hours) markDue(this.database, HOUR_SEC, atSec)
  }
}

/** The span that begins at `atSec` is to be rolled up, again if it was. */
export function markDue(database: Database, windowSec: WindowSec, atSec: number): void {
  database.run(
    `INSERT INTO roll_up_due (window_s, at, touched) VALUES (?, ?, 1)
     ON CONFLICT DO UPDATE SET touched = touched + 1`,
    ...[windowSec, atSec],
  )
}

export interface BucketRange {
  siteId: number
  region: BucketRegion
  windowSec: WindowSec
  fromSec: number // the first start
  toSec: number // the first one beyond
}

/** Oldest first. */
export function readBuckets(database: Database, range: BucketRange): Bucket[] {
  const rows = database.all<StoredBucket>(
    `SELECT at, up, degraded, down, hist, status_json, errors_json FROM ${TABLE[range.windowSec]}
     WHERE site_id = ? AND region = ? AND at >= ? AND at < ? ORDER BY at`,
    ...[range.siteId, range.region, range.fromSec, range.toSec],
  )
  return rows.map((row) => ({
    atSec: row.at,
    windowSec: range.windowSec,
    up: row.up,
    degraded: row.degraded,
    down: row.down,
    histogram: unpackHistogram(row.hist),
    statuses: JSON.parse(row.status_json),
    errors: JSON.parse(row.errors_json),
  }))
}

/** Without the columns that only pages show. Oldest first. */
export function readCounts(database: Database, range: BucketRange): Counts[] {
  return database.all<Counts>(
    `SELECT at AS atSec, up, degraded, down FROM ${TABLE[range.windowSec]}
     WHERE site_id = ? AND region = ? AND at >= ? AND at < ? ORDER BY at`,
    ...[range.siteId, range.region, range.fromSec, range.toSec],
  )
}

/** The same of hours, with their histograms as they are stored: for addPacked. */
export function readPackedHours(
  database: Database,
  { siteId, region, fromSec, toSec }: BucketRange,
): (Counts & { packed: Uint8Array })[] {
  return database.all<Counts & { packed: Uint8Array }>(
    `SELECT at AS atSec, up, degraded, down, hist AS packed FROM probe_hour
     WHERE site_id = ? AND region = ? AND at >= ? AND at < ? ORDER BY at`,
    ...[siteId, region, fromSec, toSec],
  )
}

export function writeBucket(database: Database, siteId: number, region: BucketRegion, bucket: Bucket): void {
  database.run(
    `INSERT OR REPLACE INTO ${TABLE[bucket.windowSec]} (site_id, region, at, probes, up, degraded, down, hist,
     status_json, errors_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[siteId, region, bucket.atSec, countProbes(bucket), bucket.up, bucket.degraded, bucket.down],
    ...[packHistogram(bucket.histogram), sortedJson(bucket.statuses), sortedJson(bucket.errors)],
  )
}

interface StoredBucket {
  at: number
  up: number
  degraded: number
  down: number
  hist: Uint8Array
  status_json: string
  errors_json: string
}

function sortedJson(counts: Record<string, number>): string {
  const keys = Object.keys(counts)
  if (keys.length < 2) return JSON.stringify(counts) // nearly always
  return JSON.stringify(Object.fromEntries(keys.sort().map((key) => [key, counts[key]])))
}
