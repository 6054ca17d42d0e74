/**
 * One suite over every store, real Redis included: what callers may rely on with any of them.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Batch } from '../../../engine/stores/batch.ts'
import { Counter } from '../../../engine/stores/counter.ts'
import type { CounterStore } from '../../../engine/stores/counter-store.ts'
import { createMemoryTable, MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import { RedisStore } from '../../../engine/stores/redis/redis-store.ts'
import { type RedisServer, startRedis } from '../../helpers/redis.ts'
import { type Cluster, startCluster } from '../../helpers/redis-cluster.ts'
import {
  addAll,
  addBatch,
  addStopping,
  createRedisOptions,
  NOW_SEC,
  type StopRequest,
} from './store-harness.ts'

const COUNT_MAX = Number.MAX_SAFE_INTEGER

let redis: RedisServer
let second: RedisServer
let cluster: Cluster
let stores: Record<string, CounterStore>
beforeAll(async () => {
  ;[redis, second, cluster] = await Promise.all([startRedis(), startRedis(), startCluster()])
  const hooks = { log: () => {} }
  const one = createRedisOptions(redis.address)
  stores = {
    memory: new MemoryStore(createMemoryTable(2 ** 20)),
    redis: new RedisStore(one, hooks),
    'redis cluster': new RedisStore(createRedisOptions(cluster.url, { type: 'cluster' }), hooks),
    'redis and one for limits per second': new RedisStore(
      { ...one, perSecond: createRedisOptions(second.address) },
      hooks,
    ),
  }
  await Promise.all(Object.values(stores).map((store) => store.connect()))
})
afterAll(async () => {
  await Promise.all(Object.values(stores).map((store) => store.close()))
  await Promise.all([redis, second, cluster].map((one) => one.stop()))
})

describe.each<[string, () => CounterStore]>([
  ['memory', () => stores.memory],
  ['redis', () => stores.redis],
  ['redis cluster', () => stores['redis cluster']],
  ['redis and one for limits per second', () => stores['redis and one for limits per second']],
])('%s', (name, store) => {
  const add = (...hits: [key: string, hits: number][]) =>
    addAll(
      store(),
      hits.map(([key, count]) => [`${name}_${key}`, count]),
      NOW_SEC,
      (key) => key.endsWith('d'),
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

  test('an empty batch completes', async () => {
    const batch = new Batch()
    await new Promise((resolve) => store().add(batch, NOW_SEC, resolve))
    expect(batch.membersCount).toBe(0)
  })

  test('a full batch', async () => {
    const hits = Array.from({ length: 4_096 }, (_, i): [string, number] => [`full_${i}`, i])
    expect(await add(...hits)).toEqual(hits.map(([, count]) => count))
  })

  test('concurrent batches are added in order', async () => {
    const counts = await Promise.all(Array.from({ length: 60 }, () => add(['order', 1], ['order', 1])))
    expect(counts.flat()).toEqual(Array.from({ length: 120 }, (_, i) => i + 1))
  })

  /** Spec 4.2. Keys that end in d are per second, where there is a second instance. */
  const stop = (requests: readonly StopRequest[]) =>
    addStopping(
      store(),
      requests.map(
        (request): StopRequest => request.map(([key, hits, limit]) => [`${name}_${key}`, hits, limit]),
      ),
      NOW_SEC,
      (key) => key.endsWith('d'),
    )

  // biome-ignore format: the columns are the specification
  const stopping: [what: string, requests: StopRequest[], befores: number[][]][] = [
    // requests of one batch                                     -> each counter's count before, as it is decided on
    ['A.3',             [[['sa', 1, 2], ['sb', 1, 5]], [['sa', 1, 2], ['sb', 1, 5]], [['sa', 1, 2], ['sb', 1, 5]],
                         [['sa', 1, 2], ['sb', 1, 5]]],                                      [[0, 0], [1, 1], [2, 1], [3, 1]]],
    ['A.3, per second', [[['sd', 1, 2], ['se', 1, 5]], [['sd', 1, 2], ['se', 1, 5]], [['sd', 1, 2], ['se', 1, 5]],
                         [['sd', 1, 2], ['se', 1, 5]]],                                      [[0, 0], [1, 1], [2, 1], [3, 1]]],
    ['all fit',         [[['sf', 3, 9], ['sg', 3, 3]], [['sf', 6, 9]]],                      [[0, 0], [3]]],
    ['one alone',       [[['sh', 3, 2]], [['sh', 1, 2]]],                                    [[0], [3]]], // over, and counted
    ['below zero (Q9)', [[['si', 5, 9], ['sj', 3, 2]], [['si', 5, 9], ['sj', 0, 2]]],        [[-5, 0], [-5, 3]]],
    ['nothing to add',  [[['sk', 0, 1], ['sl', 2, 1]], [['sk', 0, 1], ['sl', 0, 9]]],        [[0, 0], [0, 2]]],
    ['a key twice',     [[['sm', 1, 2], ['sm', 1, 2]], [['sm', 1, 2], ['sn', 1, 2]]],        [[0, 1], [2, -1]]],
  ]

  for (const [what, requests, befores] of stopping) {
    test(`4.2: stopping, ${what}`, async () => expect(await stop(requests)).toEqual(befores))
  }

  test('4.2: stopping, A.3 with one batch after the other', async () => {
    const befores: (number | string)[][] = []
    // biome-ignore format: one request
    for (let i = 0; i < 4; i++) befores.push(...(await stop([[['sp', 1, 2], ['sqd', 1, 5]]])))
    expect(befores).toEqual([
      [0, 0],
      [1, 1],
      [2, 1],
      [3, 1],
    ])
  })
})

