/** The whole service on a real memcached (spec 3, 4.3, 9.6; section 12 rows 4, 5, 39, 41). */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { type MemcachedServer, startMemcached } from '../helpers/memcached.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
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

let memcached: MemcachedServer
beforeEach(async () => {
  memcached = await startMemcached()
})
afterEach(() => memcached.stop())

function start(env: Record<string, string> = {}): Promise<RunningService> {
  const given = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address, ...env }
  return startService({ rules: { 'shop.yaml': RULES }, env: given })
}

function ask(service: RunningService, ...descriptors: [key: string, value: string][]) {
  const entries = descriptors.map(([key, value]) => ({ entries: [{ key, value }] }))
  return postJson(service, { domain: 'shop', descriptors: entries })
}

async function statuses(service: RunningService, count: number, key: string, value = 'alice') {
  const answers: number[] = []
  for (let i = 0; i < count; i++) answers.push((await ask(service, [key, value])).status)
  return answers
}

function windowStart(lengthSec: number): number {
  return Math.floor(Date.now() / 1000 / lengthSec) * lengthSec
}

test('4.3: two processes share counters, keys and values read as the reference writes them', async () => {
  const [one, two] = await Promise.all([start({ CACHE_KEY_PREFIX: 'p:' }), start({ CACHE_KEY_PREFIX: 'p:' })])
  const key = `p:shop_user_alice_${windowStart(MONTH)}`
  expect(await statuses(one, 2, 'user')).toEqual([200, 200])
  await expect.poll(() => memcached.read(key), { timeout: 5_000 }).toMatchObject({ value: '2' }) // added after the answer
  expect(await statuses(two, 3, 'user')).toEqual([200, 429, 429])
  expect((await one.stop()).code).toBe(0)
  expect((await two.stop()).code).toBe(0)
  const item = await memcached.read(key)
  expect(item?.value).toBe('5') // over-limit requests count, too
  expect(item?.ttlSec).toBeGreaterThan(MONTH - 10)
})

test('4.3#4: equal descriptors of one request come at the same count', async () => {
  const service = await start()
  expect((await ask(service, ['rare', 'a'], ['rare', 'a'])).status).toBe(200) // with Redis the second would be over
  expect((await ask(service, ['rare', 'a'])).status).toBe(429)
})

test('requests that come at once do not pass a limit together', async () => {
  const service = await start()
  const client = new GrpcClient(service.address('gRPC'))
  const answers = await Promise.all(
    Array.from({ length: 40 }, () => client.ask(question('shop', { user: 'alice' }))),
  )
  client.close()
  expect(answers.filter(({ overallCode }) => overallCode === 1)).toHaveLength(3)
})

test('12#4 Q4: a limit per year is enforced', async () => {
  const service = await start()
  expect(await statuses(service, 3, 'rare')).toEqual([200, 429, 429])
  await service.stop()
  const item = await memcached.read(`shop_rare_alice_${windowStart(YEAR)}`)
  expect(item?.ttlSec).toBeGreaterThan(YEAR - 10)
})

test('12#39 Q39: counts above 2^31 are read', async () => {
  await memcached.run(`set shop_big_alice_${windowStart(YEAR)} 0 0 10\r\n4294967294`)
  expect(await statuses(await start(), 2, 'big')).toEqual([200, 429])
})

test('12#5 Q5: healthy with memcached and without', async () => {
  const service = await start()
  const health = async () => (await fetch(`${service.http}/healthcheck`)).status
  expect(await health()).toBe(200)
  await memcached.stop()
  expect((await ask(service, ['user', 'alice'])).status).toBe(400)
  expect(await health()).toBe(200)
})

test('12#41 Q41: empty texts stand for the defaults', async () => {
  const service = await start({
    MEMCACHE_MAX_IDLE_CONNS: '',
    MEMCACHE_SRV_REFRESH: '',
    MEMCACHE_TLS: '',
    MEMCACHE_SRV: '',
  })
  expect(await statuses(service, 1, 'user')).toEqual([200])
})

test('memcached down at the start: the service starts, calls fail, and work as soon as it is there', async () => {
  const { port } = memcached
  await memcached.stop()
  const service = await start()
  await service.logged(`memcached at 127.0.0.1:${port} is not connected: connect ECONNREFUSED`)
  const client = new GrpcClient(service.address('gRPC'))
  await expect(client.ask(question('shop', { user: 'alice' }))).rejects.toMatchObject({
    code: 2,
    details: expect.stringContaining(`memcache 127.0.0.1:${port}: `),
  })
  memcached = await startMemcached({ port })
  await expect
    .poll(() => client.ask(question('shop', { user: 'alice' })).catch(() => null), { timeout: 5_000 })
    .toMatchObject({ statuses: [{ limitRemaining: 2 }] })
  client.close()
})

