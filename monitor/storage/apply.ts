/**
 * One batch of writes, in one transaction.
 *
 *     batch ──► every write ──► touched buckets and sites, once each ──► commit
 *       └── an invalid value or an unknown site in it ──► again, write by write; only the invalid ones are refused
 *
 * Buckets and the newest outcome of a site are collected during the batch and written at its end: a full batch touches an
 * hour bucket many times and writes it once.
 */
import type { Observation, Outcome, Region } from '../facts.ts'
import { addressToKeep } from '../scoring/blocking.ts'
import { isTooFar, TouchedBuckets } from './bucket-rows.ts'
import { type Database, isConstraint } from './database.ts'
import { saveDetection } from './detections.ts'
import { saveModels } from './models.ts'
import type { IncidentWrite, RegionWrite, ScoreWrite, ScreenshotWrite, Write } from './rows.ts'

// Of an agent's results, so that none outweighs the other vantages of its region: of one site at most 6 in any 3 intervals.
// That is twice what is due. A planner makes at most 5, however late and however often confirmed: plans are 0.9 intervals
// apart at least, and the next one comes after the end of the last probe. One more is for a restart. A change from a shorter
// interval to a longer one costs the results of the first 3 intervals at most.
const DUE_INTERVALS = 3
const DUE_RESULTS_MAX = 2 * DUE_INTERVALS
const TOO_MANY = `its vantage has ${DUE_RESULTS_MAX} results of this site in ${DUE_INTERVALS} intervals already`
export const TWO_SENDERS = 'its vantage has another result of this site and second'

export interface Refusal {
  write: Write
  why: string
}

/** Throws when nothing could be written and a later attempt may succeed (disk full, file locked). */
export function applyBatch(database: Database, writes: Write[], nowSec: number): Refusal[] {
  try {
    return database.transaction(() => applyAll(new Batch(database, nowSec), writes))
  } catch (error) {
    if (!isConstraint(error)) throw error
    return database.transaction(() => writes.flatMap((write) => applyAlone(database, write, nowSec)))
  }
}

function applyAll(batch: Batch, writes: Write[]): Refusal[] {
  const refusals: Refusal[] = []
  for (const write of writes) {
    const why = batch.apply(write)
    if (why) refusals.push({ write, why })
  }
  batch.finish()
  return refusals
}

function applyAlone(database: Database, write: Write, nowSec: number): Refusal[] {
  database.raw.exec('SAVEPOINT alone')
  try {
    const refusals = applyAll(new Batch(database, nowSec), [write])
    database.raw.exec('RELEASE alone')
    return refusals
  } catch (error) {
    if (!isConstraint(error)) throw error
    database.raw.exec('ROLLBACK TO alone')
    database.raw.exec('RELEASE alone')
    return [{ write, why: (error as Error).message }]
  }
}

type ProbeWrite = Extract<Write, { kind: 'probe' }>

interface NewestProbe {
  siteId: number
  region: Region
  atSec: number
  outcome: Outcome
}

class Batch {
  private readonly database: Database
  private readonly nowSec: number
  private readonly buckets: TouchedBuckets
  private readonly newest = new Map<string, NewestProbe>() // by site and region

  constructor(database: Database, nowSec: number) {
    this.database = database
    this.nowSec = nowSec
    this.buckets = new TouchedBuckets(database)
  }

  /** null, or why it was refused. */
  apply(write: Write): string | null {
    if (write.kind === 'probe') return this.probe(write)
    if (write.kind === 'observation') this.observation(write)
    else if (write.kind === 'region') saveRegion(this.database, write)
    else if (write.kind === 'score') saveScore(this.database, write)
    else if (write.kind === 'incident') saveIncident(this.database, write)
    else if (write.kind === 'board') this.board(write)
    else if (write.kind === 'detection') saveDetection(this.database, write.detection)
    else if (write.kind === 'vantage-seen') this.vantageSeen(write)
    else if (write.kind === 'screenshot') saveScreenshot(this.database, write)
    else this.meta(write)
    return null
  }

  finish(): void {
    this.buckets.save()
    for (const { siteId, region, atSec, outcome } of this.newest.values()) {
      this.database.run(
        `INSERT INTO newest_probe (site_id, region, at, outcome) VALUES (?, ?, ?, ?) ON CONFLICT (site_id, region)
         DO UPDATE SET at = excluded.at, outcome = excluded.outcome WHERE ${isNewest('newest_probe.at')}`,
        ...[siteId, region, atSec, outcome, atSec, this.nowSec],
      )
      this.database.run(
        `UPDATE site SET state = ?, last_probed = ? WHERE id = ? AND ${isNewest('last_probed')}`,
        ...[outcome, atSec, siteId, atSec, this.nowSec],
      )
    }
  }

