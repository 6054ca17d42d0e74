/**
 * Deletes old rows (spec 8.2), hourly, in steps of at most 5,000 rows so that probes are written in between.
 *
 *     probe_raw     7 d    observation  1 per day after 7 d, 90 d      detection   7 d and at most 50,000
 *     probe_hour   32 d    model_change 90 d                           screenshot  12 months
 *     probe_day   400 d    incident, board_day 400 d                   a removed site: everything but its row, after 90 d
 *
 * The large tables are ordered by site, not by age, so a task seeks each owner (site and vantage, or site and region) once
 * and deletes the old end of its history; an index by age would cost more than the rows.
 */
import { DAY_SEC } from '../scoring/bucket.ts'
import type { Database } from './database.ts'
import { pruneDetections } from './detections.ts'

export const ROWS_PER_STEP = 5_000
const OWNERS_PER_STEP = 500 // seeks that may find nothing
const SITES_PER_STEP = 100
const PAGES_PER_STEP = 2_000 // 8 MB returned to the file system
const EVERY_SEC = 3_600
const REMOVED_KEPT_SEC = 90 * DAY_SEC
const MONTHS_KEPT = 12

/** One kind of row. `step` deletes at most ROWS_PER_STEP rows; true when there may be more. */
interface Task {
  step(nowSec: number): boolean
}

export class Prune {
  private readonly database: Database
  private tasks: Task[] = []
  private nextAtSec = 0

  constructor(database: Database) {
    this.database = database
  }

  /** One transaction. False when nothing was due. */
  step(nowSec: number): boolean {
    if (this.tasks.length === 0) {
      if (nowSec < this.nextAtSec) return false
      this.tasks = createTasks(this.database)
      this.nextAtSec = nowSec + EVERY_SEC
    }
    const [task] = this.tasks
    if (!this.database.transaction(() => task.step(nowSec))) this.tasks.shift()
    if (this.tasks.length === 0) this.database.raw.exec(`PRAGMA incremental_vacuum(${PAGES_PER_STEP})`)
    return true
  }
}

function createTasks(database: Database): Task[] {
  return [
    new HistoryTask(database, 'probe_raw', 'vantage_id', 7 * DAY_SEC),
    new HistoryTask(database, 'probe_hour', 'region', 32 * DAY_SEC),
    new HistoryTask(database, 'probe_day', 'region', 400 * DAY_SEC),
    new HistoryTask(database, 'observation', null, 90 * DAY_SEC),
    new DailyObservations(database),
    createAgeTask(database, 'model_change', 'id', 'at', 90 * DAY_SEC),
    createAgeTask(database, 'incident', 'id', 'ended_at', 400 * DAY_SEC),
    createAgeTask(database, 'board_day', 'day, board, site_id', 'day', 400 * DAY_SEC),
    {
      step: (nowSec) => pruneDetections(database, nowSec, ROWS_PER_STEP) >= ROWS_PER_STEP,
    },
    {
      step: (nowSec) =>
        database.run(
          `DELETE FROM screenshot WHERE (site_id, month) IN (SELECT site_id, month FROM screenshot WHERE month < ?
           LIMIT ${ROWS_PER_STEP})`,
          firstMonthKept(nowSec),
        ) === ROWS_PER_STEP,
    },
    { step: (nowSec) => deleteRemovedSites(database, nowSec) },
  ]
}

/** A small table: rows are found by their age alone. */
function createAgeTask(database: Database, table: string, key: string, at: string, keptSec: number): Task {
  const sql = `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${at} < ? LIMIT ${ROWS_PER_STEP})`
  return { step: (nowSec) => database.run(sql, nowSec - keptSec) === ROWS_PER_STEP }
}

/** A large table whose key is (site_id, owner, at), or (site_id, at). */
class HistoryTask implements Task {
  private readonly database: Database
  private readonly table: string
  private readonly owner: string
  private readonly keptSec: number
  private cursor: { siteId: number; owner: number | string } = { siteId: 0, owner: '' }

