/**
 * A real browser for tests: headless Chromium at one page. `npm test` installs it (scripts/dev/test-tools.mjs).
 *
 *     const close = await openPage('http://127.0.0.1:1234/')   // the page sends its findings to its server
 *     …
 *     await close()
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']

const FLAGS = [
  ...['--headless', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--disable-extensions'],
  ...['--disable-background-networking', '--disable-sync', '--disable-component-update', '--no-proxy-server'],
]

/** Path of the browser. Without one the error says how to install it. */
export function chromiumPath(): string {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const found = NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable)
  if (found) return found
  throw new Error('there is no browser for this test. Run it by `npm test`, or: apt-get install chromium')
}

/** The browser runs until `close`, which resolves to its standard error. */
export function openPage(url: string): () => Promise<string> {
  const profile = mkdtempSync(join(tmpdir(), 'sluice-chromium-'))
  const isRoot = process.getuid?.() === 0
  const flags = [...FLAGS, ...(isRoot ? ['--no-sandbox'] : []), `--user-data-dir=${profile}`, url]
  const child = spawn(chromiumPath(), flags, { stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  const exited = once(child, 'exit')
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  return async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL') // its processes too
    await exited
    rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
    return output
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
