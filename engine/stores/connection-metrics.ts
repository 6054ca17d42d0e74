/**
 * Connection metrics of one Redis instance (spec 7.1), named after the pools of envoyproxy/ratelimit. Here each thread has one
 * connection per server, so `cx_active` of a healthy service is WORKERS times the number of servers.
 */
import type { Stats } from '../stats/stats.ts'

export class ConnectionMetrics {
  private active = 0
  private readonly stats: Stats
  private readonly total: number
  private readonly closedTotal: number

  /** `name`: `redis_pool` or `redis_per_second_pool`. */
  constructor(name: string, stats: Stats) {
    this.stats = stats
    this.total = stats.counter(`ratelimit.${name}.cx_total`)
    this.closedTotal = stats.counter(`ratelimit.${name}.cx_local_close`)
    stats.gauge(`ratelimit.${name}.cx_active`, () => this.active)
  }

  opened(): void {
    this.active++
    this.stats.add(this.total, 1)
  }

  /** Closed by either side: envoyproxy/ratelimit counts both under `cx_local_close`. */
  closed(): void {
    this.active--
    this.stats.add(this.closedTotal, 1)
  }
}
