/**
 * Traces of the whole service (spec 11.3), as a collector receives them: names, parents and attributes of spans, sampling,
 * and collectors that are away, silent or refuse.
 */
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { encodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { question } from '../helpers/grpc.ts'
import { startMemcached } from '../helpers/memcached.ts'
import { type Collector, startCollector } from '../helpers/otlp-receiver.ts'
import { freePort } from '../helpers/ports.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import {
  type Exit,
  postJson,
  type RunningService,
  type ServiceOptions,
  spawnService,
  startService,
} from '../helpers/service.ts'

const RULES = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: burst
    rate_limit: { unit: second, requests_per_unit: 100 }
  - key: denied
    on_store_error: deny
    rate_limit: { unit: minute, requests_per_unit: 5 }
`
const SERVER = SHOULD_RATE_LIMIT.slice(1)
const DECISION = 'ShouldRateLimit Execution'
const JSON_RESPONSE = 'NewJsonHandler Remaining Execution'
const REDIS = 'Redis Pipeline Execution'
const MEMCACHED = 'Memcached Fetch Execution'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const OTHER_ID = 'a'.repeat(32)
const PARENT_ID = '00f067aa0ba902b7'
const SERVER_KIND = 2 // SPAN_KIND_SERVER of OTLP

const ERROR = 2 // STATUS_CODE_ERROR
const CONNECTIONS = 16 // so many that both workers have some
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const ALICE = question('shop', { user: 'alice' })
const JSON_ALICE = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

// The flush at the end waits 5 s for a silent collector; the other tests run meanwhile.
let silentExit: Promise<Exit>
beforeAll(async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1') // accepts connections only
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const env = { OTEL_EXPORTER_OTLP_TIMEOUT: '3600000', OTEL_BSP_EXPORT_TIMEOUT: '3600000' }
  const service = spawnTraced({ url: `http://127.0.0.1:${port}` }, { env })
  await service.logged("Listening for HTTP on '")
  await decide(service)
  silentExit = service.stop()
  return async () => {
    await service.stop('SIGKILL')
    silent.close()
  }
})

async function decide(service: RunningService): Promise<void> {
  for (let i = 0; i < 20; i++)
    expect((await postJson(service, { ...JSON_ALICE, domain: 'other' })).status).toBe(200)
}

