/** Owner IDs of locks: holders that a waiter could confuse have different ones. */
import { expect, test } from 'vitest'
import { LockOwnerIds, lock, unlock } from '../../../../engine/stores/memory/bucket-lock.ts'

const THREADS_MAX = 2_047
const NUMBERS = 2 ** 20

test('threads have different IDs, never 0 and never negative; after 2,047 they repeat', () => {
  const first = Array.from({ length: THREADS_MAX }, (_, thread) => new LockOwnerIds(thread).draw())
  expect(new Set(first).size).toBe(THREADS_MAX)
  expect(first.every((id) => Number.isInteger(id) && id > 0 && id < 2 ** 31)).toBe(true)
  expect(new LockOwnerIds(THREADS_MAX).draw()).toBe(first[0])
  expect(new LockOwnerIds(THREADS_MAX + 1).draw()).toBe(first[1])
})

test('a thread draws 2^20 different IDs, all its own, before they repeat', () => {
  for (const thread of [0, THREADS_MAX - 1]) {
    const ids = new LockOwnerIds(thread)
    const first = ids.draw()
    let [least, most, sum] = [first, first, first]
    for (let i = 1; i < NUMBERS; i++) {
      const id = ids.draw()
      least = Math.min(least, id)
      most = Math.max(most, id)
      sum += id
    }
    const base = (thread + 1) * NUMBERS
    expect([least, most]).toEqual([base, base + NUMBERS - 1])
    expect(sum, 'each once').toBe(NUMBERS * base + (NUMBERS * (NUMBERS - 1)) / 2)
    expect(ids.draw()).toBe(first)
  }
})

test('only its owner releases a lock', () => {
  const words = new Int32Array(new SharedArrayBuffer(8))
  lock(words, 1, 7)
  expect([...words]).toEqual([0, 7])
  unlock(words, 1, 8)
  expect([...words]).toEqual([0, 7])
  unlock(words, 1, 7)
  expect([...words]).toEqual([0, 0])
})
