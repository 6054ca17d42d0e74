/** A second instance for limits per second (spec 3.2): two real servers, each with its own counters and failures. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { type RedisServer, startRedis } from '../../../helpers/redis.ts'
import { shortenTimers } from '../../../helpers/shorten-timers.ts'
import { advanceClock, stopClock } from '../../../helpers/stopped-clock.ts'
import { startTcpProxy, type TcpProxy } from '../../../helpers/tcp-proxy.ts'
import {
  addAll,
  addStopping,
  awaitConnected,
  createRedisOptions,
  createRedisStore,
  EXPIRY_TTL_SEC,
  type Hits,
  NOW_SEC,
  type ObservedStore,
  type StopRequest,
} from '../store-harness.ts'

const TIMEOUT_MS = 200
const BATCHES_IDLE_MAX = 1_024 // in flight while an instance has nothing to do
const PERIOD_MS = 1_000 // between health checks, and between reports
const SHORT_PERIOD_MS = 20

let main: RedisServer
let second: RedisServer
let proxies: TcpProxy[] // of main, of second
let store: RedisStore
let reports: ObservedStore['reports']
let log: string[]

beforeAll(async () => {
  ;[main, second] = await Promise.all([startRedis(), startRedis()])
})
afterAll(async () => {
  await Promise.all([main, second].map((server) => server.stop()))
})

beforeEach(async () => {
  shortenTimers(PERIOD_MS, SHORT_PERIOD_MS)
  for (const server of [main, second]) {
    await server.run('CONFIG', 'SET', 'maxmemory', '0')
    await server.run('CONFIG', 'RESETSTAT')
    await server.run('FLUSHALL')
  }
  proxies = await Promise.all([main, second].map(({ port }) => startTcpProxy(port)))
  await connect()
})
afterEach(async () => {
  await store.close()
  await Promise.all(proxies.map((proxy) => proxy.stop()))
})

async function connect(options = {}): Promise<void> {
  const [url, perSecondUrl] = proxies.map(({ port }) => `127.0.0.1:${port}`)
  const perSecond = createRedisOptions(perSecondUrl, options)
  ;({ store, reports, log } = createRedisStore({ ...createRedisOptions(url, options), perSecond }))
  await store.connect()
}

const isPerSecond = (key: string) => key.startsWith('s')
const add = (...hits: Hits[]) => addAll(store, hits, NOW_SEC, isPerSecond)
const stop = (...requests: StopRequest[]) => addStopping(store, requests, NOW_SEC, isPerSecond)
const values = async (server: RedisServer) =>
  Object.fromEntries(Object.entries(await server.contents()).map(([key, { value }]) => [key, value]))

const getWorking = () => reports.at(-1)!.map(({ working }) => working)

/** How many INCRBY the server has received, refused ones included. */
async function countIncrby(server: RedisServer): Promise<number> {
  const text = String(await server.run('INFO', 'commandstats'))
  const [, calls = 0, rejected = 0] = /cmdstat_incrby:calls=(\d+),.*rejected_calls=(\d+)/.exec(text) ?? []
  return Number(calls) + Number(rejected)
}

test('3.2: limits per second are counted in the second instance, all others in the main one', async () => {
  expect(await add(['m', 1], ['s', 2], ['m2', 3], ['s', 1])).toEqual([1, 2, 3, 3])
  expect(await values(main)).toEqual({ m: '1', m2: '3' })
  expect(await values(second)).toEqual({ s: '3' })
})

test('3.2: one batch, one key, two units: each in its own instance (Q20)', async () => {
  let isSecond = false
  const either = () => {
    isSecond = !isSecond
    return isSecond
  }
  // biome-ignore format: one batch
  const hits: Hits[] = [['same', 1], ['same', 5], ['same', 1], ['same', 5]]
  expect(await addAll(store, hits, NOW_SEC, either)).toEqual([1, 5, 2, 10])
  expect([await values(main), await values(second)]).toEqual([{ same: '10' }, { same: '2' }])
})

