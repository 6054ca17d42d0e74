/**
 * Schedules evaluations: all sites every 5 minutes, a new site 2 s after its first probe, so that it is published soon
 * (spec 2.1, 7.2). The evaluation runs as a job on a thread of its own.
 *
 *     every 5 min, or PROBE_INTERVAL_S ─► all ─┐
 *     a site's first probe ── 2 s ──► that one ┴─► flush ─► job reads the file ─► writes ─► store
 */
import { jobThread } from '../../engine/runtime/job-thread.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import type { EvaluationTask } from '../evaluation/job.ts'
import type { Write } from '../storage/rows.ts'
import type { Store } from '../storage/store.ts'

const FIRST_MS = 2_000
const ALL_SEC_MAX = 300 // spec 7.2
const FLUSH_MS_MAX = 5_000 // beyond, the evaluation uses what is stored
const JOB_IDLE_MS = 10_000
const JOB_MS_MAX = 300_000 // 5,000 sites take seconds; a job that hangs is aborted and its sites keep their scores

export interface EvaluationsOptions {
  store: Pick<Store, 'write' | 'flush' | 'snapshot'>
  path: string // of the database
  intervalSec: number
  ownVantage: string | null // null = nothing is probed from here
  nowSec: () => number
  log: Log
}

export class Evaluations {
  private readonly options: EvaluationsOptions
  private readonly evaluated: Set<number> // sites that have a tier
  private readonly pending = new Set<number>() // new sites, probed and not yet evaluated
  private readonly jobs = jobThread(resolveModule('../evaluation/job.ts', import.meta.url), {
    idleMs: JOB_IDLE_MS,
    execArgv: ['--disable-warning=ExperimentalWarning'], // of node:sqlite
  })
  private timer: NodeJS.Timeout | null = null
  private interval: NodeJS.Timeout | null = null
  private running: Promise<void> = Promise.resolve()
  private isClosed = false

  constructor(options: EvaluationsOptions) {
    this.options = options
    this.evaluated = new Set(options.store.snapshot.sites.map(({ id }) => id))
  }

  start(): void {
    this.interval = setInterval(
      () => void this.run(),
      Math.min(ALL_SEC_MAX, this.options.intervalSec) * 1_000,
    )
  }

  probed(siteId: number): void {
    if (this.evaluated.has(siteId)) return
    this.pending.add(siteId)
    this.timer ??= setTimeout(() => void this.run([...this.pending]), FIRST_MS)
  }

  /** Evaluates all sites, or these. Runs follow each other. */
  run(siteIds?: number[]): Promise<void> {
    if (siteIds) this.timer = null
    for (const id of siteIds ?? this.pending) {
      this.evaluated.add(id)
      this.pending.delete(id)
    }
    this.running = this.running.then(() => this.runOne(siteIds))
    return this.running
  }

  async close(): Promise<void> {
    this.isClosed = true
    if (this.timer) clearTimeout(this.timer)
    if (this.interval) clearInterval(this.interval)
    await this.running
    await this.jobs.destroy()
  }

  private async runOne(siteIds: number[] | undefined): Promise<void> {
    const { store, path, intervalSec, ownVantage, nowSec, log } = this.options
    if (this.isClosed) return
    try {
      await Promise.race([store.flush(), new Promise((resolve) => setTimeout(resolve, FLUSH_MS_MAX).unref())])
      const task: EvaluationTask = { path, nowSec: nowSec(), intervalSec, ownVantage, siteIds }
      const writes: Write[] = await this.jobs.run(task, { signal: AbortSignal.timeout(JOB_MS_MAX) })
      for (const write of writes) store.write(write)
    } catch (error) {
      if (this.isClosed) return
      for (const id of siteIds ?? []) this.evaluated.delete(id) // retried after the next probe
      log('error', `sites could not be evaluated and keep their scores: ${(error as Error).stack}`)
    }
  }
}
