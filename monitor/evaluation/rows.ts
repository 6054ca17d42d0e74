/**
 * What a pass reads besides details (storage/reader.ts): sites, vantages, results, incidents, boards.
 */
import type { CatalogueSite, ErrorCode, Outcome, Region } from '../facts.ts'
import { isOnline, RESULT_AGE_MAX_SEC } from '../scoring/regions.ts'
import type { Database } from '../storage/database.ts'
import { getNewestBoardsDay } from '../storage/publish.ts'
import type { Board, IncidentWrite } from '../storage/rows.ts'

/** A site of the catalogue that has a finished probe. */
export interface PassSite {
  id: number
  slug: string
  apiBase: string
  lastProbedSec: number
  catalogue: Pick<CatalogueSite, 'modelsClaimed' | 'flags' | 'isHidden' | 'intervalSec'>
}

export interface PlacedVantage {
  id: number
  region: Region
  isOwn: boolean // the server's, the only one that makes full probes
  isOnline: boolean
}

/** The part of a counted probe that a region's state needs. */
export interface Result {
  atSec: number
  outcome: Outcome
  error: ErrorCode | null
  httpStatus: number | null
  address: string | null // of a connection that failed
}

export type KnownIncident = Omit<IncidentWrite, 'kind' | 'siteId' | 'region'>

/** `siteIds` undefined: all. */
export function readSites(database: Database, siteIds?: readonly number[]): PassSite[] {
  const rows = database.all<Omit<PassSite, 'catalogue'> & { catalogue: string }>(
    `SELECT id, slug, api_base AS apiBase, last_probed AS lastProbedSec, catalogue_json AS catalogue FROM site
     WHERE removed_at IS NULL AND last_probed IS NOT NULL ORDER BY id`,
  )
  const wanted = siteIds && new Set(siteIds)
  return rows
    .filter(({ id }) => wanted?.has(id) ?? true)
    .map(({ catalogue, ...row }) => ({ ...row, catalogue: JSON.parse(catalogue) }))
}

/**
 * Vantages that may have results recent enough to count. The server's own is always online; agents are by their last poll
 * (spec 6.5).
 */
export function readVantages(
  database: Database,
  { nowSec, ownVantage }: { nowSec: number; ownVantage: string | null },
): PlacedVantage[] {
  const rows = database.all<{ id: number; name: string; region: Region; lastSeenSec: number }>(
    `SELECT id, name, region, ifnull(last_seen, 0) AS lastSeenSec FROM vantage WHERE revoked_at IS NULL ORDER BY id`,
  )
  return rows
    .map(({ id, name, region, lastSeenSec }) => {
      const isOwn = name === ownVantage
      return { id, region, isOwn, isOnline: isOwn || isOnline(lastSeenSec, nowSec), lastSeenSec }
    })
    .filter((each) => each.isOnline || nowSec - each.lastSeenSec <= RESULT_AGE_MAX_SEC)
    .map(({ lastSeenSec: _, ...vantage }) => vantage)
}

/** Counted results of one vantage, newest first. */
export function readResults(
  database: Database,
  { siteId, vantageId, nowSec, resultsMax }: GetResults,
): Result[] {
  return database.all<Result>(
    `SELECT at AS atSec, outcome, error, http_status AS httpStatus, address FROM probe_raw
     WHERE site_id = ? AND vantage_id = ? AND at >= ? AND outcome <> 'inconclusive' ORDER BY at DESC LIMIT ?`,
    ...[siteId, vantageId, nowSec - RESULT_AGE_MAX_SEC, resultsMax],
  )
}
interface GetResults {
  siteId: number
  vantageId: number
  nowSec: number
  resultsMax: number
}

/** Addresses of the server's newest full probe; empty if that was before `sinceSec`. */
export function readAddresses(database: Database, siteId: number, sinceSec: number): string[] {
  const row = database.get<{ addresses: string }>(
    `SELECT json_extract(profile_json, '$.profile.ips') AS addresses FROM observation
     WHERE site_id = ? AND at >= ? ORDER BY at DESC LIMIT 1`,
    ...[siteId, sinceSec],
  )
  return row ? JSON.parse(row.addresses) : []
}

/** Open or closed. */
export function readNewestIncident(database: Database, siteId: number, region: Region): KnownIncident | null {
  const row = database.get<KnownIncident>(
    `SELECT started_at AS startedAtSec, ended_at AS endedAtSec, cause, vantages FROM incident
     WHERE site_id = ? AND region = ? ORDER BY started_at DESC LIMIT 1`,
    ...[siteId, region],
  )
  return row ?? null
}

/** Probes by outcome in hours of the better region that begin at these hours of the day (UTC, both included). */
export function sumHours(
  database: Database,
  { siteId, fromSec, toSec, firstHour, lastHour }: GetHours,
): { up: number; degraded: number; down: number } {
  return database.get<{ up: number; degraded: number; down: number }>(
    `SELECT ifnull(sum(up), 0) AS up, ifnull(sum(degraded), 0) AS degraded, ifnull(sum(down), 0) AS down FROM probe_hour
     WHERE site_id = ? AND region = 'all' AND at >= ? AND at < ? AND at / 3600 % 24 BETWEEN ? AND ?`,
    ...[siteId, fromSec, toSec, firstHour, lastHour],
  )!
}
interface GetHours {
  siteId: number
  fromSec: number
  toSec: number
  firstHour: number
  lastHour: number
}

/** Site → since when it is on the newest board. */
export function readSince(database: Database, board: Board): Map<number, number> {
  const rows = database.all<{ siteId: number; sinceSec: number }>(
    'SELECT site_id AS siteId, since AS sinceSec FROM board_day WHERE day = ? AND board = ?',
    ...[getNewestBoardsDay(database), board],
  )
  return new Map(rows.map(({ siteId, sinceSec }) => [siteId, sinceSec]))
}
