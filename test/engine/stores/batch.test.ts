/** Batch: merged hits get the counts they would get one by one. SlotIndex: a hash table, against a Map. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BATCH_MEMBERS_MAX, BATCH_SLOTS_MAX, Batch, SlotIndex } from '../../../engine/stores/batch.ts'
import { Counter } from '../../../engine/stores/counter.ts'
import { createMemoryTable, MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import { seed, seeded, size } from '../../helpers/size.ts'

const NOW_SEC = 1_790_000_000
const END_SEC = NOW_SEC + 60
const COUNT_MAX = Number.MAX_SAFE_INTEGER
const OVER_ANY_LIMIT = 2 ** 32 - 1

/** One line per slot. */
function describeSlots(batch: Batch): string[] {
  return Array.from({ length: batch.slotsCount }, (_, i) => {
    return `${batch.counters[i].key} +${batch.hits[i]} ends ${batch.windowEndSec[i]} kept ${batch.expirySec[i]}`
  })
}

test('equal keys share a slot; counts are split in arrival order', () => {
  const batch = new Batch()
  const members = [
    batch.add(new Counter('a'), 1, 9, 60, 70, false),
    batch.add(new Counter('b'), 2, 9, 60, 71, false),
    batch.add(new Counter('a'), 3, 9, 60, 72, false),
  ]
  expect(members).toEqual([0, 1, 2])
  expect(describeSlots(batch)).toEqual(['a +4 ends 60 kept 72', 'b +2 ends 60 kept 71'])
  batch.setPreviousCount(0, 10)
  batch.setPreviousCount(1, 0)
  expect(members.map((member) => batch.getPreviousCount(member))).toEqual([10, 0, 11])
})

test('Q20: one key with two window lengths expires with the longer', () => {
  const batch = new Batch()
  batch.add(new Counter('a'), 1, 9, 60, 90, false)
  batch.add(new Counter('a'), 1, 9, 3600, 3700, false)
  batch.add(new Counter('a'), 1, 9, 60, 80, false)
  expect(describeSlots(batch)).toEqual(['a +3 ends 3600 kept 3700'])
})

test('a slot that would pass 2^32 hits is followed by another of the same key', () => {
  const batch = new Batch()
  for (const hits of [1, 2 ** 32 - 1, 1, 2, COUNT_MAX, 5]) batch.add(new Counter('a'), hits, 9, 60, 70, false)
  expect(describeSlots(batch).map((line) => line.split(' ')[1])).toEqual([
    '+4294967296',
    '+3',
    '+9007199254740991',
    '+5',
  ])
})

test('counters of the same key come in the order of their hits, also when the key has several slots', () => {
  const batch = new Batch()
  const [kept, other] = [new Counter('a'), new Counter('a')]
  const members = [kept, other, kept].map((counter, i) =>
    batch.add(counter, i === 1 ? 2 ** 32 : 1, 9, 60, 70, false),
  )
  batch.setPreviousCount(0, 10)
  batch.setPreviousCount(1, 11)
  batch.setPreviousCount(2, 11 + 2 ** 32)
  expect(members.map((member) => batch.getPreviousCount(member))).toEqual([10, 11, 11 + 2 ** 32])
})

test('an error is that of its slot', () => {
  const batch = new Batch()
  for (const key of ['a', 'b', 'a']) batch.add(new Counter(key), 1, 9, 60, 70, false)
  const error = new Error('no')
  batch.setError(0, error)
  expect([0, 1, 2].map((member) => batch.getError(member))).toEqual([error, null, error])
  batch.failAll(error)
  expect(batch.getError(1)).toBe(error)
})

test('a cleared batch equals a new one', () => {
  const batch = new Batch()
  for (const key of ['a', 'b', 'c']) batch.add(new Counter(key), 9, 9, 60, 70, false)
  batch.failAll(new Error('no'))
  batch.clear()
  expect([batch.slotsCount, batch.membersCount]).toEqual([0, 0])
  expect(batch.add(new Counter('b'), 1, 9, 120, 130, false)).toBe(0)
  expect(describeSlots(batch)).toEqual(['b +1 ends 120 kept 130'])
  expect(batch.getError(0)).toBeNull()
})

