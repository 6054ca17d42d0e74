/**
 * Statistics of the memcached store (spec 7.1) and its rate-limited log.
 *
 *     multi-get: a · (398 left out) · ···one second··· · multi-get: z (398 more were left out)
 */
import type { Log, LogLevel } from '../../runtime/messages.ts'
import type { Stats } from '../../stats/stats.ts'

/** Tags are part of the names (spec 7.2). */
const COUNTERS = [
  'multiget.__code=success',
  'multiget.__code=error',
  'increment.__code=success',
  'increment.__code=miss',
  'increment.__code=error',
  'add.__code=success',
  'add.__code=error',
  'add.__code=not_stored',
  'keys_requested',
  'keys_found',
] as const
export type MemcacheCounter = (typeof COUNTERS)[number]

const WINDOW_MS = 1_000
const KINDS_MAX = 1_000 // nodes and others; beyond, all are forgotten, so some more lines pass

export class MemcacheReport {
  private readonly log: Log
  private readonly stats: Stats
  private readonly nowMs: () => number
  private readonly indices: Record<MemcacheCounter, number>
  private readonly kinds = new Map<string, { loggedMs: number; leftOutCount: number }>()

  constructor(log: Log, stats: Stats, nowMs: () => number = () => performance.now()) {
    this.log = log
    this.stats = stats
    this.nowMs = nowMs
    const entries = COUNTERS.map((name) => [name, stats.counter(`ratelimit.memcache.${name}`)])
    this.indices = Object.fromEntries(entries)
  }

  count(name: MemcacheCounter, amount = 1): void {
    this.stats.add(this.indices[name], amount)
  }

  /** For single events. */
  logSummary(level: LogLevel, message: string): void {
    this.log(level, message)
  }

  /** For frequent events: one line per second and kind, with the number of lines left out before it. */
  logError(kind: string, message: () => string): void {
    const now = this.nowMs()
    const last = this.kinds.get(kind)
    if (last !== undefined && now - last.loggedMs < WINDOW_MS) {
      last.leftOutCount++
      return
    }
    const leftOut = last?.leftOutCount ? ` (${last.leftOutCount} more were left out)` : ''
    if (this.kinds.size >= KINDS_MAX) this.kinds.clear()
    this.kinds.set(kind, { loggedMs: now, leftOutCount: 0 })
    this.log('error', message() + leftOut)
  }
}
