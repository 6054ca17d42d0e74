/**
 * What a place for statistics gets, and what it promises.
 *
 *     main ── a Snapshot of all totals, at each flush or scrape ──► Sink    statsd, DogStatsD, Prometheus, standard output
 *
 *     counters   ratelimit.service.rate_limit.shop.user.total_hits   17     since the start; nobody resets it
 *     gauges     ratelimit.localcache.entryCount                      4     now
 *     timers     ratelimit_server.ShouldRateLimit.response_time    0 ms 12 times, 1 ms 3 times, since the start
 *
 * A sink remembers the totals it has told and works out differences by itself, so two sinks or two scrapers never take
 * from each other, and what a sink could not tell now is told with its next flush. It never throws, never waits for its
 * peer in a way that others notice, and bounds what it keeps. Tags are part of a name: `….multiget.__code=success`.
 */

/** All totals at one moment. Nothing in it changes until every flush it was given to has resolved. */
export interface Snapshot {
  counters: readonly Value[]
  gauges: readonly Value[]
  timers: readonly Timer[]
  native?: NativeStats // for Prometheus only
}

export type Value = readonly [name: string, value: number]

export interface Timer {
  name: string
  /** Each whole millisecond that was measured, and how often since the start. Whoever counts them bounds how many. */
  counts: readonly (readonly [ms: number, count: number])[]
}

/** What names cannot say: our own series, with a rule's domain and path apart. Totals since the start, too. */
export interface NativeStats {
  hits: readonly { domain: string; rule: string; code: HitCode; total: number }[]
  limits: readonly { domain: string; rule: string; unit: string; requestsPerUnit: number }[]
  decisionTime: {
    boundsSec: readonly number[] // upper ends of the buckets, ascending, without infinity
    counts: readonly number[] // of each bucket alone, and one more for all above
    sumSec: number
  }
}

export type HitCode = 'ok' | 'over_limit'

/** Names a sink tells apart; beyond, new ones are left out and counted as dropped. Some 150 bytes each. */
export const NAMES_MAX = 1_000_000

export interface Sink {
  /** Opens what it needs, in the background. */
  start(): void
  /** Resolves when the snapshot is no longer needed; never rejects. Not called again before that. */
  flush(snapshot: Snapshot): Promise<void>
  /** What waits may still go out for a second; then everything ends. */
  close(): Promise<void>
  /** Lines or values that found no room or went down with a connection. Counters among the first come again later. */
  readonly dropped: number
}
