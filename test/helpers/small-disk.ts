/**
 * A file system of a few megabytes, so that a disk can be full or read-only. Needs root and a Linux that lets it mount.
 *
 *     const disk = startSmallDisk()
 *     disk.folder
 *     disk.fill()             // not one byte left
 *     disk.free()
 *     disk.setReadOnly()      // no file may be open for writing
 *     disk.setWritable()
 *     disk.stop()
 */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SmallDisk {
  folder: string
  fill(): void
  free(): void
  setReadOnly(): void
  setWritable(): void
  stop(): void
}

const BYTES = 16 * 1_024 * 1_024
const PIECES = [64 * 1_024, 4_096, 1] // bytes per write: the last ones fill what is left

export function startSmallDisk(): SmallDisk {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
  const ballast = join(folder, 'ballast')
  const mount = (...args: string[]) => {
    const { status, stderr } = spawnSync('mount', [...args, folder], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`cannot mount a small disk: ${stderr}`)
  }
  mount('-t', 'tmpfs', '-o', `size=${BYTES}`, 'tmpfs')
  const disk: SmallDisk = {
    folder,
    fill() {
      const file = openSync(ballast, 'a')
      for (const bytes of PIECES) {
        const piece = Buffer.alloc(bytes)
        try {
          for (;;) writeSync(file, piece)
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
        }
      }
      closeSync(file)
    },
    free: () => rmSync(ballast, { force: true }),
    setReadOnly: () => mount('-o', 'remount,ro'),
    setWritable: () => mount('-o', 'remount,rw'),
    stop() {
      process.off('exit', disk.stop)
      spawnSync('umount', ['-l', folder])
      rmSync(folder, { recursive: true, force: true })
    },
  }
  process.once('exit', disk.stop)
  return disk
}
