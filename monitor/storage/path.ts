/** Where the database is: one file in MONITOR_DATA_DIR, for the monitor and for every command beside it. */
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'

const FOLDER_MODE = 0o750 // hashes of keys and of callers are in there
export const FILE_MODE = 0o640 // less the umask; what exists keeps its mode

export function databasePath(dataDir: string): string {
  return join(dataDir, 'monitor.sqlite')
}

/**
 * Makes the folder of a file, and those above it. Throws as mkdir does. Not by `recursive`: that never comes back from
 * folders the system makes itself (`/proc/x`).
 */
export function createParentFolder(path: string): void {
  const folder = dirname(path)
  if (existsSync(folder)) return
  createParentFolder(folder)
  mkdirSync(folder, { mode: FOLDER_MODE })
}

/**
 * Makes an empty file that only owner and group may read, for SQLite to fill: by itself it would make one for all to read.
 * Its -wal and -shm take the mode of the file. Does nothing where the file is; what is wrong is SQLite's to say.
 */
export function makePrivateFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', FILE_MODE))
  } catch {}
}
