/** Delays between attempts (spec 9.3, 9.5), and the pauses between restarts of a thread. */
import { expect, test } from 'vitest'
import { backoffMs, doublingMs, jitteredMs, RestartBackoff } from '../../../engine/runtime/backoff.ts'

const SPAN = { initialMs: 125, maxMs: 4_000 }

// biome-ignore format: the columns are the specification
const delays = [
  // failures, random -> ms
  [    1,       0.99,    125], // the first delay is never longer
  [    2,       0,       125],
  [    2,       1,       250],
  [    3,       0.5,     312.5],
  [    6,       1,     4_000],
  [    9,       0.5,   4_000], // up to 32 s, cut at the maximum
  [1_000,       0,       125],
  [1_000,       1,     4_000],
] as const

for (const [failures, random, ms] of delays) {
  test(`delay after ${failures} failures, random ${random}: ${ms} ms`, () => {
    expect(backoffMs(failures, SPAN, () => random)).toBe(ms)
  })
}

test('doubling without chance ends at the maximum', () => {
  const delaysMs = [1, 2, 3, 4, 1_000].map((failures) => doublingMs(failures, { initialMs: 10, maxMs: 60 }))
  expect(delaysMs).toEqual([10, 20, 40, 60, 60])
})

test('jitter makes a delay longer or shorter by at most its share', () => {
  expect([0, 0.5, 1].map((random) => jitteredMs(100, 0.2, () => random))).toEqual([80, 100, 120])
})

// biome-ignore format: a table
const restarts = [
  // time each thread ran (s), limited → pauses
  [[ 0,  0,  0,  0,  0], false, [1, 5, 30, 30, 30]],
  [[ 0,  0,  0,  0,  0], true,  [1, 5, 30, null, null]],
  [[ 0,  0, 60,  0    ], false, [1, 5, 1, 5]],          // forgotten after a minute of running
  [[30, 30, 30, 30, 30], false, [1, 5, 5, 5, 5]],       // two of them within a minute, however long it goes on
  [[30, 30, 30, 30, 30], true,  [1, 5, 5, 5, 5]],
  [[25, 25, 25, 25, 25], true,  [1, 5, 30, 30, 30]],
  [[15, 15, 15, 15, 15], true,  [1, 5, 30, null, null]],
] as const

for (const [ranSec, isLimited, pauses] of restarts) {
  test(`threads that ran ${ranSec} s${isLimited ? ', limited' : ''}: pauses of ${pauses}`, () => {
    const backoff = new RestartBackoff([1, 5, 30], isLimited)
    expect(ranSec.map((sec) => backoff.onFailure(sec * 1_000))).toEqual(pauses)
  })
}

test('a failure is the first one again when the earlier ones are forgotten', () => {
  const backoff = new RestartBackoff([1, 5])
  const isFirst = (ranMs: number) => {
    backoff.onFailure(ranMs)
    return backoff.isFirst
  }
  expect([0, 59_999, 60_000, 0].map(isFirst)).toEqual([true, false, true, false])
})
