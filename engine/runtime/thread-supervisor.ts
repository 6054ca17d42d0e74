/**
 * Keeps one thread running: starts it, waits until it is ready, restarts it after a failure, stops it.
 *
 *     start ──► starting ── ready ──► running ── ends, or is unresponsive ──► paused ── RestartBackoff ──► starting
 *     stop  ──► posts the last message ──► the thread ends, or `waitMs` pass ──► stopped
 *
 * The first start is not repeated: its failure is for the caller, who may call `retry`. A thread without any message for the
 * bound of its phase is unresponsive. It is terminated and restarted only if it is `isTerminable`: terminating a thread that
 * holds a uWebSockets.js app aborts the process, and one that waits for a disk would not end. Others are only reported.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { RestartBackoff } from './backoff.ts'

const CHECK_MS = 1_000

export interface ThreadOptions<Received> {
  file: URL
  name: string // of the thread, in profiles and diagnostics
  execArgv?: string[]
  workerData: () => unknown // read at each start
  prepare?: () => Promise<unknown> // before each start; its rejection is a failure of the start
  pausesMs: readonly number[] // before restarts (RestartBackoff), which are unlimited
  isReady: (message: Received) => boolean
  /** In checks, one per second, so that time in which the whole machine is suspended counts as one. Default: no bound. */
  bounds?: { readyChecksMax: number; silentChecksMax: number; isTerminable: boolean }
  checkMs?: number // for tests
}

export interface ThreadHooks<Received> {
  onStart?: () => void // the thread exists, and messages can be posted; it may not be ready yet
  onMessage: (message: Received) => void
  onEnd?: (reason: Error) => void // each time, also after `stop`; before onFailure
  /** It failed and starts again after `pauseMs`. `isFirst`: earlier failures no longer count. */
  onFailure: (reason: Error, pauseMs: number, isFirst: boolean) => void
  onUnresponsive?: (reason: Error) => void // once, until its next message
  onResponsive?: () => void // a message after onUnresponsive
}

export type ThreadHealth = 'stopped' | 'starting' | 'running' | 'unresponsive' | 'paused'

export class ThreadSupervisor<Sent, Received> {
  private readonly options: ThreadOptions<Received>
  private readonly hooks: ThreadHooks<Received>
  private readonly backoff: RestartBackoff
  private worker: Worker | null = null
  private ended: Promise<void> = Promise.resolve()
  private timer: NodeJS.Timeout | undefined
  private isStopping = false
  private state: ThreadHealth = 'stopped'

  constructor(options: ThreadOptions<Received>, hooks: ThreadHooks<Received>) {
    this.options = options
    this.hooks = hooks
    this.backoff = new RestartBackoff(options.pausesMs)
  }

  get health(): ThreadHealth {
    return this.state
  }

  get hasThread(): boolean {
    return this.worker !== null
  }

  /** Resolves with the message that made it ready. Rejects if the thread ends before, and does not retry then. */
  start(): Promise<Received> {
    return new Promise((resolve, reject) => this.launch(resolve, reject))
  }

  /** Starts it again after a pause, until a start succeeds. */
  retry(reason: Error, ranMs = 0): void {
    if (this.isStopping) return
    const pauseMs = this.backoff.onFailure(ranMs)!
    this.state = 'paused'
    this.hooks.onFailure(reason, pauseMs, this.backoff.isFirst)
    this.timer = setTimeout(() => {
      this.launch(
        () => {},
        (error, lastedMs) => this.retry(error, lastedMs),
      )
    }, pauseMs)
  }

  /** Dropped while no thread runs. */
  post(message: Sent): void {
    this.worker?.postMessage(message)
  }

  /** From now on it is not restarted. */
  endRestarts(): void {
    this.isStopping = true
    clearTimeout(this.timer)
    if (this.state === 'paused') this.state = 'stopped'
  }

  /** Resolves when the thread has ended, and after `waitMs` in any case; null = no bound. */
  async stop(last: Sent, waitMs: number | null): Promise<void> {
    this.endRestarts()
    this.post(last)
    if (waitMs === null) return this.ended
    const waiting = new AbortController()
    const timeout = sleep(waitMs, undefined, { ref: false, signal: waiting.signal }).catch(() => {})
    await Promise.race([this.ended, timeout])
    waiting.abort()
    if (this.options.bounds?.isTerminable) await this.worker?.terminate()
  }

  private launch(
    onReady: (message: Received) => void,
    onFailed: (error: Error, ranMs: number) => void,
  ): void {
    const { prepare } = this.options
    if (prepare === undefined) this.run(onReady, onFailed)
    else
      prepare().then(
        () => this.run(onReady, onFailed),
        (error: Error) => onFailed(error, 0),
      )
  }

  private run(onReady: (message: Received) => void, onFailed: (error: Error, ranMs: number) => void): void {
    if (this.isStopping) {
      onFailed(new Error('it was stopped before it had started'), 0)
      return
    }
    const { file, name, execArgv, workerData, isReady } = this.options
    const startedMs = performance.now()
    const worker = new Worker(file, { workerData: workerData(), name, ...(execArgv && { execArgv }) })
    this.worker = worker
    this.state = 'starting'
    let wasReady = false
    let failure: Error | null = null
    const watch = this.watch(worker, (reason) => {
      failure = reason
    })
    worker.on('message', (message: Received) => {
      watch.onMessage()
      if (!wasReady && isReady(message)) {
        wasReady = true
        this.state = 'running'
        onReady(message)
      }
      this.hooks.onMessage(message)
    })
    worker.on('error', (error) => {
      failure = error as Error
    })
    this.ended = new Promise((resolve) => {
      worker.on('exit', (code) => {
        watch.stop()
        this.worker = null
        this.state = 'stopped'
        const reason =
          failure ?? new Error(`it ended ${code === 0 ? 'without an error' : `with code ${code}`}`)
        this.hooks.onEnd?.(reason)
        const ranMs = performance.now() - startedMs
        if (wasReady) this.retry(reason, ranMs)
        else onFailed(reason, ranMs)
        resolve()
      })
    })
    this.hooks.onStart?.()
  }

  /** Counts checks since the last message. */
  private watch(worker: Worker, onTerminate: (reason: Error) => void) {
    const { bounds, checkMs = CHECK_MS } = this.options
    if (bounds === undefined) return { onMessage: () => {}, stop: () => {} }
    const { readyChecksMax, silentChecksMax, isTerminable } = bounds
    let checksCount = 0
    let stateBefore: ThreadHealth | null = null // null = it is not unresponsive
    const timer = setInterval(() => {
      if (stateBefore !== null) return
      const isStarting = this.state === 'starting'
      if (++checksCount < (isStarting ? readyChecksMax : silentChecksMax)) return
      const forSec = (checksCount * checkMs) / 1_000
      const reason = new Error(
        isStarting ? `it is not ready after ${forSec} s` : `no message for ${forSec} s`,
      )
      stateBefore = this.state
      this.state = 'unresponsive'
      this.hooks.onUnresponsive?.(reason)
      if (!isTerminable) return
      onTerminate(reason)
      void worker.terminate()
    }, checkMs).unref()
    return {
      onMessage: () => {
        checksCount = 0
        if (stateBefore === null) return
        this.state = stateBefore
        stateBefore = null
        this.hooks.onResponsive?.()
      },
      stop: () => clearInterval(timer),
    }
  }
}