  constructor(database: Database, table: string, owner: string | null, keptSec: number) {
    this.database = database
    this.table = table
    this.owner = owner ?? "''"
    this.keptSec = keptSec
  }

  step(nowSec: number): boolean {
    let rowsLeft = ROWS_PER_STEP
    for (let owners = 0; owners < OWNERS_PER_STEP; owners++) {
      rowsLeft -= this.cut(nowSec - this.keptSec, rowsLeft)
      if (rowsLeft === 0) return true // this owner may have more
      if (!this.advance()) return false
    }
    return true
  }

  private cut(beforeSec: number, rowsMax: number): number {
    const { siteId, owner } = this.cursor
    const sql = `DELETE FROM ${this.table} WHERE site_id = ? AND ${this.owner} = ? AND at IN
      (SELECT at FROM ${this.table} WHERE site_id = ? AND ${this.owner} = ? AND at < ? ORDER BY at LIMIT ?)`
    return this.database.run(sql, siteId, owner, siteId, owner, beforeSec, rowsMax)
  }

  /** Seeks the next (site, owner) that exists. */
  private advance(): boolean {
    const { siteId, owner } = this.cursor
    const sql = `SELECT site_id AS siteId, ${this.owner} AS owner FROM ${this.table}
      WHERE (site_id, ${this.owner}) > (?, ?) ORDER BY site_id, ${this.owner} LIMIT 1`
    const next = this.database.get<{ siteId: number; owner: number | string }>(sql, siteId, owner)
    if (next) this.cursor = next
    return next !== undefined
  }
}

/** Of each day before the last week, keeps the newest observation. */
class DailyObservations implements Task {
  private readonly database: Database
  private siteCursor = 0

  constructor(database: Database) {
    this.database = database
  }

  step(nowSec: number): boolean {
    const sites = this.database.all<{ id: number }>(
      `SELECT id FROM site WHERE id > ? ORDER BY id LIMIT ${SITES_PER_STEP}`,
      this.siteCursor,
    )
    const beforeSec = nowSec - (nowSec % DAY_SEC) - 7 * DAY_SEC // whole days, so that the newest of each is known
    for (const { id } of sites) {
      this.database.run(
        `DELETE FROM observation WHERE site_id = ? AND at < ? AND at NOT IN
         (SELECT max(at) FROM observation WHERE site_id = ? AND at < ? GROUP BY at / ${DAY_SEC})`,
        ...[id, beforeSec, id, beforeSec],
      )
      this.siteCursor = id
    }
    return sites.length === SITES_PER_STEP
  }
}

/** Every table with a site's data → the rest of its key. */
const KEYS: Record<string, string> = {
  probe_raw: 'vantage_id, at',
  probe_hour: 'region, at',
  probe_day: 'region, at',
  observation: 'at',
  model_seen: 'model_key',
  model_change: 'id',
  region_state: 'region',
  newest_probe: 'region',
  incident: 'id',
  board_day: 'day, board',
  screenshot: 'month',
}

/** The data of sites removed 90 days ago; the row stays, because a slug is never reused (spec 2.1). */
function deleteRemovedSites(database: Database, nowSec: number): boolean {
  const sql = 'SELECT id FROM site WHERE removed_at < ?'
  let rowsLeft = ROWS_PER_STEP
  for (const { id } of database.all<{ id: number }>(sql, nowSec - REMOVED_KEPT_SEC)) {
    for (const [table, key] of Object.entries(KEYS)) {
      rowsLeft -= database.run(
        `DELETE FROM ${table} WHERE site_id = ? AND (${key}) IN
         (SELECT ${key} FROM ${table} WHERE site_id = ? LIMIT ?)`,
        ...[id, id, rowsLeft],
      )
      if (rowsLeft === 0) return true
    }
  }
  return false
}

/** `YYYY-MM`: screenshots of earlier months are deleted. */
function firstMonthKept(nowSec: number): string {
  const date = new Date(nowSec * 1000)
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - MONTHS_KEPT)).toISOString().slice(0, 7)
}
