/**
 * One picture of one page, by a Chromium of its own behind a filtering proxy of its own (spec 8.3).
 *
 *     proxy ─► browser, over a pipe ─► page loads ─► 2 s ─► WebP ─► SIGKILL of the process group ─► folder removed
 *        └── whatever happens, and `limits.ms` after the start at the latest ────────┘
 *
 * playwright-core drives the browser with our command line instead of its own (flags.ts). It answers the proxy's request for
 * the password, intercepts requests, refuses downloads and service workers, and dismisses dialogs.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BrowserContext, CDPSession, Page, Response } from 'playwright-core'
import type { Egress } from '../egress/egress.ts'
import { FilteringProxy, PROXY_USER } from '../egress/filtering-proxy.ts'
import { ScreenshotFailure } from './failure.ts'
import { chromiumFlags } from './flags.ts'
import type { ScreenshotLimits } from './limits.ts'
import { watchMemory } from './memory-watch.ts'
import { createRunFolder, killBrowsers, killGroup, removeRunFolder } from './run-folder.ts'
import { readWebpSize } from './webp.ts'

export interface PictureRequest {
  url: string
  extraPort?: number // beside PROBE_PORTS, on the page's own host only
  executable: string
  hasSandbox: boolean
  acceptsAnyCertificate: boolean // tests and the demo: their authority is unknown to the browser
  owner: string // of the temporary folder (run-folder.ts)
  limits: ScreenshotLimits
  signal: AbortSignal // its reason must be a ScreenshotFailure
}

const CAPTURE_MS = 3_000 // kept for the picture itself, at the end of limits.ms
const CLOSE_MS = 2_000 // for a browser to end by itself, which leaves no zombies to an init that does not reap
const ERROR_PAGE = 'chrome-error:' // shown by Chromium in place of a document that it could not load
const PROXY_REQUESTS = 4 // per request of the session: those of WebSockets, workers and preconnects are not intercepted
const START_FAILED = /sandbox/i // in Chromium's own last words

/** Throws ScreenshotFailure. Nothing of the browser is left when it settles: no process, no port, no file. */
export async function takePicture(egress: Egress, request: PictureRequest): Promise<Buffer> {
  const { limits, owner } = request
  const startedAtMs = performance.now()
  const deadline = new AbortController()
  const timer = setTimeout(
    () => deadline.abort(new ScreenshotFailure('timeout', `${limits.ms / 1_000} s`)),
    limits.ms,
  )
  const giveUp = () => deadline.abort(request.signal.reason)
  request.signal.addEventListener('abort', giveUp)
  if (request.signal.aborted) giveUp()
  const extra = request.extraPort
    ? { host: new URL(request.url).hostname, port: request.extraPort }
    : undefined
  let run: { folder: string; profile: string } | undefined
  let proxy: FilteringProxy | undefined
  let launching: Promise<BrowserSession> | undefined
  try {
    run = await createRunFolder(owner).catch((cause) => {
      if (cause instanceof ScreenshotFailure) throw cause
      throw new ScreenshotFailure('browser', `no temporary folder: ${cause.code}`, { cause })
    })
    proxy = await FilteringProxy.listen({
      ...{ egress, extra },
      limits: { bytesMax: limits.bytesMax, ms: limits.ms, requests: PROXY_REQUESTS * limits.requests },
    })
    launching = launch(request, { proxy, ...run, startedAtMs })
    const session = await race(launching, deadline.signal)
    return await race(session.takePicture(request.url).catch(asFailure), deadline.signal, session.failed)
  } finally {
    clearTimeout(timer)
    request.signal.removeEventListener('abort', giveUp)
    if (run && launching) await end(launching, run.folder, deadline.signal.aborted)
    await proxy?.close()
    if (run) await removeRunFolder(run.folder)
  }
}

/** The page's doing, not this host's: the browser has started. */
function asFailure(error: unknown): never {
  if (error instanceof ScreenshotFailure) throw error
  throw new ScreenshotFailure('crashed', 'the page went away', { cause: error })
}

/** Ends all processes of the browser. `isHurried`: without the grace of an orderly end, also when it is still starting. */
async function end(launching: Promise<BrowserSession>, folder: string, isHurried: boolean): Promise<void> {
  if (isHurried) await killBrowsers(folder)
  const session = await launching.catch(() => null) // playwright has seen the end of a process that was killed
  await session?.end(isHurried)
  await killBrowsers(folder)
}

