/**
 * Main's side of the monitor: starts its thread, passes new rules, stops it, and restarts it after a failure. Decisions do
 * not depend on it.
 *
 *     start ──► thread ── ready ──► listening        fails ──► 1 s, 5 s, 30 s, then 5 min ──► start again
 *
 * Restarts are not limited. Each reason of a failure is logged once, and at most REASONS_MAX of them; the gauge
 * `sluice.monitor.up` has the state at any time. A thread that is unresponsive is only reported: its ports are those of
 * uWebSockets.js, so it cannot be terminated.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RulesImage } from '../../engine/config/rules.ts'
import { toLogText } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { ThreadSupervisor } from '../../engine/runtime/thread-supervisor.ts'
import type { Deltas } from '../../engine/stats/stats.ts'
import { QUIET } from '../storage/thread-flags.ts'
import type { FromMonitor, MonitorTask, ToMonitor } from './messages.ts'
import type { Gauges } from './metrics.ts'

const PAUSES_MS = [1_000, 5_000, 30_000, 300_000]
const READY_SEC = 60 // a large database may take longer to migrate
const SILENT_SEC = 60 // it sends statistics each second
const REASONS_MAX = 4 // logged, of failures that follow each other; further ones are not
const UP = 'sluice.monitor.up'
const NO_DELTAS: Deltas = { names: [], values: [], timers: [], gauges: [], ofRules: [] }
const REQUESTS_MS = 5_000 // for requests in flight at shutdown; spec 12
const STOP_MS = 15_000 // for the whole shutdown, with the writer's queue; beyond, it is not waited for
const STOP_STARTING_MS = 1_000 // of a thread that is not ready yet

export interface MonitorHooks {
  /** Rejects when a port of the monitor is in use, with an error that names the setting; the thread knows only that it is. */
  claim: () => Promise<unknown>
  log: Log
  stats: (deltas: Deltas, gauges: Gauges) => void // each second
}

export class MonitorSupervisor {
  private readonly task: MonitorTask
  private readonly hooks: MonitorHooks
  private readonly supervisor: ThreadSupervisor<ToMonitor, FromMonitor>
  private readonly loggedReasons = new Set<string>() // at most REASONS_MAX
  private isLoggedDown = false // the last line about its state was that it is down

  /** `file`: the module that the thread runs. */
  constructor(file: URL, task: MonitorTask, hooks: MonitorHooks) {
    this.task = task
    this.hooks = hooks
    this.supervisor = new ThreadSupervisor(
      {
        ...{ file, name: 'monitor', execArgv: QUIET, pausesMs: PAUSES_MS },
        workerData: () => this.task,
        prepare: hooks.claim,
        isReady: ({ kind }) => kind === 'ready',
        bounds: { readyChecksMax: READY_SEC, silentChecksMax: SILENT_SEC, isTerminable: false },
      },
      {
        onMessage: (message) => this.receive(message),
        onFailure: (reason, pauseMs, isFirst) => this.onFailure(reason, pauseMs, isFirst),
        onUnresponsive: (reason) => this.onUnresponsive(reason),
        onResponsive: () => hooks.log('warning', 'the monitor responds again'),
      },
    )
  }

  /** Resolves with its port. Rejects, without a retry, when this first start fails. */
  async start(): Promise<number> {
    const ready = await this.supervisor.start()
    return (ready as Extract<FromMonitor, { kind: 'ready' }>).port
  }

  /** After a failed `start`: retries until a start succeeds. */
  startLater(failure: Error): void {
    this.supervisor.retry(failure)
  }

  setRules(rules: RulesImage): void {
    this.task.rules = rules
    this.supervisor.post({ kind: 'rules', rules })
  }

  beginShutdown(): void {
    this.supervisor.endRestarts()
    this.supervisor.post({ kind: 'ending' })
  }

  /** Not ready at once, drained after `delayMs`. Always resolves, also when the thread hangs. */
  async stop(delayMs = 0): Promise<void> {
    this.beginShutdown()
    const isRunning = this.supervisor.health === 'running'
    if (isRunning) await sleep(delayMs)
    await this.supervisor.stop(
      { kind: 'drain', timeoutMs: REQUESTS_MS },
      isRunning ? STOP_MS : STOP_STARTING_MS,
    )
  }

  private receive(message: FromMonitor): void {
    if (message.kind === 'stats') this.hooks.stats(message.deltas, [...message.gauges, [UP, 1]])
    else if (message.kind === 'log') this.hooks.log(message.level, message.text, message.fields)
    else if (this.isLoggedDown) {
      this.isLoggedDown = false
      this.hooks.log('warning', `the monitor listens again on port ${message.port}`)
    }
  }

  private onFailure(error: Error, pauseMs: number, isFirst: boolean): void {
    this.hooks.stats(NO_DELTAS, [[UP, 0]])
    if (isFirst) this.loggedReasons.clear()
    if (this.loggedReasons.has(error.message) || this.loggedReasons.size === REASONS_MAX) return
    this.loggedReasons.add(error.message)
    this.isLoggedDown = true
    const rest = 'decisions go on; the same failure is not logged again'
    this.hooks.log(
      'error',
      `the monitor is down, next start in ${pauseMs / 1_000} s (${rest}): ${toLogText(error)}`,
    )
  }

  private onUnresponsive(reason: Error): void {
    this.hooks.stats(NO_DELTAS, [[UP, 0]])
    this.hooks.log('error', `the monitor is unresponsive (decisions go on): ${reason.message}`)
  }
}
