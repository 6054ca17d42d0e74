/** Circuit breakers as operators see them: one log line per change, `/stats`, `/metrics`, `?verbose`; and callers do not wait. */
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { type MemcachedServer, startMemcached } from '../helpers/memcached.ts'
import { pauseMemcached, pauseRedis } from '../helpers/pause.ts'
import { freePort } from '../helpers/ports.ts'
import { startRedis } from '../helpers/redis.ts'
import { type RunningService, startService } from '../helpers/service.ts'

const RULES = `
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 1000000 } }
  - { key: path, rate_limit: { unit: day, requests_per_unit: 1000000 }, on_store_error: allow }
`

async function start(env: Record<string, string>): Promise<RunningService> {
  return startService({ rules: { 'shop.yaml': RULES }, env: { DEGRADED_HEADER: 'true', ...env } })
}

function connectAll(service: RunningService, count: number): GrpcClient[] {
  const clients = Array.from({ length: count }, () => new GrpcClient(service.address('gRPC')))
  onTestFinished(() => {
    for (const client of clients) client.close()
  })
  return clients
}

/** `counted`, the policy that answered, or the error. */
async function ask(client: GrpcClient, key = 'user'): Promise<string> {
  try {
    const { responseHeadersToAdd } = await client.ask(question('shop', { [key]: 'x' }))
    return responseHeadersToAdd[0]?.value ?? 'counted'
  } catch (error) {
    return (error as { details: string }).details
  }
}

const countLines = (service: RunningService, text: string) => service.log.split(text).length - 1
const verbose = async (service: RunningService) => (await fetch(`${service.http}/healthcheck?verbose`)).text()

test('Redis goes away and comes back, with two workers', async () => {
  let redis = await startRedis()
  onTestFinished(() => redis.stop())
  const metricsPort = await freePort()
  const service = await start({
    REDIS_URL: redis.address,
    REDIS_OPERATION_TIMEOUT: '60s', // a busy machine must not open a breaker
    WORKERS: '2',
    DISABLE_STATS: 'false',
    USE_STATSD: 'false',
    USE_PROMETHEUS: 'true',
    PROMETHEUS_ADDR: `127.0.0.1:${metricsPort}`,
  })
  const clients = connectAll(service, 12)
  const name = `127_0_0_1_${redis.port}`
  const gauge = async () => (await service.stats())[`sluice.store.breaker_open.__node=${name}`]
  const askEach = (key?: string) => Promise.all(clients.map((client) => ask(client, key)))
  expect(new Set(await askEach())).toEqual(new Set(['counted']))
  expect(await gauge()).toBe(0)
  await redis.stop()
  await eventually(async () => {
    await askEach()
    expect(await gauge()).toBe(2)
  })
  expect(new Set(await askEach('path'))).toEqual(new Set(['allow']))
  const opened = `the circuit breaker is open for redis, node ${redis.address}: 5 trips in a row failed, the last with: `
  await service.logged(opened)
  expect(countLines(service, 'the circuit breaker is open for')).toBe(1)
  expect(await verbose(service)).toMatch(
    /^redis: failing since .*; nodes whose circuit breaker is open in any worker: 1$/m,
  )
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  expect(metrics).toContain(`sluice_store_breaker_open{node="${name}"} 2`)
  expect(metrics).toContain(`sluice_store_breaker_opened{node="${name}"} 2`)

  redis = await startRedis({ port: redis.port })
  await eventually(async () => expect(new Set(await askEach())).toEqual(new Set(['counted'])))
  await service.logged(`the circuit breaker is closed again for redis, node ${redis.address} after `)
  await eventually(async () => expect(await gauge()).toBe(0))
  await eventually(async () => expect(await verbose(service)).toMatch(/^redis: ok$/m))
  // One line per change, not one per worker: they alternate. A Redis that is slow to start may have opened it once more.
  const changes = [...service.log.matchAll(/the circuit breaker is (open|closed again) for/g)].map(
    ([, state]) => state,
  )
  expect(changes.length).toBeLessThanOrEqual(4)
  expect(changes).toEqual(changes.map((_, i) => (i % 2 === 0 ? 'open' : 'closed again')))
  expect(changes.at(-1)).toBe('closed again')
})

test('Redis is stopped: after the calls in flight nobody waits', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await start({
    REDIS_URL: redis.address,
    REDIS_OPERATION_TIMEOUT: '300ms',
    STORE_BREAKER_FAILURES: '1',
  })
  const [client] = connectAll(service, 1)
  await eventually(async () => expect(await ask(client)).toBe('counted'))
  const paused = await pauseRedis(redis)
  expect(await ask(client)).toContain('no reply within 300ms')
  expect(await ask(client)).toContain('the circuit breaker is open')
  await service.logged('the last with: no reply within 300ms')
  paused.resume()
  await eventually(async () => expect(await ask(client)).toBe('counted'))
  await service.logged('the circuit breaker is closed again')
})

test('memcached is killed, started again, stopped and continued', async () => {
  let memcached: MemcachedServer = await startMemcached()
  onTestFinished(() => memcached.stop())
  const service = await start({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address })
  const [client] = connectAll(service, 1)
  const name = `sluice.store.breaker_open.__node=127_0_0_1_${memcached.port}`
  await eventually(async () => expect(await ask(client)).toBe('counted'))
  await memcached.stop()
  await eventually(async () => expect(await ask(client)).toContain('the circuit breaker is open'))
  expect(await ask(client, 'path')).toBe('allow')
  await service.logged(`the circuit breaker is open for memcached, node ${memcached.address}: `)
  expect((await service.stats())[name]).toBe(1)
  await eventually(async () =>
    expect(await verbose(service)).toMatch(
      /^memcached: failing since .*; nodes whose circuit breaker is open in any worker: 1$/m,
    ),
  )
  memcached = await startMemcached({ port: memcached.port })
  await eventually(async () => expect(await ask(client)).toBe('counted'))
  await service.logged('the circuit breaker is closed again for memcached')
  const paused = await pauseMemcached(memcached)
  await eventually(async () => expect(await ask(client)).toContain('the circuit breaker is open'))
  paused.resume()
  await eventually(async () => expect(await ask(client)).toBe('counted'))
  await eventually(async () => expect((await service.stats())[name]).toBe(0))
})

test('STORE_BREAKER_FAILURES=0: never opens', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await start({ REDIS_URL: redis.address, STORE_BREAKER_FAILURES: '0' })
  const [client] = connectAll(service, 1)
  await redis.stop()
  await eventually(async () => expect(await ask(client)).toContain('no connection'))
  for (let i = 0; i < 30; i++) expect(await ask(client)).toContain('no connection')
  expect(service.log).not.toContain('circuit breaker')
})