  private probe(write: ProbeWrite): string | null {
    const { siteId, vantageId, probe, dueSec } = write
    if (isTooFar(probe.atSec, this.nowSec)) return 'its time is beyond what is kept, or in the future'
    const region = this.buckets.getRegion(vantageId)
    if (region === null) return `there is no vantage ${vantageId}`
    const { dnsMs, connectMs, tlsMs, ttfbMs, totalMs } = probe.timings
    const values: (string | number | null)[] = [probe.kind, probe.outcome, probe.error, probe.httpStatus]
    values.push(dnsMs, connectMs, tlsMs, ttfbMs, totalMs, addressToKeep(probe))
    if (dueSec !== undefined && this.isBeyondDue(write, dueSec)) return TOO_MANY
    const isNew = this.database.run(
      `INSERT INTO probe_raw (site_id, vantage_id, at, kind, outcome, error, http_status, dns_ms, connect_ms, tls_ms,
       ttfb_ms, total_ms, address) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      ...[siteId, vantageId, probe.atSec, ...values],
    )
    if (isNew === 0 && dueSec !== undefined && !this.isKnown(write, values)) return TWO_SENDERS
    if (isNew === 0 || probe.outcome === 'inconclusive') return null // seen before, or not counted anywhere
    this.buckets.add(siteId, region, probe)
    const known = this.newest.get(`${siteId} ${region}`)
    if (!known || known.atSec <= probe.atSec) {
      const { atSec, outcome } = probe
      this.newest.set(`${siteId} ${region}`, { siteId, region, atSec, outcome })
    }
    return null
  }

  /** False for a result that is there already: of the second itself none counts. */
  private isBeyondDue({ siteId, vantageId, probe }: ProbeWrite, dueSec: number): boolean {
    const windowSec = DUE_INTERVALS * dueSec
    const row = this.database.get<{ others: number; isThere: number }>(
      `SELECT count(*) AS others, ifnull(max(at = ?), 0) AS isThere FROM (SELECT at FROM probe_raw WHERE site_id = ?
       AND vantage_id = ? AND at > ? AND at < ?)`,
      ...[probe.atSec, siteId, vantageId, probe.atSec - windowSec, probe.atSec + windowSec],
    )!
    return row.isThere === 0 && row.others >= DUE_RESULTS_MAX
  }

  private isKnown({ siteId, vantageId, probe }: ProbeWrite, values: (string | number | null)[]): boolean {
    const row = this.database.get(
      `SELECT kind, outcome, error, http_status, dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms, address FROM probe_raw
       WHERE site_id = ? AND vantage_id = ? AND at = ?`,
      ...[siteId, vantageId, probe.atSec],
    )
    return Object.values(row ?? {}).every((value, i) => value === values[i])
  }

  private observation({ siteId, observation, models }: Extract<Write, { kind: 'observation' }>): void {
    const { atSec, claimed, models: listed, ...profile } = observation
    this.database.run(
      `INSERT OR REPLACE INTO observation (site_id, at, profile_json, claimed_json, verified_json)
       VALUES (?, ?, ?, ?, ?)`,
      ...[siteId, atSec, JSON.stringify(profile), JSON.stringify(claimed), JSON.stringify(listed)],
    )
    this.database.run(
      `UPDATE site SET last_full = ? WHERE id = ? AND ${isNewest('last_full')}`,
      ...[atSec, siteId, atSec, this.nowSec],
    )
    if (models) saveModels(this.database, siteId, atSec, models)
  }

  private board({ daySec, board, rows }: Extract<Write, { kind: 'board' }>): void {
    this.database.run('DELETE FROM board_day WHERE day = ? AND board = ?', daySec, board)
    for (const row of rows) {
      this.database.run(
        'INSERT INTO board_day (day, board, site_id, rank, since, reasons_json) VALUES (?, ?, ?, ?, ?, ?)',
        ...[daySec, board, row.siteId, row.rank, row.sinceSec, JSON.stringify(row.reasons)],
      )
    }
  }

  private vantageSeen({ vantageId, atSec }: Extract<Write, { kind: 'vantage-seen' }>): void {
    this.database.run(
      `UPDATE vantage SET last_seen = ? WHERE id = ? AND ${isNewest('last_seen')}`,
      ...[atSec, vantageId, atSec, this.nowSec],
    )
  }

  private meta({ key, value }: Extract<Write, { kind: 'meta' }>): void {
    this.database.run('INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)', key, value)
  }
}

/** Takes the time that would be written, and now. A time in the future is from before the clock was set back. */
function isNewest(column: string): string {
  return `(coalesce(${column}, 0) <= ? OR ${column} > ? + ${AHEAD_SEC_MAX})`
}
const AHEAD_SEC_MAX = 300 // as much as clocks of agents may differ

function saveRegion(database: Database, { siteId, region, state, sinceSec, pending }: RegionWrite): void {
  database.run(
    `INSERT OR REPLACE INTO region_state (site_id, region, state, blocking, vantages, agreeing, since, checked_at,
     pending_state, pending_count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[
      siteId,
      region,
      state.state,
      state.blocking,
      state.vantages,
      state.agreeing,
      sinceSec,
      state.checkedAtSec,
    ],
    ...[pending?.state ?? null, pending?.count ?? 0],
  )
}

function saveScore(database: Database, { siteId, tier, tierSinceSec, score, facts }: ScoreWrite): void {
  database.run(
    'UPDATE site SET tier = ?, tier_since = ?, score = ?, score_json = ? WHERE id = ?',
    ...[tier, tierSinceSec, score, JSON.stringify(facts), siteId],
  )
}

function saveIncident(database: Database, write: IncidentWrite): void {
  const { siteId, region, startedAtSec, endedAtSec, cause, vantages } = write
  database.run(
    `INSERT INTO incident (site_id, region, started_at, ended_at, cause, vantages) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (site_id, region, started_at) DO UPDATE SET ended_at = excluded.ended_at, cause = excluded.cause,
       vantages = excluded.vantages`,
    ...[siteId, region, startedAtSec, endedAtSec, cause, vantages],
  )
}

function saveScreenshot(database: Database, write: ScreenshotWrite): void {
  const { siteId, month, path, sha256, width, height, takenAtSec, error } = write
  database.run(
    `INSERT OR REPLACE INTO screenshot (site_id, month, path, sha256, width, height, taken_at, error)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[siteId, month, path, sha256, width, height, takenAtSec, error],
  )
}

/** The observation that `observation()` above took apart. */
export function fromObservationRow(row: Record<string, unknown>): Observation {
  const parts = JSON.parse(String(row.profile_json))
  const claimed = JSON.parse(String(row.claimed_json))
  return { ...parts, atSec: Number(row.at), claimed, models: JSON.parse(String(row.verified_json)) }
}
