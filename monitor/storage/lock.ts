/**
 * Who runs a monitor on a database: one at a time. Two would both probe, judge and publish, each undoing the other.
 *
 *     monitor.sqlite        the data; the command line opens it beside a running monitor
 *     monitor.sqlite.lock   an empty database whose lock is held; the system lets go of it however its holder ends
 */
import { DatabaseSync } from 'node:sqlite'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { unusable } from './database.ts'
import { makePrivateFile } from './path.ts'

const WAIT_MS = 2_000 // one that has been told to end is given time for it

/** Throws OperatorError when another holds it. Held until `close`, or the thread's end. */
export function acquireLock(databasePath: string): DatabaseSync {
  const path = `${databasePath}.lock`
  const lock = opened(path)
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

function opened(path: string): DatabaseSync {
  makePrivateFile(path)
  try {
    return new DatabaseSync(path, { timeout: WAIT_MS })
  } catch (cause) {
    throw unusable(path, cause)
  }
}
