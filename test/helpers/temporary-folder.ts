/** A private folder in the system's temporary folder. It is removed with its content after the test file. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

const folders: string[] = []

export function makeTemporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  folders.push(folder)
  return folder
}

// Registered when the file is imported, so it runs after every other hook of the test file.
afterAll(() => {
  // a process that was just killed may still create a file, so removal is repeated
  for (const folder of folders)
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
})
