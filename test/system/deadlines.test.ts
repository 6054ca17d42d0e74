/** Deadlines of decisions with a real Redis that does not reply: the rules' policies answer before callers give up. */
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { startRedis } from '../helpers/redis.ts'
import type { RunningService } from '../helpers/service.ts'
import { startService } from '../helpers/service.ts'
import { startTcpProxy, type TcpProxy } from '../helpers/tcp-proxy.ts'

const LIMIT = 'rate_limit: { unit: day, requests_per_unit: 10 }'
const RULES = `
domain: shop
descriptors:
  - { key: user, ${LIMIT} }
  - { key: path, ${LIMIT}, on_store_error: deny }
`

/** Replies of Redis wait in the proxy while it is stalled, and no timeout of the store ends that. */
async function start(env: Record<string, string> = {}, frontend?: 'http2' | 'grpc-js') {
  const redis = await startRedis()
  const proxy: TcpProxy = await startTcpProxy(redis.port)
  onTestFinished(async () => {
    await proxy.stop()
    await redis.stop()
  })
  const settings = {
    REDIS_URL: `127.0.0.1:${proxy.port}`,
    REDIS_OPERATION_TIMEOUT: '60s',
    DEGRADED_HEADER: 'true',
    ...env,
  }
  const service: RunningService = await startService({
    rules: { 'shop.yaml': RULES },
    env: settings,
    frontend,
  })
  const client = new GrpcClient(service.address('gRPC'))
  onTestFinished(() => client.close())
  /** The header of the answer, `counted` or the text of the error. */
  const ask = async (key: string, timeoutMs?: number) => {
    try {
      const { responseHeadersToAdd } = await client.ask(question('shop', { [key]: 'x' }), timeoutMs)
      return responseHeadersToAdd[0]?.value ?? 'counted'
    } catch (error) {
      return (error as { details: string }).details
    }
  }
  const unknownHits = async () => (await service.stats())['sluice.store.unknown_hits']
  return { redis, proxy, service, ask, unknownHits }
}

test('DECISION_TIMEOUT: policies answer, the late hit is counted once', async () => {
  const { redis, proxy, ask, unknownHits } = await start({ DECISION_TIMEOUT: '300ms' })
  let asked = 0
  await eventually(async () => {
    asked++
    expect(await ask('user'), 'on a busy machine not the first').toBe('counted')
  })
  const unknownBefore = (await unknownHits()) ?? 0
  proxy.stall()
  expect(await Promise.all([ask('path'), ask('user')])).toEqual([
    'deny',
    'no count before the deadline; the hits may have been counted',
  ])
  expect(await unknownHits()).toBe(unknownBefore + 2)
  proxy.resume()
  await eventually(async () => expect(await ask('path')).toBe('counted'))
  const counts = Object.entries(await redis.contents()).map(([key, { value }]) => [key.split('_')[1], value])
  expect(counts).toContainEqual(['user', String(asked + 1)])
})

for (const frontend of ['http2', 'grpc-js'] as const) {
  test(`${frontend}: a call is answered before its grpc-timeout`, async () => {
    const { proxy, ask } = await start({}, frontend)
    expect(await ask('path', 60_000)).toBe('counted')
    proxy.stall()
    // on a busy machine an answer may miss the caller's deadline, but not every one
    await eventually(async () => expect(await ask('path', 1_000)).toBe('deny'))
  })
}

test('/json: Request-Timeout is the deadline in milliseconds; other texts are ignored', async () => {
  const { proxy, service } = await start()
  const post = async (timeout: string) => {
    const descriptors = [{ entries: [{ key: 'path', value: 'x' }] }]
    const body = JSON.stringify({ domain: 'shop', descriptors })
    const response = await fetch(`${service.http}/json`, {
      method: 'POST',
      body,
      headers: { 'Request-Timeout': timeout },
    })
    return response.status
  }
  for (const text of ['', '0', '00', '-1', '1.5', '20ms', '123456789']) expect(await post(text)).toBe(200)
  proxy.stall()
  expect(await post('00200')).toBe(429)
})
