/**
 * Main's side of the monitor: starts its thread, passes new rules, stops it, and restarts it after a failure. Decisions do
 * not depend on it.
 *
 *     start ──► thread ── ready ──► listening        fails ──► 1 s, 5 s, 30 s, then 5 min ──► start again
 *
 * Restarts are not limited. Each reason of a failure is logged once, and at most LINES_MAX of them; the gauge
 * `sluice.monitor.up` has the state at any time.
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
const LINES_MAX = 4 // for failures less than LIVED_MS apart; further reasons are not logged
const UP = 'sluice.monitor.up'
const NO_DELTAS: Deltas = { names: [], values: [], timers: [], gauges: [], ofRules: [] }
const REQUESTS_MS = 5_000 // for requests in flight at shutdown; spec 12
const STOP_MS = 15_000 // for the whole shutdown, with the writer's queue; beyond, it is not waited for
const STOP_STARTING_MS = 1_000 // of a thread that is not ready yet
const QUIET = ['--disable-warning=ExperimentalWarning'] // of node:sqlite
const LIVED_MS = 60_000 // after a thread has run this long, pauses start at 1 s again

export interface MonitorHooks {
  /** Rejects when a port of the monitor is in use: the thread would share it silently (SO_REUSEPORT). */
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
  private failuresCount = 0 // since a thread last ran for LIVED_MS
  private readonly loggedReasons = new Set<string>() // of those; at most LINES_MAX
  private isLoggedDown = false // the last line about its state says that it is down
  private isEnding = false

  /** `file`: the module that the thread runs. */
  constructor(file: URL, task: MonitorTask, hooks: MonitorHooks) {
    this.file = file
    this.task = task
    this.hooks = hooks
  }

  /** Resolves with its port. Rejects, without a retry, when this first start fails. */
  start(): Promise<number> {
    return new Promise((resolve, reject) => this.launch(resolve, reject))
  }

  /** After a failed `start`: retries until a start succeeds. */
  startLater(failure: Error): void {
    if (!this.isEnding) this.onFailure(failure, 0)
  }

  setRules(rules: RulesImage): void {
    this.task.rules = rules
    this.send({ kind: 'rules', rules })
  }

  beginShutdown(): void {
    this.isEnding = true
    this.send({ kind: 'ending' })
  }

  /** Not ready at once, drained after `delayMs`. Always resolves, also when the thread hangs. */
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
        else if (!this.isEnding) this.onFailure(error, 0)
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
        const reason = failure ?? new Error('it ended without an error')
        if (!this.isReady && reject) reject(reason)
        else if (!this.isEnding) this.onFailure(reason, performance.now() - startedMs)
        ended()
      })
    })
  }

  private onFailure(error: Error, livedMs: number): void {
    if (livedMs > LIVED_MS) {
      this.failuresCount = 0
      this.loggedReasons.clear()
    }
    const pauseMs = PAUSES_MS[Math.min(this.failuresCount, PAUSES_MS.length - 1)]
    this.failuresCount++
    this.hooks.stats(NO_DELTAS, [[UP, 0]])
    this.logDown(error, pauseMs)
    this.timer = setTimeout(() => this.launch((port) => this.logUp(port), null), pauseMs)
  }

  private logDown(error: Error, pauseMs: number): void {
    if (this.loggedReasons.has(error.message) || this.loggedReasons.size === LINES_MAX) return
    this.loggedReasons.add(error.message)
    this.isLoggedDown = true
    const rest = 'decisions go on; the same failure is not logged again'
    this.hooks.log(
      'error',
      `the monitor is down, next start in ${pauseMs / 1_000} s (${rest}): ${toLogText(error)}`,
    )
  }

  private logUp(port: number): void {
    if (!this.isLoggedDown) return
    this.isLoggedDown = false
    this.hooks.log('warning', `the monitor listens again on port ${port}`)
  }

  private send(message: ToMonitor): void {
    this.worker?.postMessage(message)
  }
}
