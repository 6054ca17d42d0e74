/** When a thread that has become idle collects its garbage. */
import { expect, test } from 'vitest'
import { IdleCollector, releaseMemory } from '../../../engine/runtime/release-memory.ts'

const MIB = 1_048_576
const IDLE = 0.01
const BUSY = 0.2

/** A heap of `live` MiB and some garbage. */
function heap(live: number) {
  const heap = { live, garbage: 0, collections: 0, given: 0 }
  const collect = () => {
    heap.collections++
    heap.garbage = 0
  }
  const giveBack = () => void heap.given++
  const idle = new IdleCollector(() => (heap.live + heap.garbage) * MIB, collect, giveBack)
  const checks = (count: number, busyShare: number) => {
    const before = heap.collections
    for (let i = 0; i < count; i++) idle.check(busyShare)
    return heap.collections - before
  }
  return { heap, idle, checks }
}

test('a heap that has not grown is not collected', () => {
  const { heap: one, checks } = heap(20)
  one.garbage = 11
  expect(checks(100, IDLE)).toBe(0)
})

test('one that has grown is collected once the thread is idle', () => {
  const { heap: one, checks } = heap(20)
  one.garbage = 40
  expect(checks(100, BUSY)).toBe(0)
  expect(checks(100, IDLE)).toBe(1)
  expect([one.garbage, one.given]).toEqual([0, 1])
})

test('also when V8 has collected it already, since it keeps the pages', () => {
  const { heap: one, checks } = heap(20)
  one.garbage = 40
  expect(checks(1, BUSY)).toBe(0)
  one.garbage = 0
  expect(checks(100, IDLE)).toBe(1)
})

test('the memory of the next load is released as soon as that of the first', () => {
  const { heap: one, checks } = heap(20)
  for (let i = 0; i < 3; i++) {
    one.garbage = 40
    expect(checks(1, IDLE)).toBe(1)
  }
})

test('while the memory is in use, a collection is tried once a minute', () => {
  const { heap: one, checks } = heap(20)
  one.live = 100
  expect(checks(1, IDLE)).toBe(1)
  expect(checks(11, IDLE)).toBe(0)
  expect(checks(1, IDLE)).toBe(1)
  expect(one.given).toBe(0)
})

test('unless something large was freed meanwhile', () => {
  const { heap: one, idle, checks } = heap(20)
  one.live = 100
  expect(checks(1, IDLE)).toBe(1)
  idle.wake()
  expect(checks(1, IDLE)).toBe(1) // perhaps it was just going
  expect(checks(1, IDLE)).toBe(1)
  expect(checks(11, IDLE)).toBe(0)
})

test('pages that V8 keeps after a collection are released', async () => {
  const residentMib = () => process.memoryUsage.rss() / MIB
  const before = residentMib()
  let objects: unknown[] | null = Array.from({ length: 1_000_000 }, (_, i) => ({ i, of: [i] }))
  const full = residentMib()
  expect(objects.length + full - before).toBeGreaterThan(1_000_050)
  objects = null
  releaseMemory()
  expect(residentMib() - before).toBeLessThan(full - before - 50)
})