describe('with Redis', () => {
  let redis: RedisServer
  let perSecond: RedisServer
  let collector: Collector
  let closeCollector: () => void
  let service: RunningService

  beforeAll(async () => {
    redis = await startRedis()
    perSecond = await startRedis()
    collector = await startCollector('http', (close) => {
      closeCollector = close
    })
    service = spawnTraced(collector, {
      env: {
        ...{ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: redis.address },
        ...{ REDIS_PERSECOND: 'true', REDIS_PERSECOND_SOCKET_TYPE: 'tcp' },
        REDIS_PERSECOND_URL: perSecond.address,
      },
    })
    await service.logged("Listening for HTTP on '")
  })
  afterAll(async () => {
    await service?.stop('SIGKILL')
    closeCollector?.()
    await Promise.all([redis?.stop(), perSecond?.stop()])
  })
  beforeEach(async () => {
    collector.received.length = 0 // each test waits for the last of its spans
    await redis.run('FLUSHALL')
  })

  test('11.3#1 11.3#2: a gRPC call and its decision, over http', async () => {
    await call(service, ALICE)
    const [server] = await collector.spans(SERVER)
    const [decision] = await collector.spans(DECISION)
    expect(server).toMatchObject({
      tracer: 'otelgrpc',
      kind: SERVER_KIND,
      parentSpanId: '',
      events: [],
      status: {},
    })
    expect(server.attributes).toEqual({
      'rpc.system': 'grpc',
      'rpc.service': 'envoy.service.ratelimit.v3.RateLimitService',
      'rpc.method': 'ShouldRateLimit',
      'rpc.grpc.status_code': 0,
      'net.sock.peer.addr': '127.0.0.1',
      'net.sock.peer.port': expect.any(Number),
    })
    expect(decision).toMatchObject({
      tracer: 'ratelimit',
      traceId: server.traceId,
      parentSpanId: server.spanId,
      attributes: {
        domain: 'shop',
        'request string': 'domain:"shop" descriptors:{entries:{key:"user" value:"alice"}}',
      },
    })
  })

  test('11.3#5: on /json each span is a root, whatever the headers say', async () => {
    const headers = { traceparent: `00-${TRACE_ID}-${PARENT_ID}-01` }
    const body = JSON.stringify(JSON_ALICE)
    expect((await fetch(`${service.http}/json`, { method: 'POST', body, headers })).status).toBe(200)
    const [decision] = await collector.spans(DECISION)
    const [response] = await collector.spans(JSON_RESPONSE)
    expect(decision).toMatchObject({ tracer: 'ratelimit', parentSpanId: '' })
    expect(response).toMatchObject({ tracer: 'ratelimit server', parentSpanId: '' })
    expect(new Set([decision.traceId, response.traceId, TRACE_ID]).size).toBe(3)
    expect(response.attributes.response).toMatch(
      /^overall_code:OK statuses:\{code:OK current_limit:\{requests_per_unit:5 unit:HOUR\} limit_remaining:4 /,
    )

    await postJson(service, { domain: '', descriptors: [] }) // a decision that fails has no response
    await collector.spans(DECISION, 2)
    await postJson(service, JSON_ALICE)
    await collector.spans(DECISION, 3)
    expect(await collector.spans(JSON_RESPONSE, 2)).toHaveLength(2)
  })

  test('11.3#3: the Redis pipeline is a sibling of the decision', async () => {
    const [user] = ALICE.descriptors
    const [burst] = question('shop', { burst: 'x' }).descriptors
    const [free] = question('shop', { free: 'x' }).descriptors
    await call(service, {
      ...ALICE,
      descriptors: [user, burst, { ...user, entries: [{ key: 'user', value: 'bob' }] }, free],
    })
    const [server] = await collector.spans(SERVER)
    const [pipeline] = await collector.spans(REDIS)
    expect(pipeline).toMatchObject({
      tracer: 'redis.fixedCacheImpl',
      traceId: server.traceId,
      parentSpanId: server.spanId,
    })
    expect(pipeline.attributes).toEqual({ 'pipeline length': 4, 'perSecondPipeline length': 2 })

    await call(service, { ...ALICE, descriptors: [free] })
    const [, none] = await collector.spans(REDIS, 2)
    expect(none.attributes).toEqual({ 'pipeline length': 0, 'perSecondPipeline length': 0 })

    await redis.stop()
    await expect(call(service, ALICE)).rejects.toMatchObject({ code: 2 })
    const failed = (await collector.spans(SERVER, 3))[2]
    expect(failed.attributes['rpc.grpc.status_code']).toBe(2)
    expect(failed.status.code).toBe(ERROR)
    expect((await collector.spans(DECISION, 3))[2].parentSpanId).toBe(failed.spanId)
    expect((await collector.spans(DECISION, 3))[2].attributes).not.toHaveProperty('degraded')

    const [denied] = question('shop', { denied: 'x' }).descriptors
    await call(service, { ...ALICE, descriptors: [denied] })
    expect((await collector.spans(DECISION, 4))[3].attributes.degraded).toBe('deny')
    await postJson(service, { domain: 'shop', descriptors: [{ entries: [{ key: 'denied', value: 'x' }] }] })
    expect((await collector.spans(DECISION, 5))[4].attributes.degraded).toBe('deny')
  })
})

test('11.3#4 11.3 10#117: the memcached fetch is a sibling of the decision; spans queued at SIGTERM are sent', async () => {
  const memcached = await startMemcached()
  onTestFinished(() => memcached.stop())
  const collector = await startCollector('http')
  const env = {
    ...{ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address },
    ...{ OTEL_BSP_SCHEDULE_DELAY: '600000', TRACING_SERVICE_INSTANCE_ID: 'seven' },
  }
  const service = await startTraced(collector, { env })
  const [user] = ALICE.descriptors
  const [burst] = question('shop', { burst: 'x' }).descriptors
  await call(service, { ...ALICE, descriptors: [user, burst] })
  expect(collector.received).toEqual([])
  expect((await service.stop()).code).toBe(0)
  const [server] = await collector.spans(SERVER)
  const [fetched] = await collector.spans(MEMCACHED)
  expect(fetched).toMatchObject({ tracer: 'memcached.cacheImpl', parentSpanId: server.spanId })
  expect(fetched.attributes).toEqual({ 'keysToGet length': 2 })
  expect(server.resource).toEqual({
    ...{ 'service.name': 'RateLimit', 'service.namespace': '', 'service.instance.id': 'seven' },
  })
})

/** The headers that name a parent, by its ids and whether it is sampled. */
const PARENTS: ((traceId: string, spanId: string, flag: 0 | 1) => Record<string, string>)[] = [
  (traceId, spanId, flag) => ({ traceparent: `00-${traceId}-${spanId}-0${flag}`, tracestate: 'a=b' }),
  (traceId, spanId, flag) => ({ b3: `${traceId}-${spanId}-${flag}` }),
  (traceId, spanId, flag) => ({
    ...{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId, 'x-b3-sampled': String(flag) },
  }),
  (traceId, spanId, flag) => ({
    ...{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId },
    ...(flag === 1 ? { 'x-b3-flags': '1' } : { 'x-b3-sampled': '0' }), // debug implies sampled
  }),
  (traceId, spanId, flag) => ({
    ...{ traceparent: `00-${'b'.repeat(32)}-${spanId}-0${flag}`, b3: `${traceId}-${spanId}-${flag}` }, // b3 wins
  }),
]

test.each(['http2', 'grpc-js'] as const)(
  '11.3 10#119: a parent decides whether its child is sampled, the rate decides for roots, frontend %s',
  async (frontend) => {
    const collector = await startCollector('http')
    const service = await startTraced(collector, { frontend, env: { TRACING_SAMPLING_RATE: '0' } })
    await call(service, ALICE)
    for (const parent of PARENTS) await call(service, ALICE, parent(OTHER_ID, PARENT_ID, 0))
    for (const [i, parent] of PARENTS.entries()) await call(service, ALICE, parent(traceId(i), PARENT_ID, 1))
    const servers = await collector.spans(SERVER, PARENTS.length)
    const decisions = await collector.spans(DECISION, PARENTS.length)
    expect(servers.map((span) => span.traceId)).toEqual(PARENTS.map((_, i) => traceId(i)))
    expect(servers.map((span) => span.parentSpanId)).toEqual(PARENTS.map(() => PARENT_ID))
    expect(decisions.map((span) => span.traceId)).toEqual(PARENTS.map((_, i) => traceId(i)))
    expect(decisions.map((span) => span.parentSpanId)).toEqual(servers.map((span) => span.spanId))
    expect(collector.received).toHaveLength(2 * PARENTS.length) // spans come in order: nothing is on its way
  },
)

function traceId(index: number): string {
  return TRACE_ID.slice(0, -1) + index
}

test('11.3 10#114-118: over grpc, with the attributes of the resource and no others; all workers are one instance', async () => {
  const collector = await startCollector('grpc')
  const env = {
    TRACING_EXPORTER_PROTOCOL: 'grpc',
    TRACING_SERVICE_NAME: 'limits',
    TRACING_SERVICE_NAMESPACE: 'edge',
    OTEL_RESOURCE_ATTRIBUTES: 'host.name=h',
    WORKERS: '2',
    LOG_LEVEL: 'INFO',
  }
  const service = await startTraced(collector, { env })
  for (let i = 1; i <= CONNECTIONS; i++) await call(service, ALICE)
  const servers = await collector.spans(SERVER, CONNECTIONS)
  const [{ resource }] = servers
  expect(resource).toEqual({
    'service.name': 'limits',
    'service.namespace': 'edge',
    'service.instance.id': expect.stringMatching(UUID),
  })
  for (const server of servers) expect(server.resource).toEqual(resource)
  expect(service.log).toContain(
    'Tracing enabled: protocol grpc, service.name limits, service.namespace edge, ' +
      `service.instance.id ${resource['service.instance.id']}, sampling rate 1`,
  )
  const stats = await service.stats()
  expect(stats['sluice.worker.0.decisions'] * stats['sluice.worker.1.decisions']).toBeGreaterThan(0)
})

test('11.3: a collector that is away delays neither decisions nor the end', async () => {
  const service = await startTraced({ url: `http://127.0.0.1:${await freePort()}` })
  await decide(service)
  const { code, log } = await service.stop()
  expect(code).toBe(0)
  expect(log).toContain('traces: the last spans are lost: connect ECONNREFUSED')
})

test('11.3: a collector that never responds delays no decision, and the end by 5 s', async () => {
  const { code, log } = await silentExit
  expect(code).toBe(0)
  expect(log).toContain('traces: the last spans did not arrive in time')
})

test('11.3, 11.1: a collector that refuses is one log line a minute', async () => {
  let refusedCount = 0
  const collector = createHttpServer((request, response) => {
    refusedCount++
    request.resume()
    response.writeHead(400).end()
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void collector.close())
  await once(collector, 'listening')
  const { port } = collector.address() as AddressInfo
  const service = await startTraced({ url: `http://127.0.0.1:${port}` })
  while (refusedCount < 4) await postJson(service, JSON_ALICE)
  expect(service.log.split('traces: ')).toHaveLength(2)
})

test('11.3: an invalid endpoint ends the start', async () => {
  const env = {
    TRACING_ENABLED: 'true',
    OTEL_EXPORTER_OTLP_ENDPOINT: ':::',
  }
  const exit = await spawnService({ rules: { 'shop.yaml': RULES }, env }).exited
  expect(exit.code).toBe(2)
  const what = `OTEL_EXPORTER_OTLP_ENDPOINT: ":::" is not an address of a collector over http. Set it to `
  expect(exit.log.replaceAll('\\"', '"')).toContain(what)
  expect(exit.log).toContain('[TRACING_INVALID]')
})

test('11.3: that tracing is off is logged', async () => {
  const service = await startService({ rules: { 'shop.yaml': RULES }, env: { LOG_LEVEL: 'INFO' } })
  expect(service.log).toContain('Tracing disabled')
})

function spawnTraced(collector: Pick<Collector, 'url'>, options: ServiceOptions = {}): RunningService {
  return spawnService({
    rules: { 'shop.yaml': RULES },
    ...options,
    env: {
      TRACING_ENABLED: 'true',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: '50',
      ...options.env,
    },
  })
}

/** Listening. Ends with the test. */
async function startTraced(
  collector: Pick<Collector, 'url'>,
  options: ServiceOptions = {},
): Promise<RunningService> {
  const service = spawnTraced(collector, options)
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  await service.logged("Listening for HTTP on '")
  return service
}

const OWN_CONNECTION = { 'grpc.use_local_subchannel_pool': 1 }

/** On a connection of its own. Rejects with the status of the call. */
function call(
  service: RunningService,
  request: RateLimitRequest,
  headers: Record<string, string> = {},
): Promise<Buffer> {
  const client = new Client(service.address('gRPC'), credentials.createInsecure(), OWN_CONNECTION)
  onTestFinished(() => client.close())
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  const same = (bytes: Buffer) => bytes
  return new Promise((resolve, reject) => {
    const done = (error: ServiceError | null, response?: Buffer) =>
      error ? reject(error) : resolve(response!)
    client.makeUnaryRequest(
      SHOULD_RATE_LIMIT,
      same,
      same,
      Buffer.from(encodeRequest(request)),
      metadata,
      done,
    )
  })
}
