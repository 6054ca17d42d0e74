/**
 * One suite over every store, real Redis included: what callers may rely on whichever they have.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Batch } from '../../../engine/counters/batch.ts'
import { createMemoryTable, MemoryStore } from '../../../engine/counters/memory.ts'
import { RedisStore } from '../../../engine/counters/redis.ts'
import type { CounterStore } from '../../../engine/counters/store.ts'
import { type RedisServer, startRedis } from '../../helpers/redis.ts'
import { addAll, redisOptionsOf } from './adding.ts'

const NOW_SEC = 1_790_000_000
const COUNT_MAX = Number.MAX_SAFE_INTEGER

let redis: RedisServer
let redisStore: RedisStore
const memoryStore = new MemoryStore(createMemoryTable(2 ** 20))
beforeAll(async () => {
  redis = await startRedis()
  redisStore = new RedisStore(redisOptionsOf(redis.address), { log: () => {} })
  await redisStore.connect()
})
afterAll(async () => {
  await redisStore.close()
  await redis.stop()
})

describe.each<[string, () => CounterStore]>([
  ['memory', () => memoryStore],
  ['redis', () => redisStore],
])('%s', (name, store) => {
  const add = (...hits: [key: string, hits: number][]) =>
    addAll(
      store(),
      hits.map(([key, count]) => [`${name}_${key}`, count]),
      NOW_SEC,
    )

  // biome-ignore format: the columns are the specification
  const cases = [
    // batches, one after the other                       -> count after each member's hits
    ['a new counter',      [[['a', 1]]],                                        [[1]]],
    ['counters go on',     [[['b', 1]], [['b', 2]], [['b', 3]]],                [[1], [3], [6]]],
    ['equal keys',         [[['c', 1], ['d', 5], ['c', 2], ['c', 3]]],          [[1, 5, 3, 6]]],
    ['equal keys, again',  [[['c', 1], ['d', 0], ['c', 1]]],                    [[7, 5, 8]]],
    ['zero hits first',    [[['e', 0]], [['e', 0]], [['e', 2]], [['e', 0]]],    [[0], [0], [2], [2]]],
    ['zero among others',  [[['f', 0], ['f', 3], ['f', 0]]],                    [[0, 3, 3]]],
    ['one big hit',        [[['g', 2 ** 40 + 3]], [['g', 1]]],                  [[2 ** 40 + 3], [2 ** 40 + 4]]],
    ['across 2^30',        [[['h', 2 ** 30 - 1]], [['h', 1]], [['h', 1]]],      [[2 ** 30 - 1], [2 ** 30], [2 ** 30 + 1]]],
    ['across 2^32',        [[['i', 2 ** 32 - 1]], [['i', 1], ['i', 1]]],        [[2 ** 32 - 1], [2 ** 32, 2 ** 32 + 1]]],
    ['up to the end',      [[['j', COUNT_MAX - 1]], [['j', 1]]],                [[COUNT_MAX - 1], [COUNT_MAX]]],
    ['past the end',       [[['k', COUNT_MAX]], [['k', 7]], [['k', COUNT_MAX]]], [[COUNT_MAX], [COUNT_MAX], [COUNT_MAX]]],
    ['the end in a batch', [[['l', COUNT_MAX], ['l', COUNT_MAX]]],              [[COUNT_MAX, COUNT_MAX]]],
    ['small beside big',   [[['m', 5], ['m', COUNT_MAX], ['m', 1]]],            [[5, COUNT_MAX, COUNT_MAX]]],
    ['an empty key',       [[['', 4]], [['', 1]]],                              [[4], [5]]],
    ['any text',           [[['schön 🦀_', 1], ['schön', 2], ['sch\u0000n', 3]], [['schön 🦀_', 1]]], [[1, 2, 3], [2]]],
  ] as const

  for (const [what, batches, after] of cases) {
    test(what, async () => {
      for (let i = 0; i < batches.length; i++) {
        const hits = batches[i].map(([key, count]): [string, number] => [key, count])
        expect(await add(...hits)).toEqual(after[i])
      }
    })
  }

  test('an empty batch is answered', async () => {
    const batch = new Batch()
    await new Promise((resolve) => store().add(batch, NOW_SEC, resolve))
    expect(batch.membersCount).toBe(0)
  })

  test('a full batch', async () => {
    const hits = Array.from({ length: 4_096 }, (_, i): [string, number] => [`full_${i}`, i])
    expect(await add(...hits)).toEqual(hits.map(([, count]) => count))
  })

  test('many batches at once are added in the order they came', async () => {
    const answers = await Promise.all(Array.from({ length: 60 }, () => add(['order', 1], ['order', 1])))
    expect(answers.flat()).toEqual(Array.from({ length: 120 }, (_, i) => i + 1))
  })
})
