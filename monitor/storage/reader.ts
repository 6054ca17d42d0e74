/**
 * Details, read by a read-only connection (spec 8.2). Lists come from the snapshot instead.
 *
 *     hour, day rows ──┐
 *     not rolled up yet ┴─► history(): as if the roll-up had just run, with the running hour and day
 *
 * Each call reads the last commit. Calls block, so they belong on a thread of their own (reader-thread.ts); callers cache
 * results per data version, those of a site per state of its row.
 */
import type { Observation, Probe, Region, RegionState, Tier } from '../facts.ts'
import {
  type Bucket,
  betterBucket,
  bucketStartSec,
  type Counts,
  DAY_SEC,
  HOUR_SEC,
  mergeBuckets,
} from '../scoring/bucket.ts'
import { addPacked, emptyHistogram, mergeInto } from '../scoring/histogram.ts'
import { computePastHistory, type History, type Past } from '../scoring/windows.ts'
import { fromObservationRow } from './apply.ts'
import { type BucketRange, readBuckets, readCounts, readPackedHours } from './bucket-rows.ts'
import { Database } from './database.ts'
import { findDetection, findNewestDetection } from './detections.ts'
import { readAnswered, readClaims } from './observations.ts'
import type { Board, BoardRow, DetectionRow } from './rows.ts'

export const RAW_MAX = 500 // spec 3.2
const MODELS_MAX = 10_000
const CHANGES_MAX = 1_000
const INCIDENTS_MAX = 1_000

export class Reader {
  private readonly database: Database

  /** Opens a file, or uses an open connection. */
  constructor(file: string | Database) {
    this.database = typeof file === 'string' ? new Database(file, { isReadOnly: true }) : file
  }

  close(): void {
    this.database.close()
  }

  /** Oldest first; the input of the scorer's windows and of the charts. */
  history(range: BucketRange): Bucket[] {
    const stored = readBuckets(this.database, range)
    return [...stored, ...this.notRolledUp(range, stored)]
  }

  /** History for the score; computed here because the rows are hundreds of times larger than the result. */
  scoreHistory(siteId: number, nowSec: number): History {
    return computePastHistory(this.past(siteId, nowSec), nowSec)
  }

  /**
   * history() as the score needs it, at half the cost: of stored rows only counts and first bytes are read, since a
   * pass over all sites reads a million of them.
   */
  past(siteId: number, nowSec: number): Past {
    const weekHistogram = emptyHistogram()
    const range = { siteId, region: 'all', toSec: nowSec + 1 } as const
    const week = { ...range, windowSec: HOUR_SEC, fromSec: nowSec - 7 * DAY_SEC } as const
    const month = { ...range, windowSec: DAY_SEC, fromSec: nowSec - 30 * DAY_SEC } as const
    const hours = readPackedHours(this.database, week)
    const running = this.notRolledUp(week, hours)
    for (const { packed } of hours) addPacked(weekHistogram, packed)
    for (const { histogram } of running) mergeInto(weekHistogram, histogram)
    const days = readCounts(this.database, month)
    return {
      hours: [...hours, ...running],
      days: [...days, ...this.notRolledUp(month, days)],
      weekHistogram,
    }
  }

  /** Newest first, of all vantages of the requested regions. */
  rawProbes(siteId: number, region: Region | 'all', sinceSec: number, probesMax = RAW_MAX): Probe[] {
    const vantages = this.database.all<{ id: number }>(
      "SELECT id FROM vantage WHERE ? IN ('all', region) ORDER BY id",
      region,
    )
    return vantages
      .flatMap(({ id }) => this.readProbes(siteId, id, sinceSec, Math.min(probesMax, RAW_MAX)))
      .sort((a, b) => b.atSec - a.atSec)
      .slice(0, Math.min(probesMax, RAW_MAX))
  }

  /** Newest first, of one vantage: the input of a region's state after a restart. */
  readProbes(siteId: number, vantageId: number, sinceSec: number, probesMax: number): Probe[] {
    const rows = this.database.all<Omit<Probe, 'timings'> & Probe['timings']>(
      `SELECT at AS atSec, kind, outcome, error, http_status AS httpStatus, dns_ms AS dnsMs, connect_ms AS connectMs,
       tls_ms AS tlsMs, ttfb_ms AS ttfbMs, total_ms AS totalMs, address FROM probe_raw
       WHERE site_id = ? AND vantage_id = ? AND at >= ? ORDER BY at DESC LIMIT ?`,
      ...[siteId, vantageId, sinceSec, probesMax],
    )
    return rows.map(({ atSec, kind, outcome, error, httpStatus, address, ...timings }) => ({
      atSec,
      kind,
      outcome,
      error,
      httpStatus,
      timings,
      address,
    }))
  }

