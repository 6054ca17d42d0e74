/** When a thread that has become idle collects its garbage. */
import { expect, test } from 'vitest'
import { IdleCollector, releaseMemory } from '../../../engine/runtime/release-memory.ts'

const MIB = 1_048_576
const IDLE = 0.01
const BUSY = 0.2

/** A heap of `live` MiB and some garbage. */
function heap(live: number) {
  const heap = { live, garbage: 0, collections: 0, releases: 0 }
  const collect = () => {
    heap.collections++
    heap.garbage = 0
  }
  const release = () => void heap.releases++
  const idle = new IdleCollector(() => (heap.live + heap.garbage) * MIB, collect, release)
  const checks = (count: number, busyShare: number) => {
    const before = heap.collections
    for (let i = 0; i < count; i++) idle.check(busyShare)
    return heap.collections - before
  }
  return { heap, idle, checks }
}

test('a heap that has not grown is left alone', () => {
  const { heap: one, checks } = heap(20)
  one.garbage = 11
  expect(checks(100, IDLE)).toBe(0)
})

test('a heap that has grown is collected when the thread is idle', () => {
  const { heap: one, checks } = heap(20)
  one.garbage = 40
  expect(checks(100, BUSY)).toBe(0)
  expect(checks(100, IDLE)).toBe(1)
  expect([one.garbage, one.releases]).toEqual([0, 1])
})

test('it is collected also when V8 has done so already, since V8 keeps the pages', () => {
  const { heap: one, checks } = heap(20)
  one.garbage = 40
  expect(checks(1, BUSY)).toBe(0)
  one.garbage = 0
  expect(checks(100, IDLE)).toBe(1)
})

test('memory of the next load is released as soon as that of the first', () => {
  const { heap: one, checks } = heap(20)
  for (let i = 0; i < 3; i++) {
    one.garbage = 40
    expect(checks(1, IDLE)).toBe(1)
  }
})

test('while the memory is in use, collection is tried once a minute', () => {
  const { heap: one, checks } = heap(20)
  one.live = 100
  expect(checks(1, IDLE)).toBe(1)
  expect(checks(11, IDLE)).toBe(0)
  expect(checks(1, IDLE)).toBe(1)
  expect(one.releases).toBe(0)
})

test('wake() allows another collection at once', () => {
  const { heap: one, idle, checks } = heap(20)
  one.live = 100
  expect(checks(1, IDLE)).toBe(1)
  idle.wake()
  expect(checks(1, IDLE)).toBe(1) // it may not be garbage yet
  expect(checks(1, IDLE)).toBe(1)
  expect(checks(11, IDLE)).toBe(0)
})

test('free pages that V8 keeps after a collection are released', async () => {
  const residentMib = () => process.memoryUsage.rss() / MIB
  const before = residentMib()
  let objects: unknown[] | null = Array.from({ length: 1_000_000 }, (_, i) => ({ i, of: [i] }))
  const full = residentMib()
  expect(objects.length + full - before).toBeGreaterThan(1_000_050)
  objects = null
  releaseMemory()
  expect(residentMib() - before).toBeLessThan(full - before - 50)
})
