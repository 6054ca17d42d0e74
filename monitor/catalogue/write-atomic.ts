/**
 * Replaces files of an operator atomically: a reader sees the old file or the new one, never a part. Each is written under
 * another name in the same folder, synced and renamed.
 *
 * The new file has the mode and the owner of the old one. Where there was none, it has the given mode and the owner of the
 * folder, as far as this user may give it away: a service must be able to read what root installs.
 */
import {
  closeSync,
  createReadStream,
  createWriteStream,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { ConfigurationError } from '../../engine/runtime/errors.ts'

const NEW_FILE_MODE = 0o640 // less the umask: catalogues name key files and contain notes

/** Throws ConfigurationError when the file cannot be written as a whole; the old file stays. */
export function writeAtomic(path: string, text: string): void {
  try {
    const partial = openPartial(path, NEW_FILE_MODE)
    try {
      writeFileSync(partial.file, text) // writeSync may write a part and return its length
      partial.finish()
      renameSync(partial.path, path)
    } finally {
      partial.close()
    }
  } catch (cause) {
    const what = `cannot be written: ${(cause as Error).message}. It is unchanged.`
    const fix = 'Check the free space, the quota and the rights of its folder, then run the command again.'
    throw new ConfigurationError({ code: 'FILE_NOT_WRITTEN', where: path, what, fix }, { cause })
  }
}

/**
 * Copies `source` to `path`. `check` gets the path of the copy before it replaces the old file, since the source may change
 * meanwhile; if it throws, the old file stays. `newMode` is the mode where there was no file.
 */
export async function copyAtomic<T>(
  source: string,
  path: string,
  { newMode, check }: { newMode: number; check: (copy: string) => Promise<T> },
): Promise<T> {
  const partial = openPartial(path, newMode)
  try {
    await pipeline(
      createReadStream(source),
      createWriteStream(partial.path, { fd: partial.file, autoClose: false }),
    )
    partial.finish()
    const checked = await check(partial.path)
    renameSync(partial.path, path)
    return checked
  } finally {
    partial.close()
  }
}

function openPartial(target: string, newMode: number) {
  const path = `${target}.${process.pid}.partial`
  const before = statSync(target, { throwIfNoEntry: false })
  const file = openSync(path, 'w', before ? 0o600 : newMode)
  return {
    path,
    file,
    finish() {
      setOwner(file, before ?? statSync(dirname(target)))
      if (before) fchmodSync(file, before.mode & 0o777)
      fsyncSync(file)
    },
    close() {
      closeSync(file)
      rmSync(path, { force: true })
    },
  }
}

function setOwner(file: number, { uid, gid }: { uid: number; gid: number }): void {
  try {
    fchownSync(file, process.geteuid?.() === 0 ? uid : -1, gid)
  } catch {} // not permitted for this user
}