test('keys are found by other counters of the same key, in batches of few slots and of many', () => {
  for (const count of [1, 3, 4, 5, 6, 40]) {
    const batch = new Batch()
    const addAll = () => {
      for (let i = 0; i < count; i++) batch.add(new Counter(`key ${i}`), i + 1, 9, 60, 70, false)
    }
    for (let use = 0; use < 3; use++) {
      addAll()
      addAll()
      expect([batch.slotsCount, batch.membersCount]).toEqual([count, 2 * count])
      expect(batch.hits.slice(0, count)).toEqual(Array.from({ length: count }, (_, i) => 2 * (i + 1)))
      batch.clear()
    }
  }
})

test('limits per second and others of one key have slots of their own', () => {
  const batch = new Batch()
  for (const isPerSecond of [true, false, false]) batch.add(new Counter('a'), 1, 9, 60, 70, isPerSecond)
  expect([batch.hits.slice(0, 2), batch.isPerSecond.slice(0, 2)]).toEqual([
    [1, 2],
    [true, false],
  ])
})

test('the text of hits is exact up to 2^63-1', () => {
  const batch = new Batch()
  for (const hits of [1, 2]) batch.add(new Counter('a'), hits, 9, 60, 70, false)
  batch.add(new Counter('b'), 2n ** 63n - 1n, 9, 60, 70, false)
  batch.add(new Counter('c'), COUNT_MAX, 9, 60, 70, false)
  const texts = () => Array.from({ length: batch.slotsCount }, (_, slot) => batch.hitsText(slot))
  expect(texts()).toEqual(['3', '9223372036854775807', '9007199254740991'])
  batch.clear()
  for (const key of ['a', 'b']) batch.add(new Counter(key), 4, 9, 60, 70, false)
  expect(texts()).toEqual(['4', '4'])
})

test('the ends of requests; a reused batch has only its own', () => {
  const batch = new Batch()
  const addRequest = (...keys: string[]) => {
    for (const key of keys) batch.add(new Counter(key), 1, 9, 60, 70, false)
    batch.endRequest()
  }
  addRequest('a', 'b')
  addRequest()
  addRequest('a')
  expect(batch.requestEnds).toEqual([2, 2, 3])
  batch.clear()
  addRequest('a')
  expect(batch.requestEnds).toEqual([1])
})

test('4.3: with countRequestsAtOnce equal keys of one request get the same count, later requests more', () => {
  const batch = new Batch()
  const members = [
    ['a', 'b', 'a'],
    ['a', 'a'],
    ['b', 'c', 'c'],
  ].map((keys) => {
    const ofRequest = keys.map((key) => batch.add(new Counter(key), 1, 9, 60, 70, false))
    batch.endRequest()
    return ofRequest
  })
  batch.countRequestsAtOnce()
  for (const slot of [0, 1, 2]) batch.setPreviousCount(slot, 10)
  const counts = members.map((ofRequest) => ofRequest.map((member) => batch.getPreviousCount(member)))
  expect(counts).toEqual([
    [10, 10, 10],
    [12, 12],
    [11, 10, 10],
  ])
})

test('a count is pending until it or an error is there', () => {
  const batch = new Batch()
  for (const key of ['a', 'b', 'c']) batch.add(new Counter(key), 1, 9, 60, 70, false)
  const pending = () => [0, 1, 2].map((member) => batch.isPending(member))
  expect(pending()).toEqual([true, true, true])
  batch.setPreviousCount(0, -5) // of hits that were skipped
  batch.setError(1, new Error('no'))
  expect(pending()).toEqual([false, false, true])
  batch.clear()
  batch.add(new Counter('a'), 1, 9, 60, 70, false)
  expect(batch.isPending(0)).toBe(true)
})

