/** Runs the prober's thread and passes it its sites, after each start. */
import { toLogText } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import { ThreadSupervisor } from '../../engine/runtime/thread-supervisor.ts'
import type { FromProber, ProberData, ProberMetrics, ToProber } from '../prober/messages.ts'

const PAUSE_MS = 5_000 // between a failure and the next start; restarts are not limited
const READY_SEC = 60 // opening the table of networks takes seconds
const SILENT_SEC = 60 // it sends metrics each second
const STOP_MS = 5_000 // for its running probes, which are aborted; then it is terminated

export interface ProberHooks {
  log: Log
  message: (message: FromProber) => void
  lost: () => void // the thread failed; the results of what it ran are lost
}

export class ProberSupervisor {
  metrics: ProberMetrics | null = null
  private readonly hooks: ProberHooks
  private readonly supervisor: ThreadSupervisor<ToProber, FromProber>
  private sites: Extract<ToProber, { kind: 'sites' }> | null = null

  constructor(data: ProberData, hooks: ProberHooks) {
    this.hooks = hooks
    this.supervisor = new ThreadSupervisor(
      {
        file: resolveModule('../prober/thread.ts', import.meta.url),
        name: 'monitor-prober',
        pausesMs: [PAUSE_MS],
        workerData: () => data,
        isReady: ({ kind }) => kind === 'ready',
        bounds: { readyChecksMax: READY_SEC, silentChecksMax: SILENT_SEC, isTerminable: true },
      },
      {
        onStart: () => this.sites && this.send(this.sites),
        onMessage: (message) => this.receive(message),
        onFailure: (reason, pauseMs) => this.onFailure(reason, pauseMs),
      },
    )
  }

  /** A failed start is retried, too. */
  start(): void {
    this.supervisor.start().catch((error) => this.supervisor.retry(error))
  }

  setSites(sites: Extract<ToProber, { kind: 'sites' }>): void {
    this.sites = sites
    this.send(sites)
  }

  get hasThread(): boolean {
    return this.supervisor.hasThread
  }

  /** Dropped while no thread runs. */
  send(message: ToProber): void {
    this.supervisor.post(message)
  }

  close(): Promise<void> {
    return this.supervisor.stop({ kind: 'close' }, STOP_MS)
  }

  private receive(message: FromProber): void {
    if (message.kind === 'log') this.hooks.log(message.level, message.text)
    else if (message.kind === 'metrics') this.metrics = message.metrics
    else if (message.kind !== 'ready') this.hooks.message(message)
  }

  private onFailure(reason: Error, pauseMs: number): void {
    this.hooks.log('error', `the prober ended, restart in ${pauseMs / 1_000} s: ${toLogText(reason)}`)
    this.hooks.lost()
  }
}
