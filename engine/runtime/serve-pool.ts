/**
 * The serve pool: WORKERS threads, each running one `serve` task until it is drained.
 *
 *     start(i) ── task ──► running ── throws ──► its last statistics arrive ──► start(i) again, after a pause
 *                             │
 *                             └── drain ──► finishes its requests, closes ──► ends
 *
 * Each worker is asked every few seconds whether its event loop turns. One that does not answer is reported, and is not waited for once
 * the time for draining has passed: it would keep the process from ending.
 *
 * Threads end by message, never by force: terminating a thread that holds a uWebSockets.js app aborts the process. The
 * threads are Piscina's, which replaces one that dies; a restart here is a new task. So thread-supervisor.ts does not fit, but
 * pauses and the accounting of restarts are the same (backoff.ts). Runs in main. The file that each thread runs is an argument, so the engine does not depend on transports.
 */
import { once } from 'node:events'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { RestartBackoff } from './backoff.ts'
import type { FromWorker, ServeTask, ToWorker } from './messages.ts'

/** A worker that does not respond within this time is left out of a statistics round; its deltas come with the next. */
const STATS_WAIT_MS = 200

/** Between two checks that event loops turn. Each wakes every thread, so it is not short. */
const CHECK_MS = 2_500

/** Checks in a row without any message: the worker is unresponsive. Checks, since none passes while the machine is suspended. */
const SILENT_CHECKS_MAX = 2

/** Before each restart. After so many within a minute the worker is not restarted: the cause is not transient. */
const RESTART_PAUSES_MS = [0, 50, 100, 150, 200]

/**
 * Per thread: three parts of V8's young generation, 4 MB each. So little of a decision survives that V8's default of 48 was
 * no faster at any measured load.
 */
const YOUNG_MB_MAX = 12

export type WorkerOptions = Omit<ServeTask, 'index' | 'port'>

export interface ServePoolHooks {
  message(index: number, message: FromWorker): void
  /** A worker ended by an error; it is replaced unless `willRestart` is false. */
  died(index: number, error: Error, willRestart: boolean): void
  /** The event loop of a worker has not turned for `forSec`. */
  unresponsive(index: number, forSec: number): void
  /** It turns again, after about `afterSec`. */
  responsive(index: number, afterSec: number): void
}

interface Slot {
  port: MessagePort
  isReady: boolean
  hasEnded: boolean
  ended: Promise<void>
  startedMs: number
  restarts: RestartBackoff // of this index, over its threads
  isPinged: boolean // the last ping has no answer
  silentChecks: number // since its last message
  isReported: boolean // as unresponsive
  giveUp: () => void // `drain` no longer waits for it
  givenUp: Promise<void>
}

export class ServePool {
  private readonly piscina: Piscina
  private readonly hooks: ServePoolHooks
  private readonly slots: Slot[] = []
  private options: WorkerOptions
  private isDraining = false
  private round: Promise<number> | null = null // of statistics, in progress or the last one
  private nextRound: Promise<number> | null = null // requested, not started
  private readonly checkMs: number
  private readonly checkTimer: NodeJS.Timeout
  private drainMsLeft = 0

