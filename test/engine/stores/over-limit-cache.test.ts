import { expect, test } from 'vitest'
import { Stats } from '../../../engine/stats/stats.ts'
import { OverLimitCache } from '../../../engine/stores/over-limit-cache.ts'

test('7.1: gauges: entries, hits and misses, evictions', () => {
  const cache = new OverLimitCache(0, () => {}) // raised to the smallest there is, 512 KiB
  const stats = new Stats()
  cache.count(stats)
  const figures = () => {
    const gauges = new Map(stats.takeDeltas().gauges)
    const names = ['entryCount', 'evacuateCount', 'overwriteCount', 'hitCount', 'missCount', 'lookupCount']
    return names.map((name) => gauges.get(`ratelimit.localcache.${name}`))
  }
  expect(figures()).toEqual([0, 0, 0, 0, 0, 0])
  cache.add('a', 5)
  cache.add('a', 6)
  cache.add('b', 1)
  expect([cache.isOver('a', 5), cache.isOver('a', 6), cache.isOver('c', 0)]).toEqual([true, false, false])
  expect(figures()).toEqual([2, 0, 1, 2, 1, 3])
  for (let i = 0; i < 10_000; i++) cache.add(`key ${i}`, 1)
  const [entries, evictions] = figures() as number[]
  expect(entries).toBeLessThan(10_000)
  expect(entries + evictions).toBe(10_002)
})

test('gauges that are always 0', () => {
  const cache = new OverLimitCache(0, () => {})
  const stats = new Stats()
  cache.count(stats)
  cache.add('a', 1)
  const gauges = new Map(stats.takeDeltas().gauges)
  for (const name of ['expiredCount', 'averageAccessTime'])
    expect(gauges.get(`ratelimit.localcache.${name}`)).toBe(0)
})

// biome-ignore format: a table
test.each([
  // bytes, length of the longest key it holds: a 1,024th of the cache less what an entry needs besides
  [           0,    392],
  [  512 * 1024,    392],
  [ 1024 * 1024,    904],
  [     2 ** 27, 65_535], // at most
])('a cache of %i bytes', (bytes, length) => {
  const logged: string[] = []
  const cache = new OverLimitCache(bytes, (key) => logged.push(key))
  const longest = 'k'.repeat(length)
  cache.add(longest, 2)
  expect([cache.isOver(longest, 1), logged]).toEqual([true, []])
  cache.add(`${longest}k`, 2)
  expect([cache.isOver(`${longest}k`, 1), logged]).toEqual([false, [`${'k'.repeat(200)}…`]])
})

test('an entry takes 120 bytes and its key', () => {
  const cache = new OverLimitCache(512 * 1024, () => {})
  const stats = new Stats()
  cache.count(stats)
  for (let i = 10_000; i < 20_000; i++) cache.add(`k${i}`, 1)
  const gauges = new Map(stats.takeDeltas().gauges)
  expect(gauges.get('ratelimit.localcache.entryCount')).toBe(Math.floor((512 * 1024) / 126))
})

test('4.5, 11.1: keys that are too large are logged ever more rarely, and shortened', () => {
  const logged: string[] = []
  const cache = new OverLimitCache(0, (key) => logged.push(key))
  const key = 'k'.repeat(60_000)
  for (let i = 0; i < 1_000; i++) cache.add(key, 1)
  const shown = `${'k'.repeat(200)}…`
  expect(logged.slice(0, 3)).toEqual([shown, `${shown} (2 by now)`, `${shown} (4 by now)`])
  expect(logged).toHaveLength(10) // up to 512
})
