/** Where the database is: one file in MONITOR_DATA_DIR, for the monitor and for every command beside it. */
import { existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'

const OURS_ONLY = 0o750 // hashes of keys and of callers are in there

export function databasePath(dataDir: string): string {
  return join(dataDir, 'monitor.sqlite')
}

/**
 * Makes the folder of a file, and those above it. Throws as mkdir does. Not by `recursive`: that never comes back from
 * folders the system makes itself (`/proc/x`).
 */
export function makeFolderOf(path: string): void {
  const folder = dirname(path)
  if (existsSync(folder)) return
  makeFolderOf(folder)
  mkdirSync(folder, { mode: OURS_ONLY })
}
