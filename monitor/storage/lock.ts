/**
 * Ensures that only one monitor runs on a database: two would both probe, evaluate and publish.
 *
 *     monitor.sqlite        the data; commands open it beside a running monitor
 *     monitor.sqlite.lock   an empty database with a held lock, which the system releases however its holder ends
 */
import { DatabaseSync } from 'node:sqlite'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { unusableError } from './database.ts'
import { makePrivateFile } from './path.ts'

const WAIT_MS = 2_000 // a process that is shutting down gets this much time

/** Throws ConfigurationError if another process holds it. Held until `close`, or the thread's end. */
export function acquireLock(databasePath: string): DatabaseSync {
  const path = `${databasePath}.lock`
  const lock = openLockFile(path)
  try {
    lock.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE') // no file beside it
    return lock
  } catch (cause) {
    lock.close()
    const what = `a monitor runs on it already (${path}: ${(cause as Error).message}).`
    const fix = 'End that one, or set another MONITOR_DATA_DIR.'
    throw new ConfigurationError({ code: 'STORE_IN_USE', where: databasePath, what, fix }, { cause })
  }
}

function openLockFile(path: string): DatabaseSync {
  makePrivateFile(path)
  try {
    return new DatabaseSync(path, { timeout: WAIT_MS })
  } catch (cause) {
    throw unusableError(path, cause)
  }
}
