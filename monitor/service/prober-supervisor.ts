/** Starts the prober's thread, passes it its sites, and restarts it after a failure. */
import { Worker } from 'node:worker_threads'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import type { FromProber, ProberData, ProberMetrics, ToProber } from '../prober/messages.ts'

const PAUSE_MS = 5_000 // between a failure and the next start; restarts are not limited

export interface ProberHooks {
  log: Log
  message: (message: FromProber) => void
  lost: () => void // the thread failed; the results of what it ran are lost
}

export class ProberSupervisor {
  metrics: ProberMetrics | null = null
  private readonly data: ProberData
  private readonly hooks: ProberHooks
  private worker: Worker | null = null
  private ended: Promise<void> = Promise.resolve()
  private sites: Extract<ToProber, { kind: 'sites' }> | null = null
  private timer: NodeJS.Timeout | undefined
  private isClosing = false

  constructor(data: ProberData, hooks: ProberHooks) {
    this.data = data
    this.hooks = hooks
  }

  start(): void {
    const file = resolveModule('../prober/thread.ts', import.meta.url)
    const worker = new Worker(file, { workerData: this.data, name: 'monitor-prober' })
    this.worker = worker
    worker.on('message', (message: FromProber) => this.receive(message))
    let failure: Error | null = null
    worker.on('error', (error) => {
      failure = error as Error
    })
    this.ended = new Promise((resolve) => {
      worker.on('exit', () => {
        this.worker = null
        if (!this.isClosing) this.onFailure(failure)
        resolve()
      })
    })
    if (this.sites) this.send(this.sites)
  }

  setSites(sites: Extract<ToProber, { kind: 'sites' }>): void {
    this.sites = sites
    this.send(sites)
  }

  get isThere(): boolean {
    return this.worker !== null
  }

  /** Dropped while no thread runs. */
  send(message: ToProber): void {
    this.worker?.postMessage(message)
  }

  async close(): Promise<void> {
    this.isClosing = true
    clearTimeout(this.timer)
    this.send({ kind: 'close' })
    await this.ended
  }

  private receive(message: FromProber): void {
    if (message.kind === 'log') this.hooks.log(message.level, message.text)
    else if (message.kind === 'metrics') this.metrics = message.metrics
    else this.hooks.message(message)
  }

  private onFailure(failure: Error | null): void {
    const reason = failure?.stack ?? 'without an error'
    this.hooks.log('error', `the prober ended, restart in ${PAUSE_MS / 1_000} s: ${reason}`)
    this.hooks.lost()
    this.timer = setTimeout(() => this.start(), PAUSE_MS)
  }
}
