/** Which browser takes the pictures, and whether it may: found once, at the start (spec 8.3). */
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import type { Settings } from '../settings.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']

export type BrowserSettings = Pick<
  Settings,
  'SCREENSHOTS_ENABLED' | 'CHROMIUM_PATH' | 'SCREENSHOT_NO_SANDBOX'
>

/** `why`: for the log, null if the operator switched it off; `isWanted`: by SCREENSHOTS_ENABLED=true. */
export type FoundBrowser =
  | { executable: string; hasSandbox: boolean }
  | { executable: null; why: string | null; isWanted: boolean }

export const NO_SANDBOX =
  'Run as a user other than root where the kernel allows user name spaces, or set SCREENSHOT_NO_SANDBOX=true.'

export function findBrowser(
  { SCREENSHOTS_ENABLED: mode, CHROMIUM_PATH: path, SCREENSHOT_NO_SANDBOX: isBare }: BrowserSettings,
  { PATH = '' }: Readonly<Record<string, string | undefined>>,
  uid = process.getuid?.(),
): FoundBrowser {
  const off = (why: string | null): FoundBrowser => ({ executable: null, why, isWanted: mode === 'true' })
  if (mode === 'false') return off(null)
  const folders = PATH.split(delimiter).filter(isAbsolute)
  const candidates =
    path !== '' ? [path] : NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))
  const executable = candidates.find(isExecutable)
  if (executable === undefined) {
    return off(
      path === ''
        ? `none of ${NAMES.join(', ')} is on PATH. Install Chromium, or set CHROMIUM_PATH.`
        : `CHROMIUM_PATH ${path} is not an executable file.`,
    )
  }
  if (uid === 0 && !isBare) return off(`a browser has no sandbox as root. ${NO_SANDBOX}`)
  return { executable, hasSandbox: !isBare }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
