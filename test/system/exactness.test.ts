/**
 * 20,000 requests from 64 clients at once on a limit of 1,000: exactly 1,000 pass, whatever the store, the number of
 * workers and the protocol.
 */
import autocannon from 'autocannon'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Code } from '../../proto/ratelimit.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { type RunningService, startService } from '../helpers/service.ts'

const REQUESTS = 20_000
const CLIENTS = 64
const LIMIT = 1_000

// a year is the longest window, so none ends while the test runs
const RULES = `
domain: shop
descriptors:
  - key: grpc
    rate_limit: { unit: year, requests_per_unit: ${LIMIT} }
  - key: json
    rate_limit: { unit: year, requests_per_unit: ${LIMIT} }
`

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

describe.each(['memory', 'redis'])('with the %s store', (store) => {
  test.each([1, 2])(`WORKERS=%i: ${LIMIT} of ${REQUESTS} pass over gRPC and over JSON`, async (workers) => {
    const env: Record<string, string> = store === 'redis' ? { REDIS_URL: `127.0.0.1:${redis.port}` } : {}
    const prefix = `${workers}:` // both runs use one Redis
    const service = await startService({
      rules: { 'limits.yaml': RULES },
      env: { ...env, WORKERS: String(workers), CACHE_KEY_PREFIX: prefix },
    })
    expect(await overGrpc(service)).toEqual({ ok: LIMIT, overLimit: REQUESTS - LIMIT })
    expect(await overJson(service)).toEqual({ ok: LIMIT, overLimit: REQUESTS - LIMIT })

    const stats = await service.stats()
    for (const key of ['grpc', 'json']) {
      expect(stats[`ratelimit.service.rate_limit.shop.${key}.total_hits`]).toBe(REQUESTS)
      expect(stats[`ratelimit.service.rate_limit.shop.${key}.within_limit`]).toBe(LIMIT)
      expect(stats[`ratelimit.service.rate_limit.shop.${key}.over_limit`]).toBe(REQUESTS - LIMIT)
    }
    const decided = Array.from({ length: workers }, (_, i) => stats[`sluice.worker.${i}.decisions`])
    expect(decided.reduce((sum, each) => sum + each)).toBe(2 * REQUESTS)
    expect(Math.min(...decided)).toBeGreaterThan(0) // each thread has served its part
  })
})

interface Passed {
  ok: number
  overLimit: number
}

async function overGrpc(service: RunningService): Promise<Passed> {
  const passed: Passed = { ok: 0, overLimit: 0 }
  let left = REQUESTS
  const ask = async () => {
    const client = new GrpcClient(service.address('gRPC'))
    while (left-- > 0) {
      const { overallCode } = await client.ask(question('shop', { grpc: 'all' }))
      if (overallCode === Code.Ok) passed.ok++
      else passed.overLimit++
    }
    client.close()
  }
  await Promise.all(Array.from({ length: CLIENTS }, ask))
  return passed
}

async function overJson(service: RunningService): Promise<Passed> {
  const { statusCodeStats } = await autocannon({
    url: `${service.http}/json`,
    method: 'POST',
    body: '{"domain":"shop","descriptors":[{"entries":[{"key":"json","value":"all"}]}]}',
    connections: CLIENTS,
    amount: REQUESTS,
  })
  const { 200: ok, 429: overLimit, ...others } = statusCodeStats as Record<number, { count: number }>
  expect(others).toEqual({})
  return { ok: Number(ok.count), overLimit: Number(overLimit.count) }
}
