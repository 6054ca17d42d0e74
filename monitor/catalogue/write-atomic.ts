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

const NEW_FILE_MODE = 0o640 // minus the umask: a catalogue contains notes and names of key files

/**
 * Replaces a file atomically: written to a temporary file, synced, renamed. The new file has the mode and owner of the old
 * one, or the owner of the folder if there was none, as far as this user may set it: the service must be able to read what
 * root imports.
 */
export function writeAtomic(path: string, text: string): void {
  const partial = `${path}.${process.pid}.partial`
  const before = statSync(path, { throwIfNoEntry: false })
  const file = openSync(partial, 'w', before ? 0o600 : NEW_FILE_MODE)
  try {
    writeSync(file, text)
    setOwner(file, before ?? statSync(dirname(path)))
    if (before) fchmodSync(file, before.mode & 0o777)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(partial, path)
}

function setOwner(file: number, { uid, gid }: { uid: number; gid: number }): void {
  try {
    fchownSync(file, process.geteuid?.() === 0 ? uid : -1, gid)
  } catch {} // not permitted for this user
}
