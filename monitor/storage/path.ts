/** Location and modes of the database: one file in MONITOR_DATA_DIR, for the monitor and its commands. */
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'

const FOLDER_MODE = 0o750 // holds hashes of keys and of callers
export const FILE_MODE = 0o640 // minus the umask; an existing file keeps its mode

export function databasePath(dataDir: string): string {
  return join(dataDir, 'monitor.sqlite')
}

/**
 * Creates the folder of a file and its parents. Throws as mkdir does. Not by `recursive`, which never returns for folders of
 * the kernel (`/proc/x`).
 */
export function createParentFolder(path: string): void {
  const folder = dirname(path)
  if (existsSync(folder)) return
  createParentFolder(folder)
  mkdirSync(folder, { mode: FOLDER_MODE })
}

/**
 * Creates an empty file that only owner and group may read; SQLite itself would create one readable for all. Its -wal and
 * -shm take the mode of the file. Does nothing if the file exists; SQLite reports errors.
 */
export function makePrivateFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', FILE_MODE))
  } catch {}
}
