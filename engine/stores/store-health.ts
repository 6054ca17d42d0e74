/**
 * Whether a store works, for the health endpoint (spec 8.2) and `/healthcheck?verbose`.
 *
 *     worker 0   redis ok, redis per second failing ┐
 *     worker 1   redis ok, redis per second ok      ┴─► main   redis ok, redis per second failing in part
 *
 * Each thread reports the state of its connections and of its last calls. While calls fail, the store itself repeats a
 * harmless one every second, so a thread without traffic reports the recovery, too.
 */

import type { OpenBreaker } from './breakers.ts'

/** `partly`: on some nodes only, or for some workers only. */
export type Working = 'ok' | 'partly' | 'failing'

/** State of one Redis instance, or of all memcached nodes together, in one thread. */
export interface InstanceHealth {
  name: string // in reports
  isConnected: boolean // to every node it needs
  working: Working
  isUnreached?: boolean // true: it has not been connected since the start; absent = false
  openBreakers?: readonly OpenBreaker[] // absent = none is open
}

export type OnHealth = (instances: readonly InstanceHealth[]) => void

const REPORT_INTERVAL_MS = 1_000 // between reports of call results, for a store that fails intermittently

/** Reports changes of a store's health, in the thread that uses the store. */
export class HealthReporter {
  private readonly read: () => readonly InstanceHealth[]
  private readonly report: OnHealth
  private reported = ''
  private timer: NodeJS.Timeout | undefined

  constructor(read: () => readonly InstanceHealth[], report: OnHealth) {
    this.read = read
    this.report = report
  }

  /** Reports immediately: for connection changes, which are infrequent. */
  reportNow(): void {
    const instances = this.read()
    const text = JSON.stringify(instances)
    if (text === this.reported) return
    this.reported = text
    this.report(instances)
  }

  /** Reports now or at the end of the current interval: for results of calls. */
  scheduleReport(): void {
    if (this.timer !== undefined) return
    this.reportNow()
    this.timer = setTimeout(() => {
      this.timer = undefined
      this.reportNow()
    }, REPORT_INTERVAL_MS).unref()
  }

  close(): void {
    clearTimeout(this.timer)
    this.timer = undefined
  }
}

/** The reports of all workers, combined in main. */
export class StoreHealth {
  private readonly workers = new Map<number, readonly InstanceHealth[]>()
  private names: readonly string[] = []

  set(worker: number, instances: readonly InstanceHealth[]): void {
    this.workers.set(worker, instances)
    this.names = instances.map(({ name }) => name)
  }

  /** The worker has ended. Its replacement sends its own reports. */
  forget(worker: number): void {
    this.workers.delete(worker)
  }

  /** An instance is connected if any worker is; without workers none is. Empty until a worker has reported. */
  get instances(): InstanceHealth[] {
    return this.names.map((name, index) => {
      const reports = [...this.workers.values()].map((instances) => instances[index])
      const open = mergeBreakers(reports)
      const isAll = (working: Working) => reports.every((report) => report.working === working)
      return {
        name,
        isConnected: reports.some(({ isConnected }) => isConnected),
        working: reports.length === 0 || isAll('failing') ? 'failing' : isAll('ok') ? 'ok' : 'partly',
        ...(reports.length > 0 && reports.every(({ isUnreached }) => isUnreached) && { isUnreached: true }),
        ...(open.length > 0 && { openBreakers: open }),
      }
    })
  }
}

/** Those that are open in any worker, each node once. */
function mergeBreakers(reports: readonly InstanceHealth[]): OpenBreaker[] {
  const byNode = new Map(
    reports.flatMap(({ openBreakers = [] }) => openBreakers.map((breaker) => [breaker.node, breaker])),
  )
  return [...byNode.values()]
}
