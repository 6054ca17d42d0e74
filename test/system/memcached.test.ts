/** The whole service on a real memcached (spec 3, 4.3, 9.6; section 12 rows 4, 5, 39, 41). */
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { type MemcachedServer, startMemcached } from '../helpers/memcached.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
import { startSharedMemcached, startSharedService } from '../helpers/shared.ts'
import { startTcpProxy } from '../helpers/tcp-proxy.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: month, requests_per_unit: 3 }
  - key: rare
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: big
    rate_limit: { unit: year, requests_per_unit: 4294967295 }
`
const YEAR = 31_536_000
const MONTH = 2_592_000

const PREFIX = 'p:'

let memcached: MemcachedServer
let shared: RunningService
beforeAll(async () => {
  memcached = await startSharedMemcached()
  shared = await startSharedService(createOptions({ CACHE_KEY_PREFIX: PREFIX }))
})
beforeEach(async () => {
  await memcached.run('flush_all')
})

function createOptions(env: Record<string, string> = {}) {
  return {
    rules: { 'shop.yaml': RULES },
    env: { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address, ...env },
  }
}

function post(service: RunningService, ...descriptors: [key: string, value: string][]) {
  const entries = descriptors.map(([key, value]) => ({ entries: [{ key, value }] }))
  return postJson(service, { domain: 'shop', descriptors: entries })
}

/** The HTTP statuses of so many calls, one after the other. */
async function postRepeatedly(service: RunningService, count: number, key: string, value = 'alice') {
  const statuses: number[] = []
  for (let i = 0; i < count; i++) statuses.push((await post(service, [key, value])).status)
  return statuses
}

/** Resolves when the item has this value: hits are added after the response. */
async function waitForItem(key: string, value: string): Promise<{ ttlSec: number }> {
  await eventually(async () => expect(await memcached.read(key)).toMatchObject({ value }))
  return (await memcached.read(key))!
}

function windowStart(lengthSec: number): number {
  return Math.floor(Date.now() / 1000 / lengthSec) * lengthSec
}

test('4.3: two processes share counters, keys and values are those of envoyproxy/ratelimit', async () => {
  const second = await startService(createOptions({ CACHE_KEY_PREFIX: PREFIX }))
  const key = `p:shop_user_alice_${windowStart(MONTH)}`
  expect(await postRepeatedly(shared, 2, 'user')).toEqual([200, 200])
  await waitForItem(key, '2')
  expect(await postRepeatedly(second, 3, 'user')).toEqual([200, 429, 429])
  expect((await second.stop()).code).toBe(0)
  const item = await memcached.read(key)
  expect(item?.value).toBe('5') // over-limit requests count, too
  expect(item?.ttlSec).toBeGreaterThan(MONTH - 1_000)
})

test('4.3#4: equal descriptors of one request have the same count', async () => {
  expect((await post(shared, ['rare', 'a'], ['rare', 'a'])).status).toBe(200) // with Redis the second would be over
  expect((await post(shared, ['rare', 'a'])).status).toBe(429)
})

test('simultaneous requests do not exceed a limit together', async () => {
  const client = new GrpcClient(shared.address('gRPC'))
  onTestFinished(() => client.close())
  const calls = Array.from({ length: 40 }, () => client.ask(question('shop', { user: 'many' })))
  const responses = await Promise.all(calls)
  expect(responses.filter(({ overallCode }) => overallCode === 1)).toHaveLength(3)
})

test('12#4 Q4: a limit per year is enforced', async () => {
  expect(await postRepeatedly(shared, 3, 'rare')).toEqual([200, 429, 429])
  const { ttlSec } = await waitForItem(`p:shop_rare_alice_${windowStart(YEAR)}`, '3')
  expect(ttlSec).toBeGreaterThan(YEAR - 1_000)
})

test('12#39 Q39: counts above 2^31 are read', async () => {
  await memcached.run(`set p:shop_big_alice_${windowStart(YEAR)} 0 0 10\r\n4294967294`)
  expect(await postRepeatedly(shared, 2, 'big')).toEqual([200, 429])
})

test('3.4: a key that memcached does not accept fails its request, and no other', async () => {
  const client = new GrpcClient(shared.address('gRPC'))
  onTestFinished(() => client.close())
  const [bad, long, good] = await Promise.allSettled([
    client.ask(question('shop', { user: 'al ice' })),
    client.ask(question('shop', { user: 'a'.repeat(251) })),
    client.ask(question('shop', { user: 'bob' })), // same turn, same batch
  ])
  const details = 'malformed: key is too long or contains invalid characters'
  expect(bad).toMatchObject({ status: 'rejected', reason: { code: 2, details } })
  expect(long).toMatchObject({ status: 'rejected', reason: { code: 2, details } })
  expect(good).toMatchObject({ status: 'fulfilled', value: { statuses: [{ limitRemaining: 2 }] } })
})

test('7.1: statistics', async () => {
  const service = await startService(createOptions())
  const waitForCount = (name: string) =>
    eventually(async () => expect(await service.stats()).toHaveProperty([`ratelimit.memcache.${name}`], 1))
  await postRepeatedly(service, 1, 'user')
  await waitForCount('add.__code=success')
  await postRepeatedly(service, 1, 'user')
  await waitForCount('increment.__code=success')
  const stats = Object.entries(await service.stats())
  expect(Object.fromEntries(stats.filter(([name]) => name.startsWith('ratelimit.memcache.')))).toEqual({
    'ratelimit.memcache.multiget.__code=error': 0,
    'ratelimit.memcache.increment.__code=error': 0,
    'ratelimit.memcache.add.__code=error': 0,
    'ratelimit.memcache.add.__code=not_stored': 0,
    'ratelimit.memcache.multiget.__code=success': 2,
    'ratelimit.memcache.keys_requested': 2,
    'ratelimit.memcache.keys_found': 1,
    'ratelimit.memcache.increment.__code=miss': 1,
    'ratelimit.memcache.increment.__code=success': 1,
    'ratelimit.memcache.add.__code=success': 1,
  })
})

test('4.3 12#41 Q41: STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT has no effect; empty texts stand for the defaults', async () => {
  const empty = { MEMCACHE_MAX_IDLE_CONNS: '', MEMCACHE_SRV_REFRESH: '', MEMCACHE_TLS: '', MEMCACHE_SRV: '' }
  const service = await startService(
    createOptions({ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true', ...empty }),
  )
  expect(await postRepeatedly(service, 5, 'user')).toEqual([200, 200, 200, 429, 429])
  await service.stop()
  expect((await memcached.read(`shop_user_alice_${windowStart(MONTH)}`))?.value).toBe('5')
})

test('4.5: a key that the local cache knows to be over its limit is neither read nor counted', async () => {
  const service = await startService(createOptions({ LOCAL_CACHE_SIZE_IN_BYTES: '1000000' }))
  expect(await postRepeatedly(service, 6, 'user')).toEqual([200, 200, 200, 429, 429, 429])
  await service.stop()
  expect((await memcached.read(`shop_user_alice_${windowStart(MONTH)}`))?.value).toBe('4')
})

test('12#5 Q5: without memcached at the start calls fail, with it they succeed; health is good all the time', async () => {
  const first = await startMemcached()
  const { port, address } = first
  await first.stop()
  const service = await startService(createOptions({ MEMCACHE_HOST_PORT: address }))
  const health = async () => (await fetch(`${service.http}/healthcheck`)).status
  await service.logged(`memcached at ${address} is not connected: connect ECONNREFUSED`)
  expect(await health()).toBe(200)
  const client = new GrpcClient(service.address('gRPC'))
  onTestFinished(() => client.close())
  await expect(client.ask(question('shop', { user: 'alice' }))).rejects.toMatchObject({
    code: 2,
    details: expect.stringContaining(`memcache ${address}: `),
  })
  const second = await startMemcached({ port })
  onTestFinished(() => second.stop())
  await eventually(async () => {
    const { statuses } = await client.ask(question('shop', { user: 'alice' }))
    expect(statuses).toMatchObject([{ limitRemaining: 2 }])
  })
  expect(await health()).toBe(200)
  await second.stop()
  expect((await post(service, ['user', 'alice'])).status).toBe(400)
  expect(await health()).toBe(200)
})

test('MEMCACHE_ERRORS_AS_ZERO: without memcached no request is over its limit', async () => {
  const server = await startMemcached()
  const service = await startService(
    createOptions({ MEMCACHE_HOST_PORT: server.address, MEMCACHE_ERRORS_AS_ZERO: 'true' }),
  )
  await server.stop()
  expect(await postRepeatedly(service, 5, 'user')).toEqual([200, 200, 200, 200, 200])
  await service.logged(`memcached at ${server.address} is not connected: `)
  await service.logged(`Error multi-getting memcache keys at ${server.address}: `)
  expect(service.log, 'keys contain values of callers').not.toContain('alice')
  expect((await service.stats())['ratelimit.service.call.should_rate_limit.redis_error']).toBe(0)
})

test('SIGTERM: hits of calls that have their responses still reach memcached', async () => {
  const proxy = await startTcpProxy(memcached.port)
  onTestFinished(() => proxy.stop())
  const service = await startService(
    createOptions({ MEMCACHE_HOST_PORT: `127.0.0.1:${proxy.port}`, LOG_LEVEL: 'info' }),
  )
  await post(service, ['user', 'warm'])
  const response = await post(service, ['user', 'alice'])
  proxy.stall() // its first hit may still be on its way: `incr` was not found, `add` comes next
  const stopped = service.stop()
  await service.logged('Received signal SIGTERM')
  proxy.resume()
  expect((await stopped).code).toBe(0)
  expect(response.status).toBe(200)
  expect((await memcached.read(`shop_user_alice_${windowStart(MONTH)}`))?.value).toBe('1')
})

// biome-ignore format: the columns are the specification
const wrongSettings = [
  [{ MEMCACHE_HOST_PORT: 'a:1', MEMCACHE_SRV: '_m._tcp.a' }, 'Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set'],
  [{ MEMCACHE_HOST_PORT: '', MEMCACHE_SRV: 'a:1' },          'Unable to fetch servers from SRV: could not parse a:1 to SRV parts'],
  [{ MEMCACHE_HOST_PORT: 'a' },                              'it is not host:port. Write'],
  [{ MEMCACHE_TLS: 'true', MEMCACHE_TLS_CACERT: '/none' },   'MEMCACHE_TLS_CACERT: failed to read file: /none: ENOENT'],
] as const

test('9.6: wrong settings end the start with exit code 2', async () => {
  const exits = await Promise.all(wrongSettings.map(([env]) => spawnService(createOptions(env)).exited))
  for (const [i, [env, message]] of wrongSettings.entries())
    expect([env, exits[i]]).toEqual([env, { code: 2, signal: null, log: expect.stringContaining(message) }])
})