/** The reply of a cluster's node that does not have the key. */
function ignoreMoved(error: Error): null {
  if (!error.message.startsWith('MOVED')) throw error
  return null
}

/** Stores with a server: its contents, and the hits it refuses. */
describe.each<[string, () => CounterStore, () => RedisServer[]]>([
  ['redis', () => stores.redis, () => [redis]],
  ['redis cluster', () => stores['redis cluster'], () => cluster.nodes],
])('%s, exact hits', (_name, store, servers) => {
  const MAX = 2n ** 63n - 1n
  const readValue = async (key: string) => {
    const values = await Promise.all(servers().map((server) => server.run('GET', key).catch(ignoreMoved)))
    return values.find((value) => value !== null)
  }

  // biome-ignore format: the columns are the specification
  const cases: [what: string, hits: (number | bigint)[], befores: number[], value: bigint][] = [
    // batch after batch                          -> each count before                 the value at the end
    ['2^53',           [2n ** 53n, 1],               [0, COUNT_MAX],                    2n ** 53n + 1n],
    ['2^53 + 1',       [5, 2n ** 53n + 1n, 1],       [0, 5, COUNT_MAX],                 2n ** 53n + 7n],
    ['2^53 - 1',       [3, COUNT_MAX, 1],            [0, 3, COUNT_MAX],                 2n ** 53n + 3n],
    ['2^62',           [7, 2n ** 62n, 2n ** 62n - 8n], [0, 7, COUNT_MAX],               MAX],
    ['2^63 - 1',       [MAX, 0],                     [0, COUNT_MAX],                    MAX],
    ['overflow',       [2, MAX, 1],                  [0, 1, 2],                         3n], // at least 1 before: over any limit
    ['overflow by one', [MAX, 1],                    [0, COUNT_MAX],                    MAX],
  ]

  for (const [what, hits, befores, value] of cases) {
    test(`2.5: ${what}`, async () => {
      const key = `big ${what}`
      for (let i = 0; i < hits.length; i++) {
        const batch = new Batch()
        batch.add(new Counter(`beside ${what}`), 1, 9, NOW_SEC + 60, 100, false)
        batch.add(new Counter(key), hits[i], 9, NOW_SEC + 60, 100, false)
        expect(await addBatch(store(), batch, NOW_SEC)).toEqual([i, befores[i]])
      }
      expect(await readValue(key)).toBe(String(value))
    })
  }

  test('2.5: hits that sum up beyond 2^53 in one batch', async () => {
    const batch = new Batch()
    for (const hits of [1, 2n ** 60n, 1, COUNT_MAX, 2])
      batch.add(new Counter('big sum'), hits, 9, NOW_SEC + 60, 100, false)
    expect((await addBatch(store(), batch, NOW_SEC)).slice(0, 2)).toEqual([0, 1])
    expect(await readValue('big sum')).toBe(String(2n ** 60n + BigInt(COUNT_MAX) + 4n))
  })

  test('4.2: also with stopIncrementWhenOverLimit', async () => {
    const batch = new Batch(true)
    for (const hits of [2, MAX - 2n]) {
      batch.add(new Counter('big stop'), hits, 9, NOW_SEC + 60, 100, false)
      batch.add(new Counter('small stop'), 1, 9, NOW_SEC + 60, 100, false)
      batch.endRequest()
    }
    expect(await addBatch(store(), batch, NOW_SEC)).toEqual([0, 0, 2, 0])
    expect([await readValue('big stop'), await readValue('small stop')]).toEqual([String(MAX), '1'])
  })
})
