/**
 * The temporary folder of one browser: its profile, home and files. A browser leaves it behind only if this process is
 * killed meanwhile; then the next start removes it, and ends what still runs in it.
 *
 *     /tmp/sluice-pic-<owner>-<random>/profile      owner: of the data folder, on which one monitor runs at a time
 */
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { ScreenshotFailure } from './failure.ts'

const PREFIX = 'sluice-pic-'
const OWNER_CHARS = 8
const RANDOM_CHARS = 6 // of mkdtemp
const SOCKET_PATH_CHARS_MAX = 107 // sun_path of unix(7), without its end
const SOCKET_NAME_CHARS = '/org.chromium.Chromium.123456/SingletonSocket'.length
const REMOVE = { recursive: true, force: true, maxRetries: 10, retryDelay: 50 } // processes that end still write

/** `purpose` distinguishes users of one data folder that may run at the same time. */
export function toOwner(dataFolder: string, purpose: 'monitor' | `command${number}`): string {
  const hash = createHash('sha256').update(resolve(dataFolder)).digest('hex').slice(0, OWNER_CHARS)
  return `${hash}-${purpose}`
}

export async function createRunFolder(owner: string): Promise<{ folder: string; profile: string }> {
  const charsMax = SOCKET_PATH_CHARS_MAX - SOCKET_NAME_CHARS - `${PREFIX}${owner}-`.length - RANDOM_CHARS - 1
  if (tmpdir().length > charsMax) {
    const why = `the temporary folder ${tmpdir()} has a long path: a browser's sockets need one of at most ${charsMax} characters`
    throw new ScreenshotFailure('browser', why)
  }
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${owner}-`))
  const profile = join(folder, 'profile')
  await mkdir(profile, { mode: 0o700 })
  return { folder, profile }
}

export function removeRunFolder(folder: string): Promise<void> {
  return rm(folder, REMOVE)
}

/** Ends the browsers of this owner and removes their folders. Returns how many folders there were. */
export async function removeLeftovers(owner: string): Promise<number> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(`${PREFIX}${owner}-`))
  for (const name of names) {
    const folder = join(tmpdir(), name)
    await killBrowsers(folder)
    await removeRunFolder(folder)
  }
  return names.length
}

/** Ends every process that has its files in this folder, with its group: the browser, and its crash handlers in groups of their own. */
export async function killBrowsers(folder: string): Promise<void> {
  for (const pid of await findProcesses(folder)) killGroup(pid)
}

/** SIGKILL to a process and its group. Does nothing if it has ended. */
export function killGroup(pid: number): void {
  for (const target of process.platform === 'win32' ? [pid] : [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL')
    } catch {} // it has ended
  }
}

/** Processes whose command line names a file in the folder; Linux only. */
async function findProcesses(folder: string): Promise<number[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.map(Number).filter((pid) => Number.isInteger(pid) && pid !== process.pid)
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')),
  )
  return pids.filter((_, i) => lines[i].includes(`${folder}/`))
}
