/**
 * Health of the whole process: it is healthy when all of its components are (spec 8.2).
 *
 *     redis    only with a Redis store: false until Redis has replied; then true, or with
 *              REDIS_HEALTH_CHECK_ACTIVE_CONNECTION true while any worker has a live connection to each instance
 *     config   only with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: true when a domain is loaded
 *     sigterm  true until SIGTERM
 *
 * The report also shows the state of the store, the age of the rules in force and the connection to the management server.
 * Failures of these do not make the process unhealthy. Runs in the main thread; every change is sent to the workers.
 */
import type { InstanceHealth, Working } from '../stores/store-health.ts'

export type HealthComponent = 'redis' | 'config' | 'sigterm'

/** What workers return to health checks. */
export interface HealthState {
  isHealthy: boolean
  report: string // a line per component and store, then lines on the rules; each ends with a line feed
}

interface StoreState {
  working: Working
  since: Date | null // null = it works
  isUnreached: boolean // not connected since the start
  openCount: number // nodes whose circuit breaker is open in any worker
}

export class Health {
  private readonly components = new Map<HealthComponent, boolean>()
  private readonly onChange: (state: HealthState) => void
  private readonly stores = new Map<string, StoreState>()
  private rulesSince: Date | null = null // null = none are in force
  private failedAt: Date | null = null // null = the last load succeeded, or there was none
  private server: string | null = null // state of the management server; null = rules come from files

  constructor(initial: Partial<Record<HealthComponent, boolean>>, onChange: (state: HealthState) => void) {
    for (const [name, isHealthy] of Object.entries(initial)) {
      this.components.set(name as HealthComponent, isHealthy)
    }
    this.onChange = onChange
  }

  get isHealthy(): boolean {
    for (const isHealthy of this.components.values()) if (!isHealthy) return false
    return true
  }

  get state(): HealthState {
    const components = Array.from(this.components).flatMap(([name, isHealthy]) =>
      name === 'redis' && this.stores.size > 0 ? [] : [`${name}: ${isHealthy ? 'ok' : 'failing'}`],
    )
    const stores = Array.from(this.stores, ([name, store]) => this.storeLine(name, store))
    const rules = this.rulesSince ? `in force since ${utc(this.rulesSince)}` : 'none in force'
    const lastLoad = this.failedAt ? `failed at ${utc(this.failedAt)}; ${SEE_LOAD_ERROR}` : 'ok'
    const loads = this.rulesSince || this.failedAt ? [`last load: ${lastLoad}`] : []
    const server = this.server === null ? [] : [`management server: ${this.server}`]
    const report = [...components, ...stores, `rules: ${rules}`, ...loads, ...server]
      .map((line) => `${line}\n`)
      .join('')
    return { isHealthy: this.isHealthy, report }
  }

  /** Ignores components that this process does not have. */
  set(name: HealthComponent, isHealthy: boolean): void {
    if (!this.components.has(name) || this.components.get(name) === isHealthy) return
    this.components.set(name, isHealthy)
    this.onChange(this.state)
  }

  /** The store's state, as merged from all workers, at `at`. */
  setStore(instances: readonly InstanceHealth[], at: Date): void {
    let hasChanged = false
    for (const { name, working, isUnreached = false, openBreakers = [] } of instances) {
      const previous = this.stores.get(name)
      const openCount = openBreakers.length
      const isSame = previous?.working === working && previous.isUnreached === isUnreached
      if (isSame && previous.openCount === openCount) continue
      const since = working === 'ok' ? null : (previous?.since ?? at)
      this.stores.set(name, { working, isUnreached, openCount, since })
      hasChanged = true
    }
    if (hasChanged) this.onChange(this.state)
  }

  private storeLine(name: string, { working, isUnreached, since, openCount }: StoreState): string {
    const open = openCount === 0 ? '' : `; nodes whose circuit breaker is open in any worker: ${openCount}`
    if (since === null) return `${name}: ok${open}`
    const state = working === 'partly' ? 'partly failing' : 'failing'
    const note = this.components.get('redis') === false ? '' : '; does not affect the status'
    const reached = isUnreached ? ', not reached since the start' : ''
    return `${name}: ${state} since ${utc(since)}${reached}; see the log for the cause${note}${open}`
  }

  /** A load ended at `at`, with `domainsCount` domains. Null: it failed, and the rules in force stay. */
  loaded(domainsCount: number | null, at: Date): void {
    this.failedAt = domainsCount === null ? at : null
    if (domainsCount !== null) {
      this.rulesSince = at
      if (this.components.has('config')) this.components.set('config', domainsCount > 0)
    }
    this.onChange(this.state)
  }

  /** The refused load was withdrawn: the management server sends the rules in force again. */
  recovered(): void {
    this.failedAt = null
    this.onChange(this.state)
  }

  /** The management server has been unreachable since then; null = connected. */
  serverAway(since: Date | null): void {
    const server = since ? `unreachable since ${utc(since)}; see the log for the cause` : 'connected'
    if (server === this.server) return
    this.server = server
    this.onChange(this.state)
  }
}

// The cause may name files and hosts, which health checks must not disclose.
const SEE_LOAD_ERROR = 'see the log or /rlconfig on the debug port for the cause'

function utc(date: Date): string {
  return `${date.toISOString().slice(0, 19)}Z`
}
