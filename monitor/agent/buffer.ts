/**
 * What an agent has measured and not yet handed over: on disk, in order, bounded (spec 6.5).
 *
 *     add ─► [ 7 up | 8 down | 9 up | … ] ─► first(500) ─► sent ─► forget(the row that was last)
 *              ^ full: the oldest *up* goes first, without one the oldest of all; older than a day: goes
 *
 *     not a result, or longer than 1,024 characters ─► that row is dropped when it is read; counted, the first is logged
 *     unreadable ─► renamed to <file>.unreadable (an older one is replaced) ─► a new, empty file; logged, with the remedy
 *
 * Row numbers are the file's own and never leave it: agent.ts numbers results as it sends them, so nothing a server says
 * can make the file unusable. SQLite, since dropping from the middle, counting and surviving a kill are what it is for; one
 * row is some 20 µs, and a killed process loses none. One agent per file: a second one is refused.
 */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { check } from '../api/schema/json-schema.ts'
import { Database } from '../storage/database.ts'
import { createParentFolder } from '../storage/path.ts'
import { BUFFERED_ROWS_MAX, MEASURED, type WireResult } from './wire.ts'

export const BYTES_MAX = 128 * 1_024 * 1_024 // of their JSON, some 200 each
const ROW_CHARS_MAX = 1_024 // four times the usual; 500 of them stay below what the server takes
const FREED_PAGES = 10_000 // given back to the disk at once, 40 MiB

// The column is named as in files of earlier versions. An empty file numbers from 1 again: those versions could be made to
// use up the numbers.
const TABLE = `
PRAGMA locking_mode=EXCLUSIVE;
CREATE TABLE IF NOT EXISTS result (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  is_up INTEGER NOT NULL,
  json TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS result_up ON result (is_up, sequence);
CREATE INDEX IF NOT EXISTS result_at ON result (at);
DELETE FROM sqlite_sequence WHERE name = 'result' AND NOT EXISTS (SELECT 1 FROM result);
BEGIN IMMEDIATE; COMMIT;
`

export type Measured = Omit<WireResult, 'sequence'>

export interface BufferedResult {
  row: number // grows
  measured: Measured
}

export interface BufferOptions {
  path: string
  log: Log
  rowsMax?: number
  bytesMax?: number
}

export class ResultBuffer {
  droppedCount = 0 // for want of room, too old, or not a result
  count = 0
  bytes = 0
  private database: Database
  private isInvalidLogged = false
  private readonly path: string
  private readonly log: Log
  private readonly rowsMax: number
  private readonly bytesMax: number

  /** Throws OperatorError. */
  constructor({ path, log, rowsMax = BUFFERED_ROWS_MAX, bytesMax = BYTES_MAX }: BufferOptions) {
    this.path = path
    this.log = log
    this.rowsMax = rowsMax
    this.bytesMax = bytesMax
    try {
      this.database = opened(path)
    } catch (error) {
      if (!isUnreadable(error)) throw unusable(path, error)
      this.database = this.replaced(error)
    }
    this.orReplaced(() => {
      this.measure()
      this.read(1)
    })
  }

  /** Throws when the disk refuses: the result is lost. */
  add(result: Measured): void {
    this.orReplaced(() => {
      const json = JSON.stringify(result)
      while (this.count > 0 && (this.count >= this.rowsMax || this.bytes + json.length > this.bytesMax))
        this.drop()
      const isUp = result.outcome === 'up' ? 1 : 0
      this.database.run('INSERT INTO result (at, is_up, json) VALUES (?, ?, ?)', result.at_s, isUp, json)
      this.count += 1
      this.bytes += json.length
    })
  }

  /** Oldest first. */
  first(countMax: number): BufferedResult[] {
    return this.orReplaced(() => this.read(countMax))
  }

  /** All up to this row, itself included. */
  forget(row: number): void {
    this.orReplaced(() => this.remove('sequence <= ?', row))
  }

  forgetBefore(atSec: number): void {
    this.droppedCount += this.orReplaced(() => this.remove('at < ?', atSec))
  }

  close(): void {
    this.database.close()
  }

  private drop(): void {
    const oldest = (where: string) =>
      this.database.get<{ row: number | null }>(`SELECT min(sequence) AS row FROM result ${where}`)!.row
    const up = oldest('WHERE is_up = 1')
    this.droppedCount += this.remove('sequence = ?', up ?? oldest('')!)
  }