  /** The newest full probe. */
  observation(siteId: number): Observation | null {
    const row = this.database.get(
      'SELECT * FROM observation WHERE site_id = ? ORDER BY at DESC LIMIT 1',
      siteId,
    )
    return row ? fromObservationRow(row) : null
  }

  /** Sources for the models of a site (spec 7.1): the catalogue, and the newest full probe with a listing response. */
  modelSources(siteId: number): ModelSources {
    return { catalogue: readClaims(this.database, siteId), answered: readAnswered(this.database, siteId) }
  }

  /** Every model that full probes have found there, by id. */
  models(siteId: number): SeenModel[] {
    return this.database.all<SeenModel>(
      `SELECT model_id AS id, first_seen AS firstSeenSec, last_seen AS lastSeenSec FROM model_seen
       WHERE site_id = ? ORDER BY model_id LIMIT ${MODELS_MAX}`,
      siteId,
    )
  }

  /** Newest first. */
  modelChanges(siteId: number, sinceSec: number): ModelChange[] {
    return this.database.all<ModelChange>(
      `SELECT at AS atSec, change, model_id AS id FROM model_change WHERE site_id = ? AND at >= ?
       ORDER BY at DESC, id LIMIT ${CHANGES_MAX}`,
      ...[siteId, sinceSec],
    )
  }

  /** Newest first. */
  incidents(siteId: number, sinceSec: number): Incident[] {
    return this.database.all<Incident>(
      `SELECT id, region, started_at AS startedAtSec, ended_at AS endedAtSec, cause, vantages FROM incident
       WHERE site_id = ? AND started_at >= ? ORDER BY started_at DESC, id LIMIT ${INCIDENTS_MAX}`,
      ...[siteId, sinceSec],
    )
  }

  /** The newest month that has one. */
  newestScreenshot(siteId: number): Screenshot | null {
    const sql = `SELECT path, sha256, taken_at AS takenAtSec FROM screenshot WHERE site_id = ? AND path IS NOT NULL
      ORDER BY month DESC LIMIT 1`
    return this.database.get<Screenshot>(sql, siteId) ?? null
  }

  /** `month`: YYYY-MM. */
  screenshot(siteId: number, month: string): Screenshot | null {
    const sql = `SELECT path, sha256, taken_at AS takenAtSec FROM screenshot
      WHERE site_id = ? AND month = ? AND path IS NOT NULL`
    return this.database.get<Screenshot>(sql, siteId, month) ?? null
  }

  /** Of every site that has a row: what this month has brought, and whether any month has a picture. */
  screenshotStates(month: string): ScreenshotState[] {
    const rows = this.database.all<Record<keyof ScreenshotState, number | string | null>>(
      `SELECT site_id AS siteId, max(path IS NOT NULL) AS hasPicture, max(month = ? AND path IS NOT NULL) AS isTaken,
       max(CASE WHEN month = ? THEN error END) AS errors, max(CASE WHEN month = ? THEN taken_at END) AS triedAtSec
       FROM screenshot GROUP BY site_id`,
      ...[month, month, month],
    )
    return rows.map((row) => ({
      ...(row as unknown as ScreenshotState),
      hasPicture: row.hasPicture === 1,
      isTaken: row.isTaken === 1,
    }))
  }

  /** Files that rows name. */
  screenshotFiles(): string[] {
    const sql = 'SELECT DISTINCT sha256 FROM screenshot WHERE sha256 IS NOT NULL'
    return this.database.all<{ sha256: string }>(sql).map(({ sha256 }) => sha256)
  }

  /** The evaluation of every site and region, to continue from after a restart. */
  evaluations(): StoredEvaluation[] {
    const rows = this.database.all<Omit<StoredEvaluation, 'pending'> & PendingColumns>(
      `SELECT site_id AS siteId, region, state, blocking, since AS sinceSec, vantages, agreeing,
       checked_at AS checkedAtSec, pending_state AS pendingState, pending_count AS pendingCount FROM region_state`,
    )
    return rows.map(({ pendingState, pendingCount, ...row }) => ({
      ...row,
      pending: pendingState === null ? null : { state: pendingState, count: pendingCount },
    }))
  }

  /** Tier and stored evaluation of every site that has them. */
  scores(): StoredScore[] {
    const rows = this.database.all<Omit<StoredScore, 'facts'> & { facts: string }>(
      `SELECT id AS siteId, tier, tier_since AS tierSinceSec, score, score_json AS facts FROM site
       WHERE tier IS NOT NULL AND removed_at IS NULL`,
    )
    return rows.map(({ facts, ...row }) => ({ ...row, facts: JSON.parse(facts) }))
  }

