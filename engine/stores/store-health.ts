/**
 * Whether a store works, as the threads that use it see it: for health (spec 8.2) and for people who ask.
 *
 *     worker 0   redis ok, redis per second failing ┐
 *     worker 1   redis ok, redis per second ok      ┴─► main   redis ok, redis per second failing in part
 *
 * A thread knows what its connections and its last calls tell it; an idle one asks nobody.
 */

/** `partly`: only some nodes, or only for some workers. */
export type Working = 'ok' | 'partly' | 'failing'

/** One store as one thread sees it: a Redis, the one for limits per second, or all nodes of memcached. */
export interface InstanceHealth {
  name: string // for people
  isConnected: boolean // to every node it needs
  working: Working
}

export type OnHealth = (instances: readonly InstanceHealth[]) => void

const PAUSE_MS = 1_000 // between two reports of calls; a store may fail and work by turns

/** Reports what has changed, in the thread that uses the store. */
export class HealthReporter {
  private readonly read: () => readonly InstanceHealth[]
  private readonly report: OnHealth
  private reported = ''
  private timer: NodeJS.Timeout | undefined

  constructor(read: () => readonly InstanceHealth[], report: OnHealth) {
    this.read = read
    this.report = report
  }

  /** For changes that are paced by themselves, such as connections. */
  now(): void {
    const instances = this.read()
    const text = JSON.stringify(instances)
    if (text === this.reported) return
    this.reported = text
    this.report(instances)
  }

  /** For changes that each call may bring: at once, or when the pause is over. */
  soon(): void {
    if (this.timer !== undefined) return
    this.now()
    this.timer = setTimeout(() => {
      this.timer = undefined
      this.now()
    }, PAUSE_MS).unref()
  }

  close(): void {
    clearTimeout(this.timer)
    this.timer = undefined
  }
}

/** All threads together, in main. */
export class StoreHealth {
  private readonly workers = new Map<number, readonly InstanceHealth[]>()
  private names: readonly string[] = []

  set(worker: number, instances: readonly InstanceHealth[]): void {
    this.workers.set(worker, instances)
    this.names = instances.map(({ name }) => name)
  }

  /** The worker has ended; its replacement reports for itself. */
  forget(worker: number): void {
    this.workers.delete(worker)
  }

  /** Connected: by at least one worker. Without workers nothing is. Empty until a worker has reported. */
  get instances(): InstanceHealth[] {
    return this.names.map((name, index) => {
      const seen = [...this.workers.values()].map((instances) => instances[index])
      const isAll = (working: Working) => seen.every((each) => each.working === working)
      return {
        name,
        isConnected: seen.some(({ isConnected }) => isConnected),
        working: seen.length === 0 || isAll('failing') ? 'failing' : isAll('ok') ? 'ok' : 'partly',
      }
    })
  }
}
