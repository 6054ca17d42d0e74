/**
 * What every source of rules ends with: the job that loads them, and what a load means (spec 8.5).
 *
 *     file-rules-source.ts   files         ┐
 *     transports/xds    resources     ┴──► job: read, validate, compile ──┬──► accept: counted, into force
 *                                                                         └──► refuse: counted, said; what is in force stays
 *
 * Runs in main, which never parses: the work is a task of a thread that ends when idle and gives its memory back. Remarks on
 * the rules are made after they have come into force, and logged once per content.
 */
import { MessageChannel, type Transferable } from 'node:worker_threads'
import { jobThread } from '../runtime/job-thread.ts'
import type { Log, LogLevel } from '../runtime/messages.ts'
import type { Settings } from '../settings/parse.ts'
import type { Totals } from '../stats/totals.ts'
import type { LoadResult } from './load.ts'
import type { LoadJob, LoadRemarks } from './load-job.ts'
import type { RulesImage } from './rules.ts'

// Then the job thread ends. Kept alive for a next load it would not clear its heap for that: 100,000 rules changed every
// 4 s came to 1.3 GB with 5 s here. A new thread costs 0.1 s.
const JOB_IDLE_MS = 200

const LOADED = 'ratelimit.service.config_load_success'
const FAILED = 'ratelimit.service.config_load_error'
const REMARKS_LOGGED_MAX = 20 // of one load; the rest is a count

/** Where rules come from. They go to `onRules` of its options. */
export interface RulesSource {
  /** Resolves after the first load, good or bad. Rejects with OperatorError when there can be none. */
  start(): Promise<void>
  close(): Promise<void>
}

export interface RulesSourceOptions {
  settings: Settings
  totals: Totals
  log: Log
  onRules: (rules: RulesImage) => void
  onRefused?: (message: string) => void // a load failed; what is in force stays
  onRecovered?: () => void // whoever sent what failed has gone back to what is in force
  onDisconnected?: (since: Date | null) => void // whoever sends the rules cannot be reached since then; null = is there
}

/** `Task` is what the job takes, `Result` what it makes of it. */
export class RulesLoader<Task, Result extends LoadResult = LoadResult> {
  private readonly options: RulesSourceOptions
  private readonly jobs: ReturnType<typeof jobThread>
  private isClosing = false
  private remarkedContent = ''

  /** `job`: a file whose default export takes a LoadJob and resolves with LoadRemarks. */
  constructor(job: URL, options: RulesSourceOptions) {
    this.options = options
    this.jobs = jobThread(job, { idleMs: JOB_IDLE_MS })
    for (const name of [LOADED, FAILED]) options.totals.add(name, 0) // there before the first, for `increase()`
  }

  /** Rejects when the job itself breaks; a mistake in the rules is a result. Remarks on them are logged later. */
  run(task: Task, transferList: Transferable[] = []): Promise<Result> {
    const { port1, port2 } = new MessageChannel()
    const job: LoadJob<Task> = { task, port: port2 }
    const remarked: Promise<LoadRemarks> = this.jobs.run(job, { transferList: [...transferList, port2] })
    return new Promise<Result>((resolve, reject) => {
      port1.once('message', resolve)
      remarked.then((remarks) => this.logRemarks(remarks), reject)
    }).finally(() => port1.close())
  }

  private logRemarks({ remarks, content }: LoadRemarks): void {
    if (this.isClosing || (content !== '' && content === this.remarkedContent)) return
    this.remarkedContent = content
    for (const remark of remarks.slice(0, REMARKS_LOGGED_MAX)) this.options.log('warning', remark)
    const leftCount = remarks.length - REMARKS_LOGGED_MAX
    if (leftCount > 0)
      this.options.log('warning', `and ${leftCount} more remarks on the rules: see sluice check-config`)
  }

  accept(image: RulesImage): void {
    if (this.isClosing) return
    const { totals, onRules, log } = this.options
    totals.add(LOADED, 1)
    onRules(image)
    log('info', 'Successfully loaded new configuration')
  }

  refuse(message: string, level: LogLevel = 'error'): void {
    if (this.isClosing) return // the job was ended with its thread
    this.options.totals.add(FAILED, 1)
    this.options.onRefused?.(message)
    this.options.log(level, `Error loading new configuration: ${message}`)
  }

  async close(): Promise<void> {
    this.isClosing = true
    await this.jobs.destroy()
  }
}
