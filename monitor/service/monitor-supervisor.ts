/**
 * Main's side of the monitor: its thread is started, told of new rules, ended, and begun again when it breaks. Nothing of
 * it ever stops a decision.
 *
 *     start ──► thread ── ready ──► listening        breaks ──► 1 s, 5 s, 30 s, then 5 min ──► start again
 *
 * A failure is logged once. Attempts go on for ever, but only a new reason is logged, and no more than LINES_MAX of them;
 * `sluice.monitor.up` tells the state at any time.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { RulesImage } from '../../engine/config/rules.ts'
import { toLogText } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import type { Deltas } from '../../engine/stats/stats.ts'
import type { FromMonitor, MonitorTask, ToMonitor } from './messages.ts'
import type { Gauges } from './metrics.ts'

const PAUSES_MS = [1_000, 5_000, 30_000, 300_000]
const LINES_MAX = 4 // for failures without a minute of life between them; further reasons are not logged
const UP = 'sluice.monitor.up'
const NO_DELTAS: Deltas = { names: [], values: [], timers: [], gauges: [], ofRules: [] }
const REQUESTS_MS = 5_000 // spec 12: for those in flight at the end
const STOP_MS = 15_000 // with the writer's queue
const STOP_STARTING_MS = 1_000 // one that has not answered anybody yet
const QUIET = ['--disable-warning=ExperimentalWarning'] // of node:sqlite
const LIVED_MS = 60_000 // a thread that lived so long begins the pauses anew

export interface MonitorHooks {
  /** Rejects when a port of the monitor is taken: its thread would share it silently (SO_REUSEPORT). */
  claim: () => Promise<unknown>
  log: Log
  stats: (deltas: Deltas, gauges: Gauges) => void // each second
}

export class MonitorSupervisor {
  private readonly file: URL
  private readonly task: MonitorTask
  private readonly hooks: MonitorHooks
  private worker: Worker | null = null
  private ended: Promise<void> = Promise.resolve()
  private timer: NodeJS.Timeout | undefined
  private isReady = false
  private deathsCount = 0
  private readonly toldReasons = new Set<string>() // of deaths without a minute of life between them; at most LINES_MAX
  private isToldDown = false // the last line about its state says that it does not run
  private isEnding = false

  /** `file`: what the thread runs; it opens the port. */
  constructor(file: URL, task: MonitorTask, hooks: MonitorHooks) {
    this.file = file
    this.task = task
    this.hooks = hooks
  }

  /** Resolves with its port; rejects when this first start fails, and nothing is tried again then. */
  start(): Promise<number> {
    return new Promise((resolve, reject) => this.launch(resolve, reject))
  }

  /** After a start that failed: tries until it succeeds. */
  startLater(failure: Error): void {
    if (!this.isEnding) this.died(failure, 0)
  }

  setRules(rules: RulesImage): void {
    this.task.rules = rules
    this.send({ kind: 'rules', rules })
  }

  beginShutdown(): void {
    this.isEnding = true
    this.send({ kind: 'ending' })
  }

  /** Not ready at once, closed after `delayMs`. Always resolves: a thread that hangs in its start is not waited for. */
  async stop(delayMs = 0): Promise<void> {
    this.beginShutdown()
    clearTimeout(this.timer)
    if (this.isReady) await sleep(delayMs)
    this.send({ kind: 'drain', timeoutMs: REQUESTS_MS })
    const waitMs = this.isReady ? STOP_MS : STOP_STARTING_MS
    await Promise.race([this.ended, sleep(waitMs, undefined, { ref: false })])
  }

  private launch(resolve: (port: number) => void, reject: ((error: Error) => void) | null): void {
    this.hooks.claim().then(
      () => !this.isEnding && this.run(resolve, reject),
      (error: Error) => {
        if (reject) reject(error)
        else if (!this.isEnding) this.died(error, 0)
      },
    )
  }

  private run(resolve: (port: number) => void, reject: ((error: Error) => void) | null): void {
    const startedMs = performance.now()
    const worker = new Worker(this.file, { workerData: this.task, name: 'monitor', execArgv: QUIET })
    this.worker = worker
    let failure: Error | null = null
    this.isReady = false
    worker.on('error', (error) => {
      failure = error as Error
    })
    worker.on('message', (message: FromMonitor) => {
      if (message.kind === 'stats') this.hooks.stats(message.deltas, [...message.gauges, [UP, 1]])
      else if (message.kind === 'log') this.hooks.log(message.level, message.text, message.fields)
      else {
        this.isReady = true
        resolve(message.port)
      }
    })
    this.ended = new Promise((ended) => {
      worker.on('exit', () => {
        this.worker = null
        const why = failure ?? new Error('it ended without an error')
        if (!this.isReady && reject) reject(why)
        else if (!this.isEnding) this.died(why, performance.now() - startedMs)
        ended()
      })
    })
  }

  private died(error: Error, livedMs: number): void {
    if (livedMs > LIVED_MS) {
      this.deathsCount = 0
      this.toldReasons.clear()
    }
    const pauseMs = PAUSES_MS[Math.min(this.deathsCount, PAUSES_MS.length - 1)]
    this.deathsCount++
    this.hooks.stats(NO_DELTAS, [[UP, 0]])
    this.tellDown(error, pauseMs)
    this.timer = setTimeout(() => this.launch((port) => this.tellUp(port), null), pauseMs)
  }

  private tellDown(error: Error, pauseMs: number): void {
    if (this.toldReasons.has(error.message) || this.toldReasons.size === LINES_MAX) return
    this.toldReasons.add(error.message)
    this.isToldDown = true
    const rest = 'decisions go on; the same failure is not logged again'
    this.hooks.log(
      'error',
      `the monitor is down, next start in ${pauseMs / 1_000} s (${rest}): ${toLogText(error)}`,
    )
  }

  private tellUp(port: number): void {
    if (!this.isToldDown) return
    this.isToldDown = false
    this.hooks.log('warning', `the monitor listens again on port ${port}`)
  }

  private send(message: ToMonitor): void {
    this.worker?.postMessage(message)
  }
}
