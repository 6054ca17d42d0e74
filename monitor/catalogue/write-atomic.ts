import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'

const NEW_FILE_MODE = 0o640 // less the umask: names of key files and notes are in there

/**
 * A reader sees the old file or the new one, never a part: written beside, synced, renamed. The new one has the mode and
 * the owner of the old one, or of the folder where there was none, as far as this user may give it away: a service must be
 * able to read what root imports.
 */
export function writeAtomic(path: string, text: string): void {
  const partial = `${path}.${process.pid}.partial`
  const before = statSync(path, { throwIfNoEntry: false })
  const file = openSync(partial, 'w', before ? 0o600 : NEW_FILE_MODE)
  try {
    writeSync(file, text)
    giveTo(file, before ?? statSync(dirname(path)))
    if (before) fchmodSync(file, before.mode & 0o777)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(partial, path)
}

function giveTo(file: number, { uid, gid }: { uid: number; gid: number }): void {
  try {
    fchownSync(file, process.geteuid?.() === 0 ? uid : -1, gid)
  } catch {} // not this user's to give
}
