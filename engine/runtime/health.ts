/**
 * Health: one state for the whole process, made of named components; healthy means all are (spec 8.2).
 *
 *     redis    only with a Redis store: false until it has answered; then true, or with
 *              REDIS_HEALTH_CHECK_ACTIVE_CONNECTION while some worker has a live connection to each instance
 *     config   only with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: true when a domain is loaded
 *     sigterm  true until the process is told to stop, then false for ever
 *
 * Beside them it knows whether the store works, how old the rules in force are, and whether the management server they come
 * from is there. A store that fails, a load that failed and a server that is away leave the process healthy, so the report
 * has to show them. Lives in the main thread; workers are told of every change.
 */
import type { InstanceHealth, Working } from '../stores/store-health.ts'

export type HealthComponent = 'redis' | 'config' | 'sigterm'

/** What workers tell those who ask. */
export interface HealthState {
  isHealthy: boolean
  report: string // a line per component and store, then those on the rules; each ends with a line feed
}

export class Health {
  private readonly components = new Map<HealthComponent, boolean>()
  private readonly onChange: (state: HealthState) => void
  private readonly stores = new Map<string, { working: Working; since: Date | null }>() // null = it works
  private rulesSince: Date | null = null // null = none are in force
  private failedAt: Date | null = null // null = the last load went well, or there was none
  private server: string | null = null // how the management server is; null = rules come from files

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
    const lastLoad = this.failedAt ? `failed at ${utc(this.failedAt)}, ${WHERE_TO_LOOK}` : 'ok'
    const loads = this.rulesSince || this.failedAt ? [`last load: ${lastLoad}`] : []
    const server = this.server === null ? [] : [`management server: ${this.server}`]
    const report = [...components, ...stores, `rules: ${rules}`, ...loads, ...server]
      .map((line) => `${line}\n`)
      .join('')
    return { isHealthy: this.isHealthy, report }
  }

  /** Ignores components this process does not have. */
  set(name: HealthComponent, isHealthy: boolean): void {
    if (!this.components.has(name) || this.components.get(name) === isHealthy) return
    this.components.set(name, isHealthy)
    this.onChange(this.state)
  }

  /** How the store looks to all workers together, at `at`. */
  setStore(instances: readonly InstanceHealth[], at: Date): void {
    let hasChanged = false
    for (const { name, working } of instances) {
      const before = this.stores.get(name)
      if (before?.working === working) continue
      this.stores.set(name, { working, since: working === 'ok' ? null : (before?.since ?? at) })
      hasChanged = true
    }
    if (hasChanged) this.onChange(this.state)
  }

  private storeLine(name: string, { working, since }: { working: Working; since: Date | null }): string {
    if (since === null) return `${name}: ok`
    const howMuch = working === 'partly' ? 'failing in part' : 'failing'
    const isCounted = this.components.get('redis') === false
    const status = isCounted ? '' : '; the status does not depend on it'
    return `${name}: ${howMuch} since ${utc(since)}, the log tells why${status}`
  }

  /** A load has ended at `at`: with rules, `domainsCount` of them, or with null, in which case the rules before stay. */
  loaded(domainsCount: number | null, at: Date): void {
    this.failedAt = domainsCount === null ? at : null
    if (domainsCount !== null) {
      this.rulesSince = at
      if (this.components.has('config')) this.components.set('config', domainsCount > 0)
    }
    this.onChange(this.state)
  }

  /** What failed is wanted by nobody any more; the rules in force are the right ones. */
  recovered(): void {
    this.failedAt = null
    this.onChange(this.state)
  }

  /** The management server cannot be reached since then; null = is there. */
  serverAway(since: Date | null): void {
    const server = since ? `away since ${utc(since)}, the log tells why` : 'connected'
    if (server === this.server) return
    this.server = server
    this.onChange(this.state)
  }
}

/** The cause may name files and hosts, which is not for everybody who may ask for health. */
const WHERE_TO_LOOK = 'the log and /rlconfig of the debug port tell why'

function utc(date: Date): string {
  return `${date.toISOString().slice(0, 19)}Z`
}
