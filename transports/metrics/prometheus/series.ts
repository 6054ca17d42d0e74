/**
 * The content of `/metrics`: families with one name and type, each with a series per set of labels.
 *
 *     ratelimit_service_rate_limit_total_hits   counter    {domain="shop",key1="user"}               17
 *                                                          {domain="shop",key1="user",key2="plan"}    4
 *
 * prom-client measures the process (process-series.ts) but does not keep these series. It cannot keep those of a mapper
 * file: a metric of prom-client has fixed label names, while a file adds them as names appear, and its key for the labels
 * `a:1,b:2` and `a:1`, `b:2` is the same. It could keep the native series, and does not because of the cost of a scrape
 * for the main thread, which also serves health checks and signals. Measured with bench/series.ts on Node 22.23, prom-client
 * 15.1, two busy cores; medians of 15 turns, three runs:
 *
 *     native series    a scrape       longest turn of the thread        heap per series    prom-client / this table
 *     10,000           0.9 to 1.3 x   52 / 12 ms, 3.6 to 5.0 x          274 / 350 bytes
 *     100,000          1.3 to 1.4 x   417 / 12 ms, 26 to 34 x           220 / 279 bytes
 *
 * Filled and written in portions, as here, it takes 1.0 to 1.7 x the time, and its longest turn is 2.8 to 22 x; its heap is
 * smaller. On the path of a decision its `inc` costs 300 ns; workers count in arrays, 2 ns. One table also detects a mapped
 * and a native family of the same name: two registries would write both, and Prometheus refuses such a scrape.
 */
import { QuantileWindow } from './quantiles.ts'

export type MetricType = 'counter' | 'gauge' | 'histogram' | 'summary'

export interface Single {
  kind: 'single'
  labels: string
  value: number
}

/** `counts` has a count per bucket, not cumulative, and one for values above the last bound. */
export interface Histogram {
  kind: 'histogram'
  labels: string
  bounds: readonly number[]
  counts: number[]
  sum: number
}

export interface Summary {
  kind: 'summary'
  labels: string
  quantiles: readonly number[]
  window: QuantileWindow
  sum: number
  count: number
}

export type Series = Single | Histogram | Summary

export interface Family {
  name: string
  type: MetricType
  help: string
  series: Map<string, Series> // by labels
}

/** Why a series was not created. */
export class Refusal {
  readonly reason: 'conflict' | 'too_many'

  constructor(reason: Refusal['reason']) {
    this.reason = reason
  }
}

const SERIES_MAX = 1_000_000 // about 200 bytes each
const PARTS = ['_sum', '_count', '_bucket'] // suffixes of the names of a histogram or a summary

export class SeriesTable {
  readonly families = new Map<string, Family>()
  private count = 0

  single(name: string, type: 'counter' | 'gauge', labels: string, help: string): Single | Refusal {
    const family = this.family(name, type, help)
    if (family instanceof Refusal) return family
    return (
      (family.series.get(labels) as Single | undefined) ??
      this.add(family, { kind: 'single', labels, value: 0 })
    )
  }

  histogram(name: string, labels: string, help: string, bounds: readonly number[]): Histogram | Refusal {
    const family = this.family(name, 'histogram', help)
    if (family instanceof Refusal) return family
    const known = family.series.get(labels) as Histogram | undefined
    if (known) return known
    const counts = Array.from({ length: bounds.length + 1 }, () => 0)
    return this.add(family, { kind: 'histogram', labels, bounds, counts, sum: 0 })
  }

  summary(name: string, labels: string, help: string, options: SummaryOptions): Summary | Refusal {
    const family = this.family(name, 'summary', help)
    if (family instanceof Refusal) return family
    const known = family.series.get(labels) as Summary | undefined
    if (known) return known
    const window = new QuantileWindow(options.maxAgeMs, options.ageBuckets)
    return this.add(family, {
      kind: 'summary',
      labels,
      quantiles: options.quantiles,
      window,
      sum: 0,
      count: 0,
    })
  }

  /** Removes a family with all its series. */
  remove(name: string): void {
    this.count -= this.families.get(name)?.series.size ?? 0
    this.families.delete(name)
  }

  /** The number of families of a type. */
  countFamilies(type: MetricType): number {
    let count = 0
    for (const family of this.families.values()) if (family.type === type) count++
    return count
  }

  private add<S extends Series>(family: Family, series: S): S | Refusal {
    if (this.count >= SERIES_MAX) return new Refusal('too_many')
    this.count++
    family.series.set(series.labels, series)
    return series
  }

  private family(name: string, type: MetricType, help: string): Family | Refusal {
    const known = this.families.get(name)
    if (known) return known.type === type ? known : new Refusal('conflict')
    if (this.count >= SERIES_MAX) return new Refusal('too_many')
    if (this.hasConflict(name, type)) return new Refusal('conflict')
    const created = { name, type, help, series: new Map() }
    this.families.set(name, created)
    return created
  }

  /** Whether a suffixed name of a histogram or summary would equal another family's. */
  private hasConflict(name: string, type: MetricType): boolean {
    const hasParts = (family: Family | undefined) =>
      family?.type === 'histogram' || family?.type === 'summary'
    if (type === 'histogram' || type === 'summary')
      return PARTS.some((part) => this.families.has(name + part))
    return PARTS.some(
      (part) => name.endsWith(part) && hasParts(this.families.get(name.slice(0, -part.length))),
    )
  }
}

export interface SummaryOptions {
  quantiles: readonly number[]
  maxAgeMs: number
  ageBuckets: number
}

/** Adds one value `times` times. */
export function observe(series: Histogram | Summary, value: number, times: number, nowMs: number): void {
  series.sum += value * times
  if (series.kind === 'summary') {
    series.count += times
    series.window.add(value, times, nowMs)
    return
  }
  const bucket = series.bounds.findIndex((bound) => value <= bound)
  series.counts[bucket < 0 ? series.bounds.length : bucket] += times
}
