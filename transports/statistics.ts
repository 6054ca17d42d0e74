/**
 * Statistics in the main thread (spec 7.3): reads totals at each flush and scrape and passes them to the selected sink.
 *
 *     workers, monitor ── deltas ──► Totals ──┐
 *     gauges of main ─────────────────────────┴─► Snapshot ──► the sink of the settings
 */

import type { RulesImage } from '../engine/config/rules.ts'
import { Trie } from '../engine/match/trie.ts'
import type { Log } from '../engine/runtime/messages.ts'
import type { Settings } from '../engine/settings/parse.ts'
import { ruleStat } from '../engine/stats/stats.ts'
import type { TimedTotal, Totals } from '../engine/stats/totals.ts'
import { UNIT_NAMES } from '../proto/ratelimit.ts'
import { createSink, reservedTagsCount, selectSink } from './metrics/create-sink.ts'
import { FlushLoop } from './metrics/flush.ts'
import type { NativeStats, Snapshot } from './metrics/sink.ts'

const DROPPED = 'sluice.statistics.dropped'
const DECISION_TIMER = 'ratelimit_server.ShouldRateLimit.response_time'
const KEEP_ALIVE_MS = 1_000
const BOUNDS_MS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000]
const TITLES = {
  none: 'Stats disabled',
  dogstatsd: 'Stats initialized for dogstatsd',
  statsd: 'Stats initialized for statsd',
  prometheus: 'Stats initialized for Prometheus',
  printing: 'Stats initialized for stdout',
}

export interface StatisticsOptions {
  settings: Settings
  totals: Totals
  collect: () => Promise<unknown> // brings the totals up to date
  rules: () => RulesImage | null
  log: Log
}

interface NamedLimit {
  domain: string
  rule: string // its path below the domain
  path: string // both
  unit: string
  requestsPerUnit: number
}

export class Statistics {
  private readonly options: StatisticsOptions
  private loop: FlushLoop | null = null
  private image: RulesImage | null = null
  private limits: NamedLimit[] = [] // of the image

  private constructor(options: StatisticsOptions) {
    this.options = options
  }

  /** Rejects with ConfigurationError for invalid settings. */
  static async open(options: StatisticsOptions): Promise<Statistics> {
    const { settings, totals, log } = options
    const statistics = new Statistics(options)
    const read = () => statistics.readSnapshot()
    const hasNative = settings.PROMETHEUS_NATIVE_SERIES
    const sink = await createSink({ settings, hasNative, env: process.env, read, log })
    log('info', TITLES[selectSink(settings)])
    totals.add('reserved_tag', reservedTagsCount(settings))
    totals.add(DROPPED, 0) // present before the first drop, for `increase()` of Prometheus
    if (sink === null) return statistics
    const intervalMs = settings.STATS_FLUSH_INTERVAL
    log('info', `Stats flush interval: ${intervalMs / 1_000}s`)
    const onDropped = (count: number) => totals.add(DROPPED, count)
    statistics.loop = new FlushLoop({ intervalMs, read, sinks: [sink], log, onDropped })
    statistics.loop.start()
    return statistics
  }

  /** Flushes what was counted until now, then closes. */
  async close(): Promise<void> {
    if (this.loop === null) return
    const alive = setInterval(() => {}, KEEP_ALIVE_MS) // timers of sinks do not keep the process alive, but the last flush must
    try {
      await this.loop.finish()
      await this.loop.close()
    } finally {
      clearInterval(alive)
    }
  }

  private async readSnapshot(): Promise<Snapshot> {
    const { totals, collect, settings } = this.options
    await collect()
    const timers = [...totals.timers].map(([name, { counts }]) => ({ name, counts: [...counts] }))
    const native = settings.PROMETHEUS_NATIVE_SERIES ? this.readNative() : undefined
    return { counters: totals.counters, gauges: totals.gauges, timers, native }
  }

  private readNative(): NativeStats {
    const { totals } = this.options
    const limits = this.getLimits()
    const hits = limits.flatMap(({ domain, rule, path }) => {
      const more = totals.getRule(path)
      const all = totals.getCounter(ruleStat(path, 'total_hits')) + more.hits
      const over = totals.getCounter(ruleStat(path, 'over_limit')) + more.overLimit
      if (all === 0) return []
      return [
        { domain, rule, code: 'ok', total: all - over } as const,
        { domain, rule, code: 'over_limit', total: over } as const,
      ]
    })
    return { hits, limits, decisionTime: toHistogram(totals.timers.get(DECISION_TIMER)) }
  }

  /** Built once per configuration: about 100 ms for 100,000 rules. */
  private getLimits(): NamedLimit[] {
    const image = this.options.rules()
    if (image === this.image) return this.limits
    this.image = image
    const trie = image && new Trie(image)
    this.limits = [...(trie?.rules() ?? [])].flatMap((each) => {
      const { path, limit, isUnlimited } = each
      const domain = trie!.domainOfRule(each)
      const rule = path.slice(domain.length + 1)
      const unit = UNIT_NAMES[limit.unit].toLowerCase()
      return isUnlimited ? [] : [{ domain, rule, path, unit, requestsPerUnit: limit.requestsPerUnit }]
    })
    return this.limits
  }
}

function toHistogram(timed: TimedTotal | undefined): NativeStats['decisionTime'] {
  const counts = new Array<number>(BOUNDS_MS.length + 1).fill(0)
  for (const [ms, count] of timed?.counts ?? []) {
    const bucket = BOUNDS_MS.findIndex((bound) => ms < bound) // whole ms, truncated: 0 is below 1
    counts[bucket < 0 ? BOUNDS_MS.length : bucket] += count
  }
  return { boundsSec: BOUNDS_MS.map((ms) => ms / 1_000), counts, sumSec: (timed?.sumMs ?? 0) / 1_000 }
}
