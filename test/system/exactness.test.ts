/**
 * Requests from 64 clients at once on a limit of which most exceed: exactly as many as the limit pass, whatever the store,
 * the number of workers and the protocol.
 */
import autocannon from 'autocannon'
import { beforeAll, describe, expect, test } from 'vitest'
import { Code } from '../../proto/ratelimit.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import type { RedisServer } from '../helpers/redis.ts'
import { type RunningService, startService } from '../helpers/service.ts'
import { startSharedRedis } from '../helpers/shared.ts'
import { size } from '../helpers/size.ts'

const REQUESTS = size({ small: 600, full: 20_000 })
const CLIENTS = 64
const LIMIT = size({ small: 150, full: 1_000 })

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
  redis = await startSharedRedis()
})

describe.each(['memory', 'redis'])('with the %s store', (store) => {
  test.each([1, 2])(`WORKERS=%i: ${LIMIT} of ${REQUESTS} pass over gRPC and over JSON`, async (workers) => {
    const env: Record<string, string> = store === 'redis' ? { REDIS_URL: redis.address } : {}
    const prefix = `${workers}:` // both tests use one Redis
    const service = await startService({
      rules: { 'limits.yaml': RULES },
      env: { ...env, WORKERS: String(workers), CACHE_KEY_PREFIX: prefix },
    })
    expect(await callOverGrpc(service)).toEqual({ ok: LIMIT, overLimit: REQUESTS - LIMIT })
    expect(await callOverJson(service)).toEqual({ ok: LIMIT, overLimit: REQUESTS - LIMIT })

    const stats = await service.stats()
    for (const key of ['grpc', 'json']) {
      expect(stats[`ratelimit.service.rate_limit.shop.${key}.total_hits`]).toBe(REQUESTS)
      expect(stats[`ratelimit.service.rate_limit.shop.${key}.within_limit`]).toBe(LIMIT)
      expect(stats[`ratelimit.service.rate_limit.shop.${key}.over_limit`]).toBe(REQUESTS - LIMIT)
    }
    const decisions = Array.from({ length: workers }, (_, i) => stats[`sluice.worker.${i}.decisions`])
    expect(decisions.reduce((sum, each) => sum + each)).toBe(2 * REQUESTS)
    expect(Math.min(...decisions)).toBeGreaterThan(0) // every worker takes part
  })
})

interface CodeCounts {
  ok: number
  overLimit: number
}

async function callOverGrpc(service: RunningService): Promise<CodeCounts> {
  const counts: CodeCounts = { ok: 0, overLimit: 0 }
  let left = REQUESTS
  const runClient = async () => {
    const client = new GrpcClient(service.address('gRPC'))
    while (left-- > 0) {
      const { overallCode } = await client.ask(question('shop', { grpc: 'all' }))
      if (overallCode === Code.Ok) counts.ok++
      else counts.overLimit++
    }
    client.close()
  }
  await Promise.all(Array.from({ length: CLIENTS }, runClient))
  return counts
}

async function callOverJson(service: RunningService): Promise<CodeCounts> {
  const { statusCodeStats } = await autocannon({
    url: `${service.http}/json`,
    method: 'POST',
    body: '{"domain":"shop","descriptors":[{"entries":[{"key":"json","value":"all"}]}]}',
    connections: CLIENTS,
    amount: REQUESTS,
    sampleInt: 50, // it notices its end at a sample, by default each second
  })
  const { 200: ok, 429: overLimit, ...others } = statusCodeStats as Record<number, { count: number }>
  expect(others).toEqual({})
  return { ok: Number(ok.count), overLimit: Number(overLimit.count) }
}
