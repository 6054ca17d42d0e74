/**
 * A small driver over node:sqlite: pragmas, prepared statements, transactions, errors with a remedy.
 *
 *     one writer (worker thread) ──► file, WAL ◄── any number of readers, each sees the last commit
 *
 * WAL with synchronous=NORMAL: a killed process loses no commit; a power failure may lose the last commits, never the file.
 * node:sqlite is experimental in Node 22 and warns once per thread; threads that import this file are started without that
 * warning (thread-flags.ts), and a command that imports it needs --disable-warning=ExperimentalWarning.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { makePrivateFile } from './path.ts'

const BUSY_MS = 5_000 // another process (the command line) may hold the file for this long
const WAL_BYTES_KEPT = 64 * 1024 * 1024 // after a checkpoint; a reader that lingers may let it grow past this for a while
const STATEMENTS_MAX = 200 // the texts are a fixed set; beyond, a text was built from values, which is a defect

export type Row = Record<string, SQLInputValue>

export class Database {
  readonly path: string
  readonly raw: DatabaseSync
  private readonly statements = new Map<string, StatementSync>()

  /** `busyMs`: how long a statement waits for a lock of another process. */
  constructor(path: string, { isReadOnly = false, busyMs = BUSY_MS } = {}) {
    this.path = path
    this.raw = openFile(path, isReadOnly)
    try {
      this.raw.exec(`PRAGMA busy_timeout=${busyMs}; ${isReadOnly ? READER_PRAGMAS : WRITER_PRAGMAS}`)
    } catch (error) {
      this.raw.close()
      throw unusableError(path, error)
    }
  }

  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.statement(sql).run(...values).changes)
  }

  get<R = Row>(sql: string, ...values: SQLInputValue[]): R | undefined {
    return this.statement(sql).get(...values) as R | undefined
  }

  all<R = Row>(sql: string, ...values: SQLInputValue[]): R[] {
    return this.statement(sql).all(...values) as R[]
  }

  /** For what changes tables: a statement prepared before would go on with the columns it knew. */
  exec(sql: string): void {
    this.raw.exec(sql)
    this.statements.clear()
  }

  /** All or nothing. Takes the write lock at once, so that nothing read in `work` is stale when it writes. */
  transaction<T>(work: () => T): T {
    this.raw.exec('BEGIN IMMEDIATE')
    try {
      const result = work()
      this.raw.exec('COMMIT')
      return result
    } catch (error) {
      if (this.raw.isTransaction) this.raw.exec('ROLLBACK') // SQLite itself has rolled back when the disk is full
      throw error
    }
  }

  pragma(name: string): SQLInputValue {
    return Object.values(this.get(`PRAGMA ${name}`) ?? {})[0] ?? null
  }

  close(): void {
    this.statements.clear()
    if (this.raw.isOpen) this.raw.close()
  }

  private statement(sql: string): StatementSync {
    let statement = this.statements.get(sql)
    if (statement) return statement
    if (this.statements.size >= STATEMENTS_MAX) this.statements.clear()
    statement = this.raw.prepare(sql)
    this.statements.set(sql, statement)
    return statement
  }
}

/** Whether the same write can never succeed: a value or a reference is wrong. Anything else may pass with time. */
export function isConstraint(error: unknown): boolean {
  const code = (error as { errcode?: number }).errcode ?? 0
  const isOfTypes = error instanceof TypeError || error instanceof RangeError // a value SQLite has no type for
  return isOfTypes || [SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH].includes(code & 0xff)
}

const SQLITE_TOOBIG = 18
const SQLITE_CONSTRAINT = 19
const SQLITE_MISMATCH = 20

// auto_vacuum first: it can only be chosen while the file is empty, and WAL already writes a page.
const WRITER_PRAGMAS = `
PRAGMA auto_vacuum=INCREMENTAL;
PRAGMA journal_mode=WAL;
PRAGMA synchronous=NORMAL;
PRAGMA foreign_keys=ON;
PRAGMA journal_size_limit=${WAL_BYTES_KEPT};
PRAGMA trusted_schema=OFF;
`
const READER_PRAGMAS = 'PRAGMA query_only=ON; PRAGMA trusted_schema=OFF;'

function openFile(path: string, isReadOnly: boolean): DatabaseSync {
  if (!isReadOnly) makePrivateFile(path)
  try {
    return new DatabaseSync(path, { readOnly: isReadOnly })
  } catch (error) {
    throw unusableError(path, error)
  }
}

export function unusableError(path: string, error: unknown): ConfigurationError {
  const what = `cannot be used as the monitor's database: ${(error as Error).message}.`
  const fix =
    'Check MONITOR_DATA_DIR and its rights, or put back a backup (sluice monitor backup makes them).'
  return new ConfigurationError({ code: 'STORE_UNUSABLE', where: path, what, fix }, { cause: error })
}
