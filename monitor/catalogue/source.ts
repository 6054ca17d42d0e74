/**
 * Keeps the catalogue current (spec 8.1): loads it at the start, and within 2 s of a change.
 *
 *     every 250 ms: names, sizes, times of the files ── changed, and the same twice in a row ──► job: load
 *                      loaded ──► onCatalogue        same SHA-256 ──► nothing        bad ──► the old one stays, the lines logged
 *
 * Who opts out is heard also while the catalogue is bad: then opt-outs can only become more.
 *
 * Looks instead of being told: a few stat calls see what file events miss (network folders, mounted and swapped links),
 * and "twice in a row" waits for whoever is still writing. Loading is the job's, so nobody waits for a large file.
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

const POLL_MS = 250
const JOB_IDLE_MS = 5_000
const LOGGED_MAX = 20 // lines per bad load

export interface CatalogueSourceOptions {
  path: string // CATALOGUE_PATH
  probePorts?: number[]
  log: Log
  onCatalogue: (catalogue: Catalogue) => void
}

export class CatalogueSource {
  /** In force; null until one was good. */
  catalogue: Catalogue | null = null
  loadErrorsCount = 0 // monitor_catalogue_load_error_total
  diagnostics: string[] = [] // of the last load; empty = what is on disk is in force (`catalogue_load_error`)
  private readonly options: CatalogueSourceOptions
  private readonly jobs = jobThread(resolveModule('./load-job.ts', import.meta.url), { idleMs: JOB_IDLE_MS })
  private timer: NodeJS.Timeout | null = null
  private seen = '' // the files' state at the last look
  private loaded = '' // and at the last load
  private knownSha256: string | null = null
  private isClosing = false

  constructor(options: CatalogueSourceOptions) {
    this.options = options
  }

  /** Resolves after the first load, good or bad. */
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
    if (!this.isClosing) this.timer = setTimeout(() => void this.check(), POLL_MS).unref()
  }

  private async check(): Promise<void> {
    const state = await readFingerprint(this.options.path)
    const isQuiet = state === this.seen
    this.seen = state
    if (isQuiet && state !== this.loaded) await this.load()
    this.checkLater()
  }

  private async load(): Promise<void> {
    this.loaded = this.seen
    const { path, probePorts } = this.options
    try {
      const hadOptOut = (this.catalogue?.optOut.size ?? 0) > 0
      const options: LoadOptions = { path, probePorts, knownSha256: this.knownSha256, hadOptOut }
      this.take(await this.jobs.run(options))
    } catch (error) {
      if (!this.isClosing) this.refuse([`${path}: could not be loaded: ${(error as Error).message}`])
    }
  }

  private take(result: LoadResult): void {
    if (this.isClosing || result.kind === 'same') return
    if (result.kind === 'bad') {
      this.knownSha256 = result.sha256
      this.refuse(result.diagnostics)
      this.optOutMore(result.optOut)
      return
    }
    const { catalogue } = result
    this.knownSha256 = catalogue.sha256
    this.diagnostics = []
    const isNew = catalogue.sha256 !== this.catalogue?.sha256 // a mistake that was taken back changes nothing
    this.options.log('info', `the catalogue has ${catalogue.entries.length} sites`)
    if (!isNew) return
    this.logRecovered(catalogue.optOut)
    this.catalogue = catalogue
    for (const slug of catalogue.optedOutSlugs)
      this.options.log('warning', `site ${slug} has opted out and is left out`)
    this.options.onCatalogue(catalogue)
  }

  /** Whoever takes an opt-out back should know of it. */
  private logRecovered(optOut: ReadonlySet<string>): void {
    const back = [...(this.catalogue?.optOut ?? [])].filter((host) => !optOut.has(host))
    if (back.length === 0) return
    const some = back.slice(0, LOGGED_MAX).join(', ')
    this.options.log('warning', `${back.length} hosts have not opted out any more: ${some}`)
  }

  private optOutMore(hosts: ReadonlySet<string>): void {
    const { catalogue } = this
    const more = catalogue ? [...hosts].filter((host) => !catalogue.optOut.has(host)) : []
    if (catalogue === null || more.length === 0) return
    const optOut = new Set([...catalogue.optOut, ...more])
    // No file has this content, so whatever is loaded next replaces it.
    this.catalogue = { ...withOptOut(catalogue.entries, optOut), sha256: '' }
    this.options.log('warning', `${more.length} more hosts have opted out, which holds at once`)
    this.options.onCatalogue(this.catalogue)
  }

  private refuse(complaints: string[]): void {
    this.diagnostics = complaints
    this.loadErrorsCount += 1
    const { log } = this.options
    const kept = this.catalogue ? 'the old one stays in force' : 'there is none in force'
    log('error', `the catalogue has mistakes, ${kept}:`)
    for (const line of complaints.slice(0, LOGGED_MAX)) log('error', line)
    if (complaints.length > LOGGED_MAX) log('error', `and ${complaints.length - LOGGED_MAX} more`)
  }
}

/** Differs when a file of the catalogue does; blind only to a change that keeps size, time and inode. */
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
