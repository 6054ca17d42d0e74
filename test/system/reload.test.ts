/** What a new configuration leaves as it was, and when it comes into force (spec 8.4, 8.5). */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, startService } from '../helpers/service.ts'
import { startSharedService } from '../helpers/shared.ts'
import { startTcpProxy } from '../helpers/tcp-proxy.ts'

const LOADED = 'Successfully loaded new configuration'
const rule = (key: string, limit: number) =>
  `domain: shop\ndescriptors: [{ key: ${key}, rate_limit: { unit: year, requests_per_unit: ${limit} } }]\n`
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

const countLoads = (service: RunningService) => service.log.split(LOADED).length - 1

/** Resolves when these rules are in force. */
async function change(service: RunningService, rules: string): Promise<void> {
  const loads = countLoads(service)
  writeFileSync(join(service.rulesDirectory, 'shop.yaml'), rules)
  await eventually(() => expect(countLoads(service)).toBeGreaterThan(loads))
}

let service: RunningService
beforeAll(async () => {
  service = await startSharedService({
    rules: { 'shop.yaml': rule('user', 3) },
    env: { LOG_LEVEL: 'info', LOCAL_CACHE_SIZE_IN_BYTES: '1000000' },
  })
})

test('8.5: counters and statistics survive a reload, also those of a removed rule', async () => {
  const hits = async () => (await service.stats())['ratelimit.service.rate_limit.shop.user.total_hits']
  for (let i = 0; i < 2; i++) expect((await postJson(service, USER)).status).toBe(200)
  await change(service, rule('user', 2))
  expect((await postJson(service, USER)).status).toBe(429) // the third hit
  await change(service, rule('plan', 2))
  expect((await postJson(service, USER)).status).toBe(200) // no limit
  expect(await hits()).toBe(3)
  await change(service, rule('user', 2))
  expect((await postJson(service, USER)).status).toBe(429)
  expect(await hits()).toBe(4)
})

test('8.4#9: rules that are rewritten without a pause come into force', async () => {
  const loads = countLoads(service)
  const path = join(service.rulesDirectory, 'shop.yaml')
  const writing = setInterval(() => writeFileSync(path, rule('user', 5)), 20) // the service waits at most 5 s for a pause
  onTestFinished(() => clearInterval(writing))
  await eventually(() => expect(countLoads(service)).toBeGreaterThan(loads))
})

test('8.5: a running request keeps the rules it began with', async () => {
  const redis = await startRedis()
  const proxy = await startTcpProxy(redis.port)
  onTestFinished(async () => {
    await proxy.stop()
    await redis.stop()
  })
  const slow = await startService({
    rules: { 'shop.yaml': rule('user', 3) },
    env: { REDIS_URL: `127.0.0.1:${proxy.port}`, REDIS_OPERATION_TIMEOUT: '60s', LOG_LEVEL: 'info' },
  })
  const limit = (text: string) => JSON.parse(text).statuses[0].currentLimit.requestsPerUnit
  proxy.stall()
  const running = postJson(slow, USER)
  await eventually(async () => {
    expect((await slow.stats())['ratelimit.service.rate_limit.shop.user.total_hits']).toBe(1)
  })
  await change(slow, rule('user', 7))
  proxy.resume()
  expect(limit((await running).text)).toBe(3)
  expect(limit((await postJson(slow, USER)).text)).toBe(7)
})