test('it is full by slots or by members', () => {
  const slots = new Batch()
  for (let i = 0; i < BATCH_SLOTS_MAX - 3; i++) slots.add(new Counter(`${i}`), 1, 9, 60, 70, false)
  expect([slots.isFullFor(3), slots.isFullFor(4)]).toEqual([false, true])
  const members = new Batch()
  for (let i = 0; i < BATCH_MEMBERS_MAX - 3; i++) members.add(new Counter('a'), 1, 9, 60, 70, false)
  expect([members.isFullFor(3), members.isFullFor(4)]).toEqual([false, true])
})

test('a batch gets the counts of one-by-one calls', () => {
  const hits = fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 0, max: 4 }) },
    { weight: 1, arbitrary: fc.integer({ min: 2 ** 31, max: 2 ** 33 }) },
    { weight: 1, arbitrary: fc.maxSafeNat() },
  )
  const member = fc.tuple(fc.constantFrom('a', 'b', 'c'), hits)
  const batches = fc.array(fc.array(member, { maxLength: 20 }), { maxLength: 5 })
  fc.assert(
    fc.property(batches, (turns) => {
      const store = new MemoryStore(createMemoryTable(2 ** 10))
      const batch = new Batch()
      const counts = new Map<string, number>()
      for (const members of turns) {
        batch.clear()
        for (const [key, count] of members) batch.add(new Counter(key), count, 9, END_SEC, 70, false)
        store.add(batch, NOW_SEC, () => {})
        members.forEach(([key, count], i) => {
          const alone = Math.min((counts.get(key) ?? 0) + count, COUNT_MAX)
          counts.set(key, alone)
          // at the maximum count a shared slot is inexact, which no limit can distinguish
          const after = batch.getPreviousCount(i) + count
          if (alone > 2 ** 52) expect(after).toBeGreaterThan(OVER_ANY_LIMIT)
          else expect(after).toBe(alone)
        })
      }
    }),
    { numRuns: size({ small: 300, full: 30_000 }) },
  )
})

const SLOTS_MAX = 16
const GENERATIONS = 2 ** 27 // 27 bits beside a slot of 4

test('SlotIndex finds what a Map finds, over many generations', () => {
  const random = seeded(seed())
  const index = new SlotIndex(SLOTS_MAX)
  for (let generation = 0; generation < 2_000; generation++) {
    const counters: Counter[] = []
    const slots = new Map<string, number>()
    for (let slot = 0; slot < SLOTS_MAX; slot++) {
      const counter = new Counter(`key ${Math.floor(random() * 20)}${random() < 0.2 ? ' ü€😀' : ''}`)
      expect(index.find(counter, counters)).toBe(slots.get(counter.key) ?? -1)
      counters.push(counter)
      index.set(counter, slot, counters)
      slots.set(counter.key, slot)
    }
    index.clear()
  }
})

test('SlotIndex: old entries do not reappear when generation numbers wrap', () => {
  const index = new SlotIndex(SLOTS_MAX)
  const counters = [new Counter('a')]
  index.set(counters[0], 0, counters)
  for (let generation = 2; generation <= GENERATIONS; generation++) index.clear()
  expect(index.find(counters[0], counters), 'the generation has its first number again').toBe(-1)
  index.set(counters[0], 0, counters)
  expect(index.find(new Counter('a'), counters)).toBe(0)
})

test('SlotIndex distinguishes keys of equal hashes, within a bounded number of probes', () => {
  const index = new SlotIndex(64)
  const counters = Array.from({ length: 64 }, (_, i) => {
    const counter = new Counter(`${i}`)
    Object.defineProperty(counter, 'hash', { value: 7 })
    return counter
  })
  for (const [slot, counter] of counters.entries()) index.set(counter, slot, counters)
  const found = counters.map((counter) => index.find(counter, counters))
  expect(found.slice(0, 16)).toEqual([...found.keys()].slice(0, 16))
  expect(found.slice(16).every((slot) => slot === -1)).toBe(true)
})
