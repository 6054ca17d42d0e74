import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs'

/** A reader sees the old file or the new one, never a part: written beside, synced, renamed. */
export function writeWhole(path: string, text: string): void {
  const partial = `${path}.${process.pid}.partial`
  const file = openSync(partial, 'w')
  try {
    writeSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(partial, path)
}
