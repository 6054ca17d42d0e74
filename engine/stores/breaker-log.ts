/**
 * Lines for the log about circuit breakers: one when a first worker has opened it, one when the last has closed it.
 *
 *     the circuit breaker is open for redis, node 10.0.0.5:6379: 5 trips in a row failed, the last with: no reply within 1s
 *     the circuit breaker is closed again for redis, node 10.0.0.5:6379 after 3.2s
 */
import { goDuration } from './connect-retry.ts'
import type { InstanceHealth } from './store-health.ts'

export class BreakerLog {
  private readonly openSinceMs = new Map<string, number>() // by instance and node

  /** `instances`: the state of all workers at `nowMs`. */
  takeLines(instances: readonly InstanceHealth[], nowMs: number): string[] {
    const lines: string[] = []
    const open = new Set<string>()
    for (const { name, openBreakers = [] } of instances) {
      for (const { node, reason } of openBreakers) {
        const breaker = `${name}, node ${node}`
        open.add(breaker)
        if (this.openSinceMs.has(breaker)) continue
        this.openSinceMs.set(breaker, nowMs)
        lines.push(`the circuit breaker is open for ${breaker}: ${reason}`)
      }
    }
    for (const [breaker, sinceMs] of this.openSinceMs) {
      if (open.has(breaker)) continue
      this.openSinceMs.delete(breaker)
      lines.push(`the circuit breaker is closed again for ${breaker} after ${goDuration(nowMs - sinceMs)}`)
    }
    return lines
  }
}
