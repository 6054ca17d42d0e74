/** Connecting to Redis at start-up (spec 9.2, 9.5): credentials, retries, log lines. */
import { afterEach, expect, test } from 'vitest'
import { ConfigurationError } from '../../../../engine/runtime/errors.ts'
import type { RedisOptions } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { freePort } from '../../../helpers/ports.ts'
import { type RedisServer, startRedis } from '../../../helpers/redis.ts'
import { startTcpProxy } from '../../../helpers/tcp-proxy.ts'
import { addAll, createRedisOptions, createRedisStore } from '../store-harness.ts'

let redis: RedisServer | null = null
afterEach(async () => {
  await redis?.stop()
  redis = null
})

let log: string[]

async function connectTo(url: string, options: Partial<RedisOptions> = {}, signal?: AbortSignal) {
  const observed = createRedisStore(createRedisOptions(url, options), signal)
  const { store } = observed
  log = observed.log
  await store.connect()
  const [after] = await addAll(store, [['a', 1]], 0)
  await store.close()
  return after
}

test('each failed attempt is logged, with the delay and without secrets; then it succeeds', async () => {
  const port = await freePort()
  const connecting = connectTo(`redis://:secret@127.0.0.1:${port}`, {
    startup: { initialMs: 150, maxMs: 200, maxElapsedMs: 60_000 },
  })
  await eventually(() => expect(log).not.toEqual([])) // one attempt has failed
  redis = await startRedis({ port, password: 'secret', args: ['--requirepass', 'secret'] })
  expect(await connecting).toBe(1)
  const first = `warning Retrying Redis connection to redis://*****@127.0.0.1:${port} in 150ms (elapsed: `
  expect(log[0].slice(0, first.length)).toBe(first)
  expect(log[0]).toMatch(/\(elapsed: \d+m?s\): connect ECONNREFUSED 127\.0\.0\.1:\d+$/)
  expect(log.at(-1)).toBe(`info Redis at redis://*****@127.0.0.1:${port} is connected`)
  expect(log.join()).not.toContain('secret')
})

test('gives up after the maximum elapsed time', async () => {
  const url = `127.0.0.1:${await freePort()}`
  const startup = { initialMs: 20, maxMs: 20, maxElapsedMs: 50 }
  const error = await connectTo(url, { startup }).catch((failure) => failure)
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(error.message).toMatch(
    /^timed out waiting for Redis connection to 127\.0\.0\.1:\d+ after \d+ms: connect ECONNREFUSED \S+ \[REDIS_UNREACHABLE\]$/,
  )
  expect(log.length).toBeGreaterThan(0)
})

test('a signal cancels the wait', async () => {
  const url = `127.0.0.1:${await freePort()}`
  const startup = { initialMs: 60_000, maxMs: 60_000, maxElapsedMs: 0 }
  const abort = new AbortController()
  const connecting = expect(connectTo(url, { startup }, abort.signal)).rejects.toThrow(
    `context cancelled while waiting for Redis connection to ${url}: context canceled`,
  )
  await eventually(() => expect(log).toHaveLength(1)) // it waits for the next attempt
  abort.abort()
  await connecting
})

test('a signal cancels an attempt that hangs', async () => {
  redis = await startRedis()
  const proxy = await startTcpProxy(redis.port)
  proxy.stall()
  const abort = new AbortController()
  const options = { timeoutMs: 60_000 }
  const connecting = expect(connectTo(`127.0.0.1:${proxy.port}`, options, abort.signal)).rejects.toThrow(
    'context cancelled while waiting',
  )
  await eventually(() => expect(proxy.connectionsCount).toBe(1))
  abort.abort()
  await connecting
  await proxy.stop()
})

// biome-ignore format: the columns are the specification
const logins = [
  // REDIS_AUTH,     URL                              -> works
  ['secret',         (at: string) => at,                                        true],
  [':secret',        (at: string) => at,                                        true],
  ['default:secret', (at: string) => at,                                        true],
  ['bob:b:ob',       (at: string) => at,                                        true],
  ['',               (at: string) => `redis://:secret@${at}`,                   true],
  ['',               (at: string) => `redis://bob:b%3Aob@${at}/3`,              true],
  ['',               (at: string) => `redis://${at}?username=bob&password=b:ob`, true],
  ['secret',         (at: string) => `redis://bob:wrong@${at}`,                 true],
  ['wrong',          (at: string) => `redis://:secret@${at}`,                   false],
  ['',               (at: string) => at,                                        false],
] as const

test('REDIS_AUTH takes precedence over the URL; wrong credentials are retried like any error', async () => {
  redis = await startRedis({ password: 'secret', args: ['--requirepass', 'secret'] })
  await redis.run('ACL', 'SETUSER', 'bob', 'on', '>b:ob', '~*', '+@all')
  const startup = { initialMs: 10, maxMs: 10, maxElapsedMs: 30 }
  for (const [auth, url, isGood] of logins) {
    await redis.run('FLUSHALL')
    const result = await connectTo(url(redis.address), { auth, startup }).catch(
      (error: Error) => error.message,
    )
    if (isGood) expect([auth, result]).toEqual([auth, 1])
    else expect(result).toMatch(/timed out waiting .*(WRONGPASS|NOAUTH)/)
  }
})

test('9.2: a password for a Redis that has none is an error, as with envoyproxy/ratelimit', async () => {
  redis = await startRedis()
  const startup = { initialMs: 10, maxMs: 10, maxElapsedMs: 30 }
  await expect(connectTo(redis.address, { auth: 'secret', startup })).rejects.toThrow(
    /timed out waiting .* without any password configured/,
  )
})

test('a database that does not exist is an error', async () => {
  redis = await startRedis()
  const startup = { initialMs: 10, maxMs: 10, maxElapsedMs: 30 }
  await expect(connectTo(`redis://${redis.address}/99`, { startup })).rejects.toThrow(
    /DB index is out of range/,
  )
})

test('a database is selected, a unix socket works', async () => {
  redis = await startRedis()
  await connectTo(`redis://${redis.address}/3`)
  await redis.run('SELECT', 3)
  expect(await redis.run('GET', 'a')).toBe('1')
  await connectTo(redis.path, { socketType: 'unix' })
  await redis.run('SELECT', 0)
  expect(await redis.run('GET', 'a')).toBe('1')
})

test('an attempt to connect to a silent server ends with the connect timeout', async () => {
  redis = await startRedis()
  const proxy = await startTcpProxy(redis.port)
  proxy.stall()
  const startup = { initialMs: 10, maxMs: 10, maxElapsedMs: 20 }
  await expect(connectTo(`127.0.0.1:${proxy.port}`, { timeoutMs: 50, startup })).rejects.toThrow(
    /timed out waiting .* after \d+ms: no reply/,
  )
  await proxy.stop()
})