  /** `checkMs` is for tests. */
  constructor(
    file: URL,
    workersCount: number,
    options: WorkerOptions,
    hooks: ServePoolHooks,
    checkMs = CHECK_MS,
  ) {
    this.options = options
    this.hooks = hooks
    this.checkMs = checkMs
    this.checkTimer = setInterval(() => this.check(), checkMs).unref()
    this.piscina = new Piscina({
      filename: file.href,
      minThreads: workersCount,
      maxThreads: workersCount,
      atomics: 'disabled', // a worker blocked in Atomics.wait between tasks would not run its event loop
      idleTimeout: Number.POSITIVE_INFINITY,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB_MAX },
    })
    this.piscina.on('error', () => {}) // reported by each task's promise
  }

  /** Starts every worker; resolves when all are listening, rejects with the first error. */
  async start(): Promise<void> {
    const count = this.piscina.options.maxThreads
    await Promise.all(
      Array.from({ length: count }, (_, index) =>
        this.launch(index, new RestartBackoff(RESTART_PAUSES_MS, true)),
      ),
    )
  }

  /** For all workers, and for replacements started later. */
  update(change: Partial<Pick<WorkerOptions, 'rules' | 'health' | 'tls'>>): void {
    this.options = { ...this.options, ...change }
    if (change.rules) this.broadcast({ kind: 'rules', rules: change.rules })
    if (change.tls) this.broadcast({ kind: 'tls', tls: change.tls })
    if (change.health) this.broadcast({ kind: 'health', health: change.health })
  }

  send(index: number, message: ToWorker): void {
    this.slots[index]?.port.postMessage(message)
  }

  /**
   * Requests statistics from every worker, which arrive through `hooks.message`. Resolves with the number of workers that
   * did not respond in time. Calls during a round share the next one, which includes everything counted before the call.
   */
  collectStats(): Promise<number> {
    this.nextRound ??= Promise.allSettled([this.round]).then(() => {
      this.nextRound = null
      this.round = this.requestStats()
      return this.round
    })
    return this.nextRound
  }

  private async requestStats(): Promise<number> {
    const responses = this.slots.filter((slot) => slot.isReady).map((slot) => hasResponded(slot.port))
    this.broadcast({ kind: 'stats' })
    return (await Promise.all(responses)).filter((hasCome) => !hasCome).length
  }

  /** Announces `drain` to every worker. */
  beginShutdown(): void {
    this.broadcast({ kind: 'ending' })
  }

  /**
   * Makes every worker finish. Resolves when all have ended, with the indices of those that are not waited for: they do not respond,
   * and `timeoutMs` have passed.
   */
  async drain(timeoutMs: number): Promise<number[]> {
    this.isDraining = true
    this.drainMsLeft = timeoutMs
    this.checkTimer.ref()
    this.broadcast({ kind: 'drain', timeoutMs })
    const givenUp: number[] = []
    await Promise.all(
      this.slots.map((slot, index) => {
        const isGivenUp = slot.givenUp.then(() => void givenUp.push(index))
        return Promise.race([Promise.allSettled([slot.ended]), isGivenUp])
      }),
    )
    clearInterval(this.checkTimer)
    return givenUp
  }

  private check(): void {
    if (this.isDraining) this.drainMsLeft -= this.checkMs
    this.slots.forEach((slot, index) => {
      if (slot.hasEnded) return
      slot.silentChecks++
      const forSec = (slot.silentChecks * this.checkMs) / 1_000
      if (slot.silentChecks >= SILENT_CHECKS_MAX && slot.isReady && !slot.isReported) {
        slot.isReported = true
        this.hooks.unresponsive(index, forSec)
      }
      if (slot.silentChecks >= SILENT_CHECKS_MAX && this.isDraining && this.drainMsLeft <= 0) slot.giveUp()
      if (slot.isPinged) return // one at a time, so that they do not pile up
      slot.isPinged = true
      slot.port.postMessage({ kind: 'ping' } satisfies ToWorker)
    })
  }

  private onMessage(index: number, slot: Slot, message: FromWorker): void {
    if (slot.isReported) this.hooks.responsive(index, (slot.silentChecks * this.checkMs) / 1_000)
    slot.isReported = false
    slot.silentChecks = 0
    if (message.kind === 'pong') slot.isPinged = false
    else this.hooks.message(index, message)
  }

  private broadcast(message: ToWorker): void {
    for (const slot of this.slots) slot?.port.postMessage(message)
  }

  /** Resolves when worker `index` listens. */
  private async launch(index: number, restarts: RestartBackoff): Promise<void> {
    const { port1: port, port2 } = new MessageChannel()
    const task: ServeTask = { ...this.options, index, port: port2 }
    const ended: Promise<void> = this.piscina.run(task, { transferList: [port2] })
    const { promise: givenUp, resolve: giveUp } = Promise.withResolvers<void>()
    const slot: Slot = {
      ...{ port, isReady: false, hasEnded: false, ended, startedMs: performance.now(), restarts },
      ...{ isPinged: false, silentChecks: 0, isReported: false, giveUp, givenUp },
    }
    this.slots[index] = slot
    const onEnd = () => {
      slot.hasEnded = true
    }
    ended.then(onEnd, onEnd)
    const ready = new Promise<void>((resolve, reject) => {
      port.on('message', (message: FromWorker) => {
        if (message.kind === 'ready') {
          slot.isReady = true
          resolve()
        }
        this.onMessage(index, slot, message)
      })
      port.on('close', () => {
        slot.isReady = false // no more messages
      })
      ended.catch(reject) // the worker closes the port: closing it here could drop its last statistics
    })
    await ready
    ended.catch((error) => this.replace(index, slot, error))
  }

  private replace(index: number, slot: Slot, error: Error): void {
    slot.isReady = false
    const pauseMs = slot.restarts.onFailure(performance.now() - slot.startedMs)
    const willRestart = !this.isDraining && pauseMs !== null && !isOutOfMemory(error)
    this.hooks.died(index, error, willRestart)
    if (!willRestart) return
    setTimeout(() => {
      if (this.isDraining) return
      this.launch(index, slot.restarts).catch((again) => this.replace(index, this.slots[index], again))
    }, pauseMs)
  }
}

async function hasResponded(port: MessagePort): Promise<boolean> {
  const over = new AbortController()
  const signal = AbortSignal.any([AbortSignal.timeout(STATS_WAIT_MS), over.signal])
  const closed = once(port, 'close', { signal }).then(() => 'closed' as const)
  closed.catch(() => {}) // it may never be awaited
  try {
    for (;;) {
      const event = await Promise.race([once(port, 'message', { signal }), closed])
      if (event === 'closed') return true // it has ended; its last statistics came before
      const [message] = event as [FromWorker]
      if (message.kind === 'stats') return true
    }
  } catch {
    return false // the deltas stay in the worker and come with the next round
  } finally {
    over.abort() // removes the listeners
  }
}

export function isOutOfMemory(error: Error): boolean {
  return 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
}
