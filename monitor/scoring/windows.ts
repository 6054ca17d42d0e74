/**
 * History from roll-ups as score and boards need it (spec 7.2): availability of a day, a week and a month, latency of a
 * week, how long known, how long down.
 *
 *     ├── 30 days ──────────────────────────────────────────────┤ now
 *     │ days ····················· │ hours ······ 7 d ··········│
 *                                  └ the first midnight (UTC) of the last 7 days; no probe is counted twice
 *
 * A bucket belongs to a window if it starts in it, so windows are up to an hour (month: a day) short at their old end.
 */
import { type Bucket, type Counts, countProbes, DAY_SEC, getAvailability } from './bucket.ts'
import { emptyHistogram, type Histogram, mergeInto, percentile } from './histogram.ts'

const WEEK_SEC = 7 * DAY_SEC
const MONTH_SEC = 30 * DAY_SEC

export interface History {
  a24h: number | null // availability, 0 to 1; null = no counted probe
  a7d: number | null
  a30d: number | null
  p50Ms: number | null // of the first byte over 7 days; null = never reached
  p95Ms: number | null
  probes: number // counted, of 30 days
  lengthSec: number // since the first counted probe of 30 days, 0 to 2,592,000
  downSec: number // since when it has been down; 0 = the last hour with probes had a success
}

/** Of the better region, oldest first. */
export interface Past {
  hours: readonly Counts[] // of 7 days, and the running one
  days: readonly Counts[] // of 30 days, and the running one
  weekHistogram: Histogram // of these hours
}

/** Buckets of the better region, oldest first: `hours` of 7 days and the running hour, `days` of 30 days. */
export function computeHistory(hours: readonly Bucket[], days: readonly Bucket[], nowSec: number): History {
  const weekHistogram = emptyHistogram()
  for (const bucket of hours) if (isOfWeek(bucket, nowSec)) mergeInto(weekHistogram, bucket.histogram)
  return computePastHistory({ hours, days, weekHistogram }, nowSec)
}

/** The same, with histograms that are already merged. */
export function computePastHistory({ hours, days, weekHistogram }: Past, nowSec: number): History {
  const week = hours.filter((bucket) => isOfWeek(bucket, nowSec))
  const firstMidnightSec = Math.ceil((nowSec - WEEK_SEC) / DAY_SEC) * DAY_SEC
  const month = [
    ...days.filter(({ atSec }) => atSec >= nowSec - MONTH_SEC && atSec < firstMidnightSec),
    ...week.filter(({ atSec }) => atSec >= firstMidnightSec),
  ].filter((bucket) => countProbes(bucket) > 0)
  return {
    a24h: getAvailability(week.filter(({ atSec }) => atSec >= nowSec - DAY_SEC)),
    a7d: getAvailability(week),
    a30d: getAvailability(month),
    p50Ms: percentile(weekHistogram, 'ttfb', 0.5),
    p95Ms: percentile(weekHistogram, 'ttfb', 0.95),
    probes: month.reduce((sum, bucket) => sum + countProbes(bucket), 0),
    lengthSec: month.length === 0 ? 0 : nowSec - month[0].atSec,
    downSec: downSec(month, nowSec),
  }
}

function isOfWeek({ atSec }: Counts, nowSec: number): boolean {
  return atSec >= nowSec - WEEK_SEC && atSec <= nowSec
}

/** Counted from the first bucket without success, not from the last success: time without probes is not downtime. */
function downSec(buckets: readonly Counts[], nowSec: number): number {
  let first: Counts | null = null
  for (let i = buckets.length - 1; i >= 0 && buckets[i].up + buckets[i].degraded === 0; i--)
    first = buckets[i]
  return first === null ? 0 : nowSec - first.atSec
}