  /** By rank; empty when the board was not made on that day. */
  board(board: Board, daySec: number): BoardRow[] {
    const rows = this.database.all<Omit<BoardRow, 'reasons'> & { reasons: string }>(
      `SELECT site_id AS siteId, rank, since AS sinceSec, reasons_json AS reasons FROM board_day
       WHERE day = ? AND board = ? ORDER BY rank`,
      ...[daySec, board],
    )
    return rows.map(({ reasons, ...row }) => ({ ...row, reasons: JSON.parse(reasons) }))
  }

  /** The state of every site that a prober needs after a restart. */
  probeStates(): SiteProbeState[] {
    const rows = this.database.all<{ siteId: number; lastFullSec: number | null; state: string | null }>(
      'SELECT id AS siteId, last_full AS lastFullSec, state FROM site WHERE removed_at IS NULL',
    )
    return rows.map(({ siteId, lastFullSec, state }) => ({
      siteId,
      lastFullSec,
      addresses: lastFullSec === null ? [] : (this.observation(siteId)?.profile.ips ?? []),
      ...(state === 'down' ? this.downs(siteId) : { downs: 0, downSinceSec: null }),
    }))
  }

  private downs(siteId: number): Pick<SiteProbeState, 'downs' | 'downSinceSec'> {
    const sql = `SELECT count(*) AS downs, min(at) AS downSinceSec FROM probe_raw WHERE site_id = ? AND outcome = 'down'
      AND at > (SELECT ifnull(max(at), 0) FROM probe_raw WHERE site_id = ? AND outcome IN ('up', 'degraded'))`
    return this.database.get<Pick<SiteProbeState, 'downs' | 'downSinceSec'>>(sql, siteId, siteId)!
  }

  detection(id: string): DetectionRow | null {
    return findDetection(this.database, id)
  }

  newestDetection(targetKey: string): DetectionRow | null {
    return findNewestDetection(this.database, targetKey)
  }

  meta(key: string): string | null {
    return this.database.get<{ value: string }>('SELECT value FROM meta WHERE key = ?', key)?.value ?? null
  }

  /** The part after the newest of `stored`. */
  private notRolledUp(range: BucketRange, stored: readonly Counts[]): Bucket[] {
    const newest = stored[stored.length - 1]
    const fromSec = newest ? newest.atSec + range.windowSec : range.fromSec
    if (range.region !== 'all') return this.fresh({ ...range, region: range.region, fromSec })
    const read = (region: Region) =>
      new Map(this.fresh({ ...range, region, fromSec }).map((bucket) => [bucket.atSec, bucket]))
    const [cn, overseas] = [read('cn'), read('overseas')]
    const starts = [...new Set([...cn.keys(), ...overseas.keys()])].sort((a, b) => a - b)
    return starts.map((atSec) => betterBucket(cn.get(atSec) ?? null, overseas.get(atSec) ?? null)!)
  }

  /** Of one region, from hour rows: those are always current. */
  private fresh({ siteId, region, windowSec, fromSec, toSec }: BucketRange): Bucket[] {
    const hours = readBuckets(this.database, { siteId, region, windowSec: HOUR_SEC, fromSec, toSec })
    if (windowSec === HOUR_SEC) return hours
    const days = new Map<number, Bucket[]>()
    for (const hour of hours) {
      const atSec = bucketStartSec(hour.atSec, DAY_SEC)
      days.set(atSec, [...(days.get(atSec) ?? []), hour])
    }
    return [...days].map(([atSec, ofDay]) => mergeBuckets(ofDay, atSec, DAY_SEC)!)
  }
}

export interface SiteProbeState {
  siteId: number
  lastFullSec: number | null // of its newest full probe
  addresses: string[] // found then
  downs: number // in a row, of the raw probes that are kept
  downSinceSec: number | null // of the first of them
}

export interface Screenshot {
  path: string // of its URL, from the root
  sha256: string | null // names its file
  takenAtSec: number | null
}

/** What is stored of a site's screenshots (screenshots/schedule.ts). */
export interface ScreenshotState {
  siteId: number
  hasPicture: boolean // of any month
  isTaken: boolean // this month
  errors: string | null // one reason per failed try of this month, oldest first, separated by commas
  triedAtSec: number | null // the last try of this month
}

export interface ModelSources {
  catalogue: string[]
  answered: Observation | null
}

export interface SeenModel {
  id: string
  firstSeenSec: number
  lastSeenSec: number
}

export interface ModelChange {
  atSec: number
  change: 'added' | 'removed'
  id: string
}

export interface Incident {
  id: number
  region: Region | 'all'
  startedAtSec: number
  endedAtSec: number | null
  cause: string
  vantages: number
}

export interface StoredEvaluation extends RegionState {
  siteId: number
  region: Region
  sinceSec: number
  pending: { state: RegionState['state']; count: number } | null
}
interface PendingColumns {
  pendingState: RegionState['state'] | null
  pendingCount: number
}

export interface StoredScore {
  siteId: number
  tier: Tier
  tierSinceSec: number
  score: number
  facts: unknown
}