  /** Empty only when the file is: rows that are not results are dropped on the way. */
  private read(countMax: number): BufferedResult[] {
    for (;;) {
      const rows = this.database.all<{ row: number; json: string | null }>(
        `SELECT sequence AS row, CASE WHEN length(json) <= ${ROW_CHARS_MAX} THEN json END AS json FROM result
         ORDER BY sequence LIMIT ?`,
        countMax,
      )
      const results = rows.map(({ row, json }) => ({ row, measured: JSON.parse(json ?? 'null') as Measured }))
      const valid = results.filter(({ measured }) => check(MEASURED, measured, {}) === null)
      if (valid.length < rows.length) this.dropInvalid(results.filter((result) => !valid.includes(result)))
      if (valid.length > 0 || rows.length === 0) return valid
    }
  }

  private dropInvalid(results: BufferedResult[]): void {
    const rows = JSON.stringify(results.map(({ row }) => row))
    this.droppedCount += this.remove('sequence IN (SELECT value FROM json_each(?))', rows)
    if (this.isInvalidLogged) return
    this.isInvalidLogged = true
    const what = 'has rows that are not results; they are dropped and counted.'
    const fix = 'Check who else writes to the file, and the disk.'
    this.log('error', `${this.path}: ${what} ${fix} [AGENT_BUFFER]`)
  }

  private remove(where: string, value: number | string): number {
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

  private totals(where: string, ...values: (number | string)[]): { count: number; bytes: number } {
    const sql = `SELECT count(*) AS count, ifnull(sum(length(json)), 0) AS bytes FROM result ${where}`
    return this.database.get<{ count: number; bytes: number }>(sql, ...values)!
  }

  /** Once more, on a new file, when the content cannot be read. */
  private orReplaced<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (!isUnreadable(error)) throw error
      this.database.close()
      this.database = this.replaced(error)
      this.measure()
      return work()
    }
  }

  private replaced(cause: unknown): Database {
    const aside = `${this.path}.unreadable`
    try {
      for (const suffix of ['', '-wal', '-shm']) {
        rmSync(aside + suffix, { force: true })
        if (existsSync(this.path + suffix)) renameSync(this.path + suffix, aside + suffix)
      }
      const database = opened(this.path)
      this.log('error', unreadable(this.path, aside, cause).message)
      return database
    } catch (error) {
      throw unusable(this.path, error)
    }
  }
}

function opened(path: string): Database {
  createParentFolder(path)
  const database = new Database(path)
  try {
    database.exec(TABLE)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

const SQLITE_ERROR = 1 // the statements are fixed, so the tables are not those of a buffer
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26

/** Whether the content is to blame, and not the disk, the rights or another process: waiting or mending those cures nothing. */
function isUnreadable(error: unknown): boolean {
  if (error instanceof RangeError || error instanceof SyntaxError) return true // a number beyond 2^53, text that is not JSON
  const { errcode, cause } = error as { errcode?: number; cause?: unknown }
  if (errcode === undefined) return cause !== undefined && isUnreadable(cause)
  return [SQLITE_ERROR, SQLITE_CORRUPT, SQLITE_NOTADB].includes(errcode & 0xff)
}

function unreadable(path: string, aside: string, cause: unknown): ConfigurationError {
  const what = `cannot be read (${reasonOf(cause)}); it is now ${aside}, and results go to a new file.`
  const fix = 'What it kept is not handed over. Check the disk if this comes again, and delete the file.'
  return new ConfigurationError({ code: 'AGENT_BUFFER', where: path, what, fix }, { cause })
}

function unusable(path: string, error: unknown): ConfigurationError {
  const what = `cannot be used to keep results: ${reasonOf(error)}.`
  const fix = 'Is another agent running here? Else check the folder, or delete the file and what it keeps.'
  return new ConfigurationError({ code: 'AGENT_BUFFER', where: path, what, fix }, { cause: error })
}

/** What SQLite or the system said, without what the driver made of it. */
function reasonOf(error: unknown): string {
  return ((error as Error).cause instanceof Error ? ((error as Error).cause as Error) : (error as Error))
    .message
}
