/** The whole service with sentinels, a cluster, two instances and TLS: what callers and operators see. */
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificates } from '../helpers/certificates.ts'
import { eventually } from '../helpers/eventually.ts'
import { type RedisServerOptions, startRedis } from '../helpers/redis.ts'
import { startCluster } from '../helpers/redis-cluster.ts'
import { startSentinel } from '../helpers/redis-sentinel.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100000 }
  - key: burst
    rate_limit: { unit: second, requests_per_unit: 100000 }
  - key: a
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: b
    rate_limit: { unit: year, requests_per_unit: 5 }
`
const RECOVERY_MS_MAX = size({ small: null, full: 2_000 }) // after a fail-over

const post = (service: RunningService, ...keys: string[]) =>
  postJson(service, { domain: 'shop', descriptors: keys.map((key) => ({ entries: [{ key, value: 'x' }] })) })

async function startTestRedis(options: RedisServerOptions = {}) {
  const server = await startRedis(options)
  onTestFinished(() => server.stop())
  return server
}

async function waitForHealth(service: RunningService, status: number): Promise<void> {
  await eventually(async () => expect((await fetch(`${service.http}/healthcheck`)).status).toBe(status))
}

/** Sums of the counters by the key of their first entry, in one or several servers. */
async function sumByKey(...servers: { contents(): Promise<Record<string, { value: string }>> }[]) {
  const sums: Record<string, number> = {}
  for (const server of servers) {
    for (const [key, { value }] of Object.entries(await server.contents())) {
      const [, name] = key.split('_')
      sums[name] = (sums[name] ?? 0) + Number(value)
    }
  }
  return sums
}

test('9.1: sentinels: after a fail-over the service serves again, at full size within 2 s of the switch', async () => {
  const set = await startSentinel()
  onTestFinished(() => set.stop())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: {
      REDIS_TYPE: 'Sentinel',
      REDIS_URL: set.url,
      WORKERS: '2',
      REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
    },
  })
  for (let i = 0; i < 20; i++) expect((await post(service, 'user')).status).toBe(200)
  const old = await set.master()
  await old.run('WAIT', 1, 1_000)
  await old.stop()
  await waitForHealth(service, 500)
  await set.switchedFrom(old)
  const startMs = performance.now()
  let successes = 0 // in a row, so that both workers have had some
  await eventually(async () => {
    successes = (await post(service, 'user')).status === 200 ? successes + 1 : 0
    expect(successes).toBe(20)
  })
  if (RECOVERY_MS_MAX !== null) expect(performance.now() - startMs).toBeLessThan(RECOVERY_MS_MAX)
  await waitForHealth(service, 200)
  const { user } = await sumByKey(await set.master())
  expect(user).toBeGreaterThanOrEqual(40)
})

test('9.4, 4.2, A.3: a cluster and STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT', async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_TYPE: 'CLUSTER', REDIS_URL: cluster.url, STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' },
  })
  await checkStopIncrement(service, () => sumByKey(cluster))
})

test('4.2, A.3: STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT with a single Redis, by its unix socket', async () => {
  const server = await startTestRedis()
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: {
      REDIS_URL: server.path,
      REDIS_SOCKET_TYPE: 'unix',
      STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true',
    },
  })
  await checkStopIncrement(service, () => sumByKey(server))
})

async function checkStopIncrement(
  service: RunningService,
  contents: () => Promise<Record<string, number>>,
): Promise<void> {
  // biome-ignore format: the columns are the specification
  const table = [
    // a               b                Redis
    ['OK 1',           'OK 4',          { a: 1, b: 1 }],
    ['OK 0',           'OK 3',          { a: 2, b: 2 }],
    ['OVER_LIMIT 0',   'OK 3',          { a: 3, b: 2 }],
    ['OVER_LIMIT 0',   'OK 3',          { a: 4, b: 2 }],
  ] as const
  for (const [a, b, redisHolds] of table) {
    const { statuses } = JSON.parse((await post(service, 'a', 'b')).text)
    const texts = statuses.map(
      ({ code, limitRemaining = 0 }: { code: string; limitRemaining?: number }) =>
        `${code} ${limitRemaining}`,
    )
    expect([...texts, await contents()]).toEqual([a, b, redisHolds])
  }
  const stats = await service.stats()
  const read = (rule: string, names: string[]) =>
    names.map((name) => stats[`ratelimit.service.rate_limit.shop.${rule}.${name}`])
  expect(read('a', ['total_hits', 'within_limit', 'near_limit', 'over_limit'])).toEqual([4, 2, 1, 2])
  expect(read('b', ['total_hits', 'within_limit'])).toEqual([4, 4])
}

test('3.2, 8.2: keys per second are in the second instance, and health needs both', async () => {
  const [main, second] = [
    await startTestRedis(),
    await startTestRedis({ password: 'pw', args: ['--requirepass', 'pw'] }),
  ]
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: {
      REDIS_URL: main.address,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_URL: second.address,
      REDIS_PERSECOND_AUTH: 'pw',
      REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
    },
  })
  for (let i = 0; i < 3; i++) expect((await post(service, 'user', 'burst')).status).toBe(200)
  expect([await sumByKey(main), await sumByKey(second)]).toEqual([{ user: 3 }, { burst: 3 }])
  await second.stop()
  await waitForHealth(service, 500)
  expect((await post(service, 'user', 'burst')).status).toBe(400)
  expect((await post(service, 'user')).status).toBe(200)
  expect(await sumByKey(main)).toEqual({ user: 5 }) // Q37
})

test('9.2: TLS with a client certificate; the second instance shares the files and has its own switch', async () => {
  const files = await makeCertificates('DNS:localhost')
  onTestFinished(() => files.remove())
  const main = await startTestRedis({ tls: files, args: ['--tls-auth-clients', 'yes'] })
  const second = await startTestRedis()
  const env = {
    REDIS_URL: `localhost:${main.port}`,
    REDIS_TLS: 'true',
    REDIS_TLS_CACERT: files.ca,
    REDIS_TLS_CLIENT_CERT: files.cert,
    REDIS_TLS_CLIENT_KEY: files.key,
    REDIS_PERSECOND: 'true',
    REDIS_PERSECOND_URL: second.address,
  }
  const service = await startService({ rules: { 'shop.yaml': RULES }, env })
  expect((await post(service, 'user', 'burst')).status).toBe(200)
  expect([await sumByKey(main), await sumByKey(second)]).toEqual([{ user: 1 }, { burst: 1 }])
})

// biome-ignore format: the columns are the specification
const refused = [
  [{ REDIS_TYPE: 'ring' },                                        'Unrecognized redis type ring'],
  [{ REDIS_TYPE: 'sentinel', REDIS_URL: 'mymaster' },             'Expected master name and a list of urls for the sentinels, in the format: <redis master name>,<sentinel1>,...,<sentineln>'],
  [{ REDIS_URL: 'a:1', REDIS_CLUSTER_PIPELINE_PARALLELISM: '-1' }, 'redis cluster pipeline parallelism must be >= 0'],
  [{ REDIS_URL: 'a:1', REDIS_TLS: 'true', REDIS_TLS_CACERT: '/no/such.pem' }, 'REDIS_TLS_CACERT: failed to read file: /no/such.pem'],
] as const

test('9.1, 9.2, 9.4: wrong settings end the start with exit code 2', async () => {
  const exits = await Promise.all(
    refused.map(([env]) => spawnService({ rules: { 'shop.yaml': RULES }, env }).exited),
  )
  for (const [i, [env, text]] of refused.entries())
    expect([env, exits[i]]).toEqual([env, { code: 2, signal: null, log: expect.stringContaining(text) }])
})

// biome-ignore format: a table
const absent = [
  ['sentinel', 'mymaster,redis://:secret@127.0.0.1:1'],
  ['cluster',  'redis://:secret@127.0.0.1:1,127.0.0.1:2'],
] as const

test.each(absent)(
  '9.5: the start waits for a %s that is absent; the log masks its password',
  async (type, url) => {
    const service = spawnService({
      rules: { 'shop.yaml': RULES },
      env: {
        REDIS_TYPE: type,
        REDIS_URL: url,
        REDIS_STARTUP_INITIAL_INTERVAL: '50ms',
        REDIS_STARTUP_MAX_ELAPSED_TIME: '3s', // the first try must fail within this time
        REDIS_POOL_ON_EMPTY_BEHAVIOR: 'CREATE',
      },
    })
    const { code, log } = await service.exited
    const masked = url.replace(':secret', '*****')
    expect(log).toContain(`Retrying Redis connection to ${masked} in 50ms`)
    expect(log).toContain(`timed out waiting for Redis connection to ${masked} after `)
    expect(log.split('works as WAIT')).toHaveLength(2)
    expect(log).not.toContain('secret')
    expect(code).toBe(2)
  },
)
