/**
 * What a new configuration leaves as it was (spec 8.5).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, startService } from '../helpers/service.ts'
import { startTcpProxy } from '../helpers/tcp-proxy.ts'

const LOADED = 'Successfully loaded new configuration'
const rule = (key: string, limit: number) =>
  `domain: shop\ndescriptors: [{ key: ${key}, rate_limit: { unit: year, requests_per_unit: ${limit} } }]\n`
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

/** Resolves when these rules are in force. */
async function change(service: RunningService, rules: string): Promise<void> {
  const loads = service.log.split(LOADED).length
  writeFileSync(join(service.rulesDirectory, 'shop.yaml'), rules)
  await expect.poll(() => service.log.split(LOADED).length, { timeout: 5_000 }).toBeGreaterThan(loads)
}

test('8.5: counters and statistics outlive a reload, those of a rule that is gone as well', async () => {
  const service = await startService({
    rules: { 'shop.yaml': rule('user', 3) },
    env: { LOG_LEVEL: 'info', LOCAL_CACHE_SIZE_IN_BYTES: '1000000' },
  })
  const hits = async () => (await service.stats())['ratelimit.service.rate_limit.shop.user.total_hits']
  for (let i = 0; i < 2; i++) expect((await postJson(service, USER)).status).toBe(200)
  await change(service, rule('user', 2))
  expect((await postJson(service, USER)).status).toBe(429) // the third hit
  await change(service, rule('plan', 2))
  expect((await postJson(service, USER)).status).toBe(200) // nobody's limit
  expect(await hits()).toBe(3)
  await change(service, rule('user', 2))
  expect((await postJson(service, USER)).status).toBe(429)
  expect(await hits()).toBe(4)
})

test('8.5: a request that runs keeps the rules it began with', async () => {
  const redis = await startRedis()
  const proxy = await startTcpProxy(redis.port)
  onTestFinished(async () => {
    await proxy.stop()
    await redis.stop()
  })
  const service = await startService({
    rules: { 'shop.yaml': rule('user', 3) },
    env: { REDIS_URL: `127.0.0.1:${proxy.port}`, REDIS_OPERATION_TIMEOUT: '30s', LOG_LEVEL: 'info' },
  })
  const limit = (text: string) => JSON.parse(text).statuses[0].currentLimit.requestsPerUnit
  proxy.stall()
  const running = postJson(service, USER)
  await expect
    .poll(async () => (await service.stats())['ratelimit.service.rate_limit.shop.user.total_hits'])
    .toBe(1)
  await change(service, rule('user', 7))
  proxy.resume()
  expect(limit((await running).text)).toBe(3)
  expect(limit((await postJson(service, USER)).text)).toBe(7)
})
