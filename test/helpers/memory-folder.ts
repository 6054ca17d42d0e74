/**
 * A temporary folder in memory where the system has one (Linux: /dev/shm), else on disk. For databases: SQLite waits for each
 * write to reach the disk, which takes 30 times as long, and no test needs a database to survive a power failure.
 */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

const MEMORY_FOLDER = '/dev/shm'
const FREE_BYTES_MIN = 256 * 1_024 * 1_024 // containers often have 64 MiB

const folders: string[] = []

export function makeMemoryFolder(): string {
  const folder = mkdtempSync(join(hasMemoryFolder() ? MEMORY_FOLDER : tmpdir(), 'sluice-test-'))
  folders.push(folder)
  return folder
}

function hasMemoryFolder(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY_FOLDER)
    return bavail * bsize >= FREE_BYTES_MIN
  } catch {
    return false
  }
}

afterAll(() => {
  // a process that was just killed may still create a file, so removal is repeated
  for (const folder of folders)
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
})
