/**
 * Reads a Snapshot (snapshot.ts) from the rows, except its index of models (model-index-delta.ts). About 20 ms for 1,000
 * sites, on the writer's thread, at most every 5 s.
 *
 * Published sites have a catalogue entry that is not hidden, a finished probe and a tier (spec 2.1).
 */
import type { Outcome, Region, RegionState } from '../facts.ts'
import { DAY_SEC } from '../scoring/bucket.ts'
import { listUsableApiKeys } from './api-keys.ts'
import type { Database } from './database.ts'
import { BOARDS_DAY, type Board } from './rows.ts'
import {
  type BoardEntry,
  type SiteState,
  type SnapshotRows,
  UNKNOWN_REGION,
  type VantageState,
} from './snapshot.ts'
import { listAgents } from './vantages.ts'

export function readSnapshot(database: Database, version: number, nowSec: number): SnapshotRows {
  const sites = readSites(database)
  const slugs = new Map(sites.map(({ id, slug }) => [id, slug]))
  return {
    version,
    generatedAtSec: nowSec,
    sites,
    aliases: readAliases(database, slugs),
    boards: readBoards(database, slugs),
    vantages: database.all<VantageState>(
      `SELECT name, region, country, last_seen AS lastSeenSec FROM vantage WHERE revoked_at IS NULL ORDER BY name`,
    ),
    apiKeys: listUsableApiKeys(database),
    agents: listAgents(database),
  }
}

type SiteRow = Omit<SiteState, 'regions' | 'facts'> & { facts: string; intervalSec: number | null }

function readSites(database: Database): SiteState[] {
  const regions = readRegions(database)
  const newest = readNewest(database)
  const rows = database.all<SiteRow>(
    `SELECT id, slug, name, url, api_base AS apiBase, first_seen AS firstSeen, state, tier, tier_since AS tierSinceSec,
     score, score_json AS facts, last_probed AS lastProbedSec, (SELECT max(taken_at) FROM screenshot
     WHERE site_id = site.id AND path IS NOT NULL) AS screenshotAtSec,
     json_extract(catalogue_json, '$.intervalSec') AS intervalSec FROM site
     WHERE removed_at IS NULL AND last_probed IS NOT NULL AND tier IS NOT NULL
     AND NOT json_extract(catalogue_json, '$.isHidden') ORDER BY slug`,
  )
  return rows.map(({ facts, intervalSec, ...row }) => ({
    ...row,
    state: pickBest(newest.get(row.id) ?? [], row, intervalSec) ?? row.state,
    facts: JSON.parse(facts),
    regions: {
      cn: regions.get(`${row.id} cn`) ?? UNKNOWN_REGION,
      overseas: regions.get(`${row.id} overseas`) ?? UNKNOWN_REGION,
    },
  }))
}

interface NewestProbe {
  siteId: number
  atSec: number
  outcome: Outcome
}

/** The newest counted probe of each region, by site. */
function readNewest(database: Database): Map<number, NewestProbe[]> {
  const rows = database.all<NewestProbe>('SELECT site_id AS siteId, at AS atSec, outcome FROM newest_probe')
  const sites = new Map<number, NewestProbe[]>()
  for (const row of rows) {
    const known = sites.get(row.siteId)
    if (known) known.push(row)
    else sites.set(row.siteId, [row])
  }
  return sites
}

const BEST_FIRST: readonly Outcome[] = ['up', 'degraded', 'down']
const FRESH_SEC_MIN = 900 // three default intervals
const FRESH_INTERVALS = 3

/**
 * The better region counts, as in the availability: a block in one region shows in that region's state, not here. A region
 * whose probes stopped before the other's newest one is left out, since it says nothing about now.
 */
function pickBest(
  newest: readonly NewestProbe[],
  { lastProbedSec }: Pick<SiteState, 'lastProbedSec'>,
  intervalSec: number | null,
): Outcome | undefined {
  const sinceSec = lastProbedSec - Math.max(FRESH_SEC_MIN, FRESH_INTERVALS * (intervalSec ?? 0))
  const outcomes = newest.filter(({ atSec }) => atSec > sinceSec).map(({ outcome }) => outcome)
  return BEST_FIRST.find((each) => outcomes.includes(each))
}

function readRegions(database: Database): Map<string, RegionState> {
  const rows = database.all<RegionState & { siteId: number; region: Region }>(
    `SELECT site_id AS siteId, region, state, blocking, vantages, agreeing, checked_at AS checkedAtSec
     FROM region_state`,
  )
  return new Map(rows.map(({ siteId, region, ...state }) => [`${siteId} ${region}`, state]))
}

function readAliases(database: Database, slugs: Map<number, string>): Record<string, string> {
  const rows = database.all<{ alias: string; siteId: number }>(
    'SELECT alias, site_id AS siteId FROM alias WHERE is_listed ORDER BY alias',
  )
  return Object.fromEntries(
    rows.flatMap(({ alias, siteId }) => (slugs.has(siteId) ? [[alias, slugs.get(siteId)!]] : [])),
  )
}

/** The newest day boards were made for, empty ones included; 0 = never. */
export function getNewestBoardsDay(database: Database): number {
  const { day } = database.get<{ day: number }>(
    `SELECT max((SELECT ifnull(max(day), 0) FROM board_day),
       (SELECT ifnull(max(CAST(value AS INTEGER)), 0) FROM meta WHERE key = ?)) AS day`,
    BOARDS_DAY,
  )!
  return day
}

/** The newest day, and the day before for the change of rank. Hidden sites leave no gap in the ranks. */
function readBoards(database: Database, slugs: Map<number, string>): Record<Board, BoardEntry[]> {
  const day = getNewestBoardsDay(database)
  const read = (board: Board): BoardEntry[] => {
    const rows = database.all<Omit<BoardEntry, 'slug' | 'reasons'> & { reasons: string }>(
      `SELECT site_id AS siteId, rank, since AS sinceSec, reasons_json AS reasons, (SELECT before.rank FROM board_day AS before
       WHERE before.day = board_day.day - ${DAY_SEC} AND before.board = board_day.board
       AND before.site_id = board_day.site_id) AS rankBefore
       FROM board_day WHERE day = ? AND board = ? ORDER BY rank`,
      ...[day, board],
    )
    return rows
      .filter(({ siteId }) => slugs.has(siteId))
      .map((row, index) => ({
        ...row,
        slug: slugs.get(row.siteId)!,
        rank: index + 1,
        reasons: JSON.parse(row.reasons),
      }))
  }
  return { red: read('red'), black: read('black') }
}