test('8.2: each instance is reported separately; the one for limits per second is connected first (8.1)', async () => {
  const health = (isMain: boolean, isSecond: boolean) => [
    { name: 'redis', isConnected: isMain, working: isMain ? 'ok' : 'failing' },
    { name: 'redis per second', isConnected: isSecond, working: isSecond ? 'ok' : 'failing' },
  ]
  expect(reports).toEqual([health(true, true)])
  expect(log).toEqual([1, 0].map((i) => `info Redis at 127.0.0.1:${proxies[i].port} is connected`))
  await proxies[1].refuse()
  await eventually(() => expect(reports.at(-1)).toEqual(health(true, false)))
  await proxies[1].accept()
  await eventually(() => expect(reports.at(-1)).toEqual(health(true, true)))
})

test('an instance that fails its calls is reported as failing until a call succeeds', async () => {
  await second.run('CONFIG', 'SET', 'maxmemory', '1')
  expect(await add(['m', 1], ['s', 1])).toEqual([1, expect.stringContaining('OOM')])
  await eventually(() => expect(getWorking()).toEqual(['ok', 'failing']))
  expect(reports.at(-1)!.map(({ isConnected }) => isConnected)).toEqual([true, true])
  await second.run('CONFIG', 'SET', 'maxmemory', '0')
  expect(await add(['m', 1])).toEqual([2]) // no information about the second
  expect(await add(['s', 1])).toEqual([1])
  await eventually(() => expect(getWorking()).toEqual(['ok', 'ok']))
})

test('a recovery is reported without traffic, and the check ends with it', async () => {
  await second.run('CONFIG', 'SET', 'maxmemory', '1')
  expect(await add(['s', 2])).toEqual([expect.stringContaining('OOM')])
  await eventually(() => expect(getWorking()).toEqual(['ok', 'failing']))
  await eventually(async () => expect(await countIncrby(second)).toBeGreaterThan(2)) // it still fails
  await second.run('CONFIG', 'SET', 'maxmemory', '0')
  await eventually(() => expect(getWorking()).toEqual(['ok', 'ok']))
  expect(await second.contents()).toEqual({ s: { value: '0', ttlSec: EXPIRY_TTL_SEC } }) // repeated, without its hits
  expect(await countIncrby(main)).toBe(0)

  await main.run('CONFIG', 'SET', 'maxmemory', '1')
  const before = await countIncrby(second)
  await add(['m', 1])
  await eventually(async () => expect(await countIncrby(main)).toBeGreaterThan(3))
  expect(await countIncrby(second)).toBe(before)
})

test('4.2: also for stopIncrementWhenOverLimit batches over both instances', async () => {
  for (const server of [main, second]) await server.run('CONFIG', 'SET', 'maxmemory', '1')
  await stop([
    ['m', 1, 5],
    ['s', 1, 5],
  ])
  await eventually(() => expect(getWorking()).toEqual(['failing', 'failing']))
  await second.run('CONFIG', 'SET', 'maxmemory', '0')
  await eventually(() => expect(getWorking()).toEqual(['failing', 'ok']))
  await main.run('CONFIG', 'SET', 'maxmemory', '0')
  await eventually(() => expect(getWorking()).toEqual(['ok', 'ok']))
  expect([await values(main), await values(second)]).toEqual([{ m: '0' }, { s: '0' }])
})

test('WRONGTYPE of one counter is not a failure of Redis', async () => {
  await main.run('LPUSH', 'm', 'x')
  expect(await add(['m', 1])).toEqual([expect.stringContaining('WRONGTYPE')])
  await second.run('CONFIG', 'SET', 'maxmemory', '1')
  await add(['s', 1]) // the next report; it would contain the first
  await eventually(() => expect(getWorking()).toEqual(['ok', 'failing']))
})

