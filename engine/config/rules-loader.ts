/**
 * The common end of every source of rules: the job that loads them, and what its result means (spec 8.5).
 *
 *     file-rules-source.ts   files        ┐
 *     transports/xds         resources    ┴──► job: read, validate, compile ──┬──► accept: counted, put in force
 *                                                                             └──► refuse: counted, logged; rules in force stay
 *
 * Runs in the main thread, which never parses: the job runs in a thread that ends when idle and so frees its memory. Rules
 * are linted after they are in force; the warnings are logged when the content differs from the content last linted.
 */
import { MessageChannel, receiveMessageOnPort, type Transferable } from 'node:worker_threads'
import { jobThread } from '../runtime/job-thread.ts'
import type { Log, LogLevel } from '../runtime/messages.ts'
import type { Settings } from '../settings/parse.ts'
import type { Totals } from '../stats/totals.ts'
import type { LoadResult } from './load.ts'
import type { LintResult, LoadJob } from './load-job.ts'
import type { RulesImage } from './rules.ts'

// Then the job thread ends. A thread that waits for the next load keeps its heap: with 5 s here, 100,000 rules changed
// every 4 s grew it to 1.3 GB. A new thread costs 0.1 s.
const JOB_IDLE_MS = 200

const LOADED = 'ratelimit.service.config_load_success'
const FAILED = 'ratelimit.service.config_load_error'
const LINT_WARNINGS_LOGGED_MAX = 20 // per load; the rest is logged as a count

/** Where rules come from. Loaded rules are passed to `onRules` of its options. */
export interface RulesSource {
  /** Resolves after the first load, successful or not. Rejects with ConfigurationError when nothing can be loaded. */
  start(): Promise<void>
  close(): Promise<void>
}

export interface RulesSourceOptions {
  settings: Settings
  totals: Totals
  log: Log
  onRules: (rules: RulesImage) => void
  onRefused?: (message: string) => void // a load failed; the rules in force stay
  onRecovered?: () => void // the sender of a refused load now sends the rules in force
  onDisconnected?: (since: Date | null) => void // the management server has been unreachable since; null = connected
}

/** `Task` is the job's input, `Result` what it posts. */
export class RulesLoader<Task, Result extends LoadResult = LoadResult> {
  private readonly options: RulesSourceOptions
  private readonly jobs: ReturnType<typeof jobThread>
  private isClosing = false
  private lintedContentHash = '' // of the last load that succeeded

  /** `job`: a file whose default export takes a LoadJob and resolves with a LintResult. */
  constructor(job: URL, options: RulesSourceOptions) {
    this.options = options
    this.jobs = jobThread(job, { idleMs: JOB_IDLE_MS })
    for (const name of [LOADED, FAILED]) options.totals.add(name, 0) // present from the start, for `increase()`
  }

  /** Rejects when the job itself fails; invalid rules are a result. Lint warnings are logged later. */
  run(task: Task, transferList: Transferable[] = []): Promise<Result> {
    const { port1, port2 } = new MessageChannel()
    const job: LoadJob<Task> = { task, port: port2 }
    const linting: Promise<LintResult> = this.jobs.run(job, { transferList: [...transferList, port2] })
    return new Promise<Result>((resolve, reject) => {
      let hasResult = false
      const onResult = (result: Result) => {
        hasResult = true
        resolve(result)
      }
      port1.once('message', onResult)
      linting
        .then((lintResult) => this.logLintWarnings(lintResult))
        .catch((error) => {
          const late = hasResult ? undefined : receiveMessageOnPort(port1) // two ports, so the order is not fixed
          if (late) onResult(late.message)
          if (hasResult) this.logLintFailure(error)
          else reject(error)
        })
    }).finally(() => port1.close())
  }

  private logLintWarnings({ warnings, contentHash }: LintResult): void {
    const hasFailed = contentHash === ''
    if (this.isClosing || hasFailed || contentHash === this.lintedContentHash) return
    this.lintedContentHash = contentHash
    for (const warning of warnings.slice(0, LINT_WARNINGS_LOGGED_MAX)) this.options.log('warning', warning)
    const leftCount = warnings.length - LINT_WARNINGS_LOGGED_MAX
    if (leftCount > 0)
      this.options.log(
        'warning',
        `${leftCount} more warnings about the rules: run sluice check-config to see them`,
      )
  }

  private logLintFailure(error: unknown): void {
    if (this.isClosing) return // the job ended with its thread
    const reason = error instanceof Error ? error.message : String(error)
    this.options.log('error', `The rules are loaded, but they could not be checked for warnings: ${reason}`)
  }

  accept(image: RulesImage): void {
    if (this.isClosing) return
    const { totals, onRules, log } = this.options
    totals.add(LOADED, 1)
    onRules(image)
    log('info', 'Successfully loaded new configuration')
  }

  refuse(message: string, level: LogLevel = 'error'): void {
    if (this.isClosing) return // the job ended with its thread
    this.options.totals.add(FAILED, 1)
    this.options.onRefused?.(message)
    this.options.log(level, `Error loading new configuration: ${message}`)
  }

  async close(): Promise<void> {
    this.isClosing = true
    await this.jobs.destroy()
  }
}
