/** STORE_START_WAIT: a store is used before it has been reached, whatever its kind; then it counts (docs/reliability.md). */
import { expect, onTestFinished, test } from 'vitest'
import { NO_BREAKER } from '../../../../engine/stores/breakers.ts'
import type { RedisOptions } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { freePort } from '../../../helpers/ports.ts'
import { startRedis } from '../../../helpers/redis.ts'
import { startCluster } from '../../../helpers/redis-cluster.ts'
import { startSentinel } from '../../../helpers/redis-sentinel.ts'
import { startTcpProxy } from '../../../helpers/tcp-proxy.ts'
import { addAll, createRedisOptions, createRedisStore } from '../store-harness.ts'

const BREAKER = { ...NO_BREAKER, failuresInRow: 1_000, probeIntervalMs: 10, successes: 2 }

/** A store whose `connect` has resolved without waiting. */
async function openUnreached(url: string, options: Partial<RedisOptions> = {}) {
  const all = { startWaitMs: 0, breaker: BREAKER, ...options }
  const observed = createRedisStore(createRedisOptions(url, all))
  onTestFinished(() => observed.store.close())
  await observed.store.connect()
  return observed
}

const add = async ({ store }: ReturnType<typeof createRedisStore>) => (await addAll(store, [['a', 1]], 0))[0]

test('single: hits fail at once, the breaker is open, and all is counted when Redis is there', async () => {
  const port = await freePort()
  const url = `127.0.0.1:${port}`
  const on = await openUnreached(url)
  const [[health]] = on.reports
  expect(health).toMatchObject({ isConnected: false, working: 'failing', isUnreached: true })
  expect(health.openBreakers).toEqual([
    { node: url, reason: expect.stringContaining('not reached since the start') },
  ])
  expect(await add(on)).toContain('no connection (')
  await eventually(() => expect(on.log).toEqual([expect.stringContaining('Cannot connect to Redis at ')]))
  const redis = await startRedis({ port })
  onTestFinished(() => redis.stop())
  await eventually(async () => expect(await add(on)).toBe(1))
  await eventually(() =>
    expect(on.reports.at(-1)).toEqual([{ name: 'redis', isConnected: true, working: 'ok' }]),
  )
})

test('a Redis that responds within the wait ends it, and no breaker is open', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const on = await openUnreached(redis.address, { startWaitMs: 86_400_000 })
  expect(on.reports).toEqual([[{ name: 'redis', isConnected: true, working: 'ok' }]])
  expect(await add(on)).toBe(1)
})

test('a Redis that accepts connections and never replies is waited for no longer than the wait', async () => {
  const redis = await startRedis()
  const proxy = await startTcpProxy(redis.port)
  onTestFinished(async () => {
    await proxy.stop()
    await redis.stop()
  })
  proxy.stall()
  const on = await openUnreached(`127.0.0.1:${proxy.port}`, { startWaitMs: 20 })
  expect(await add(on)).toContain('no connection (')
  proxy.resume()
  await eventually(async () => expect(await add(on)).toBe(1))
})

test('a signal ends the wait', async () => {
  const abort = new AbortController()
  const options = createRedisOptions(`127.0.0.1:${await freePort()}`, { startWaitMs: 86_400_000 })
  const on = createRedisStore(options, abort.signal)
  const connecting = expect(on.store.connect()).rejects.toThrow('context cancelled')
  await eventually(() => expect(on.log).not.toEqual([]))
  abort.abort()
  await connecting
})

test('the instance for limits per second alone is away: the other counts', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const port = await freePort()
  const perSecond = createRedisOptions(`127.0.0.1:${port}`, { breaker: BREAKER })
  const on = await openUnreached(redis.address, { perSecond, startWaitMs: 20 })
  await eventually(async () => expect(await add(on)).toBe(1))
  const both = () =>
    addAll(
      on.store,
      [
        ['s', 1],
        ['b', 0],
      ],
      0,
      (key) => key === 's',
    )
  expect((await both())[0]).toContain('no connection (')
  const second = await startRedis({ port })
  onTestFinished(() => second.stop())
  await eventually(async () => expect(await both()).toEqual([1, 0]))
})

test('Sentinel: unknown master, then known', async () => {
  const set = await startSentinel()
  onTestFinished(() => set.stop())
  const [, first] = set.url.split(',')
  const proxy = await startTcpProxy(Number(first.split(':').at(-1)))
  onTestFinished(() => proxy.stop())
  proxy.stall()
  const name = set.url.split(',')[0]
  const on = await openUnreached(`${name},127.0.0.1:${proxy.port}`, { type: 'sentinel' })
  expect(await add(on)).toContain('no connection (')
  proxy.resume()
  await eventually(async () => expect(await add(on)).toBe(1))
})

test('Cluster: no owner of slots is known, then all are', async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const proxy = await startTcpProxy(cluster.nodes[0].port)
  onTestFinished(() => proxy.stop())
  proxy.stall()
  const on = await openUnreached(`127.0.0.1:${proxy.port}`, { type: 'cluster' })
  expect(on.reports.at(-1)).toMatchObject([{ isConnected: false, working: 'failing', isUnreached: true }])
  expect(await add(on)).toContain('no node serves hash slot')
  proxy.resume()
  await eventually(async () => expect(await add(on)).toBe(1))
})

test('Cluster: why no owner is known is logged once', async () => {
  const url = `127.0.0.1:${await freePort()}`
  const on = await openUnreached(url, { type: 'cluster' })
  const line = `warning Cannot discover the Redis Cluster at ${url}: `
  await eventually(() => expect(on.log).toEqual([expect.stringContaining(line)]))
})
