/**
 * What every source of rules ends with: the job that loads them, and what a load means (spec 8.5).
 *
 *     rules-source.ts   files         ┐
 *     transports/xds    resources     ┴──► job: read, validate, compile ──┬──► accept: counted, into force
 *                                                                         └──► refuse: counted, said; what is in force stays
 *
 * Runs in main, which never parses: the work is a task of a thread that ends when idle and gives its memory back.
 */
import type { Transferable } from 'node:worker_threads'
import type { LoadResult } from './config/load.ts'
import { jobThread } from './job-thread.ts'
import type { Log, LogLevel } from './messages.ts'
import type { RulesImage } from './rules.ts'
import type { Settings } from './settings/parse.ts'
import type { Totals } from './stats/totals.ts'

// Then the job thread ends. Kept alive for a next load it would not clear its heap for that: 100,000 rules changed every
// 4 s came to 1.3 GB with 5 s here. A new thread costs 0.1 s.
const JOB_IDLE_MS = 200

const LOADED = 'ratelimit.service.config_load_success'
const FAILED = 'ratelimit.service.config_load_error'

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
  onAway?: (since: Date | null) => void // whoever sends the rules cannot be reached since then; null = is there
}

/** `Task` is what the job takes, `Result` what it makes of it. */
export class RulesLoader<Task, Result extends LoadResult = LoadResult> {
  private readonly options: RulesSourceOptions
  private readonly jobs: ReturnType<typeof jobThread>
  private isClosing = false

  /** `job`: a file whose default export makes a result of a task. */
  constructor(job: URL, options: RulesSourceOptions) {
    this.options = options
    this.jobs = jobThread(job, { idleMs: JOB_IDLE_MS })
    for (const name of [LOADED, FAILED]) options.totals.add(name, 0) // there before the first, for `increase()`
  }

  /** Rejects when the job itself breaks; a mistake in the rules is a result. */
  run(task: Task, transferList?: Transferable[]): Promise<Result> {
    return this.jobs.run(task, { transferList })
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
