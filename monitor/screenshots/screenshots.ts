/**
 * The monthly screenshots of the monitor (spec 8.3): which site is next, one at a time, and what becomes of a try.
 *
 *     each minute, and when sites change ─► rows of this month ─► the site that is due longest ─► job (job.ts) ─┐
 *            ▲                                                                                                  │
 *            └──── picture: file and row ◄── failure of the site: one of its 3 tries ◄── of this host: pause ◄──┘
 *
 * Runs on the monitor's thread, which neither connects nor waits for the disk: both are the job's.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { jobThread } from '../../engine/runtime/job-thread.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import type { Store } from '../storage/store.ts'
import { isOfSite, ScreenshotFailure, type ScreenshotReason } from './failure.ts'
import { type FoundBrowser, NO_SANDBOX } from './find-browser.ts'
import { sweepImages } from './image-files.ts'
import type { ScreenshotResult, ScreenshotTask } from './job.ts'
import { SCREENSHOT_LIMITS } from './limits.ts'
import { removeLeftovers } from './run-folder.ts'
import { countTries, dueSinceSec, TRIES_MAX, toMonth } from './schedule.ts'

const EVERY_MS = 60_000
const PAUSE_MS = 3_600_000 // after a failure of this host
const JOB_IDLE_MS = 10_000
const JOB_MS_MAX = 2 * SCREENSHOT_LIMITS.ms + 20_000 // with the check of the target; a job that hangs is ended
const SWEEP_MS = 24 * 3_600_000
const CLOSE_MS = 4_000 // for a browser to be ended at shutdown; what is left is removed at the next start

export interface ScreenshotSite {
  siteId: number
  slug: string
  url: string
  extraPort: number | null
}

export interface ScreenshotsOptions {
  store: Pick<Store, 'write' | 'flush' | 'read'>
  browser: FoundBrowser
  folder: string // of the pictures
  owner: string // of the browsers' temporary folders
  version: string
  ownHosts: readonly string[]
  nowSec: () => number
  log: Log
  onResult?: (reason: ScreenshotReason | 'taken') => void
  run?: (task: ScreenshotTask, signal: AbortSignal) => Promise<ScreenshotResult> // tests; default: the job's thread
}

export class Screenshots {
  readonly denials = new Map<string, number>() // reason → count, for monitor_egress_denied_total
  private readonly options: ScreenshotsOptions
  private readonly jobs = jobThread(resolveModule('./job.ts', import.meta.url), { idleMs: JOB_IDLE_MS })
  private readonly closing = new AbortController()
  private readonly ports = new Set<MessagePort>() // of the running job
  private sites: readonly ScreenshotSite[] = []
  private optOut: readonly string[] = []
  private wake = new AbortController()
  private running: Promise<void> = Promise.resolve()
  private canRun: boolean
  private pausedUntilMs = 0
  private sweptAtMs = Number.NEGATIVE_INFINITY

  constructor(options: ScreenshotsOptions) {
    this.options = options
    this.canRun = options.browser.executable !== null
  }

  /** Whether pictures are taken, for /meta. */
  get isEnabled(): boolean {
    return this.canRun
  }

  start(): void {
    const { browser, log } = this.options
    if (browser.executable === null) {
      if (browser.why !== null)
        log(browser.isWanted ? 'error' : 'warning', `no screenshots are taken: ${browser.why}`)
      return
    }
    this.running = this.loop(browser)
  }

  /** All sites that may be shown, and the hosts that opted out; replaces both. */
  setSites(sites: readonly ScreenshotSite[], optOut: readonly string[]): void {
    this.sites = sites
    this.optOut = optOut
    this.wake.abort()
  }

  /** Ends a running browser, without a result. */
  async close(): Promise<void> {
    this.closing.abort()
    this.wake.abort()
    for (const port of this.ports) port.postMessage('close')
    await Promise.race([this.running, sleep(CLOSE_MS, undefined, { ref: false })])
    await this.jobs.destroy()
  }

  private async loop(browser: FoundBrowser & { executable: string }): Promise<void> {
    const { owner, log } = this.options
    await removeLeftovers(owner).catch((error) => log('warning', `leftovers of a browser: ${error.message}`))
    while (!this.closing.signal.aborted && this.canRun) {
      this.wake = new AbortController()
      try {
        const wasDue = await this.takeNext(browser)
        if (wasDue) continue
        await this.sweep()
      } catch (error) {
        if (this.closing.signal.aborted) return
        log('error', `screenshots: ${(error as Error).message}; next attempt in ${EVERY_MS / 1_000} s`)
      }
      await sleep(EVERY_MS, undefined, { signal: this.wake.signal, ref: false }).catch(() => {})
    }
  }

  /** False if no site is due. */
  private async takeNext(browser: FoundBrowser & { executable: string }): Promise<boolean> {
    const { store, nowSec } = this.options
    if (this.sites.length === 0 || performance.now() < this.pausedUntilMs) return false
    const [now, month] = [nowSec(), toMonth(nowSec())]
    const states = new Map(
      (await store.read('screenshotStates', month)).map((state) => [state.siteId, state]),
    )
    const due = this.sites
      .map((site) => ({ site, sinceSec: dueSinceSec(site.slug, states.get(site.siteId) ?? null, now) }))
      .filter((each): each is { site: ScreenshotSite; sinceSec: number } => each.sinceSec !== null)
      .sort((a, b) => a.sinceSec - b.sinceSec || (a.site.slug < b.site.slug ? -1 : 1))
    if (due.length === 0 || this.closing.signal.aborted) return false
    const [{ site }] = due
    const result = await this.run(site, browser)
    if (this.closing.signal.aborted) return false
    this.keep(site, month, states.get(site.siteId)?.errors ?? null, result)
    await store.flush() // before the rows are read again
    return true
  }

  private async run(
    site: ScreenshotSite,
    browser: FoundBrowser & { executable: string },
  ): Promise<ScreenshotResult> {
    const { folder, owner, version, ownHosts } = this.options
    const { port1, port2 } = new MessageChannel()
    this.ports.add(port1)
    const { executable, hasSandbox } = browser
    const { url, extraPort } = site
    const task: ScreenshotTask = {
      ...{ url, extraPort, optOut: this.optOut, ownHosts, version, executable, hasSandbox, owner, folder },
      closing: port2,
    }
    const signal = AbortSignal.timeout(JOB_MS_MAX)
    try {
      if (this.options.run) return await this.options.run(task, signal)
      return await this.jobs.run(task, { signal, transferList: [port2] })
    } catch (error) {
      await removeLeftovers(owner).catch(() => {}) // its thread has ended, and the browser may run on
      const { reason, detail } = new ScreenshotFailure('browser', (error as Error).message)
      return { reason, detail, denials: [] }
    } finally {
      this.ports.delete(port1)
      port1.close()
    }
  }

  private keep(site: ScreenshotSite, month: string, errors: string | null, result: ScreenshotResult): void {
    const { store, nowSec, log, onResult } = this.options
    const { siteId, slug } = site
    const takenAtSec = nowSec()
    for (const [reason, count] of result.denials)
      this.denials.set(reason, (this.denials.get(reason) ?? 0) + count)
    if ('sha256' in result) {
      const { sha256, width, height, bytes, ms } = result
      const path = screenshotPath(slug, month)
      store.write({ kind: 'screenshot', siteId, month, path, sha256, width, height, takenAtSec, error: null })
      log('info', `screenshot of ${slug}: ${bytes} bytes in ${ms} ms`)
      onResult?.('taken')
      return
    }
    const { reason, detail } = result
    onResult?.(reason)
    if (!isOfSite(reason)) {
      this.onHostFailure(reason, detail)
      return
    }
    const error = [...(errors ? [errors] : []), reason].join()
    const nothing = { path: null, sha256: null, width: null, height: null }
    store.write({ kind: 'screenshot', siteId, month, ...nothing, takenAtSec, error })
    log('info', `no screenshot of ${slug} (${reason}: ${detail}), try ${countTries(error)} of ${TRIES_MAX}`)
  }

  private onHostFailure(reason: ScreenshotReason, detail: string): void {
    const { log } = this.options
    if (reason === 'sandbox') {
      this.canRun = false
      log('error', `no screenshots are taken: the browser finds no usable sandbox. ${NO_SANDBOX}`)
      return
    }
    this.pausedUntilMs = performance.now() + PAUSE_MS
    log('error', `screenshots pause for ${PAUSE_MS / 60_000} min (${reason}: ${detail})`)
  }

  /** Removes files that no row names any more, daily. */
  private async sweep(): Promise<void> {
    const { store, folder, log } = this.options
    if (performance.now() - this.sweptAtMs < SWEEP_MS) return
    this.sweptAtMs = performance.now()
    const named = new Set(await store.read('screenshotFiles'))
    const count = await sweepImages(folder, named, Date.now())
    if (count > 0) log('info', `${count} screenshots past their retention removed`)
  }
}

/** Of the URL, from the root. */
export function screenshotPath(slug: string, month: string): string {
  return `/media/screenshots/${slug}/${month}.webp`
}
