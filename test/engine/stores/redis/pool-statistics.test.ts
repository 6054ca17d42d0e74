/** Statistics about the connections to Redis (7.1). */
import { expect, test } from 'vitest'
import { Stats } from '../../../../engine/stats/stats.ts'
import { Totals } from '../../../../engine/stats/totals.ts'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { createRedisOptions, useProxiedRedis } from '../store-harness.ts'

const proxied = useProxiedRedis()

test('7.1: connections are counted per Redis, restored ones included', async () => {
  const { redis, proxy, address } = proxied
  const stats = new Stats()
  const totals = new Totals()
  const readMetrics = (pool: string) => {
    totals.merge(stats.takeDeltas(), 'this')
    const all = new Map(totals.sorted())
    return ['cx_active', 'cx_total', 'cx_local_close'].map(
      (name) => all.get(`ratelimit.${pool}.${name}`) ?? 0,
    )
  }
  const options = createRedisOptions(address, {
    perSecond: createRedisOptions(redis.address),
  })
  const counted = new RedisStore(options, { log: () => {}, stats })
  await counted.connect()
  expect(readMetrics('redis_pool')).toEqual([1, 1, 0])
  await proxy.cut()
  await eventually(() => expect(readMetrics('redis_pool')).toEqual([1, 2, 1]))
  expect(readMetrics('redis_per_second_pool')).toEqual([1, 1, 0])
  await counted.close()
  expect(readMetrics('redis_pool')).toEqual([0, 2, 2])
  expect(readMetrics('redis_per_second_pool')).toEqual([0, 1, 1])
})
