/**
 * Counters in Redis expire: the expiry is sent with the first hit that a connection brings to a counter, and again when the
 * counter has gone. No failure in between leaves a counter without one.
 */
import { expect, test } from 'vitest'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import type { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { advanceClock, stopClock } from '../../../helpers/stopped-clock.ts'
import {
  addAll,
  addBatch,
  addStopping,
  awaitConnected,
  connectRedisStore,
  EXPIRY_SEC,
  EXPIRY_TTL_SEC,
  NOW_SEC,
  type StopRequest,
  useProxiedRedis,
} from '../store-harness.ts'

const TIMEOUT_MS = 100

const proxied = useProxiedRedis()

/** Adds hits to counters that the caller keeps, as the engine does for frequent keys; resolves with the previous counts. */
function addKept(
  store: RedisStore,
  ...hits: [counter: Counter, hits: number][]
): Promise<(number | string)[]> {
  const batch = new Batch()
  for (const [counter, count] of hits) batch.add(counter, count, 0, NOW_SEC + 60, EXPIRY_SEC, false)
  return addBatch(store, batch, NOW_SEC)
}

async function getTtlSec(key: string): Promise<number> {
  return (await proxied.redis.contents())[key].ttlSec
}

test('12#38: the expiry comes with the first hit of a counter and is not renewed', async () => {
  const a = new Counter('a')
  await addKept(proxied.store, [a, 1])
  expect(await proxied.redis.contents()).toEqual({ a: { value: '1', ttlSec: EXPIRY_TTL_SEC } })
  await proxied.redis.run('EXPIRE', 'a', 5_000)
  await addKept(proxied.store, [a, 1], [a, 0])
  await addKept(proxied.store, [a, 0])
  expect(await proxied.redis.contents()).toEqual({ a: { value: '2', ttlSec: expect.closeTo(5_000, -2) } })
})

test('adding 0 hits creates the counter with its expiry', async () => {
  await addAll(proxied.store, [['a', 0]], NOW_SEC)
  expect(await proxied.redis.contents()).toEqual({ a: { value: '0', ttlSec: EXPIRY_TTL_SEC } })
})

test('a counter that Redis has dropped gets its expiry again, with any number of hits', async () => {
  const [a, b, c] = ['a', 'b', 'c'].map((key) => new Counter(key))
  await addKept(proxied.store, [a, 1], [b, 1], [c, 1])
  await proxied.redis.run('FLUSHALL')
  expect(await addKept(proxied.store, [a, 3], [b, 0], [c, 2 ** 60])).toEqual([0, 0, 0])
  const ttlSec = EXPIRY_TTL_SEC
  const value = String(2 ** 60)
  await eventually(async () =>
    expect(await proxied.redis.contents()).toEqual({
      a: { value: '3', ttlSec },
      b: { value: '0', ttlSec },
      c: { value, ttlSec },
    }),
  )
})

test('a connection that breaks between a hit and its expiry leaves no counter without one', async () => {
  const { redis, proxy, store } = proxied
  const a = new Counter('a')
  await addKept(store, [a, 1])
  await redis.run('PERSIST', 'a')
  proxy.loseNextReply()
  await addKept(store, [a, 1])
  await awaitConnected(store)
  expect(await getTtlSec('a')).toBe(-1)
  expect(await addKept(store, [a, 1])).toEqual([2])
  expect(await getTtlSec('a')).toEqual(EXPIRY_TTL_SEC) // a new connection sends it again
})

test('a new connection sends every expiry again: it may be to another server', async () => {
  const { redis, proxy, store } = proxied
  const a = new Counter('a')
  await addKept(store, [a, 1])
  await proxy.refuse()
  await awaitConnected(store, false)
  await redis.run('PERSIST', 'a')
  await proxy.accept()
  await awaitConnected(store)
  expect(await addKept(store, [a, 1])).toEqual([1])
  expect(await getTtlSec('a')).toEqual(EXPIRY_TTL_SEC)
})

test('after a hit without a reply, the next one sends the expiry again', async () => {
  const { redis, proxy, address } = proxied
  stopClock()
  const { store } = await connectRedisStore(address, { operationTimeoutMs: TIMEOUT_MS })
  const a = new Counter('a')
  await addKept(store, [a, 1])
  proxy.stall()
  const pending = addKept(store, [a, 1])
  await advanceClock(TIMEOUT_MS)
  expect(await pending).toEqual([expect.stringContaining('no reply')])
  await eventually(async () => expect(await redis.run('GET', 'a')).toBe('2'))
  await redis.run('PERSIST', 'a')
  proxy.resume()
  await eventually(async () => expect(await addKept(store, [a, 1])).toEqual([2]))
  expect(await getTtlSec('a')).toEqual(EXPIRY_TTL_SEC)
})

test('a user without the right to EXPIRE: every hit is an error', async () => {
  await proxied.redis.run('ACL', 'SETUSER', 'bob', 'on', '>pw', '~*', '+incrby', '+ping')
  const { store } = await connectRedisStore(proxied.redis.address, { auth: 'bob:pw' })
  const a = new Counter('a')
  for (let i = 0; i < 2; i++) {
    const [error] = await addKept(store, [a, 1])
    expect(error).toMatch(/^redis 127\.0\.0\.1:\d+: counter "a": NOPERM .*'?expire'?/)
  }
})

test.each([
  ['as they come', false],
  ['by the script that stops over the limit', true],
])('hits that were counted although EXPIRE failed are reported as unknown: %s', async (_, isStopping) => {
  await proxied.redis.run(
    'ACL',
    'SETUSER',
    'dave',
    'on',
    '>pw',
    '~*',
    '+incrby',
    '+ping',
    '+evalsha',
    '+eval',
    '+get',
  )
  const { store } = await connectRedisStore(proxied.redis.address, { auth: 'dave:pw' })
  const batch = new Batch(isStopping)
  batch.add(new Counter('a'), 1, 9, NOW_SEC + 60, EXPIRY_SEC, false)
  batch.endRequest()
  await addBatch(store, batch, NOW_SEC)
  expect(batch.getError(0)).toMatchObject({
    isUnknown: true,
    message: expect.stringMatching(/NOPERM|can't run/),
  })
  expect(await proxied.redis.run('GET', 'a')).toBe('1')
})

test('the rights of docs/differences.md are enough: incrby, expire; stopping: evalsha, eval, get, ttl as well', async () => {
  await proxied.redis.run('ACL', 'SETUSER', 'carol', 'on', '>pw', '~*', '+ping', '+incrby', '+expire')
  const { store } = await connectRedisStore(proxied.redis.address, { auth: 'carol:pw' })
  expect(await addAll(store, [['a', 1]], NOW_SEC)).toEqual([1])
  await proxied.redis.run('ACL', 'SETUSER', 'carol', '+evalsha', '+eval', '+get', '+ttl')
  const wanted: StopRequest[] = [
    [
      ['a', 1, 9],
      ['b', 0, 9],
    ],
  ]
  expect(await addStopping(store, wanted, NOW_SEC)).toEqual([[1, 0]])
})
