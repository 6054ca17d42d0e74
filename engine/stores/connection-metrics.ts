/**
 * Connections to one place, for operators (spec 7.1). Named after the reference's pools: here each thread has one
 * connection per server, so `cx_active` of a healthy service is WORKERS times the servers.
 */
import type { Stats } from '../stats/stats.ts'

export class ConnectionMetrics {
  private active = 0
  private readonly stats: Stats
  private readonly total: number
  private readonly closings: number

  /** `name`: `redis_pool` or `redis_per_second_pool`. */
  constructor(name: string, stats: Stats) {
    this.stats = stats
    this.total = stats.counter(`ratelimit.${name}.cx_total`)
    this.closings = stats.counter(`ratelimit.${name}.cx_local_close`)
    stats.gauge(`ratelimit.${name}.cx_active`, () => this.active)
  }

  opened(): void {
    this.active++
    this.stats.add(this.total, 1)
  }

  /** By whomever: the reference counts each under `cx_local_close`. */
  closed(): void {
    this.active--
    this.stats.add(this.closings, 1)
  }
}
