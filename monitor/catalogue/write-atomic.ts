import {
  closeSync,
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
import { ConfigurationError } from '../../engine/runtime/errors.ts'

const NEW_FILE_MODE = 0o640 // less the umask: names of key files and notes are in there

/**
 * A reader sees the old file or the new one, never a part: written beside, synced, renamed. The new one has the mode and
 * the owner of the old one, or of the folder where there was none, as far as this user may give it away: a service must be
 * able to read what root imports. Throws ConfigurationError when the disk does not take all of it; the old file stays.
 */
export function writeAtomic(path: string, text: string): void {
  const partial = `${path}.${process.pid}.partial`
  try {
    writePartial(partial, path, text)
    renameSync(partial, path)
  } catch (cause) {
    rmSync(partial, { force: true })
    const what = `cannot be written: ${(cause as Error).message}. It is unchanged.`
    const fix = 'Check the free space, the quota and the rights of its folder, then run the command again.'
    throw new ConfigurationError({ code: 'FILE_NOT_WRITTEN', where: path, what, fix }, { cause })
  }
}

function writePartial(partial: string, path: string, text: string): void {
  const before = statSync(path, { throwIfNoEntry: false })
  const file = openSync(partial, 'w', before ? 0o600 : NEW_FILE_MODE)
  try {
    writeFileSync(file, text) // writeSync may write a part and return its length
    giveTo(file, before ?? statSync(dirname(path)))
    if (before) fchmodSync(file, before.mode & 0o777)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

function giveTo(file: number, { uid, gid }: { uid: number; gid: number }): void {
  try {
    fchownSync(file, process.geteuid?.() === 0 ? uid : -1, gid)
  } catch {} // not this user's to give
}
