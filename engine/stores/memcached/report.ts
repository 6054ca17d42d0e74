/** Statistics of the memcached store (spec 7.1) and its rate-limited log. */
import type { Log, LogLevel } from '../../runtime/messages.ts'
import { type LogLine, RateLimitedLogByKind } from '../../runtime/rate-limited-log.ts'
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
const KINDS_MAX = 1_000 // nodes and others; beyond, further ones share one limit

export class MemcacheReport {
  private readonly log: Log
  readonly stats: Stats
  private readonly indices: Record<MemcacheCounter, number>
  private readonly lostHits: number
  private readonly errors: RateLimitedLogByKind

  constructor(log: Log, stats: Stats) {
    this.log = log
    this.stats = stats
    this.errors = new RateLimitedLogByKind((line) => log('error', line), KINDS_MAX, WINDOW_MS)
    const entries = COUNTERS.map((name) => [name, stats.counter(`ratelimit.memcache.${name}`)])
    this.indices = Object.fromEntries(entries)
    this.lostHits = stats.counter('sluice.store.lost_hits')
  }

  /** Hits that calls were answered for by their counts, and that memcached has not counted, or may not have. */
  addLostHits(hits: number): void {
    this.stats.add(this.lostHits, hits)
  }

  count(name: MemcacheCounter, amount = 1): void {
    this.stats.add(this.indices[name], amount)
  }

  /** For single events. */
  logSummary(level: LogLevel, message: string): void {
    this.log(level, message)
  }

  /** For frequent events: one line per second and kind, with the number of lines left out before it. */
  logError(kind: string, message: LogLine): void {
    this.errors.log(kind, message)
  }
}
