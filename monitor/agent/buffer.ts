/**
 * Results an agent has not sent yet: on disk, in order, bounded (spec 6.5).
 *
 *     add ─► [ 7 up | 8 down | 9 up | … ] ─► first(500) ─► sent ─► forget(last row)
 *              ^ when full, the oldest *up* is dropped, without one the oldest; results older than a day are dropped
 *
 * A row that is not a result, or longer than 1,024 characters, is dropped when it is read; the first one is logged.
 * A file that is unreadable, or whose row numbers are used up, is renamed to <file>.unreadable (replacing an older one),
 * logged, and a new one is opened. Row numbers are local to the file: agent.ts numbers results as it sends them, so no
 * response can exhaust them. SQLite
 * because rows are dropped from the middle and survive a kill; adding one takes about 20 µs. One agent per file: a second
 * one fails to open it.
 */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { check } from '../api/schema/json-schema.ts'
import { Database } from '../storage/database.ts'
import { createParentFolder } from '../storage/path.ts'
import { BUFFERED_ROWS_MAX, MEASURED, type WireResult } from './wire.ts'

export const BYTES_MAX = 128 * 1_024 * 1_024 // of their JSON, some 200 each
const ROW_CHARS_MAX = 1_024 // four times the usual; 500 of them stay below what the server accepts
const FREED_PAGES = 10_000 // freed at a time, 40 MiB

const ROW_MAX = 2 ** 52 // at the start; what follows must stay an exact number

// The column is named as in files of earlier versions. Numbers start after the rows that are left, not after the highest
// ever: in earlier versions a server could exhaust them.
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
UPDATE sqlite_sequence SET seq = ifnull((SELECT max(sequence) FROM result), 0) WHERE name = 'result';
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
  busyMs?: number // how long to wait for another agent that holds the file; default 5 s
}

export class ResultBuffer {
  droppedCount = 0 // no room, too old, or not a result
  count = 0
  bytes = 0
  private database: Database
  private isInvalidLogged = false
  private readonly path: string
  private readonly log: Log
  private readonly rowsMax: number
  private readonly bytesMax: number
  private readonly busyMs: number | undefined

  /** Throws ConfigurationError. */
  constructor({ path, log, rowsMax = BUFFERED_ROWS_MAX, bytesMax = BYTES_MAX, busyMs }: BufferOptions) {
    this.path = path
    this.log = log
    this.rowsMax = rowsMax
    this.bytesMax = bytesMax
    this.busyMs = busyMs
    try {
      this.database = openDatabase(path, busyMs)
    } catch (error) {
      if (!isUnreadable(error)) throw unusableError(path, error)
      this.database = this.replaceFile(error)
    }
    this.withReplacement(() => {
      this.measure()
      this.read(1)
    })
  }

  /** Throws when the disk refuses the write: the result is lost. */
  add(result: Measured): void {
    this.withReplacement(() => {
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
    return this.withReplacement(() => this.read(countMax))
  }

  /** Deletes all rows up to and including this one. */
  forget(row: number): void {
    this.withReplacement(() => this.remove('sequence <= ?', row))
  }

  forgetBefore(atSec: number): void {
    this.droppedCount += this.withReplacement(() => this.remove('at < ?', atSec))
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

  /** Runs `work`; if the content cannot be read, replaces the file and runs it again. */
  private withReplacement<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (!isUnreadable(error)) throw error
      this.database.close()
      this.database = this.replaceFile(error)
      this.measure()
      return work()
    }
  }

  private replaceFile(cause: unknown): Database {
    const aside = `${this.path}.unreadable`
    try {
      for (const suffix of ['', '-wal', '-shm']) {
        rmSync(aside + suffix, { force: true })
        if (existsSync(this.path + suffix)) renameSync(this.path + suffix, aside + suffix)
      }
      const database = openDatabase(this.path, this.busyMs)
      this.log('error', unreadableError(this.path, aside, cause).message)
      return database
    } catch (error) {
      throw unusableError(this.path, error)
    }
  }
}

function openDatabase(path: string, busyMs: number | undefined): Database {
  createParentFolder(path)
  const database = new Database(path, { busyMs })
  try {
    database.exec(TABLE)
    const { row } = database.get<{ row: number | null }>('SELECT max(sequence) AS row FROM result')!
    if (row !== null && row > ROW_MAX) throw new RangeError(`its row numbers are used up, at ${row}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

const SQLITE_ERROR = 1 // the statements are fixed, so the file has another schema
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26

/** Whether the content is at fault, rather than the disk, permissions or another process. */
function isUnreadable(error: unknown): boolean {
  if (error instanceof RangeError || error instanceof SyntaxError) return true // a number beyond 2^53, text that is not JSON
  const { errcode, cause } = error as { errcode?: number; cause?: unknown }
  if (errcode === undefined) return cause !== undefined && isUnreadable(cause)
  return [SQLITE_ERROR, SQLITE_CORRUPT, SQLITE_NOTADB].includes(errcode & 0xff)
}

function unreadableError(path: string, aside: string, cause: unknown): ConfigurationError {
  const what = `cannot be read (${getReason(cause)}); it is now ${aside}, and results go to a new file.`
  const fix = 'The results in it are not sent. Delete it; check the disk if this happens again.'
  return new ConfigurationError({ code: 'AGENT_BUFFER', where: path, what, fix }, { cause })
}

function unusableError(path: string, error: unknown): ConfigurationError {
  const what = `cannot be used to keep results: ${getReason(error)}.`
  const fix = 'Stop another agent that uses it, or check the folder, or delete the file with its results.'
  return new ConfigurationError({ code: 'AGENT_BUFFER', where: path, what, fix }, { cause: error })
}

/** The message of SQLite or of the system, without the driver's. */
function getReason(error: unknown): string {
  return ((error as Error).cause instanceof Error ? ((error as Error).cause as Error) : (error as Error))
    .message
}
