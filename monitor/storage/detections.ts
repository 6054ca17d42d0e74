/**
 * The rows of detections (spec 3.5): written by version, recovered at a start, deleted in time.
 *
 *     queued ──► running ──► done | failed        at a start: queued    stays
 *                                                             running   queued again, once; then failed
 *
 * api/detections owns the states; this file stores what must survive the process.
 */
import type { Database } from './database.ts'
import type { DetectionRow } from './rows.ts'

export const DETECTIONS_MAX = 50_000
export const DETECTION_KEPT_SEC = 7 * 86_400
const REQUEUES_MAX = 1

/** An older version never replaces a newer one, so the order of arrival does not matter. */
export function saveDetection(database: Database, row: DetectionRow): void {
  database.run(
    `INSERT INTO detection (id, target_key, url, status, version, submitted_at, started_at, finished_at, client_hash,
       result_json, error_code) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET status = excluded.status, version = excluded.version,
       started_at = excluded.started_at, finished_at = excluded.finished_at, result_json = excluded.result_json,
       error_code = excluded.error_code WHERE excluded.version >= version`,
    ...[row.id, row.targetKey, row.url, row.status, row.version, row.submittedAtSec, row.startedAtSec],
    ...[row.finishedAtSec, row.clientHash, row.resultJson, row.errorCode],
  )
}

/** To be called once per start, before anything is queued. Returns what is to be run, oldest first. */
export function restartDetections(database: Database, nowSec: number): DetectionRow[] {
  return database.transaction(() => {
    database.run(
      `UPDATE detection SET status = 'failed', error_code = 'internal_error', finished_at = ?, version = version + 1
       WHERE status = 'running' AND requeues >= ?`,
      ...[nowSec, REQUEUES_MAX],
    )
    database.run(
      `UPDATE detection SET status = 'queued', started_at = NULL, requeues = requeues + 1, version = version + 1
       WHERE status = 'running'`,
    )
    return database.all<DetectionRow>(
      `SELECT ${DETECTION_COLUMNS} FROM detection WHERE status = 'queued' ORDER BY submitted_at, id`,
    )
  })
}

export function findDetection(database: Database, id: string): DetectionRow | null {
  const sql = `SELECT ${DETECTION_COLUMNS} FROM detection WHERE id = ?`
  return database.get<DetectionRow>(sql, id) ?? null
}

/** The newest of a target, for reuse and cool-down (spec 3.4, 4.5). */
export function findNewestDetection(database: Database, targetKey: string): DetectionRow | null {
  const sql = `SELECT ${DETECTION_COLUMNS} FROM detection WHERE target_key = ? ORDER BY submitted_at DESC, id DESC LIMIT 1`
  return database.get<DetectionRow>(sql, targetKey) ?? null
}

/** At most `rowsMax` rows: those past their time, then the oldest finished ones beyond the bound. Returns how many. */
export function pruneDetections(
  database: Database,
  nowSec: number,
  rowsMax: number,
  keptMax = DETECTIONS_MAX,
): number {
  const old = database.run(
    `DELETE FROM detection WHERE id IN (SELECT id FROM detection WHERE submitted_at < ? LIMIT ?)`,
    ...[nowSec - DETECTION_KEPT_SEC, rowsMax],
  )
  const { count } = database.get<{ count: number }>('SELECT count(*) AS count FROM detection')!
  const surplus = Math.min(count - keptMax, rowsMax - old)
  if (surplus <= 0) return old
  return (
    old +
    database.run(
      `DELETE FROM detection WHERE id IN
       (SELECT id FROM detection WHERE status IN ('done', 'failed') ORDER BY finished_at, id LIMIT ?)`,
      surplus,
    )
  )
}

const DETECTION_COLUMNS = `id, target_key AS targetKey, url, status, version, submitted_at AS submittedAtSec,
  started_at AS startedAtSec, finished_at AS finishedAtSec, client_hash AS clientHash, result_json AS resultJson,
  error_code AS errorCode`
