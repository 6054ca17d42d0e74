/** Counter: what is computed once from its key. */
import { expect, test } from 'vitest'
import { Counter } from '../../../engine/stores/counter.ts'

const hash = (key: string) => new Counter(key).hash

test('the size is that in UTF-8, or as given', () => {
  expect(['', 'abc', 'é€😀'].map((key) => new Counter(key).size)).toEqual([0, 3, 9])
  const counter = new Counter('é')
  expect([counter.size, counter.size]).toEqual([2, 2])
  expect(new Counter('é', 7).size).toBe(7)
})

test('equal keys have equal hashes, and a counter keeps its own', () => {
  for (const key of ['', 'a', 'abcd', 'abcdefgh€']) {
    const counter = new Counter(key)
    expect([counter.hash, counter.hash]).toEqual([hash(key), hash(key)])
    expect(Number.isInteger(counter.hash) && counter.hash !== 0).toBe(true)
  }
})

test('every character counts, wherever it is', () => {
  for (let length = 1; length <= 13; length++) {
    const key = 'k'.repeat(length)
    const others = Array.from({ length }, (_, i) => `${key.slice(0, i)}l${key.slice(i + 1)}`)
    const hashes = [key, `${key}k`, ...others].map(hash)
    expect(new Set(hashes).size, `keys of ${length}`).toBe(hashes.length)
  }
})

test('the order of characters counts', () => {
  const hashes = ['abcdefg', 'bacdefg', 'abdcefg', 'efgdabc', 'abcdfeg', 'abcdegf'].map(hash)
  expect(new Set(hashes).size).toBe(6)
})

test('the low bits of similar keys differ: tables are indexed by them', () => {
  const used = new Set<number>()
  for (let i = 0; i < 1_024; i++) used.add(hash(`shop_user_${i}_1790000000`) & 1_023)
  // 1,024 balls into as many bins fill 647 of them, with a standard deviation of 10
  expect(used.size).toBeGreaterThan(500)
})
