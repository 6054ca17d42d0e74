/**
 * Loads the catalogue at the start, and again within 2 s of a change (spec 8.1).
 *
 *     every 250 ms: names, sizes, times of the files ── changed, and equal twice in a row ──► job: load
 *                      loaded ──► onCatalogue        same SHA-256 ──► nothing        bad ──► the old one stays, errors logged
 *
 * New opt-outs take effect also while the catalogue is bad; none is removed then. Polls, since file events miss network
 * folders, mounts and swapped links; "equal twice in a row" waits until a writer has finished. Loading runs in a job, so a
 * large file does not block the thread.
 */
import { stat } from 'node:fs/promises'
import { jobThread } from '../../engine/runtime/job-thread.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import {
  type Catalogue,
  type LoadOptions,
  type LoadResult,
  listCatalogueFiles,
  optOutPath,
  withOptOut,
} from './load.ts'

export const POLL_MS = 250 // a change takes effect after two polls and a load; the specification gives it 2 s
const JOB_IDLE_MS = 5_000
const LOGGED_MAX = 20 // lines per bad load; the rest is logged as a count

export interface CatalogueSourceOptions {
  path: string // CATALOGUE_PATH
  probePorts?: number[]
  pollMs?: number // POLL_MS unless given
  log: Log
  onCatalogue: (catalogue: Catalogue) => void
}

export class CatalogueSource {
  /** The one in force; null until one was valid. */
  catalogue: Catalogue | null = null
  loadErrorsCount = 0 // monitor_catalogue_load_error_total
  diagnostics: string[] = [] // of the last load; empty = the files on disk are in force (`catalogue_load_error`)
  private readonly options: CatalogueSourceOptions
  private readonly jobs = jobThread(resolveModule('./load-job.ts', import.meta.url), { idleMs: JOB_IDLE_MS })
  private timer: NodeJS.Timeout | null = null
  private seen = '' // fingerprint at the last poll
  private loaded = '' // fingerprint at the last load
  private knownSha256: string | null = null
  private isClosing = false

  constructor(options: CatalogueSourceOptions) {
    this.options = options
  }

  /** Resolves after the first load, valid or not. */
  async start(): Promise<void> {
    this.seen = await readFingerprint(this.options.path)
    await this.load()
    this.checkLater()
  }

  async close(): Promise<void> {
    this.isClosing = true
    if (this.timer) clearTimeout(this.timer)
    await this.jobs.destroy()
  }

  private checkLater(): void {
    if (!this.isClosing)
      this.timer = setTimeout(() => void this.check(), this.options.pollMs ?? POLL_MS).unref()
  }

  private async check(): Promise<void> {
    const state = await readFingerprint(this.options.path)
    const isStable = state === this.seen
    this.seen = state
    if (isStable && state !== this.loaded) await this.load()
    this.checkLater()
  }

  private async load(): Promise<void> {
    this.loaded = this.seen
    const { path, probePorts } = this.options
    try {
      const hadOptOut = (this.catalogue?.optOut.size ?? 0) > 0
      const options: LoadOptions = { path, probePorts, knownSha256: this.knownSha256, hadOptOut }
      this.apply(await this.jobs.run(options))
    } catch (error) {
      if (!this.isClosing) this.refuse([`${path}: could not be loaded: ${(error as Error).message}`])
    }
  }

  private apply(result: LoadResult): void {
    if (this.isClosing || result.kind === 'same') return
    if (result.kind === 'bad') {
      this.knownSha256 = result.sha256
      this.refuse(result.diagnostics)
      this.addOptOuts(result.optOut)
      return
    }
    const { catalogue } = result
    this.knownSha256 = catalogue.sha256
    this.diagnostics = []
    const isNew = catalogue.sha256 !== this.catalogue?.sha256 // false after an error was reverted
    this.options.log('info', `the catalogue has ${catalogue.entries.length} sites`)
    if (!isNew) return
    this.logRemovedOptOuts(catalogue.optOut)
    this.catalogue = catalogue
    for (const slug of catalogue.optedOutSlugs)
      this.options.log('warning', `site ${slug} is not probed: its host has opted out`)
    this.options.onCatalogue(catalogue)
  }

  /** A removed opt-out may be unintended. */
  private logRemovedOptOuts(optOut: ReadonlySet<string>): void {
    const removed = [...(this.catalogue?.optOut ?? [])].filter((host) => !optOut.has(host))
    if (removed.length === 0) return
    const some = removed.slice(0, LOGGED_MAX).join(', ')
    this.options.log('warning', `the opt-outs of ${removed.length} hosts were removed: ${some}`)
  }

  private addOptOuts(hosts: ReadonlySet<string>): void {
    const { catalogue } = this
    const more = catalogue ? [...hosts].filter((host) => !catalogue.optOut.has(host)) : []
    if (catalogue === null || more.length === 0) return
    const optOut = new Set([...catalogue.optOut, ...more])
    // The hash of no file: the next catalogue loaded replaces this one.
    this.catalogue = { ...withOptOut(catalogue.entries, optOut), sha256: '' }
    this.options.log('warning', `${more.length} more hosts have opted out, effective at once`)
    this.options.onCatalogue(this.catalogue)
  }

  private refuse(diagnostics: string[]): void {
    this.diagnostics = diagnostics
    this.loadErrorsCount += 1
    const { log } = this.options
    const kept = this.catalogue ? 'the old one stays in force' : 'none is in force'
    log('error', `the catalogue has errors, ${kept}:`)
    for (const line of diagnostics.slice(0, LOGGED_MAX)) log('error', line)
    if (diagnostics.length > LOGGED_MAX) log('error', `and ${diagnostics.length - LOGGED_MAX} more`)
  }
}

/** Changes with the files of the catalogue, unless a change keeps size, time and inode. */
async function readFingerprint(path: string): Promise<string> {
  let paths: string[]
  try {
    paths = [...listCatalogueFiles(path), optOutPath(path)]
  } catch (error) {
    return `missing: ${(error as NodeJS.ErrnoException).code}`
  }
  const states = paths.map(async (file) => {
    const { ino, size, mtimeMs } = await stat(file).catch(() => ({ ino: 0, size: 0, mtimeMs: 0 }))
    return `${file} ${ino} ${size} ${mtimeMs}`
  })
  return (await Promise.all(states)).join('\n')
}
