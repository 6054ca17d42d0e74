/**
 * The failure contract with real servers: Redis, a cluster and memcached are killed, stopped and started again, and each policy
 * answers as its rule says until they are back.
 */
import { expect, onTestFinished, test } from 'vitest'
import { Code, type RateLimitResponse } from '../../proto/ratelimit.ts'
import { eventually } from '../helpers/eventually.ts'
import { GrpcClient } from '../helpers/grpc.ts'
import { type MemcachedServer, startMemcached } from '../helpers/memcached.ts'
import { pauseMemcached, pauseRedis } from '../helpers/pause.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { startCluster } from '../helpers/redis-cluster.ts'
import { postJson, type RunningService, startService } from '../helpers/service.ts'

const LIMIT = 10
const limit = `rate_limit: { unit: day, requests_per_unit: ${LIMIT} }`
const RULES = `
domain: shop
descriptors:
  - { key: error, ${limit} }
  - { key: allow, ${limit}, on_store_error: allow }
  - { key: deny, ${limit}, on_store_error: deny }
  - { key: local, ${limit}, on_store_error: local, local_share: 50 }
  - { key: second, rate_limit: { unit: second, requests_per_unit: ${LIMIT} }, on_store_error: deny }
`
const SHARE = LIMIT / 2 // of `local`
const POLICIES = ['error', 'allow', 'deny', 'local']

async function start(env: Record<string, string>): Promise<RunningService> {
  const rules = { 'shop.yaml': RULES }
  return startService({ rules, env: { DEGRADED_HEADER: 'true', REDIS_OPERATION_TIMEOUT: '60s', ...env } })
}

function connectTo(service: RunningService): GrpcClient {
  const client = new GrpcClient(service.address('gRPC'))
  onTestFinished(() => client.close())
  return client
}

const getHeader = ({ responseHeadersToAdd }: RateLimitResponse) =>
  responseHeadersToAdd.find(({ key }) => key === 'x-ratelimit-degraded')?.value ?? 'counted'

/** One request with a descriptor per key: `failed`, or its codes, what remains, and its header. */
async function ask(client: GrpcClient, value: string, ...keys: string[]): Promise<string> {
  const descriptors = keys.map((key) => ({ entries: [{ key, value }], limit: null, hitsAddend: null }))
  try {
    const response = await client.ask({ domain: 'shop', descriptors, hitsAddend: 0 })
    const statuses = response.statuses.map(
      ({ code, limitRemaining }) => `${code === Code.Ok ? 'ok' : 'over'} ${limitRemaining}`,
    )
    return `${statuses.join(', ')}; ${getHeader(response)}`
  } catch {
    return 'failed'
  }
}

const askEach = (client: GrpcClient, value: string) =>
  Promise.all(POLICIES.map((policy) => ask(client, value, policy)))

const COUNTED_FIRST = Array.from(POLICIES, () => `ok ${LIMIT - 1}; counted`)

function degradedFirst(): string[] {
  return ['failed', `ok ${LIMIT}; allow`, 'over 0; deny', `ok ${SHARE - 1}; local`]
}

/** Waits until all policies count in the store again. */
function waitUntilCounted(client: GrpcClient, prefix: string): Promise<void> {
  let attempt = 0
  return eventually(async () => expect(await askEach(client, `${prefix}${attempt++}`)).toEqual(COUNTED_FIRST))
}

test('Redis is killed and started again: each policy answers, then all hits are counted', async () => {
  let redis: RedisServer = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await start({ REDIS_URL: redis.address })
  const client = connectTo(service)
  expect(await askEach(client, 'before')).toEqual(COUNTED_FIRST)
  await redis.stop()
  await eventually(async () => expect(await ask(client, 'x', 'error')).toBe('failed'))
  expect(await askEach(client, 'during')).toEqual(degradedFirst())
  expect(await ask(client, 'mix', 'allow', 'local', 'unknown')).toBe(
    `ok ${LIMIT}, ok ${SHARE - 1}, ok 0; local`,
  )
  expect(await ask(client, 'mix', 'allow', 'local', 'error')).toBe('failed')
  const admitted = await Promise.all(Array.from({ length: 20 }, () => ask(client, 'many', 'local')))
  expect(admitted.filter((answer) => answer.startsWith('ok'))).toHaveLength(SHARE)
  const stats = await service.stats()
  const degraded = (policy: string) => stats[`ratelimit.service.rate_limit.shop.${policy}.degraded_${policy}`]
  expect(degraded('allow')).toBe(2)
  expect(degraded('deny')).toBe(1)
  expect(degraded('local')).toBe(22)
  expect(degraded('error')).toBeGreaterThanOrEqual(3)
  redis = await startRedis({ port: redis.port })
  await waitUntilCounted(client, 'after')
})

