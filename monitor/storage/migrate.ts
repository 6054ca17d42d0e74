/**
 * Migrates a file to this version's schema: forward only, each step in one transaction, a backup before the first.
 *
 *     user_version 0 ──► empty, so no backup                  user_version 3, 5 steps known ──► backup, step 4, step 5
 *     user_version 9 ──► written by a newer version: refused, nothing is changed
 *
 * A process killed during a step leaves the file at the step before; the next start makes a new backup and continues.
 */
import { chmodSync, renameSync, rmSync, statSync } from 'node:fs'
import { type BackupProgressInfo, backup } from 'node:sqlite'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Database } from './database.ts'
import { FILE_MODE, makePrivateFile } from './path.ts'
import { MIGRATIONS } from './schema.ts'

/** Returns the path of the backup, or null when none was needed. */
export async function migrate(database: Database, steps = MIGRATIONS): Promise<string | null> {
  const version = Number(database.pragma('user_version'))
  if (version > steps.length) throw tooNewError(database.path, version, steps.length)
  if (version === steps.length) return null
  const saved = version > 0 ? await backupTo(database, `${database.path}.before-${version + 1}`) : null
  for (let next = version; next < steps.length; next++) {
    database.transaction(() => {
      database.exec(steps[next])
      database.exec(`PRAGMA user_version=${next + 1}`) // takes part in the transaction
    })
  }
  return saved
}

/** A whole copy of a database in use. Its name is right only once it is complete. */
export async function backupTo(
  database: Database,
  path: string,
  onProgress: (pagesLeft: number, pagesAll: number) => void = () => {},
): Promise<string> {
  const partial = `${path}.partial`
  rmSync(partial, { force: true })
  makePrivateFile(partial)
  try {
    const progress = (step: BackupProgressInfo) => onProgress(step.remainingPages, step.totalPages)
    await backup(database.raw, partial, { progress })
    chmodSync(partial, statSync(database.path).mode & FILE_MODE) // no more open than the database
    renameSync(partial, path)
  } finally {
    rmSync(partial, { force: true })
  }
  return path
}

function tooNewError(path: string, version: number, known: number): ConfigurationError {
  return new ConfigurationError({
    code: 'STORE_NEWER',
    where: path,
    what: `was written by a newer version (schema ${version}, this version supports ${known}).`,
    fix: 'Start that version again, or put back the backup it made beside the file.',
  })
}