/** Settles as the first of them; `failing` and the signal only reject. */
async function race<T>(work: Promise<T>, signal: AbortSignal, failing?: Promise<never>): Promise<T> {
  signal.throwIfAborted()
  let abort = () => {}
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort)
  })
  work.catch(() => {})
  try {
    return await Promise.race([work, aborted, ...(failing ? [failing] : [])])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

interface Run {
  proxy: FilteringProxy
  folder: string
  profile: string
  startedAtMs: number // limits.ms count from here, the start of the browser included
}

async function launch(request: PictureRequest, run: Run): Promise<BrowserSession> {
  const { proxy, folder, profile } = run
  const { executable, hasSandbox, acceptsAnyCertificate, limits } = request
  const { chromium } = await import('playwright-core')
  const home = join(folder, 'home')
  await mkdir(home)
  try {
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: executable,
      ignoreDefaultArgs: true,
      args: chromiumFlags({ proxyPort: proxy.port, profile, hasSandbox, isTest: acceptsAnyCertificate }),
      chromiumSandbox: hasSandbox,
      proxy: { server: `http://127.0.0.1:${proxy.port}`, username: PROXY_USER, password: proxy.password },
      env: browserEnvironment(home, folder), // not ours, which has passwords
      timeout: limits.ms,
      ...{ handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false },
      viewport: { width: limits.width, height: limits.height },
      colorScheme: 'light',
      ignoreHTTPSErrors: acceptsAnyCertificate,
      artifactsDir: join(folder, 'artifacts'),
      acceptDownloads: false,
      serviceWorkers: 'block',
    })
    return await BrowserSession.open(context, run, limits)
  } catch (cause) {
    if (cause instanceof ScreenshotFailure) throw cause
    const lines = String((cause as Error).message).split('\n')
    const why = lines.find((line) => START_FAILED.test(line) && !line.includes('--user-data-dir'))
    if (hasSandbox && why) throw new ScreenshotFailure('sandbox', 'no usable sandbox', { cause })
    throw new ScreenshotFailure('browser', lines[0], { cause })
  }
}

function browserEnvironment(home: string, folder: string): Record<string, string> {
  const { PATH = '', LANG = 'C.UTF-8' } = process.env
  return { PATH, LANG, HOME: home, TMPDIR: folder, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home }
}

class BrowserSession {
  /** Rejects when the browser or the page fails by itself. */
  readonly failed: Promise<never>
  private readonly context: BrowserContext
  private readonly page: Page
  private readonly proxy: FilteringProxy
  private readonly limits: ScreenshotLimits
  private readonly startedAtMs: number
  private readonly browser: CDPSession
  private readonly memory: { stop(): void }
  private pids: number[] = [] // the browser's process first
  private fail: (reason: ScreenshotFailure) => void = () => {}
  private response: Response | null = null // of the page's newest document
  private requestsCount = 0
  private hasDocument = false

  static async open(context: BrowserContext, run: Run, limits: ScreenshotLimits): Promise<BrowserSession> {
    try {
      const browser = await context.browser()!.newBrowserCDPSession()
      const session = new BrowserSession(context, browser, run, limits)
      await session.refreshPids()
      await session.restrict()
      return session
    } catch (error) {
      await context.close().catch(() => {})
      throw error
    }
  }

  private constructor(
    context: BrowserContext,
    browser: CDPSession,
    { proxy, startedAtMs }: Run,
    limits: ScreenshotLimits,
  ) {
    this.context = context
    this.browser = browser
    this.proxy = proxy
    this.startedAtMs = startedAtMs
    this.limits = limits
    const [page] = context.pages()
    this.page = page
    this.failed = new Promise((_, reject) => {
      this.fail = reject
    })
    this.failed.catch(() => {})
    proxy.onOverBytes = () => {
      if (!this.hasDocument) this.fail(new ScreenshotFailure('too_large', 'the document'))
    }
    page.on('crash', () => this.fail(new ScreenshotFailure('crashed', 'page')))
    context.on('close', () => this.fail(new ScreenshotFailure('crashed', 'browser')))
    this.memory = watchMemory(
      () => this.refreshPids(),
      limits.memoryBytesMax,
      (bytes) => this.fail(new ScreenshotFailure('memory', `${Math.round(bytes / 1_048_576)} MiB`)),
    )
  }

