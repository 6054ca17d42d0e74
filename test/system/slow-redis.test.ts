/**
 * Callers that give up while Redis is slow: their connection stays open, and others get their responses.
 *
 *     proxy that cancels its calls ─┐
 *     flood of resets ──────────────┼─► service ──► slow: Redis
 *     patient client ───────────────┘
 */
import { Client, credentials } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { decodeResponse, encodeRequest } from '../../proto/codec.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { eventually } from '../helpers/eventually.ts'
import { type CallResults, callRegularly, startFlooder } from '../helpers/flood.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import type { RunningService } from '../helpers/service.ts'
import { startSharedRedis, startSharedService } from '../helpers/shared.ts'
import { size } from '../helpers/size.ts'
import { startTcpProxy, type TcpProxy } from '../helpers/tcp-proxy.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 4000000000 }
`
const REDIS_MS = 200 // delay of each reply
const ROUNDS = size({ small: 5, full: 50 }) // of cancelled calls
const ROUND_CALLS = 200
const PATIENT_CALLS = 20 // of each round
const LOAD_MS = size({ small: 500, full: 20_000 })
const FLOOD_BYTES_MIN = 100_000
const P99_MS_MAX = size({ small: null, full: 5 * REDIS_MS })

let redisProxy: TcpProxy
let service: RunningService
beforeAll(async () => {
  const redis = await startSharedRedis()
  redisProxy = await startTcpProxy(redis.port)
  service = await startSharedService({
    rules: { 'shop.yaml': RULES },
    env: {
      GRPC_FRONTEND: 'http2',
      REDIS_URL: `127.0.0.1:${redisProxy.port}`,
      REDIS_OPERATION_TIMEOUT: '60s',
    },
  })
})
afterEach(() => {
  redisProxy.delay(0)
  redisProxy.resume()
})
afterAll(() => redisProxy.stop())

test('a proxy that cancels every call keeps its connection, and others get their responses', async () => {
  const grpcProxy = await startTcpProxy(Number(service.address('gRPC').split(':')[1]))
  const client = new Client(`127.0.0.1:${grpcProxy.port}`, credentials.createInsecure())
  const patient = new GrpcClient(service.address('gRPC'))
  const request = question('shop', { user: 'bob' })
  let cancelled = 0
  const otherEnds: unknown[] = []
  const call = () => {
    const toBuffer = () => Buffer.from(encodeRequest(request))
    return client.makeUnaryRequest(
      SHOULD_RATE_LIMIT,
      toBuffer,
      decodeResponse,
      request,
      (error, response) => {
        if (error?.details === 'Cancelled on client') cancelled++
        else otherEnds.push(error ?? response)
      },
    )
  }
  const hits = async () => (await service.stats())['ratelimit.service.rate_limit.shop.user.total_hits'] ?? 0
  for (let round = 1; round <= ROUNDS; round++) {
    redisProxy.stall() // so no response comes before its call is cancelled
    const hitsBefore = await hits()
    const calls = Array.from({ length: ROUND_CALLS }, call)
    const responses = Array.from({ length: PATIENT_CALLS }, () =>
      patient.ask(question('shop', { user: 'alice' })),
    )
    await eventually(async () => expect(await hits()).toBe(hitsBefore + ROUND_CALLS + PATIENT_CALLS))
    for (const each of calls) each.cancel()
    await eventually(() => expect(cancelled).toBe(round * ROUND_CALLS))
    redisProxy.resume()
    for (const { overallCode } of await Promise.all(responses)) expect(overallCode).toBe(1)
  }
  expect(otherEnds).toEqual([])
  expect(grpcProxy.connectionsCount).toBe(1)
  patient.close()
  client.close()
  await grpcProxy.stop()
})

test('a flood of resets: others get their responses', async () => {
  redisProxy.delay(REDIS_MS)
  const flooder = startFlooder()
  await flooder.start('rapid resets', service.address('gRPC'), 20)
  const patient = new GrpcClient(service.address('gRPC'))
  const endMs = performance.now() + LOAD_MS
  const results = await callRegularly(patient, (responses) => {
    return responses > 50 && flooder.stats.bytes > FLOOD_BYTES_MIN && performance.now() >= endMs
  })
  const { connects } = await flooder.stop()
  flooder.end()
  patient.close()
  expectServed(results)
  expect(connects).toBeGreaterThanOrEqual(20)
})

function expectServed({ latenciesMs, lost }: CallResults): void {
  expect(lost).toEqual([])
  expect(latenciesMs[0]).toBeGreaterThan(0.9 * REDIS_MS) // timers are not exact
  if (P99_MS_MAX === null) return
  expect(latenciesMs[Math.floor(latenciesMs.length * 0.99)]).toBeLessThan(P99_MS_MAX)
}
