/**
 * Callers that give up while Redis is slow: their connection lives, and others do not notice.
 *
 *     proxy that gives up after 20 ms ─┐
 *     flood of resets ─────────────────┼─► service ──► 200 ms away: Redis
 *     patient client ──────────────────┘
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { Client, credentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { decodeResponse, encodeRequest } from '../../proto/codec.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { type Asked, askUntil, flood } from '../helpers/flood.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { type RunningService, spawnService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'
import { startTcpProxy, type TcpProxy } from '../helpers/tcp-proxy.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 4000000000 }
`
const REDIS_MS = 200
const GIVES_UP_MS = 20
const forMs = size({ small: 2_000, full: 20_000 })
const callsPerSec = size({ small: 500, full: 4_000 })

let redis: RedisServer
let far: TcpProxy
let service: RunningService
beforeAll(async () => {
  redis = await startRedis()
  far = await startTcpProxy(redis.port)
  service = spawnService({
    rules: { 'shop.yaml': RULES },
    env: { GRPC_FRONTEND: 'http2', REDIS_URL: `127.0.0.1:${far.port}`, REDIS_OPERATION_TIMEOUT: '5s' },
  })
  await service.logged("Listening for HTTP on '")
  far.delay(REDIS_MS)
})
afterAll(async () => {
  await service?.stop('SIGKILL')
  await far.stop()
  await redis.stop()
})

function expectServed({ latenciesMs, lost }: Asked): void {
  expect(lost).toEqual([])
  expect(latenciesMs.length).toBeGreaterThan(100)
  expect(latenciesMs[0]).toBeGreaterThan(0.9 * REDIS_MS) // timers are not exact
  expect(latenciesMs[Math.floor(latenciesMs.length * 0.99)]).toBeLessThan(5 * REDIS_MS)
}

test('a proxy that takes each call back keeps its connection, and others are served', async () => {
  const door = await startTcpProxy(Number(service.address('gRPC').split(':')[1]))
  const proxy = new Client(`127.0.0.1:${door.port}`, credentials.createInsecure())
  const request = question('shop', { user: 'bob' })
  let cancelled = 0
  let others = 0
  const call = () => {
    const toBuffer = () => Buffer.from(encodeRequest(request))
    const running = proxy.makeUnaryRequest(SHOULD_RATE_LIMIT, toBuffer, decodeResponse, request, (error) => {
      if (error?.details === 'Cancelled on client') cancelled++
      else others++
    })
    setTimeout(() => running.cancel(), GIVES_UP_MS)
  }
  const over = sleep(forMs)
  const startMs = performance.now()
  let made = 0
  const calling = setInterval(() => {
    const due = ((performance.now() - startMs) * callsPerSec) / 1_000
    for (; made < due; made++) call()
  }, 5)
  const patient = new GrpcClient(service.address('gRPC'))
  const asked = await askUntil(over, patient)
  clearInterval(calling)
  await sleep(4 * GIVES_UP_MS)
  patient.close()
  proxy.close()
  await door.stop()
  expectServed(asked)
  expect({ cancelled, others }).toEqual({ cancelled: made, others: 0 })
  expect(made).toBeGreaterThan((forMs * callsPerSec) / 2_000)
  expect(door.connectionsCount).toBe(1)
})

test('a flood of resets: others are served', async () => {
  const flooded = flood('rapid resets', service.address('gRPC'), 20, forMs)
  const patient = new GrpcClient(service.address('gRPC'))
  const asked = await askUntil(flooded.done, patient)
  patient.close()
  expectServed(asked)
  const { connects, bytes } = JSON.parse(await flooded.done)
  expect(connects).toBeGreaterThanOrEqual(20)
  expect(bytes).toBeGreaterThan(100_000) // a busy machine makes less of a flood
})
