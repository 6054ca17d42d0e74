/**
 * Messages between main and the monitor's thread. None is sent per request, except log lines.
 *
 *     main ── rules, ending, drain ──► monitor        main ◄── ready, stats, log ── monitor
 */
import type { RulesImage } from '../../engine/config/rules.ts'
import type { LogFields, LogLevel } from '../../engine/runtime/messages.ts'
import type { Deltas } from '../../engine/stats/stats.ts'
import type { Settings } from '../settings.ts'
import type { Gauges } from './metrics.ts'

/** The thread's workerData: cloneable values and shared memory. */
export interface MonitorTask {
  settings: Settings
  version: string // of Sluice
  memoryTable: SharedArrayBuffer | null // the service's counters of this process (openEngine); quotas use separate buckets
  rules: RulesImage | null
}

export type ToMonitor =
  | { kind: 'rules'; rules: RulesImage }
  | { kind: 'ending' } // not ready any more; the port stays open
  | { kind: 'drain'; timeoutMs: number }

export type FromMonitor =
  | { kind: 'ready'; port: number }
  | { kind: 'stats'; deltas: Deltas; gauges: Gauges } // each second, and at the end
  | { kind: 'log'; level: LogLevel; text: string; fields?: LogFields }
