/**
 * Buckets: the counted probes of one site and region in an hour or a day (spec 2.2, 8.2).
 *
 *     probe ─► hour of its region ─┬─► merged ─► day of its region ─┐
 *                                  └─► the better region: hour `all` └─► the better region: day `all`
 *
 * A bucket consists of counts, so merging is addition: order does not matter and repeating it from the same rows gives the
 * same bucket. Inconclusive probes are in no bucket; an empty bucket is never stored or shown. Latency is that of up and
 * degraded probes: a refusal after 2 ms does not make a site fast.
 */
import { type BucketStatus, ERROR_CODES, type ErrorCode, type Probe } from '../facts.ts'
import { addDuration, emptyHistogram, type Histogram, mergeInto, PHASES, percentile } from './histogram.ts'

export const HOUR_SEC = 3_600
export const DAY_SEC = 86_400
export type WindowSec = typeof HOUR_SEC | typeof DAY_SEC

const DEGRADED_WORTH = 0.7
const UP_MIN = 0.98
const DOWN_BELOW = 0.5

/** The counts that availability is computed from. */
export interface Counts {
  atSec: number // epoch second of its start
  up: number
  degraded: number
  down: number
}

export interface Bucket extends Counts {
  windowSec: WindowSec
  statuses: Record<string, number> // final HTTP status → count; at most the 900 three-digit ones
  errors: Partial<Record<ErrorCode, number>>
  histogram: Histogram
}

export function emptyBucket(atSec: number, windowSec: WindowSec): Bucket {
  const histogram = emptyHistogram()
  return { atSec, windowSec, up: 0, degraded: 0, down: 0, statuses: {}, errors: {}, histogram }
}

/** The start of the bucket that contains `atSec`, in UTC. */
export function bucketStartSec(atSec: number, windowSec: WindowSec): number {
  return atSec - (atSec % windowSec)
}

/** Adds one finished probe; false = it is inconclusive and was not added. */
export function addProbe(bucket: Bucket, probe: Probe): boolean {
  if (probe.outcome === 'inconclusive') return false
  bucket[probe.outcome]++
  if (probe.httpStatus !== null) count(bucket.statuses, probe.httpStatus, 1)
  if (probe.error !== null) count(bucket.errors, probe.error, 1)
  if (probe.outcome === 'down') return true
  for (const phase of PHASES) {
    const ms = probe.timings[`${phase}Ms`]
    if (ms !== null) addDuration(bucket.histogram, phase, ms)
  }
  return true
}

/** Merges buckets into one that starts at `atSec`; null if no probe was counted. */
export function mergeBuckets(buckets: Bucket[], atSec: number, windowSec: WindowSec): Bucket | null {
  if (buckets.every((bucket) => countProbes(bucket) === 0)) return null
  const merged = emptyBucket(atSec, windowSec)
  for (const bucket of buckets) {
    merged.up += bucket.up
    merged.degraded += bucket.degraded
    merged.down += bucket.down
    for (const status of Object.keys(bucket.statuses)) count(merged.statuses, status, bucket.statuses[status])
    for (const code of ERROR_CODES) if (bucket.errors[code]) count(merged.errors, code, bucket.errors[code])
    mergeInto(merged.histogram, bucket.histogram)
  }
  return merged
}

/**
 * The region that represents the site in this bucket: the more available one, then the one with the lower median time to
 * first byte, then the first argument. A region without a counted probe is ignored.
 */
export function betterBucket(one: Bucket | null, other: Bucket | null): Bucket | null {
  const a = one && getAvailability([one])
  const b = other && getAvailability([other])
  if (a === null) return b === null ? null : other
  if (b === null) return one
  if (a !== b) return a > b ? one : other
  return firstByteMs(other!) < firstByteMs(one!) ? other : one
}

export function countProbes({ up, degraded, down }: Omit<Counts, 'atSec'>): number {
  return up + degraded + down
}

/** 0 to 1 over all these buckets, unrounded; null if no probe was counted. */
export function getAvailability(buckets: readonly Omit<Counts, 'atSec'>[]): number | null {
  let probes = 0
  let worth = 0
  for (const bucket of buckets) {
    probes += countProbes(bucket)
    worth += bucket.up + DEGRADED_WORTH * bucket.degraded
  }
  return probes === 0 ? null : worth / probes
}

export function toStatus(availability: number): BucketStatus {
  if (availability >= UP_MIN) return 'up'
  return availability < DOWN_BELOW ? 'down' : 'degraded'
}

function firstByteMs(bucket: Bucket): number {
  return percentile(bucket.histogram, 'ttfb', 0.5) ?? Number.POSITIVE_INFINITY
}

function count<K extends string | number>(counts: Partial<Record<K, number>>, key: K, by: number): void {
  counts[key] = (counts[key] ?? 0) + by
}
