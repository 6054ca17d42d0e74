/**
 * A file system of a few megabytes, so that a disk can be full or read-only. Needs root and a Linux that lets it mount.
 *
 *     const disk = startSmallDisk()
 *     disk.folder
 *     disk.fill()             // not one byte left
 *     disk.free()
 *     disk.setReadOnly()      // no file may be open for writing
 *     disk.setWritable()
 *     await disk.stop()
 *
 * A shell unmounts it when this process ends, for any reason: its stdin is then closed.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SmallDisk {
  folder: string
  fill(): void
  free(): void
  setReadOnly(): void
  setWritable(): void
  stop(): Promise<void>
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
  const shell = spawn('sh', ['-c', 'read -r _; umount -l "$1"; rmdir "$1"', 'sh', folder], {
    stdio: 'pipe',
    detached: true, // a Ctrl-C must not end it
  })
  shell.unref()
  for (const stream of [shell.stdin, shell.stdout, shell.stderr]) (stream as unknown as Socket).unref() // they keep no process alive
  return {
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
    async stop() {
      const ended = once(shell, 'exit')
      shell.ref()
      shell.stdin.end()
      await ended
    },
  }
}
