/**
 * Quirks of envoyproxy/ratelimit (spec section 12) that show only in a whole service. Rows that a single module
 * decides are tested with that module; docs/differences.md has all of them.
 */
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { freePort } from '../helpers/ports.ts'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
import { startSharedService } from '../helpers/shared.ts'

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

let service: RunningService
beforeAll(async () => {
  service = await startSharedService({
    rules: { 'shop.yaml': RULES },
    env: { LOG_FORMAT: 'json', LOG_LEVEL: 'info', RESPONSE_DYNAMIC_METADATA: 'true' },
  })
})

test('12#15: every line obeys LOG_FORMAT, the first one too', () => {
  const lines = service.log.trimEnd().split('\n')
  expect(lines.length).toBeGreaterThan(3)
  for (const line of lines) expect(Object.keys(JSON.parse(line))).toEqual(['@message', '@timestamp', 'level'])
})

test('12#15: every line obeys LOG_LEVEL, the first one too', async () => {
  const port = await freePort()
  const silent = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { LOG_LEVEL: 'error', PORT: String(port) },
  })
  onTestFinished(async () => void (await silent.stop('SIGKILL')))
  await eventually(async () => expect((await fetch(`http://127.0.0.1:${port}/healthcheck`)).ok).toBe(true))
  const { code, log } = await silent.stop()
  expect({ code, log }).toEqual({ code: 0, log: '' })
})

test('8.3#5 12#17: a signal while the first rules load ends the process', async () => {
  // flow maps with quoted keys are beyond the fast path of plain YAML, so this takes seconds to parse
  const nodes = Array.from({ length: 60_000 }, (_, i) => {
    return `  - { "key": k, "value": v${i}, "rate_limit": { unit: day, requests_per_unit: 1 } }`
  })
  const loading = spawnService({
    rules: { 'large.yaml': `domain: large\ndescriptors:\n${nodes.join('\n')}\n` },
    env: { LOG_LEVEL: 'info' },
  })
  onTestFinished(async () => void (await loading.stop('SIGKILL')))
  await loading.logged('Waiting for initial ratelimit config update event')
  const { code, log } = await loading.stop()
  expect(code).toBe(0)
  expect(log).not.toContain('Successfully loaded') // it did not wait for the load to end
  expect(log).not.toContain('Listening')
})

test('12#23: credentials of Redis appear in no log line', async () => {
  const redis = await startRedis({ args: ['--requirepass', 'sesame'], password: 'sesame' })
  onTestFinished(() => redis.stop())
  const connected = await startService({
    rules: { 'shop.yaml': RULES },
    env: { REDIS_URL: `redis://default:sesame@127.0.0.1:${redis.port}`, LOG_LEVEL: 'debug' },
  })
  expect((await postJson(connected, createRequest('user', 'alice'))).status).toBe(200)
  await redis.stop()
  await connected.logged('is disconnected')
  const { log } = await connected.stop()
  expect(log).toContain('redis://*****@127.0.0.1')
  expect(log).not.toContain('sesame')
})

test('12#8: metadata of a rule survives detailed_metric and value_to_metric', async () => {
  const { text } = await postJson(service, createRequest('route', 'api'))
  expect(JSON.parse(text).dynamicMetadata).toEqual({
    descriptors: [{ entries: ['route=api'] }],
    domain: 'shop',
    metadata: { team: 'x' },
  })
})

test('12#12: /stats prints every counter as `name: value`, sorted', async () => {
  for (let i = 0; i < 4; i++) await postJson(service, createRequest('user', 'alice'))
  const text = await (await fetch(`${service.debug}/stats`)).text()
  expect(text).toContain('ratelimit.service.rate_limit.shop.user.over_limit: 1\n')
  expect(text).toContain('ratelimit.service.rate_limit.shop.user.total_hits: 4\n')
  const lines = text.trimEnd().split('\n')
  expect(lines).toEqual([...lines].sort())
  for (const line of lines) expect(line).toMatch(/^\S+: \d+$/)
})

function createRequest(key: string, value: string) {
  return { domain: 'shop', descriptors: [{ entries: [{ key, value }] }] }
}