  async takePicture(url: string): Promise<Buffer> {
    const { limits, page } = this
    const loadByMs = limits.ms - limits.settleMs - CAPTURE_MS
    const timeout = Math.max(1, loadByMs - (performance.now() - this.startedAtMs))
    await page.goto(url, { waitUntil: 'domcontentloaded', timeout }).catch((error) => this.explain(error))
    this.hasDocument = true
    // A page that waits for one of its parts, such as a font that is blocked in this country, is shown without it.
    const rest = Math.max(1, loadByMs - (performance.now() - this.startedAtMs))
    await page.waitForLoadState('load', { timeout: rest }).catch(() => {})
    await sleep(limits.settleMs)
    this.checkDocument()
    return this.capture().catch(async (error) => {
      if (error instanceof ScreenshotFailure) throw error
      await page.waitForLoadState('load', { timeout: CAPTURE_MS }).catch(() => {}) // it led elsewhere meanwhile
      this.checkDocument()
      return this.capture()
    })
  }

  /** Orderly, unless hurried; by SIGKILL after `CLOSE_MS`. */
  async end(isHurried: boolean): Promise<void> {
    this.memory.stop()
    const closing = this.context.close().catch(() => {})
    if (!isHurried) await Promise.race([closing, sleep(CLOSE_MS, undefined, { ref: false })])
    if (this.pids.length > 0) killGroup(this.pids[0])
    await closing // playwright has seen the end of the process, and its files are removed
  }

  private async restrict(): Promise<void> {
    const { context, limits } = this
    await context.grantPermissions([]) // these, and no others
    context.on('page', (popup) => popup.close().catch(() => {}))
    context.on('request', () => this.requestsCount++)
    context.on('response', (response) => {
      const request = response.request()
      if (request.isNavigationRequest() && response.frame() === this.page.mainFrame())
        this.response = response
    })
    await context.route(
      () => true,
      (route) => {
        const isAllowed = this.requestsCount <= limits.requests && /^https?:/.test(route.request().url())
        return (isAllowed ? route.continue() : route.abort('blockedbyclient')).catch(() => {})
      },
    )
  }

  /** A navigation that failed, as one of our reasons. */
  private explain(error: Error): never {
    const code = /net::(ERR_[A-Z0-9_]{1,60})/.exec(error.message.slice(0, 500))?.[1] ?? 'no response in time'
    this.checkBounds(code)
    if (code === 'ERR_HTTP_RESPONSE_CODE_FAILURE') throw new ScreenshotFailure('http_error', 'without a body')
    if (error.name === 'TimeoutError') throw new ScreenshotFailure('timeout', 'no document')
    if (this.page.isClosed()) throw new ScreenshotFailure('crashed', 'page')
    throw new ScreenshotFailure('unreachable', code)
  }

  /** Whether a navigation failed because of one of our own bounds. */
  private checkBounds(code: string): void {
    const { proxy, limits } = this
    if (proxy.isOverBytes) throw new ScreenshotFailure('too_large', code)
    if (proxy.refusedHosts.size > 0 && code !== 'ERR_ABORTED')
      throw new ScreenshotFailure('target_not_allowed', code)
    if (this.requestsCount > limits.requests)
      throw new ScreenshotFailure('too_large', `over ${limits.requests} requests`)
  }

  /** Scripts may have led elsewhere since. */
  private checkDocument(): void {
    const { page, response, proxy } = this
    const url = page.url()
    if (url.startsWith(ERROR_PAGE)) {
      this.checkBounds('the page led there')
      throw new ScreenshotFailure('unreachable', 'the page led there')
    }
    if (!/^https?:/.test(url))
      throw new ScreenshotFailure('target_not_allowed', 'the page led to another scheme')
    if (response === null || response.status() < 400) return
    // Only then: a part of the page that is refused may have the page's own host, on another port. And by the response, which
    // may be newer than the page's address.
    if (proxy.refusedHosts.has(new URL(response.url()).hostname))
      throw new ScreenshotFailure('target_not_allowed', 'the page led there')
    throw new ScreenshotFailure('http_error', `status ${response.status()}`)
  }

  private async capture(): Promise<Buffer> {
    const { limits, page, context } = this
    const session = await context.newCDPSession(page)
    for (const quality of limits.qualities) {
      const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality })
      const image = Buffer.from(data, 'base64')
      const size = readWebpSize(image)
      if (size?.width !== limits.width || size.height !== limits.height)
        throw new ScreenshotFailure('crashed', 'the picture has another size')
      if (image.length <= limits.imageBytesMax) return image
    }
    throw new ScreenshotFailure('image_too_large', `over ${limits.imageBytesMax} bytes`)
  }

  private async refreshPids(): Promise<number[]> {
    const { processInfo } = await this.browser.send('SystemInfo.getProcessInfo')
    const first = processInfo.find(({ type }) => type === 'browser')
    this.pids = [...(first ? [first.id] : []), ...processInfo.map(({ id }) => id)]
    return processInfo.map(({ id }) => id)
  }
}
