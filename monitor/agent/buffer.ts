/**
 * What an agent has measured and not yet handed over: on disk, numbered, bounded (spec 6.5).
 *
 *     add ─► [ 7 up | 8 down | 9 up | … ] ─► first(500) ─► sent ─► forget(up to the accepted number)
 *              ^ full: the oldest *up* goes first, without one the oldest of all; older than a day: goes
 *
 * Numbers only grow, also over restarts and when all is forgotten, so the server can tell what came before. SQLite, since
 * dropping from the middle, counting and surviving a kill are what it is for; one row is some 20 µs, and a process that is
 * killed loses none. One agent per file: a second one is refused, or both would use the same numbers.
 */
import { OperatorError } from '../../engine/errors.ts'
import { Database } from '../store/database.ts'
import { makeFolderOf } from '../store/path.ts'
import type { WireResult } from './wire.ts'

export const ROWS_MAX = 500_000 // a day of 1,700 sites each five minutes
export const BYTES_MAX = 128 * 1_024 * 1_024 // of their JSON, some 200 each
const FREED_PAGES = 10_000 // given back to the disk at once, 40 MiB

const TABLE = `
PRAGMA locking_mode=EXCLUSIVE;
CREATE TABLE IF NOT EXISTS result (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, -- remembers the highest there ever was
  at INTEGER NOT NULL,
  is_up INTEGER NOT NULL,
  json TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS result_up ON result (is_up, sequence);
CREATE INDEX IF NOT EXISTS result_at ON result (at);
BEGIN IMMEDIATE; COMMIT;
`

export type Measured = Omit<WireResult, 'sequence'>

export interface BufferOptions {
  path: string
  rowsMax?: number
  bytesMax?: number
}

export class ResultBuffer {
  droppedCount = 0 // for want of room, or too old
  count = 0
  bytes = 0
  private lastSequence: number
  private readonly database: Database
  private readonly rowsMax: number
  private readonly bytesMax: number

  /** Throws OperatorError. */
  constructor({ path, rowsMax = ROWS_MAX, bytesMax = BYTES_MAX }: BufferOptions) {
    this.rowsMax = rowsMax
    this.bytesMax = bytesMax
    this.database = opened(path)
    const row = this.database.get<{ last: number }>(
      "SELECT seq AS last FROM sqlite_sequence WHERE name = 'result'",
    )
    this.lastSequence = row?.last ?? 0
    this.measure()
  }

  /** Throws when the disk refuses: the result is lost. */
  add(result: Measured): void {
    const json = JSON.stringify(result)
    while (this.count > 0 && (this.count >= this.rowsMax || this.bytes + json.length > this.bytesMax))
      this.drop()
    const sql = 'INSERT INTO result (sequence, at, is_up, json) VALUES (?, ?, ?, ?)'
    const isUp = result.outcome === 'up' ? 1 : 0
    this.database.run(sql, this.lastSequence + 1, result.at_s, isUp, json)
    this.lastSequence += 1
    this.count += 1
    this.bytes += json.length
  }

  /** The server has seen numbers up to here: those that come are higher. Of what waits it has had those below. */
  continueAfter(sequence: number): void {
    this.forget(sequence)
    this.lastSequence = Math.max(this.lastSequence, sequence)
  }

  /** Oldest first. */
  first(countMax: number): WireResult[] {
    const rows = this.database.all<{ sequence: number; json: string }>(
      'SELECT sequence, json FROM result ORDER BY sequence LIMIT ?',
      countMax,
    )
    return rows.map(({ sequence, json }) => ({ sequence, ...(JSON.parse(json) as Measured) }))
  }

  /** All up to this number, itself included. */
  forget(sequence: number): void {
    this.remove('sequence <= ?', sequence)
  }

  forgetBefore(atSec: number): void {
    this.droppedCount += this.remove('at < ?', atSec)
  }

  close(): void {
    this.database.close()
  }

  private drop(): void {
    const oldest = (where: string) =>
      this.database.get<{ sequence: number | null }>(`SELECT min(sequence) AS sequence FROM result ${where}`)!
        .sequence
    const up = oldest('WHERE is_up = 1')
    this.droppedCount += this.remove('sequence = ?', up ?? oldest('')!)
  }

  private remove(where: string, value: number): number {
    const { count, bytes } = this.totals(`WHERE ${where}`, value)
    if (count === 0) return 0
    this.database.run(`DELETE FROM result WHERE ${where}`, value)
    this.count -= count
    this.bytes -= bytes
    if (this.count === 0) this.database.raw.exec(`PRAGMA incremental_vacuum(${FREED_PAGES})`)
    return count
  }

  private measure(): void {
    Object.assign(this, this.totals(''))
  }

  private totals(where: string, ...values: number[]): { count: number; bytes: number } {
    const sql = `SELECT count(*) AS count, ifnull(sum(length(json)), 0) AS bytes FROM result ${where}`
    return this.database.get<{ count: number; bytes: number }>(sql, ...values)!
  }
}

function opened(path: string): Database {
  try {
    makeFolderOf(path)
    const database = new Database(path)
    database.exec(TABLE)
    return database
  } catch (error) {
    const what = `cannot be used to keep results: ${(error as Error).message}.`
    const fix = 'Is another agent running here? Else check the folder, or delete the file and what it keeps.'
    throw new OperatorError({ code: 'AGENT_BUFFER', where: path, what, fix }, { cause: error })
  }
}
