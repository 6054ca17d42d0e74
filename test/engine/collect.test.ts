/** When a thread that has become idle collects its garbage. */
import { expect, test } from 'vitest'
import { IdleCollector } from '../../engine/collect.ts'

const MIB = 1_048_576
const IDLE = 0.01
const BUSY = 0.2

/** A heap of `live` MiB and some garbage; a collection takes half of it, as V8 keeps room for new objects at first. */
function heap(live: number) {
  const heap = { live, garbage: 0, collections: 0 }
  const collect = () => {
    heap.collections++
    heap.garbage = heap.garbage > 8 ? Math.floor(heap.garbage / 2) : 0
    if (heap.collections % 2 === 0) heap.garbage = 0
  }
  const idle = new IdleCollector(() => (heap.live + heap.garbage) * MIB, collect)
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

test('one that has grown is collected twice, once the thread is idle', () => {
  const { heap: one, checks } = heap(20)
  one.garbage = 40
  expect(checks(100, BUSY)).toBe(0)
  expect(checks(1, IDLE)).toBe(1)
  expect(checks(100, IDLE)).toBe(1)
  expect(one.garbage).toBe(0)
})

test('the next load is given back as soon as the first', () => {
  const { heap: one, checks } = heap(20)
  for (let i = 0; i < 3; i++) {
    one.garbage = 40
    expect(checks(2, IDLE)).toBe(2)
  }
})

test('where the memory is in use, it is tried once a minute', () => {
  const { heap: one, checks } = heap(20)
  one.live = 100
  expect(checks(2, IDLE)).toBe(2)
  expect(checks(11, IDLE)).toBe(0)
  expect(checks(2, IDLE)).toBe(2)
})

test('unless something large has gone meanwhile', () => {
  const { heap: one, idle, checks } = heap(20)
  one.live = 100
  expect(checks(2, IDLE)).toBe(2)
  idle.wake()
  expect(checks(2, IDLE)).toBe(2) // perhaps it was just going
  expect(checks(2, IDLE)).toBe(2)
  expect(checks(11, IDLE)).toBe(0)
})
