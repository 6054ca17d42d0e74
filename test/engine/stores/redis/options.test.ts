/** Settings as options of the Redis store (spec 9.1 to 9.3), and warnings about settings that work differently here. */
import { expect, test } from 'vitest'
import { parseSettings } from '../../../../engine/settings/parse.ts'
import { redisOptions, redisWarnings } from '../../../../engine/stores/redis/redis-store.ts'

const parseRedisOptions = (env: Record<string, string>) => redisOptions(parseSettings(env).settings)
const getWarnings = (env: Record<string, string>) => redisWarnings(parseSettings(env).settings)

test('each instance gets its own settings', () => {
  const createSettings = (prefix: string, n: number) => ({
    [`${prefix}_URL`]: `host:${n}`,
    [`${prefix}_TYPE`]: n === 1 ? 'Sentinel' : 'CLUSTER',
    [`${prefix}_AUTH`]: `auth${n}`,
    [`${prefix}_SENTINEL_AUTH`]: `sentinel${n}`,
    [`${prefix}_TIMEOUT`]: `${n}s`,
    [`${prefix}_OPERATION_TIMEOUT`]: `${n}ms`,
    [`${prefix}_TLS`]: n === 2 ? 'true' : 'false',
    [`${prefix}_POOL_ON_EMPTY_BEHAVIOR`]: n === 1 ? 'error' : 'wait',
    [`${prefix}_POOL_ON_EMPTY_WAIT_DURATION`]: `${n}0ms`,
  })
  const env = {
    ...createSettings('REDIS', 1),
    ...createSettings('REDIS_PERSECOND', 2),
    REDIS_PERSECOND: 'true',
    REDIS_TLS_CACERT: 'ca',
    REDIS_TLS_CLIENT_CERT: 'cert',
    REDIS_TLS_CLIENT_KEY: 'key',
    REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'true',
    REDIS_STARTUP_MAX_INTERVAL: '5s',
    STORE_BREAKER_FAILURES: '7',
    STORE_BREAKER_SHARE: '0.25',
    STORE_BREAKER_WINDOW: '3s',
    STORE_BREAKER_LATENCY: '50ms',
    STORE_BREAKER_SILENCE: '40ms',
    STORE_BREAKER_PROBE_INTERVAL: '100ms',
    STORE_BREAKER_SUCCESSES: '3',
  }
  const startup = { initialMs: 1_000, maxMs: 5_000, maxElapsedMs: 0 }
  const breaker = {
    failuresInRow: 7,
    share: 0.25,
    windowMs: 3_000,
    latencyMs: 50,
    silenceMs: 40,
    probeIntervalMs: 100,
    successes: 3,
  }
  const { perSecond, ...main } = parseRedisOptions(env)
  expect(main).toEqual({
    variable: 'REDIS_URL',
    type: 'sentinel',
    url: 'host:1',
    socketType: 'tcp',
    auth: 'auth1',
    sentinelAuth: 'sentinel1',
    tls: null,
    timeoutMs: 1_000,
    operationTimeoutMs: 1,
    startWaitMs: null,
    busyPollMs: 0.04,
    coalesceDelayMs: 0,
    breaker,
    emptyWaitMs: 10,
    startup,
  })
  expect(perSecond).toEqual({
    variable: 'REDIS_PERSECOND_URL',
    type: 'cluster',
    url: 'host:2',
    socketType: 'tcp',
    auth: 'auth2',
    sentinelAuth: 'sentinel2',
    tls: { prefix: 'REDIS_TLS', caCert: 'ca', clientCert: 'cert', clientKey: 'key', skipsHostname: true }, // the files are shared
    timeoutMs: 2_000,
    operationTimeoutMs: 2,
    startWaitMs: null,
    busyPollMs: 0.04,
    coalesceDelayMs: 0,
    breaker,
    startup,
  })
})

test('9.3: timeouts are bounded', () => {
  const { timeoutMs, operationTimeoutMs } = parseRedisOptions({
    REDIS_TIMEOUT: '0',
    REDIS_OPERATION_TIMEOUT: '1000h',
  })
  expect([timeoutMs, operationTimeoutMs]).toEqual([10_000, 2 ** 31 - 1])
})

test('blocking the event loop to coalesce replies is off unless a delay is set', () => {
  expect(parseRedisOptions({}).coalesceDelayMs).toBe(0)
  expect(parseRedisOptions({ REDIS_REPLY_COALESCE_DELAY: '20us' }).coalesceDelayMs).toBe(0.02)
})

test('3.2: without REDIS_PERSECOND there is one instance', () => {
  expect(parseRedisOptions({ REDIS_PERSECOND_URL: 'host:2' }).perSecond).toBeNull()
})

test('12#30 9.3: values that mean something else here are one warning for each instance in use', () => {
  const warning = (prefix: string) =>
    `${prefix}_POOL_ON_EMPTY_BEHAVIOR=CREATE works as WAIT: each worker has one connection per Redis node.`
  const both = { REDIS_POOL_ON_EMPTY_BEHAVIOR: 'Create', REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR: 'CREATE' }
  expect(getWarnings(both)).toEqual([warning('REDIS')])
  expect(getWarnings({ ...both, REDIS_PERSECOND: 'true' })).toEqual([
    warning('REDIS'),
    warning('REDIS_PERSECOND'),
  ])
})
