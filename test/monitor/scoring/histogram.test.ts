import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  addDuration,
  emptyHistogram,
  type Histogram,
  mergeInto,
  PHASES,
  packHistogram,
  percentile,
  unpackHistogram,
} from '../../../monitor/scoring/histogram.ts'

const LAST_MS = 11_273 // the end of the last bucket

function createHistogram(durations: readonly number[], phase: (typeof PHASES)[number] = 'ttfb'): Histogram {
  const histogram = emptyHistogram()
  for (const ms of durations) addDuration(histogram, phase, ms)
  return histogram
}

/** The smallest duration that the share of all do not exceed. */
function exact(durations: readonly number[], share: number): number {
  const sorted = [...durations].sort((a, b) => a - b)
  return sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1]
}

// Latencies cluster: a site's own pace and some strays; and every size of duration should come up equally often.
const anyMs = fc
  .double({ min: 0, max: Math.log(LAST_MS), noNaN: true })
  .map((log) => Math.round(Math.exp(log)))
const cluster = fc
  .tuple(anyMs, fc.array(fc.nat({ max: 40 }), { minLength: 1, maxLength: 40 }))
  .map(([ms, steps]) => steps.map((step) => Math.min(LAST_MS, ms + step)))
const anyDurations = fc.oneof(fc.array(anyMs, { minLength: 1, maxLength: 200 }), cluster)
const anyShare = fc.oneof(fc.constantFrom(0.5, 0.95), fc.double({ min: 0, max: 1, noNaN: true }))

test('8.2: any percentile of any durations is within 12 % of the exact one, or a millisecond', () => {
  fc.assert(
    fc.property(anyDurations, anyShare, (durations, share) => {
      const want = exact(durations, share)
      const got = percentile(createHistogram(durations), 'ttfb', share)!
      expect(Math.abs(got - want)).toBeLessThanOrEqual(Math.max(1, 0.12 * want))
    }),
    { numRuns: 2_000 },
  )
})

test('8.2: evenly spread durations have a smaller error: the percentile interpolates', () => {
  const durations = Array.from({ length: 2_000 }, (_, i) => 100 + i)
  for (const share of [0.05, 0.25, 0.5, 0.75, 0.95]) {
    const want = exact(durations, share)
    expect(Math.abs(percentile(createHistogram(durations), 'ttfb', share)! - want)).toBeLessThan(0.01 * want)
  }
})

test('8.2: a percentile never falls as the share grows', () => {
  fc.assert(
    fc.property(anyDurations, anyShare, anyShare, (durations, a, b) => {
      const histogram = createHistogram(durations)
      const [low, high] = [a, b].sort((x, y) => x - y).map((share) => percentile(histogram, 'ttfb', share)!)
      expect(low).toBeLessThanOrEqual(high)
    }),
  )
})

test('2.2: without durations there is no median; phases are separate', () => {
  const histogram = createHistogram([41], 'connect')
  expect(PHASES.map((phase) => percentile(histogram, phase, 0.5))).toEqual([null, 42, null, null, null])
})

test('8.2: durations beyond the last bucket count as the last bucket', () => {
  const got = percentile(createHistogram([600_000]), 'ttfb', 0.5)!
  expect(got).toBeGreaterThan(10_000)
  expect(got).toBeLessThanOrEqual(LAST_MS)
})

test('8.2: merging is the same as having added all, in any order', () => {
  fc.assert(
    fc.property(anyDurations, anyDurations, (a, b) => {
      const merged = createHistogram(a)
      mergeInto(merged, createHistogram(b))
      expect(merged).toEqual(createHistogram([...b, ...a]))
    }),
  )
})

test('8.2: a stored histogram is restored unchanged, from few bytes', () => {
  const entry = fc.tuple(fc.constantFrom(...PHASES), anyMs, fc.integer({ min: 1, max: 2 ** 32 - 1 }))
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 60 }), (entries) => {
      const histogram = emptyHistogram()
      for (const [phase, ms, count] of entries) {
        const before = histogram.slice()
        addDuration(histogram, phase, ms)
        const at = histogram.findIndex((value, i) => value !== before[i])
        histogram[at] = count
      }
      expect(unpackHistogram(packHistogram(histogram))).toEqual(histogram)
    }),
  )
  expect(packHistogram(createHistogram([200, 210, 220, 900]))).toHaveLength(7) // the first is far from the start
})

// biome-ignore format: one line each
const damaged = [
  ['cut in the middle',     [200]],
  ['a place without count', [5]],
  ['beyond the end',        [200, 2, 1, 200, 2, 1]],
  ['a place twice',         [5, 1, 0, 1]],
  ['before the start',      [0, 1]],
  ['an endless number',     [255, 255, 255, 255, 255, 1, 1]],
] as const
for (const [name, bytes] of damaged) {
  test(`8.2: a damaged histogram (${name}) is an error, not a score`, () => {
    expect(() => unpackHistogram(Uint8Array.from(bytes))).toThrow('damaged')
  })
}
