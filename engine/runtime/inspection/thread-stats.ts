/**
 * Event loop delay, utilization and heap of a thread. Measured only during an inspection: the timer behind the delay would
 * otherwise wake an idle thread a hundred times per second.
 */
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import type { GetDiagnostics, Measurement } from './measurement.ts'
import type { ThreadStats } from './messages.ts'

const TIMER_MS = 10
const NS_PER_MS = 1_000_000

export function startThreadStats(getDiagnostics: GetDiagnostics): Measurement<ThreadStats> {
  const delay = monitorEventLoopDelay({ resolution: TIMER_MS })
  const start = performance.eventLoopUtilization()
  delay.enable()
  return {
    async end() {
      delay.disable()
      const { utilization } = performance.eventLoopUtilization(start)
      const { used_heap_size, total_heap_size, external_memory } = getHeapStatistics()
      return {
        uptimeSec: performance.now() / 1_000,
        delayMs: {
          min: lateMs(delay.min),
          mean: lateMs(delay.mean),
          p99: lateMs(delay.percentile(99)),
          max: lateMs(delay.max),
        },
        busyShare: utilization,
        heapUsedBytes: used_heap_size,
        heapTotalBytes: total_heap_size,
        externalBytes: external_memory,
        facts: await getDiagnostics(),
      }
    },
    cancel: () => void delay.disable(),
  }
}

/** The delay of a timer beyond its interval. */
function lateMs(ns: number): number {
  return Math.max(0, ns / NS_PER_MS - TIMER_MS) || 0 // NaN: it never fired
}