test('12#37: an error of one instance fails only its slots; the other stays incremented', async () => {
  await proxies[1].refuse()
  await awaitConnected(store, false)
  const error = expect.stringContaining(`redis 127.0.0.1:${proxies[1].port}: no connection`)
  expect(await add(['m', 1], ['s', 1])).toEqual([1, error])
  expect(await add(['m', 1])).toEqual([2])
  expect(await values(main)).toEqual({ m: '2' })
  expect(store.hasCapacity).toBe(true)
})

test('an instance that does not reply keeps no hits from the other one, up to a bound', async () => {
  proxies[0].stall()
  const waiting = Array.from({ length: BATCHES_IDLE_MAX - 1 }, () => add(['m', 1]))
  expect(await add(['s', 1])).toEqual([1])
  waiting.push(add(['m', 1]))
  const parked = add(['s', 1])
  expect(store.hasCapacity, 'beyond the bound').toBe(false)
  proxies[0].resume()
  expect((await Promise.all(waiting)).flat()).toEqual(
    Array.from({ length: BATCHES_IDLE_MAX }, (_, i) => i + 1),
  )
  expect(await parked).toEqual([2])
})

test('Q37: a slow instance delays no call beyond its timeout, and the other works meanwhile', async () => {
  await store.close()
  stopClock()
  await connect({ operationTimeoutMs: TIMEOUT_MS })
  proxies[0].stall()
  const late = `redis 127.0.0.1:${proxies[0].port}: no reply within ${TIMEOUT_MS}ms; the hits may have been counted`
  const pending = add(['m', 1], ['s', 1])
  await eventually(async () =>
    expect([await values(main), await values(second)]).toEqual([{ m: '1' }, { s: '1' }]),
  )
  expect(await add(['s', 1])).toEqual([2])
  await advanceClock(TIMEOUT_MS)
  expect(await pending).toEqual([late, 1])
  expect(await values(main)).toEqual({ m: '1' }) // it was counted, once
})

test('Q37: a reply lost by one instance fails its slots alone', async () => {
  await add(['m', 1], ['s', 1])
  proxies[1].loseNextReply()
  const lost = expect.stringContaining('the hits may have been counted')
  expect(await add(['m', 1], ['s', 1])).toEqual([2, lost])
  expect([await values(main), await values(second)]).toEqual([{ m: '2' }, { s: '2' }])
})

test('4.2, A.3: a stopping request over both instances', async () => {
  const request: StopRequest = [
    ['s', 1, 2],
    ['m', 1, 5],
  ]
  expect(await stop(request, request, request, request)).toEqual([
    [0, 0],
    [1, 1],
    [2, 1],
    [3, 1],
  ])
  expect([await values(main), await values(second)]).toEqual([{ m: '2' }, { s: '4' }])
  expect(await stop(request, [['m', 1, 5]], request)).toEqual([[4, 1], [2], [5, 2]])
  expect([await values(main), await values(second)]).toEqual([{ m: '3' }, { s: '6' }])
})

test('4.2: where one instance is unreachable, a request adds nothing to the other', async () => {
  await proxies[1].refuse()
  await awaitConnected(store, false)
  const error = expect.stringContaining('no connection')
  expect(
    await stop(
      [
        ['m', 1, 5],
        ['s', 1, 5],
      ],
      [
        ['m', 1, 5],
        ['m2', 1, 5],
      ],
    ),
  ).toEqual([
    [error, error],
    [0, 0],
  ])
  expect(await values(main)).toEqual({ m: '1', m2: '1' })
})

test('12#43: close resolves when both are closed, also if one is gone and the other does not reply', async () => {
  await proxies[0].stop()
  proxies[1].stall()
  await store.close()
  expect(await add(['m', 1], ['s', 1])).toEqual([
    expect.stringContaining('closing'),
    expect.stringContaining('closing'),
  ])
})
