import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DueHeap, type HeapItem } from '../../../monitor/scheduler/heap.ts'
import { listNetworks, StartRate } from '../../../monitor/scheduler/limits.ts'
import {
  backedOff,
  firstSlotMs,
  getSlotNumber,
  inTurn,
  nextSlot,
  repeatDelayMs,
  retryAfterMs,
} from '../../../monitor/scheduler/schedule.ts'

const SEC = 1_000
const MIN = 60 * SEC
const HOUR = 60 * MIN
const DAY = 24 * HOUR

// biome-ignore format: the columns are the specification
const backOffs = [
  // interval, downs, down for -> interval
  [  5 * MIN,      0,        0,    5 * MIN],
  [  5 * MIN,      3,   15 * MIN,  5 * MIN], // the third is as patient as the first
  [  5 * MIN,      4,   20 * MIN, 10 * MIN],
  [  5 * MIN,      5,   30 * MIN, 20 * MIN],
  [  5 * MIN,      6,   50 * MIN, 40 * MIN],
  [  5 * MIN,      7,   90 * MIN, 60 * MIN], // not 80
  [  5 * MIN, 10_000, 7 * DAY - 1, 60 * MIN],
  [  5 * MIN, 10_000,   7 * DAY,  6 * HOUR],
  [  5 * MIN,      4,   7 * DAY, 10 * MIN], // few downs in a long time: we did not look often
  [  1 * HOUR,     9,   1 * DAY,  1 * HOUR], // an interval of an hour has nowhere to go
] as const
for (const [interval, downs, forMs, want] of backOffs) {
  test(`6.4: after ${downs} downs in ${forMs} ms, ${interval} ms become ${want} ms`, () => {
    expect(backedOff(interval, downs, forMs)).toBe(want)
  })
}

// biome-ignore format: the columns are the specification
const slots = [
  // planned, interval,    now, random ->   due, skipped
  [       0,   300_000,   1_000,   0.5, 300_000, 0],
  [       0,   300_000,   1_000,     0, 270_000, 0], // jitter at its lower end
  [       0,   300_000,   1_000, 0.999_999, 330_000, 0], // and at its upper
  [       0,   300_000, 299_999,   0.5, 300_000, 0],
  [       0,   300_000, 300_000,   0.5, 600_000, 1], // due this instant and not later: missed
  [       0,   300_000, 7_300_000, 0.5, 7_500_000, 24], // slept for two hours: one slot, not 24
] as const
for (const [planned, interval, now, random, dueMs, skipped] of slots) {
  test(`6.4: planned ${planned}, now ${now}, random ${random}: due ${dueMs}, ${skipped} skipped`, () => {
    expect(nextSlot(planned, interval, now, random)).toEqual({ dueMs, skipped })
  })
}

test('6.4: without delay, every step is interval ± 10 %; late by anything, the next slot is ahead and near', () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(
      fc.integer({ min: 60_000, max: HOUR }),
      fc.nat({ max: 3 * DAY }),
      random,
      (interval, late, r) => {
        const { dueMs, skipped } = nextSlot(0, interval, late, r)
        expect(dueMs).toBeGreaterThan(late)
        if (skipped > 0) expect(dueMs).toBeLessThanOrEqual(late + interval)
        const jitter = dueMs - (skipped + 1) * interval
        expect(Math.abs(jitter)).toBeLessThanOrEqual(0.1 * interval + 1)
      },
    ),
  )
})

test('6.4: first runs spread evenly over one interval, the same way each time', () => {
  const firsts = Array.from({ length: 5_000 }, (_, i) => firstSlotMs(`site-${i}`, 5 * MIN, 70))
  expect(firsts).toEqual(Array.from({ length: 5_000 }, (_, i) => firstSlotMs(`site-${i}`, 5 * MIN, 70)))
  const perTenth = new Array<number>(10).fill(0)
  for (const first of firsts) perTenth[Math.floor((first - 70) / (30 * SEC))]++
  for (const count of perTenth) expect(Math.abs(count - 500)).toBeLessThan(100)
})

const NOW_SEC = 1_795_194_360 // 2026-11-20T17:06:00Z
// biome-ignore format: the columns are the specification
const headers = [
  ['120',                           120 * SEC],
  [' 0 ',                           0],
  ['3600',                          HOUR],
  ['86400',                         HOUR],      // honoured up to 60 min
  ['Fri, 20 Nov 2026 17:08:00 GMT', 120 * SEC],
  ['Fri, 20 Nov 2026 17:00:00 GMT', 0],         // has passed
  ['Sat, 21 Nov 2026 17:00:00 GMT', HOUR],
  ['-1',                            0],
  ['1.5',                           0],
  ['soon',                          0],
  ['99999999999',                   0],
  ['2027',                          2_027 * SEC], // seconds, not a year
  ['',                              0],
  [null,                            0],
] as const
for (const [header, want] of headers) {
  test(`6.4: Retry-After ${JSON.stringify(header)} means ${want} ms`, () => {
    expect(retryAfterMs(header, NOW_SEC)).toBe(want)
  })
}