test('/json answers likewise', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await start({ REDIS_URL: redis.address, RESPONSE_DYNAMIC_METADATA: 'true' })
  await redis.stop()
  const post = (key: string) =>
    postJson(service, { domain: 'shop', descriptors: [{ entries: [{ key, value: '1' }] }] })
  await eventually(async () => expect((await post('error')).status).toBe(400))
  const allowed = await post('allow')
  expect(allowed.status).toBe(200)
  expect(JSON.parse(allowed.text)).toMatchObject({
    responseHeadersToAdd: [{ key: 'x-ratelimit-degraded', value: 'allow' }],
    dynamicMetadata: { degraded: 'allow', descriptors: [{ entries: ['allow=1'], degraded: 'allow' }] },
  })
  expect((await post('deny')).status).toBe(429)
  expect((await post('local')).status).toBe(200)
})

test('Redis is stopped: calls in flight and later ones are answered, and it is used again when it continues', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await start({ REDIS_URL: redis.address, REDIS_OPERATION_TIMEOUT: '500ms' })
  const client = connectTo(service)
  await waitUntilCounted(client, 'before')
  const paused = await pauseRedis(redis)
  expect(await askEach(client, 'during')).toEqual(degradedFirst())
  expect(await ask(client, 'during', 'local')).toBe(`ok ${SHARE - 2}; local`)
  paused.resume()
  await waitUntilCounted(client, 'after')
})

test('local counts are those of the process: two workers share them', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await start({ REDIS_URL: redis.address, WORKERS: '2' })
  const clients = Array.from({ length: 12 }, () => connectTo(service)) // enough for both workers
  await redis.stop()
  await eventually(async () => {
    const answers = await Promise.all(clients.map((client) => ask(client, 'x', 'error')))
    expect(new Set(answers)).toEqual(new Set(['failed']))
  })
  const answers = await Promise.all(clients.map((client) => ask(client, 'shared', 'local')))
  expect(answers.filter((answer) => answer.startsWith('ok'))).toHaveLength(SHARE)
  const stats = await service.stats()
  expect(stats['sluice.worker.0.decisions']).toBeGreaterThan(0)
  expect(stats['sluice.worker.1.decisions']).toBeGreaterThan(0)
})

test('the instance for limits per second fails alone', async () => {
  const [redis, perSecond] = await Promise.all([startRedis(), startRedis()])
  onTestFinished(async () => void (await Promise.all([redis.stop(), perSecond.stop()])))
  const client = connectTo(
    await start({
      REDIS_URL: redis.address,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_URL: perSecond.address,
      REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
    }),
  )
  await perSecond.stop()
  await eventually(async () =>
    expect(await ask(client, 'one', 'allow', 'second')).toMatch(/^ok \d, over 0; deny$/),
  )
  expect(await ask(client, 'two', 'error', 'allow', 'deny', 'local', 'second')).toBe(
    'ok 9, ok 9, ok 9, ok 9, over 0; deny',
  )
})

test.each(['false', 'true'])(
  'a cluster loses one node: only counters of that node are degraded; STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=%s',
  async (stop) => {
    const cluster = await startCluster({ args: ['--cluster-require-full-coverage', 'no'] })
    onTestFinished(() => cluster.stop())
    const service = await start({
      REDIS_URL: cluster.url,
      REDIS_TYPE: 'CLUSTER',
      STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: stop,
    })
    const client = connectTo(service)
    const values = Array.from({ length: 40 }, (_, i) => `v${i}`)
    const askAll = (prefix: string) =>
      Promise.all(values.map((value) => ask(client, `${prefix}${value}`, 'allow', 'local')))
    expect(new Set(await askAll('before'))).toEqual(new Set(['ok 9, ok 9; counted']))
    await cluster.nodes[1].stop()
    await eventually(async () => expect((await askAll('x')).join()).toMatch(/; (allow|local)/))
    const answers = await askAll('during')
    const expected = [
      'ok 9, ok 9; counted',
      `ok ${LIMIT}, ok 9; allow`,
      `ok 9, ok ${SHARE - 1}; local`,
      `ok ${LIMIT}, ok ${SHARE - 1}; local`,
    ]
    expect(expected, 'each counter by its own node').toEqual(expect.arrayContaining(answers))
    expect(answers).toEqual(expect.arrayContaining(expected.slice(0, 3)))
  },
)

test('memcached is killed and started again; one that is stopped', async () => {
  let memcached: MemcachedServer = await startMemcached()
  onTestFinished(() => memcached.stop())
  const service = await start({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address })
  const client = connectTo(service)
  await waitUntilCounted(client, 'before')
  await memcached.stop()
  await eventually(async () => expect(await ask(client, 'x', 'error')).toBe('failed'))
  expect(await askEach(client, 'during')).toEqual(degradedFirst())
  memcached = await startMemcached({ port: memcached.port })
  await waitUntilCounted(client, 'after')
  const paused = await pauseMemcached(memcached)
  expect(await askEach(client, 'paused')).toEqual(degradedFirst())
  paused.resume()
  await waitUntilCounted(client, 'again')
})

test('a key that memcached does not accept is answered by the policy of its rule', async () => {
  const memcached = await startMemcached()
  onTestFinished(() => memcached.stop())
  const service = await start({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address })
  const client = connectTo(service)
  expect(await askEach(client, 'a b')).toEqual(degradedFirst())
})
