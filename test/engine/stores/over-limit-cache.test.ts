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

test('4.5, 11.1: keys that are too large are logged ever more rarely, and shortened', () => {
  const logged: string[] = []
  const cache = new OverLimitCache(0, (key) => logged.push(key))
  const key = 'k'.repeat(60_000)
  for (let i = 0; i < 1_000; i++) cache.add(key, 1)
  const shown = `${'k'.repeat(200)}…`
  expect(logged.slice(0, 3)).toEqual([shown, `${shown} (2 by now)`, `${shown} (4 by now)`])
  expect(logged).toHaveLength(10) // up to 512
})
