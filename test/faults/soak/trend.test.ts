import { expect, test } from 'vitest'
import { seeded } from '../../helpers/size.ts'
import { computeTrend, findQuietWindows, isGrowing, median, type Window } from './trend.ts'

const MINUTES = 30
const BOUND = 48 // MiB per hour
const FAULTS: Window[] = Array.from({ length: MINUTES - 1 }, (_, i) => ({
  fromSec: 60 * (i + 1),
  toSec: 60 * (i + 1) + 10,
}))
const WINDOWS = findQuietWindows(FAULTS, 60 * MINUTES, 5, 10)

/** 30 minutes of a sample per second, noise of a few MiB in each. */
function measure(value: (sec: number) => number): [number, number][] {
  const random = seeded(7)
  return Array.from({ length: 60 * MINUTES }, (_, sec) => [sec, value(sec) + 6 * (random() - 0.5)])
}

const isFault = (sec: number) => FAULTS.some(({ fromSec, toSec }) => sec >= fromSec && sec < toSec)
const sawtooth = (sec: number) => 200 + 30 * ((sec % 97) / 97) // collections
const warmUp = (sec: number) => 100 * (1 - Math.exp(-sec / 120))
const random = seeded(11)
const jumps = Array.from({ length: MINUTES }, () => 20 * random()) // a level of each minute

// biome-ignore format: a table
const cases: [name: string, grows: boolean, (sec: number) => number][] = [
  ['constant', false, () => 200],
  ['collections', false, sawtooth],
  ['faults take 300 MiB each', false, (sec) => (isFault(sec) ? 500 : 200)],
  ['a warm-up of 100 MiB in its first minutes', false, (sec) => 200 + warmUp(sec)],
  ['levels that differ by chance', false, (sec) => 200 + jumps[Math.floor(sec / 60)]],
  ['it shrinks', false, (sec) => 400 - sec / 20],
  ['a leak below the bound', false, (sec) => 200 + (0.5 * BOUND * sec) / 3_600],
  ['a leak of twice the bound', true, (sec) => 200 + (2 * BOUND * sec) / 3_600],
  ['the same beside collections', true, (sec) => sawtooth(sec) + (2 * BOUND * sec) / 3_600],
  ['the same after a warm-up', true, (sec) => 200 + warmUp(sec) + (2 * BOUND * sec) / 3_600],
  ['each fault leaks 2 MiB', true, (sec) => 200 + 2 * FAULTS.filter(({ fromSec }) => sec >= fromSec).length],
  ['a leak, and faults that end with less memory in every fifth minute', true,
    (sec) => 200 + (2 * BOUND * sec) / 3_600 - (Math.floor(sec / 60) % 5 === 0 ? 60 : 0)],
]

test.each(cases)('%s: grows is %s', (_, grows, value) => {
  const trend = computeTrend(measure(value), WINDOWS)!
  expect(isGrowing(trend, BOUND), JSON.stringify(trend)).toBe(grows)
})

test('a single descriptor per fault is a leak', () => {
  const values = measure(() => 0).map(([sec]): [number, number] => [
    sec,
    60 + FAULTS.filter(({ fromSec }) => sec >= fromSec).length,
  ])
  const trend = computeTrend(values, WINDOWS)!
  expect(trend.slopePerHour).toBeCloseTo(60, 0)
  expect(isGrowing(trend, 6)).toBe(true)
})

test('slope and interval are those of an example computed by hand', () => {
  // medians 1, 4, 2, 6, 5, 9 an hour apart; the 15 slopes in order: -2, -1, 1/3, 1/2, 1, 1, 1.25, 1.5, 1.5, 5/3, 7/4, 2, 3, 4, 4
  const values = [1, 4, 2, 6, 5, 9].map((value, hour): [number, number] => [3_600 * hour + 1, value])
  const windows = values.map(([sec]) => ({ fromSec: sec - 1, toSec: sec + 1 }))
  const trend = computeTrend(values, windows)!
  expect(trend.slopePerHour).toBeCloseTo(1.5)
  expect(trend.median).toBe(4.5)
  // half the width: 1.96 * sqrt(6 * 5 * 17 / 18) / 2 = 5.22 ranks about the eighth
  expect([trend.lowPerHour, trend.highPerHour]).toEqual([expect.closeTo(1 / 3), expect.closeTo(3)])
})

test('unknown values do not count, and too few windows have no trend', () => {
  const values = measure(() => 200).map(([sec, value]): [number, number | null] => [
    sec,
    sec < 1_500 ? null : value,
  ])
  expect(computeTrend(values, WINDOWS)).toBeNull()
  expect(
    computeTrend(
      measure(() => 200),
      WINDOWS.slice(0, 5),
    ),
  ).toBeNull()
})

test('quiet windows lie between faults; the first are left out, at most half', () => {
  const faults = [10, 20, 30, 40].map((fromSec) => ({ fromSec, toSec: fromSec + 2 }))
  expect(findQuietWindows(faults, 50, 3, 1)).toEqual([
    { fromSec: 25, toSec: 30 },
    { fromSec: 35, toSec: 40 },
    { fromSec: 45, toSec: 50 },
  ])
  expect(findQuietWindows(faults, 50, 3, 9)).toHaveLength(2)
  expect(findQuietWindows(faults, 50, 9, 0)).toEqual([])
})

test('median', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
})
