/**
 * The interface of a sink of statistics.
 *
 *     main ── a Snapshot of all totals, at each flush or scrape ──► Sink    statsd, DogStatsD, Prometheus, standard output
 *
 *     counters   ratelimit.service.rate_limit.shop.user.total_hits   17     since the start; never reset
 *     gauges     ratelimit.localcache.entryCount                      4     now
 *     timers     ratelimit_server.ShouldRateLimit.response_time    0 ms 12 times, 1 ms 3 times, since the start
 *
 * A sink remembers the totals it has sent and computes differences itself, so sinks and scrapers are independent, and what could
 * not be sent now is sent with the next flush. A sink never throws, does not block other sinks, and bounds its memory. Tags are
 * part of a name: `….multiget.__code=success`.
 */

/** All totals at one moment. Does not change until every flush that received it has resolved. */
export interface Snapshot {
  counters: readonly Value[]
  gauges: readonly Value[]
  timers: readonly Timer[]
  native?: NativeStats // for Prometheus only
}

export type Value = readonly [name: string, value: number]

export interface Timer {
  name: string
  /** Each measured whole millisecond and its count since the start. The producer bounds their number. */
  counts: readonly (readonly [ms: number, count: number])[]
}

/** Data for the native series, with a rule's domain and path separate. Totals since the start. */
export interface NativeStats {
  hits: readonly { domain: string; rule: string; code: HitCode; total: number }[]
  limits: readonly { domain: string; rule: string; unit: string; requestsPerUnit: number }[]
  decisionTime: {
    boundsSec: readonly number[] // upper ends of the buckets, ascending, without infinity
    counts: readonly number[] // per bucket, not cumulative, and one more for values above
    sumSec: number
  }
}

export type HitCode = 'ok' | 'over_limit'

/** Names per sink; beyond, new ones are dropped and counted. About 150 bytes each. */
export const NAMES_MAX = 1_000_000

export interface Sink {
  /** Opens what it needs, in the background. */
  start(): void
  /** Resolves when the snapshot is no longer needed; never rejects. Not called again before that. */
  flush(snapshot: Snapshot): Promise<void>
  /** Sends queued lines for at most a second, then closes. */
  close(): Promise<void>
  /** Lines or values that were refused by a full queue or lost with a connection. Refused counters are sent later. */
  readonly dropped: number
}
