/**
 * Counters in Redis have an end: the expiry goes with the first hit a connection brings to a counter, comes again when the
 * counter has gone, and is missing nowhere, whatever breaks in between.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { type RedisServer, startRedis } from '../../../helpers/redis.ts'
import { startTcpProxy, type TcpProxy } from '../../../helpers/tcp-proxy.ts'
import {
  addAll,
  addBatch,
  addStopping,
  createRedisOptions,
  EXPIRY_SEC,
  type Hits,
  type StopRequest,
} from '../store-harness.ts'

const NOW_SEC = 1_790_000_000
const TIMEOUT_MS = 100

let redis: RedisServer
let proxy: TcpProxy
let store: RedisStore
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

beforeEach(async () => {
  await redis.run('FLUSHALL')
  proxy = await startTcpProxy(redis.port)
  store = storeOf(`127.0.0.1:${proxy.port}`)
  await store.connect()
})
afterEach(async () => {
  await store.close()
  await proxy.stop()
})

function storeOf(url: string, options = {}): RedisStore {
  return new RedisStore(createRedisOptions(url, { operationTimeoutMs: TIMEOUT_MS, ...options }), {
    log: () => {},
  })
}

const add = (...hits: Hits[]) => addAll(store, hits, NOW_SEC)

/** Adds hits of kept counters, like those of hot keys; resolves with the previous counts. */
function addKept(own: RedisStore, ...hits: [counter: Counter, hits: number][]): Promise<(number | string)[]> {
  const batch = new Batch()
  for (const [counter, count] of hits) batch.add(counter, count, 0, NOW_SEC + 60, EXPIRY_SEC, false)
  return addBatch(own, batch, NOW_SEC)
}

const ttlOf = async (key: string) => (await redis.contents())[key].ttlSec

test('12#38: the expiry comes with the first hit of a counter and is not renewed', async () => {
  const a = new Counter('a')
  await addKept(store, [a, 1])
  expect(await redis.contents()).toEqual({ a: { value: '1', ttlSec: EXPIRY_SEC } })
  await redis.run('EXPIRE', 'a', 50)
  await addKept(store, [a, 1], [a, 0])
  await addKept(store, [a, 0])
  expect(await redis.contents()).toEqual({ a: { value: '2', ttlSec: 50 } })
})

test('adding 0 hits creates the counter with its expiry', async () => {
  await add(['a', 0])
  expect(await redis.contents()).toEqual({ a: { value: '0', ttlSec: EXPIRY_SEC } })
})

test('a counter that went out of Redis comes back with its expiry, however it is hit', async () => {
  const [a, b, c] = ['a', 'b', 'c'].map((key) => new Counter(key))
  await addKept(store, [a, 1], [b, 1], [c, 1])
  await redis.run('FLUSHALL')
  expect(await addKept(store, [a, 3], [b, 0], [c, 2 ** 60])).toEqual([0, 0, 0])
  const ttlSec = EXPIRY_SEC
  const value = String(2 ** 60)
  await vi.waitFor(async () =>
    expect(await redis.contents()).toEqual({
      a: { value: '3', ttlSec },
      b: { value: '0', ttlSec },
      c: { value, ttlSec },
    }),
  )
})

test('nobody loses the expiry when the connection breaks between a hit and it', async () => {
  const a = new Counter('a')
  await addKept(store, [a, 1])
  await redis.run('PERSIST', 'a')
  proxy.loseNextReply()
  await addKept(store, [a, 1])
  await vi.waitFor(() => expect(store.isConnected).toBe(true), { timeout: 5_000, interval: 5 })
  expect(await ttlOf('a')).toBe(-1)
  expect(await addKept(store, [a, 1])).toEqual([2])
  expect(await ttlOf('a')).toBe(EXPIRY_SEC) // another connection: it is told anew
})

test('a new connection tells every expiry anew: it may be to another server', async () => {
  const a = new Counter('a')
  await addKept(store, [a, 1])
  proxy.cut()
  await vi.waitFor(() => expect(store.isConnected).toBe(false), { interval: 5 })
  await redis.run('PERSIST', 'a')
  await vi.waitFor(() => expect(store.isConnected).toBe(true), { timeout: 5_000, interval: 5 })
  expect(await addKept(store, [a, 1])).toEqual([1])
  expect(await ttlOf('a')).toBe(EXPIRY_SEC)
})

test('a hit without an answer does not take the expiry for told', async () => {
  const a = new Counter('a')
  await addKept(store, [a, 1])
  proxy.stall()
  await addKept(store, [a, 1])
  await redis.run('PERSIST', 'a')
  proxy.resume()
  await vi.waitFor(async () => expect(await addKept(store, [a, 1])).toEqual([2]))
  expect(await ttlOf('a')).toBe(EXPIRY_SEC)
})

test('a user without the right to EXPIRE: each hit is an error, and so is the next', async () => {
  await redis.run('ACL', 'SETUSER', 'bob', 'on', '>pw', '~*', '+incrby', '+ping')
  const own = storeOf(redis.address, { auth: 'bob:pw' })
  await own.connect()
  const a = new Counter('a')
  for (let i = 0; i < 2; i++) {
    const [error] = await addKept(own, [a, 1])
    expect(error).toMatch(/^redis 127\.0\.0\.1:\d+: counter "a": NOPERM .*'?expire'?/)
  }
  await own.close()
})

test('the rights of docs/differences.md are enough: incrby, expire; stopping: evalsha, eval, get, ttl as well', async () => {
  await redis.run('ACL', 'SETUSER', 'carol', 'on', '>pw', '~*', '+ping', '+incrby', '+expire')
  const own = storeOf(redis.address, { auth: 'carol:pw' })
  await own.connect()
  expect(await addAll(own, [['a', 1]], NOW_SEC)).toEqual([1])
  await redis.run('ACL', 'SETUSER', 'carol', '+evalsha', '+eval', '+get', '+ttl')
  const wanted: StopRequest[] = [
    [
      ['a', 1, 9],
      ['b', 0, 9],
    ],
  ]
  expect(await addStopping(own, wanted, NOW_SEC)).toEqual([[1, 0]])
  await own.close()
})
