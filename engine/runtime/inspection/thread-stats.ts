/**
 * How a thread is: how long its events wait, how busy it is, what it keeps. Measured only while asked: the timer that the
 * delay is measured with would otherwise wake an idle thread a hundred times per second.
 */
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import type { GetDiagnostics, Measurement } from './inspected-thread.ts'
import type { ThreadStats } from './messages.ts'

const TIMER_MS = 10 // between two looks at how late it is
const NS_PER_MS = 1_000_000

export function startThreadStats(facts: GetDiagnostics): Measurement<ThreadStats> {
  const delay = monitorEventLoopDelay({ resolution: TIMER_MS })
  const before = performance.eventLoopUtilization()
  delay.enable()
  return {
    async end() {
      delay.disable()
      const { utilization } = performance.eventLoopUtilization(before)
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
        facts: await facts(),
      }
    },
    cancel: () => void delay.disable(),
  }
}

/** Of the time between two timers, what is more than was asked for. */
function lateMs(ns: number): number {
  return Math.max(0, ns / NS_PER_MS - TIMER_MS) || 0 // NaN: it never fired
}
