/**
 * Pictures of pages on 127.0.0.2 by a real Chromium, and what must be left of it: nothing.
 *
 *     const { image, failure } = await takeIn(world, { path: '/page' })
 *     await expectNothingLeft(owner)
 */
import { readdir, readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { expect } from 'vitest'
import { type PictureRequest, takePicture } from '../../../monitor/screenshots/browser.ts'
import { ScreenshotFailure } from '../../../monitor/screenshots/failure.ts'
import { SCREENSHOT_LIMITS, type ScreenshotLimits } from '../../../monitor/screenshots/limits.ts'
import { chromiumPath } from '../../helpers/chromium.ts'
import { eventually } from '../../helpers/eventually.ts'
import { ok, type Responder } from '../egress/raw-server.ts'
import type { World } from '../egress/setup.ts'

export const isRoot = process.getuid?.() === 0
export const OWNER = `test-${process.pid}`
const BUSY_MS = 120_000 // a busy machine needs longer than the 20 s of an idle one

export interface TakeOptions extends Partial<Omit<PictureRequest, 'limits'>> {
  path: string
  host?: string
  limits?: Partial<ScreenshotLimits>
  egress?: ReturnType<World['egress']>
}

export function page(html: string): Responder {
  return ok(`<!doctype html><title>x</title>${html}`, 'content-type: text/html; charset=utf-8\r\n')
}

export function toRequest(
  world: World,
  { path, host, limits, egress: _, ...more }: TakeOptions,
): PictureRequest {
  return {
    url: world.url(path, host),
    executable: chromiumPath(),
    hasSandbox: !isRoot,
    acceptsAnyCertificate: false,
    owner: OWNER,
    limits: { ...SCREENSHOT_LIMITS, ms: BUSY_MS, settleMs: 0, ...limits },
    signal: new AbortController().signal,
    ...more,
  }
}

export interface Taken {
  image: Buffer | null
  failure: ScreenshotFailure | null
}

export async function takeIn(world: World, options: TakeOptions): Promise<Taken> {
  try {
    const egress = options.egress ?? world.egress()
    return { image: await takePicture(egress, toRequest(world, options)), failure: null }
  } catch (error) {
    if (error instanceof ScreenshotFailure) return { image: null, failure: error }
    throw error
  }
}

/**
 * A response that waits for the test, which so decides when a page is loaded: `<img src=/late>` in the page, then
 *
 *     const late = holdPath(world, '/late')
 *     …
 *     late()          answers, now and from now on
 */
export function holdPath(world: World, path: string): () => void {
  const waiting: Socket[] = []
  const answer = (socket: Socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  let isHeld = true
  world.relay.on(path, (socket) => void (isHeld ? waiting.push(socket) : answer(socket)))
  return () => {
    isHeld = false
    waiting.forEach(answer)
  }
}

/** How many requests the relay has seen for a path, without the query. */
export function requestsFor(world: World, path: string): number {
  return world.relay.requests.filter((head) => head.split(' ')[1].split('?')[0] === path).length
}

/** Command lines of living processes that work in a folder of this owner, by process id. */
export async function listProcesses(owner = OWNER): Promise<Map<number, string>> {
  const found = new Map<number, string>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const line = await readFile(`/proc/${name}/cmdline`, 'latin1').catch(() => '')
    if (line.includes(`sluice-pic-${owner}`)) found.set(Number(name), line.replaceAll('\0', ' '))
  }
  return found
}

export async function listFolders(owner = OWNER): Promise<string[]> {
  const names = await readdir(tmpdir())
  return names.filter((name) => name.startsWith(`sluice-pic-${owner}-`))
}

/** No process, no zombie among our children, no folder and no listening port. */
export async function expectNothingLeft(owner = OWNER): Promise<void> {
  await eventually(async () => expect([...(await listProcesses(owner)).values()]).toEqual([]))
  expect(await listFolders(owner)).toEqual([])
  const children = await readFile(`/proc/${process.pid}/task/${process.pid}/children`, 'latin1')
  for (const pid of children.trim().split(' ').filter(Boolean)) {
    const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')
    expect(stat).not.toMatch(/chrom.*\) Z /)
  }
}
