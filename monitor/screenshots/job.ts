/**
 * One picture, as a job on a thread of its own: a fault of the browser's client costs this picture and nothing else, and
 * loading it stalls neither the API nor the prober. The thread ends when idle.
 *
 *     the page can be reached, with a valid certificate? ─► browser ─► file
 */
import type { MessagePort } from 'node:worker_threads'
import { Egress, egressSettings } from '../egress/egress.ts'
import { takePicture } from './browser.ts'
import { ScreenshotFailure, type ScreenshotReason } from './failure.ts'
import { writeImage } from './image-files.ts'
import { SCREENSHOT_LIMITS } from './limits.ts'

export interface ScreenshotTask {
  url: string
  extraPort: number | null
  optOut: readonly string[]
  ownHosts: readonly string[]
  version: string
  executable: string
  hasSandbox: boolean
  owner: string
  folder: string // of the pictures
  closing: MessagePort // any message: give up; transferred
}

export type ScreenshotResult =
  | { sha256: string; bytes: number; width: number; height: number; ms: number; denials: [string, number][] }
  | { reason: ScreenshotReason; detail: string; denials: [string, number][] }

/** `env`: of the egress settings. */
export default async function takeScreenshot(
  task: ScreenshotTask,
  { env = process.env }: { env?: NodeJS.ProcessEnv } = {},
): Promise<ScreenshotResult> {
  const { url, closing, folder } = task
  const startedAtMs = performance.now()
  const settings = egressSettings(env)
  const egress = new Egress({ settings, version: task.version, ownHosts: task.ownHosts })
  egress.optOut = task.optOut
  const extraPort = task.extraPort ?? undefined
  const controller = new AbortController()
  closing.once('message', () =>
    controller.abort(new ScreenshotFailure('closed', 'the monitor is shutting down')),
  )
  try {
    await checkTarget(egress, url, extraPort, controller.signal)
    const { executable, hasSandbox, owner } = task
    const image = await takePicture(egress, {
      ...{
        url,
        extraPort,
        executable,
        hasSandbox,
        owner,
        limits: SCREENSHOT_LIMITS,
        signal: controller.signal,
      },
      acceptsAnyCertificate: settings.testAllow.length > 0, // checked above, with the authorities of Node
    })
    const sha256 = await writeImage(folder, image).catch((cause) => {
      throw new ScreenshotFailure('store', String(cause.code ?? cause.message), { cause })
    })
    const ms = Math.round(performance.now() - startedAtMs)
    const { width, height } = SCREENSHOT_LIMITS
    return { sha256, bytes: image.length, width, height, ms, denials: [...egress.denials] }
  } catch (error) {
    const failure =
      error instanceof ScreenshotFailure
        ? error
        : new ScreenshotFailure('browser', String((error as Error).message))
    return { reason: failure.reason, detail: failure.detail, denials: [...egress.denials] }
  } finally {
    closing.close()
  }
}

/** Like a probe: what it cannot reach, no browser is started for. */
async function checkTarget(
  egress: Egress,
  url: string,
  extraPort: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { error, detail, isOurs } = await egress.handshake({ url, extraPort, purpose: 'catalogue', signal })
  signal.throwIfAborted()
  if (error === null) return
  if (isOurs) throw new ScreenshotFailure('browser', `no network: ${error}, ${detail}`)
  const isRefused = error === 'target_not_allowed' || error === 'dns_bogus'
  throw new ScreenshotFailure(isRefused ? 'target_not_allowed' : 'unreachable', `${error}, ${detail}`)
}