test('MEMCACHE_ERRORS_AS_ZERO: memcached down means that nobody is limited', async () => {
  const service = await start({ MEMCACHE_ERRORS_AS_ZERO: 'true' })
  await memcached.stop()
  expect(await statuses(service, 5, 'user')).toEqual([200, 200, 200, 200, 200])
  await service.logged('Error multi-getting memcache keys (shop_user_alice_')
  expect((await service.stats())['ratelimit.service.call.should_rate_limit.redis_error']).toBe(0)
})

test('3.4: a key that memcached cannot take fails its request, and no other', async () => {
  const service = await start()
  const client = new GrpcClient(service.address('gRPC'))
  const [bad, long, good] = await Promise.allSettled([
    client.ask(question('shop', { user: 'al ice' })),
    client.ask(question('shop', { user: 'a'.repeat(251) })),
    client.ask(question('shop', { user: 'alice' })), // same turn, same batch
  ])
  client.close()
  const details = 'malformed: key is too long or contains invalid characters'
  expect(bad).toMatchObject({ status: 'rejected', reason: { code: 2, details } })
  expect(long).toMatchObject({ status: 'rejected', reason: { code: 2, details } })
  expect(good).toMatchObject({ status: 'fulfilled', value: { statuses: [{ limitRemaining: 2 }] } })
})

test('4.3: STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT has no effect', async () => {
  const service = await start({ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' })
  expect(await statuses(service, 5, 'user')).toEqual([200, 200, 200, 429, 429])
  await service.stop()
  expect((await memcached.read(`shop_user_alice_${windowStart(MONTH)}`))?.value).toBe('5')
})

test('4.5: what the local cache knows to be over is neither read nor counted', async () => {
  const service = await start({ LOCAL_CACHE_SIZE_IN_BYTES: '1000000' })
  expect(await statuses(service, 6, 'user')).toEqual([200, 200, 200, 429, 429, 429])
  await service.stop()
  expect((await memcached.read(`shop_user_alice_${windowStart(MONTH)}`))?.value).toBe('4')
})

test('7.1: statistics', async () => {
  const service = await start()
  const reaches = (name: string) =>
    expect.poll(() => service.stats(), { timeout: 5_000 }).toHaveProperty([`ratelimit.memcache.${name}`], 1)
  await statuses(service, 1, 'user')
  await reaches('add.__code=success')
  await statuses(service, 1, 'user')
  await reaches('increment.__code=success')
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

test('SIGTERM: hits whose callers were answered still reach memcached', async () => {
  const proxy = await startTcpProxy(memcached.port)
  const service = await start({ MEMCACHE_HOST_PORT: `127.0.0.1:${proxy.port}` })
  await ask(service, ['user', 'warm'])
  const answer = await ask(service, ['user', 'alice'])
  proxy.stall() // its first hit is perhaps still on its way: `incr` was not found, `add` comes next
  const stopped = service.stop()
  setTimeout(() => proxy.resume(), 100)
  expect((await stopped).code).toBe(0)
  expect(answer.status).toBe(200)
  expect((await memcached.read(`shop_user_alice_${windowStart(MONTH)}`))?.value).toBe('1')
  await proxy.stop()
})

// biome-ignore format: the columns are the specification
const wrongSettings = [
  [{ MEMCACHE_HOST_PORT: 'a:1', MEMCACHE_SRV: '_m._tcp.a' }, 'Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set'],
  [{ MEMCACHE_HOST_PORT: '', MEMCACHE_SRV: 'a:1' },          'Unable to fetch servers from SRV: could not parse a:1 to SRV parts'],
  [{ MEMCACHE_HOST_PORT: 'a' },                              'it is not host:port. Write'],
  [{ MEMCACHE_TLS: 'true', MEMCACHE_TLS_CACERT: '/none' },   'MEMCACHE_TLS_CACERT: failed to read file: /none: ENOENT'],
] as const

for (const [env, message] of wrongSettings) {
  test(`9.6: ${JSON.stringify(env)} ends the start with exit code 2`, async () => {
    const given = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address, ...env }
    const { code, log } = await spawnService({ rules: { 'shop.yaml': RULES }, env: given }).exited
    expect([code, log]).toEqual([2, expect.stringContaining(message)])
  })
}
