/** The whole service on sentinels, a cluster, two instances and TLS: what callers and operators see. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { makeCertificates } from '../helpers/certificates.ts'
import { type RedisServerOptions, startRedis } from '../helpers/redis.ts'
import { startCluster } from '../helpers/redis-cluster.ts'
import { startSentinel } from '../helpers/redis-sentinel.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'

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
const SERVING_AGAIN_MS_MAX = 2_000

const ask = (service: RunningService, ...keys: string[]) =>
  postJson(service, { domain: 'shop', descriptors: keys.map((key) => ({ entries: [{ key, value: 'x' }] })) })

async function redis(options: RedisServerOptions = {}) {
  const server = await startRedis(options)
  onTestFinished(() => server.stop())
  return server
}

/** Sums of the counters by the key they begin with, in one or several servers. */
async function counts(...servers: { contents(): Promise<Record<string, { value: string }>> }[]) {
  const sums: Record<string, number> = {}
  for (const server of servers) {
    for (const [key, { value }] of Object.entries(await server.contents())) {
      const [, name] = key.split('_')
      sums[name] = (sums[name] ?? 0) + Number(value)
    }
  }
  return sums
}

test('9.1: sentinels: after a fail-over under load the service serves again within 2 s of the switch', async () => {
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
  for (let i = 0; i < 20; i++) expect((await ask(service, 'user')).status).toBe(200)
  const old = await set.master()
  await old.run('WAIT', 1, 1_000)
  await old.stop()
  await vi.waitFor(async () => expect((await fetch(`${service.http}/healthcheck`)).status).toBe(500))
  await set.switchedFrom(old)
  const startMs = performance.now()
  for (let good = 0; good < 20; ) {
    // both workers, so many times in a row
    good = (await ask(service, 'user')).status === 200 ? good + 1 : 0
    await sleep(5)
  }
  expect(performance.now() - startMs).toBeLessThan(SERVING_AGAIN_MS_MAX)
  await vi.waitFor(async () => expect((await fetch(`${service.http}/healthcheck`)).status).toBe(200))
  const { user } = await counts(await set.master())
  expect(user).toBeGreaterThanOrEqual(40)
})

test('9.4, 4.2, A.3: a cluster and STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT', async () => {
  const cluster = await startCluster()
  onTestFinished(() => cluster.stop())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_TYPE: 'CLUSTER', REDIS_URL: cluster.url, STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' },
  })
  await askTable(service, () => counts(cluster))
})

test('4.2, A.3: STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT with a single Redis, by its unix socket', async () => {
  const server = await redis()
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: {
      REDIS_URL: server.path,
      REDIS_SOCKET_TYPE: 'unix',
      STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true',
    },
  })
  await askTable(service, () => counts(server))
})

async function askTable(
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
    const { statuses } = JSON.parse((await ask(service, 'a', 'b')).text)
    const said = statuses.map(
      ({ code, limitRemaining = 0 }: { code: string; limitRemaining?: number }) =>
        `${code} ${limitRemaining}`,
    )
    expect([...said, await contents()]).toEqual([a, b, redisHolds])
  }
  const stats = await service.stats()
  const of = (rule: string, name: string) => stats[`ratelimit.service.rate_limit.shop.${rule}.${name}`]
  expect(['total_hits', 'within_limit', 'near_limit', 'over_limit'].map((name) => of('a', name))).toEqual([
    4, 2, 1, 2,
  ])
  expect(['total_hits', 'within_limit'].map((name) => of('b', name))).toEqual([4, 4])
}

test('3.2, 8.2: keys per second land in the second instance, and health needs both', async () => {
  const [main, second] = [await redis(), await redis({ password: 'pw', args: ['--requirepass', 'pw'] })]
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
  for (let i = 0; i < 3; i++) expect((await ask(service, 'user', 'burst')).status).toBe(200)
  expect([await counts(main), await counts(second)]).toEqual([{ user: 3 }, { burst: 3 }])
  await second.stop()
  await vi.waitFor(async () => expect((await fetch(`${service.http}/healthcheck`)).status).toBe(500))
  expect((await ask(service, 'user', 'burst')).status).toBe(400)
  expect((await ask(service, 'user')).status).toBe(200)
  expect(await counts(main)).toEqual({ user: 5 }) // Q37
})

test('9.2: TLS with a client certificate; the second instance shares the files and has its own switch', async () => {
  const files = await makeCertificates('DNS:localhost')
  onTestFinished(() => files.remove())
  const main = await redis({ tls: files, args: ['--tls-auth-clients', 'yes'] })
  const second = await redis()
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
  expect((await ask(service, 'user', 'burst')).status).toBe(200)
  expect([await counts(main), await counts(second)]).toEqual([{ user: 1 }, { burst: 1 }])
})

// biome-ignore format: the columns are the specification
const refused = [
  [{ REDIS_TYPE: 'ring' },                                        'Unrecognized redis type ring'],
  [{ REDIS_TYPE: 'sentinel', REDIS_URL: 'mymaster' },             'Expected master name and a list of urls for the sentinels, in the format: <redis master name>,<sentinel1>,...,<sentineln>'],
  [{ REDIS_URL: 'a:1', REDIS_CLUSTER_PIPELINE_PARALLELISM: '-1' }, 'redis cluster pipeline parallelism must be >= 0'],
  [{ REDIS_URL: 'a:1', REDIS_TLS: 'true', REDIS_TLS_CACERT: '/no/such.pem' }, 'REDIS_TLS_CACERT: failed to read file: /no/such.pem'],
] as const

for (const [env, text] of refused) {
  test(`9.1, 9.2, 9.4: ${JSON.stringify(env)} ends the start with exit code 2`, async () => {
    const { code, log } = await spawnService({ rules: { 'shop.yaml': RULES }, env }).exited
    expect(log).toContain(text)
    expect(code).toBe(2)
  })
}

test('9.5: sentinels and clusters that are not there yet are waited for, and shown masked', async () => {
  for (const [REDIS_TYPE, url] of [
    ['sentinel', 'mymaster,redis://:secret@127.0.0.1:1'],
    ['cluster', 'redis://:secret@127.0.0.1:1,127.0.0.1:2'],
  ]) {
    const service = spawnService({
      rules: { 'shop.yaml': RULES },
      env: {
        REDIS_TYPE,
        REDIS_URL: url,
        REDIS_STARTUP_INITIAL_INTERVAL: '50ms',
        REDIS_STARTUP_MAX_ELAPSED_TIME: '100ms',
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
  }
})
