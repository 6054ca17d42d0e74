/**
 * Hours to the better region, days from hours (spec 8.2), some sites per step so that probes are written in between.
 *
 *     hour over by 2 min ──► all := better of (cn, overseas)                       ──► its day is due
 *     day over by 5 min  ──► cn, overseas := sum of their hours; all := the better
 *
 * What is due is a table: writing a probe adds its hour, so late probes (of an agent) and restarts need no special case. Rows
 * are computed from rows and replaced, never added to, so a step may be repeated.
 */
import type { Region } from '../facts.ts'
import {
  type Bucket,
  betterBucket,
  bucketStartSec,
  DAY_SEC,
  HOUR_SEC,
  mergeBuckets,
  type WindowSec,
} from '../scoring/bucket.ts'
import { type BucketRegion, markDue, readBuckets, writeBucket } from './bucket-rows.ts'
import type { Database } from './database.ts'

/** Some ten milliseconds, for which probes wait: of an hour two rows are read per site, of a day 48. */
const SITES_PER_STEP: Record<WindowSec, number> = { [HOUR_SEC]: 250, [DAY_SEC]: 25 }
const DELAY_SEC: Record<WindowSec, number> = { [HOUR_SEC]: 120, [DAY_SEC]: 300 }

interface Due {
  windowSec: WindowSec
  atSec: number
  touched: number
}

export class RollUp {
  private readonly database: Database
  private due: Due | null = null
  private siteCursor = 0

  constructor(database: Database) {
    this.database = database
  }

  /** One transaction. False when nothing was due. */
  step(nowSec: number): boolean {
    const due = this.due ?? nextDue(this.database, nowSec)
    if (!due) return false
    const sitesMax = SITES_PER_STEP[due.windowSec]
    const sites = this.database.all<{ id: number }>(
      'SELECT id FROM site WHERE id > ? ORDER BY id LIMIT ?',
      ...[this.siteCursor, sitesMax],
    )
    const isLast = sites.length < sitesMax
    this.database.transaction(() => {
      for (const { id } of sites) rollUp(this.database, due, id)
      if (isLast) finish(this.database, due)
    })
    this.due = isLast ? null : due
    this.siteCursor = isLast ? 0 : sites[sites.length - 1].id
    return true
  }
}

/** Hours first and the oldest first, so that a day finds its hours done. */
function nextDue(database: Database, nowSec: number): Due | null {
  for (const windowSec of [HOUR_SEC, DAY_SEC] as const) {
    const due = database.get<Due>(
      `SELECT window_s AS windowSec, at AS atSec, touched FROM roll_up_due WHERE window_s = ? AND at <= ?
       ORDER BY at LIMIT 1`,
      ...[windowSec, nowSec - windowSec - DELAY_SEC[windowSec]],
    )
    if (due) return due
  }
  return null
}

function finish(database: Database, { windowSec, atSec, touched }: Due): void {
  const sql = 'DELETE FROM roll_up_due WHERE window_s = ? AND at = ? AND touched = ?'
  database.run(sql, windowSec, atSec, touched) // touched in the meantime: it stays due
  if (windowSec === HOUR_SEC) markDue(database, DAY_SEC, bucketStartSec(atSec, DAY_SEC))
}

function rollUp(database: Database, { windowSec, atSec }: Due, siteId: number): void {
  const read = (region: Region) =>
    readBuckets(database, { siteId, region, windowSec: HOUR_SEC, fromSec: atSec, toSec: atSec + windowSec })
  const [cn, overseas] = [read('cn'), read('overseas')].map((hours) => mergeBuckets(hours, atSec, windowSec))
  const write = (region: BucketRegion, bucket: Bucket | null) =>
    bucket && writeBucket(database, siteId, region, bucket)
  if (windowSec === DAY_SEC) {
    write('cn', cn)
    write('overseas', overseas)
  }
  write('all', betterBucket(cn, overseas))
}
