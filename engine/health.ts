/**
 * Health: one state for the whole process, made of named components; healthy means all are (spec 8.2).
 *
 *     redis    only with a Redis store: false until it has answered; then true, or with
 *              REDIS_HEALTH_CHECK_ACTIVE_CONNECTION while every worker has a live connection to all it needs
 *     config   only with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: true when a domain is loaded
 *     sigterm  true until the process is told to stop, then false for ever
 *
 * Lives in the main thread; workers are told when the whole changes.
 */
export type HealthComponent = 'redis' | 'config' | 'sigterm'

export class Health {
  private readonly components = new Map<HealthComponent, boolean>()
  private readonly onChange: (isHealthy: boolean) => void

  constructor(initial: Partial<Record<HealthComponent, boolean>>, onChange: (isHealthy: boolean) => void) {
    for (const [name, isHealthy] of Object.entries(initial)) {
      this.components.set(name as HealthComponent, isHealthy)
    }
    this.onChange = onChange
  }

  get isHealthy(): boolean {
    for (const isHealthy of this.components.values()) if (!isHealthy) return false
    return true
  }

  /** Ignores components this process does not have. */
  set(name: HealthComponent, isHealthy: boolean): void {
    if (!this.components.has(name)) return
    const before = this.isHealthy
    this.components.set(name, isHealthy)
    if (this.isHealthy !== before) this.onChange(this.isHealthy)
  }
}
