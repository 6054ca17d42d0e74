/** The whole service with one Redis: keys, shared counters, lost replies, and a Redis that is absent at the start. */
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { freePort } from '../helpers/ports.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
import { startSharedRedis, startSharedService } from '../helpers/shared.ts'
import { startTcpProxy } from '../helpers/tcp-proxy.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: path
    value: "/api/*"
    share_threshold: true
    descriptors:
      - key: method
        rate_limit: { unit: month, requests_per_unit: 9 }
`
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

let redis: RedisServer
let shared: RunningService
beforeAll(async () => {
  redis = await startSharedRedis()
  shared = await startSharedService({ rules: { 'shop.yaml': RULES }, env: { REDIS_URL: redis.address } })
})
beforeEach(async () => {
  await redis.run('FLUSHALL')
})

function windowStart(lengthSec: number): number {
  return Math.floor(Date.now() / 1000 / lengthSec) * lengthSec
}

test('two processes share counters through Redis', async () => {
  const second = await startService({ rules: { 'shop.yaml': RULES }, env: { REDIS_URL: redis.address } })
  const statuses: number[] = []
  for (const service of [shared, second, shared, second])
    statuses.push((await postJson(service, USER)).status)
  expect(statuses).toEqual([200, 200, 200, 429])
})

test('3.1: keys in Redis are exactly those of envoyproxy/ratelimit', async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: redis.address, CACHE_KEY_PREFIX: 'prefix:', EXPIRATION_JITTER_MAX_SECONDS: '0' },
  })
  await postJson(service, USER)
  await postJson(service, { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: '' }] }] })
  const client = new GrpcClient(service.address('gRPC'))
  await client.ask(question('shop', { path: '/api/v1', method: 'GET' }, 4))
  client.close()
  const YEAR = 31_536_000
  const MONTH = 2_592_000
  const contents = await redis.contents()
  // name, value, time to live without jitter
  const keys = [
    [`prefix:shop_user_alice_${windowStart(YEAR)}`, '1', YEAR],
    [`prefix:shop_user__${windowStart(YEAR)}`, '1', YEAR],
    [`prefix:shop_path_/api/*_method_GET_${windowStart(MONTH)}`, '4', MONTH],
  ] as const
  expect(Object.keys(contents).sort()).toEqual(keys.map(([key]) => key).sort())
  for (const [key, value, ttlSec] of keys) {
    expect(contents[key].value).toBe(value)
    expect(contents[key].ttlSec).toBeLessThanOrEqual(ttlSec)
    expect(contents[key].ttlSec).toBeGreaterThan(ttlSec - 600) // seconds pass on a busy machine
  }
})

test('5.4#4 12#24: a reply lost on the way is an error and counts once', async () => {
  const proxy = await startTcpProxy(redis.port)
  onTestFinished(() => proxy.stop())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: `127.0.0.1:${proxy.port}` },
  })
  proxy.loseNextReply()
  expect(await postJson(service, USER)).toEqual({ status: 400, text: 'Bad Request\n' })
  await service.logged('is connected again')
  const key = `shop_user_alice_${windowStart(31_536_000)}`
  expect((await redis.contents())[key].value).toBe('1')
  expect((await service.stats())['ratelimit.service.call.should_rate_limit.redis_error']).toBe(1)
  expect((await postJson(service, USER)).status).toBe(200)
})

test('a key that cannot be added fails only its own request', async () => {
  await redis.run('RPUSH', `shop_user_bob_${windowStart(31_536_000)}`, 'not a number')
  const client = new GrpcClient(shared.address('gRPC'))
  const [bob, alice] = await Promise.allSettled([
    client.ask(question('shop', { user: 'bob' })),
    client.ask(question('shop', { user: 'alice' })), // same turn, same batch
  ])
  client.close()
  expect(bob).toMatchObject({
    status: 'rejected',
    reason: { code: 2, details: expect.stringContaining('WRONGTYPE') },
  })
  expect(alice).toMatchObject({ status: 'fulfilled', value: { statuses: [{ limitRemaining: 2 }] } })
})

test('9.5: Redis absent at the start: one line per try, no port, and the service starts once it is there', async () => {
  const port = await freePort()
  const service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: `127.0.0.1:${port}`, REDIS_STARTUP_INITIAL_INTERVAL: '100ms' },
  })
  onTestFinished(async () => void (await service.stop('SIGKILL')))
  await service.logged(`Retrying Redis connection to 127.0.0.1:${port} in 100ms`)
  expect(service.log).not.toContain('Listening')
  const late = await startRedis({ port })
  onTestFinished(() => late.stop())
  await service.logged("Listening for HTTP on '")
  expect((await postJson(service, USER)).status).toBe(200)
})

test('9.5: Redis absent for REDIS_STARTUP_MAX_ELAPSED_TIME ends the start with exit code 2', async () => {
  const address = `127.0.0.1:${await freePort()}`
  const service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: {
      REDIS_URL: address,
      REDIS_STARTUP_INITIAL_INTERVAL: '50ms',
      REDIS_STARTUP_MAX_ELAPSED_TIME: '200ms',
    },
  })
  const { code, log } = await service.exited
  expect(code).toBe(2)
  expect(log).toContain(`timed out waiting for Redis connection to ${address} after `)
})

test('8.3#5: SIGTERM while waiting for Redis ends the process', async () => {
  const service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: `127.0.0.1:${await freePort()}` },
  })
  await service.logged('Retrying Redis connection')
  const { code, log } = await service.stop()
  expect(log).toContain('context cancelled while waiting for Redis connection')
  expect(code).toBe(2)
})
