/**
 * The quirks of the service we replace (spec section 12) that only show in a whole service. Rows that single modules
 * decide are tested there; docs/differences.md has all of them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startRedis } from '../helpers/redis.ts'
import { postJson, spawnService, startService } from '../helpers/service.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: route
    value_to_metric: true
    metadata: { team: x }
    detailed_metric: true
    rate_limit: { unit: year, requests_per_unit: 3 }
`

test('12#15: every line obeys LOG_LEVEL and LOG_FORMAT, the first one too', async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { LOG_FORMAT: 'json', LOG_LEVEL: 'info', STATS_FLUSH_INTERVAL: '3s' },
  })
  const lines = service.log.trimEnd().split('\n')
  expect(lines.length).toBeGreaterThan(3)
  for (const line of lines) expect(Object.keys(JSON.parse(line))).toEqual(['@message', '@timestamp', 'level'])
  const silent = spawnService({ rules: { 'shop.yaml': RULES }, env: { LOG_LEVEL: 'error' } })
  await sleep(1_500)
  const { code, log } = await silent.stop()
  expect({ code, log }).toEqual({ code: 0, log: '' })
})

test('8.3#5 12#17: a signal while the first rules load ends the process', async () => {
  const nodes = Array.from({ length: 40_000 }, (_, i) => {
    return `  - { key: k, value: v${i}, rate_limit: { unit: day, requests_per_unit: 1 } }`
  })
  const service = spawnService({
    rules: { 'large.yaml': `domain: large\ndescriptors:\n${nodes.join('\n')}\n` }, // seconds of parsing
    env: { LOG_LEVEL: 'info', USE_STATSD: 'true' },
  })
  await sleep(700)
  expect(service.log).not.toContain('Listening')
  const startMs = performance.now()
  expect((await service.stop()).code).toBe(0)
  expect(performance.now() - startMs).toBeLessThan(1_500)
})

test('12#23: credentials of Redis appear in no log line', async () => {
  const redis = await startRedis({ args: ['--requirepass', 'sesame'], password: 'sesame' })
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: `redis://default:sesame@127.0.0.1:${redis.port}`, LOG_LEVEL: 'debug' },
  })
  expect((await postJson(service, ask('user', 'alice'))).status).toBe(200)
  await redis.stop()
  await service.logged('127.0.0.1')
  const { log } = await service.stop()
  expect(log).toContain('redis://*****@127.0.0.1')
  expect(log).not.toContain('sesame')
})

test('12#8: metadata of a rule survives detailed_metric and value_to_metric', async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { RESPONSE_DYNAMIC_METADATA: 'true' },
  })
  const { text } = await postJson(service, ask('route', 'api'))
  expect(JSON.parse(text).dynamicMetadata).toEqual({
    descriptors: [{ entries: ['route=api'] }],
    domain: 'shop',
    metadata: { team: 'x' },
  })
})

test('12#12: /stats prints every counter as `name: value`, sorted', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES } })
  for (let i = 0; i < 4; i++) await postJson(service, ask('user', 'alice'))
  const text = await (await fetch(`${service.debug}/stats`)).text()
  expect(text).toContain('ratelimit.service.rate_limit.shop.user.over_limit: 1\n')
  expect(text).toContain('ratelimit.service.rate_limit.shop.user.total_hits: 4\n')
  const lines = text.trimEnd().split('\n')
  expect(lines).toEqual([...lines].sort())
  for (const line of lines) expect(line).toMatch(/^\S+: \d+$/)
})

function ask(key: string, value: string) {
  return { domain: 'shop', descriptors: [{ entries: [{ key, value }] }] }
}
