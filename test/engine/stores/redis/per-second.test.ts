/** A second instance for limits per second (spec 3.2): two real servers, each with its own counters and failures. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import type { InstanceHealth } from '../../../../engine/stores/store-health.ts'
import { type RedisServer, startRedis } from '../../../helpers/redis.ts'
import { startTcpProxy, type TcpProxy } from '../../../helpers/tcp-proxy.ts'
import {
  addAll,
  addStopping,
  createRedisOptions,
  EXPIRY_SEC,
  type Hits,
  type StopRequest,
} from '../store-harness.ts'

const NOW_SEC = 1_790_000_000
const TIMEOUT_MS = 200

let main: RedisServer
let second: RedisServer
let proxies: TcpProxy[] // of main, of second
let store: RedisStore
let reports: InstanceHealth[][]
let log: string[]

beforeEach(async () => {
  ;[main, second] = await Promise.all([startRedis(), startRedis()])
  proxies = await Promise.all([main, second].map(({ port }) => startTcpProxy(port)))
  reports = []
  log = []
  const [url, perSecondUrl] = proxies.map(({ port }) => `127.0.0.1:${port}`)
  const options = { operationTimeoutMs: TIMEOUT_MS }
  store = new RedisStore(
    { ...createRedisOptions(url, options), perSecond: createRedisOptions(perSecondUrl, options) },
    {
      log: (level, message) => log.push(`${level} ${message}`),
      onHealth: (instances) => reports.push([...instances]),
    },
  )
  await store.connect()
})
afterEach(async () => {
  await store.close()
  await Promise.all([...proxies, main, second].map((one) => one.stop()))
})

const isPerSecond = (key: string) => key.startsWith('s')
const add = (...hits: Hits[]) => addAll(store, hits, NOW_SEC, isPerSecond)
const stop = (...requests: StopRequest[]) => addStopping(store, requests, NOW_SEC, isPerSecond)
const values = async (server: RedisServer) =>
  Object.fromEntries(Object.entries(await server.contents()).map(([key, { value }]) => [key, value]))

/** How many INCRBY the server has received, refused ones included. */
async function incrbyCalls(server: RedisServer): Promise<number> {
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
  expect(
    await addAll(
      store,
      [
        ['same', 1],
        ['same', 5],
        ['same', 1],
        ['same', 5],
      ],
      NOW_SEC,
      either,
    ),
  ).toEqual([1, 5, 2, 10])
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
  await vi.waitFor(() => expect(reports.at(-1)).toEqual(health(true, false)), { timeout: 5_000 })
  await proxies[1].accept()
  await vi.waitFor(() => expect(reports.at(-1)).toEqual(health(true, true)), { timeout: 5_000 })
})

test('an instance that fails its calls is reported as failing until a call succeeds', async () => {
  const working = () => reports.at(-1)!.map((each) => each.working)
  await second.run('CONFIG', 'SET', 'maxmemory', '1')
  expect(await add(['m', 1], ['s', 1])).toEqual([1, expect.stringContaining('OOM')])
  await vi.waitFor(() => expect(working()).toEqual(['ok', 'failing']), { timeout: 5_000 })
  expect(reports.at(-1)!.map(({ isConnected }) => isConnected)).toEqual([true, true])
  await second.run('CONFIG', 'SET', 'maxmemory', '0')
  expect(await add(['m', 1])).toEqual([2]) // no information about the second
  expect(await add(['s', 1])).toEqual([1])
  await vi.waitFor(() => expect(working()).toEqual(['ok', 'ok']), { timeout: 5_000 })
})

test('recovery is reported without traffic, and the check ends then', async () => {
  const working = () => reports.at(-1)!.map((each) => each.working)
  await second.run('CONFIG', 'SET', 'maxmemory', '1')
  expect(await add(['s', 2])).toEqual([expect.stringContaining('OOM')])
  await vi.waitFor(() => expect(working()).toEqual(['ok', 'failing']), { timeout: 5_000 })
  await vi.waitFor(async () => expect(await incrbyCalls(second)).toBeGreaterThan(2), { timeout: 10_000 }) // it still fails
  await second.run('CONFIG', 'SET', 'maxmemory', '0')
  await vi.waitFor(() => expect(working()).toEqual(['ok', 'ok']), { timeout: 10_000 })
  expect(await second.contents()).toEqual({ s: { value: '0', ttlSec: EXPIRY_SEC } }) // repeated, without its hits
  expect(await incrbyCalls(main)).toBe(0)

  await main.run('CONFIG', 'SET', 'maxmemory', '1')
  const before = await incrbyCalls(second)
  await add(['m', 1])
  await vi.waitFor(async () => expect(await incrbyCalls(main)).toBeGreaterThan(3), { timeout: 10_000 })
  expect(await incrbyCalls(second)).toBe(before)
})

test('4.2: the same for stopIncrementWhenOverLimit batches over both instances', async () => {
  const working = () => reports.at(-1)!.map((each) => each.working)
  for (const server of [main, second]) await server.run('CONFIG', 'SET', 'maxmemory', '1')
  await stop([
    ['m', 1, 5],
    ['s', 1, 5],
  ])
  await vi.waitFor(() => expect(working()).toEqual(['failing', 'failing']), { timeout: 5_000 })
  await second.run('CONFIG', 'SET', 'maxmemory', '0')
  await vi.waitFor(() => expect(working()).toEqual(['failing', 'ok']), { timeout: 10_000 })
  await main.run('CONFIG', 'SET', 'maxmemory', '0')
  await vi.waitFor(() => expect(working()).toEqual(['ok', 'ok']), { timeout: 10_000 })
  expect([await values(main), await values(second)]).toEqual([{ m: '0' }, { s: '0' }])
})

test('WRONGTYPE of one counter is not a failure of Redis', async () => {
  await main.run('LPUSH', 'm', 'x')
  expect(await add(['m', 1])).toEqual([expect.stringContaining('WRONGTYPE')])
  await second.run('CONFIG', 'SET', 'maxmemory', '1')
  await add(['s', 1]) // the next report; it would hold the first
  await vi.waitFor(() => expect(reports.at(-1)!.map((each) => each.working)).toEqual(['ok', 'failing']), {
    timeout: 5_000,
  })
})

test('12#37: an error of one instance fails only its slots; the other stays incremented', async () => {
  await proxies[1].refuse()
  await vi.waitFor(() => expect(store.isConnected).toBe(false))
  const error = expect.stringContaining(`redis 127.0.0.1:${proxies[1].port}: no connection`)
  expect(await add(['m', 1], ['s', 1])).toEqual([1, error])
  expect(await add(['m', 1])).toEqual([2])
  expect(await values(main)).toEqual({ m: '2' })
  expect(store.hasCapacity).toBe(true)
})

test('Q37: both in parallel: a slow one delays no call beyond its timeout', async () => {
  proxies[0].stall()
  const startMs = performance.now()
  const late = `redis 127.0.0.1:${proxies[0].port}: no reply within ${TIMEOUT_MS}ms; the hits may have been counted`
  expect(await add(['m', 1], ['s', 1])).toEqual([late, 1])
  expect(await add(['s', 1])).toEqual([2])
  expect(performance.now() - startMs).toBeLessThan(3 * TIMEOUT_MS)
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
  await vi.waitFor(() => expect(store.isConnected).toBe(false))
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

test('12#43: close resolves when both are closed, also if one is gone and the other silent', async () => {
  await proxies[0].stop()
  proxies[1].stall()
  await store.close()
  expect(await add(['m', 1], ['s', 1])).toEqual([
    expect.stringContaining('closing'),
    expect.stringContaining('closing'),
  ])
})
