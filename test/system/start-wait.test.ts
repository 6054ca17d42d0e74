/** A start while the store is away: STORE_START_WAIT, what operators see, and that all is counted later. */
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { startMemcached } from '../helpers/memcached.ts'
import { freePort } from '../helpers/ports.ts'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'

const RULES = {
  'shop.yaml': `
domain: shop
descriptors:
  - { key: path, rate_limit: { unit: day, requests_per_unit: 1000000 }, on_store_error: allow }
`,
}
const PROMETHEUS = { DISABLE_STATS: 'false', USE_STATSD: 'false', USE_PROMETHEUS: 'true' }

const readHealth = async (service: RunningService) => {
  const response = await fetch(`${service.http}/healthcheck?verbose`)
  return `${response.status} ${await response.text()}`
}

/** Whether the hit was counted: the header of a policy is absent. */
async function ask(service: RunningService): Promise<boolean> {
  const response = await postJson(service, {
    domain: 'shop',
    descriptors: [{ entries: [{ key: 'path', value: 'x' }] }],
  })
  expect(response.status).toBe(200)
  return !response.text.includes('x-ratelimit-degraded')
}

test('with STORE_START_WAIT the ports open without Redis, and its policies answer until it is there', async () => {
  const port = await freePort()
  const service = await startService({
    rules: RULES,
    env: { REDIS_URL: `127.0.0.1:${port}`, STORE_START_WAIT: '10ms', DEGRADED_HEADER: 'true', WORKERS: '2' },
  })
  expect(service.log).toContain('Redis did not respond within 10ms (STORE_START_WAIT): the ports open')
  expect(await ask(service)).toBe(false)
  const node = `__node=127_0_0_1_${port}`
  await eventually(async () => {
    expect(await service.stats()).toMatchObject({
      'sluice.store.waiting': 1,
      [`sluice.store.breaker_open.${node}`]: 2,
      [`sluice.store.breaker_opened.${node}`]: 2,
    })
    expect(await readHealth(service)).toMatch(
      /^200 [\s\S]*^redis: failing since .*, not reached since the start; /m,
    )
  })
  const redis = await startRedis({ port })
  onTestFinished(() => redis.stop())
  await eventually(async () => expect(await ask(service)).toBe(true))
  await eventually(async () => {
    expect((await service.stats())['sluice.store.waiting']).toBe(0)
    expect(await readHealth(service)).toMatch(/^200 [\s\S]*^redis: ok$/m)
  })
})

test('without it Redis is waited for, and only the Prometheus port says so', async () => {
  const [port, metricsPort] = [await freePort(), await freePort()]
  const env = { REDIS_URL: `127.0.0.1:${port}`, PROMETHEUS_ADDR: `127.0.0.1:${metricsPort}`, ...PROMETHEUS }
  const service = spawnService({ rules: RULES, env })
  onTestFinished(async () => {
    await service.stop('SIGKILL')
  })
  const metrics = async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  await eventually(async () => expect(await metrics()).toMatch(/^sluice_store_waiting 1$/m))
  const redis = await startRedis({ port })
  onTestFinished(() => redis.stop())
  await eventually(async () => expect(await metrics()).toMatch(/^sluice_store_waiting 0$/m))
})

test('memcached is never waited for', async () => {
  const port = await freePort()
  const env = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${port}`, DEGRADED_HEADER: 'true' }
  const service = await startService({ rules: RULES, env })
  expect(await ask(service)).toBe(false)
  const memcached = await startMemcached({ port })
  onTestFinished(() => memcached.stop())
  await eventually(async () => expect(await ask(service)).toBe(true))
})