// biome-ignore format: the columns are the specification
const repeats = [
  // outcome, done, max, retry after -> delay
  ['down',         0, 2,      0,  5_000],
  ['down',         1, 2,      0, 15_000],
  ['down',         2, 2,      0,   null], // all three failed: it counts
  ['down',         0, 0,      0,   null],
  ['down',         4, 5,      0, 30_000],
  ['down',         5, 9,      0,   null], // five are the most
  ['down',         0, 2, 60_000,   null], // it has said so itself
  ['up',           1, 2,      0,   null],
  ['degraded',     0, 2,      0,   null],
  ['inconclusive', 1, 2,      0,   null],
] as const
for (const [outcome, repeatsDone, repeatsMax, retryMs, want] of repeats) {
  test(`6.3: ${outcome} after ${repeatsDone} of ${repeatsMax} repeats, Retry-After ${retryMs}: ${want}`, () => {
    expect(repeatDelayMs(outcome, { repeatsDone, repeatsMax, retryAfterMs: retryMs })).toBe(want)
  })
}

// biome-ignore format: the columns are the specification
const networks = [
  [['203.0.113.7', '203.0.113.200'],              1],
  [['203.0.113.7', '203.0.114.7'],                2],
  [['2001:db8:1:2::1', '2001:db8:1:ffff::9'],     1], // one /48
  [['2001:db8:1::', '2001:db8:2::'],              2],
  [['2001:db8::1', '2001:0db8:0000:9::'],         1],
  [['nonsense', ''],                              0],
  [Array.from({ length: 20 }, (_, i) => `9.9.${i}.1`), 8],
] as const
for (const [addresses, count] of networks) {
  test(`6.4: ${addresses.slice(0, 2).join(', ')} … are in ${count} networks`, () => {
    expect(listNetworks(addresses)).toHaveLength(count)
  })
}

test('6.4: never more than 50 starts in any second, also over a seam', () => {
  const rate = new StartRate()
  const starts: number[] = []
  for (let nowMs = 0; nowMs < 5_000; nowMs += 7) {
    while (rate.freeAtMs() <= nowMs) {
      rate.record(nowMs)
      starts.push(nowMs)
    }
  }
  for (const from of starts)
    expect(starts.filter((at) => at >= from && at < from + 1_000).length).toBeLessThanOrEqual(50)
  expect(starts.length).toBe(250)
})

test('6.5: two vantages per region in rotation, fewer always, each equally often', () => {
  expect(inTurn('a', 7, [])).toEqual([])
  expect(inTurn('a', 7, ['x'])).toEqual(['x'])
  expect(inTurn('a', 7, ['y', 'x'])).toEqual(['x', 'y'])
  for (const names of [
    ['p', 'q', 'r'],
    ['p', 'q', 'r', 's'],
    ['p', 'q', 'r', 's', 't'],
  ]) {
    const counts = new Map<string, number>()
    for (let slot = 0; slot < names.length * 20; slot++) {
      const turn = inTurn('a', getSlotNumber(slot * 300, 300), [...names].reverse())
      expect(new Set(turn).size).toBe(2)
      expect(turn).toEqual(inTurn('a', slot, names)) // in any order of the names
      for (const name of turn) counts.set(name, (counts.get(name) ?? 0) + 1)
    }
    expect([...counts.values()]).toEqual(names.map(() => 40))
  }
})

test('6.4: the heap returns items in due order after any insertions, moves and removals', () => {
  const step = fc.record({ item: fc.nat({ max: 19 }), dueMs: fc.nat({ max: 50 }), isRemoval: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const heap = new DueHeap<HeapItem>()
      const items: HeapItem[] = Array.from({ length: 20 }, () => ({ dueMs: 0, heapIndex: -1 }))
      const inside = new Set<HeapItem>()
      for (const { item, dueMs, isRemoval } of steps) {
        if (isRemoval) heap.remove(items[item])
        else heap.put(items[item], dueMs)
        if (isRemoval) inside.delete(items[item])
        else inside.add(items[item])
        expect(heap.size).toBe(inside.size)
        expect(heap.first()?.dueMs).toBe(
          inside.size ? Math.min(...[...inside].map((one) => one.dueMs)) : undefined,
        )
      }
      const out: number[] = []
      for (let first = heap.first(); first; first = heap.first()) {
        out.push(first.dueMs)
        heap.remove(first)
      }
      expect(out).toEqual([...inside].map((one) => one.dueMs).sort((a, b) => a - b))
    }),
  )
})
