/**
 * Statistics of the running service, to the last hit (spec 7): two workers, a reload, a worker that throws, then the end.
 *
 *     requests in four parts ──► workers ──► main ──► statsd (TCP) │ DogStatsD (UDP) │ Prometheus, scraped by two
 */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { freePort } from '../helpers/ports.ts'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, type ServiceOptions, spawnService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'

const PART = size({ small: 100, full: 250 })
const LIMIT = 2.4 * PART // reached in the third part
const RULES = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: ${LIMIT} }
  - key: plan
    value_to_metric: true
    rate_limit: { unit: day, requests_per_unit: 2 }
`
const NAME = 'ratelimit.service.rate_limit.shop.user'

function spawn(env: Record<string, string>, options: Partial<ServiceOptions> = {}): RunningService {
  return spawnService({
    rules: { 'shop.yaml': RULES },
    ...options,
    env: {
      ...{
        WORKERS: '2',
        BACKEND_TYPE: 'memory',
        DISABLE_STATS: 'false',
        USE_STATSD: 'false',
        LOG_LEVEL: 'info',
      },
      ...{ STATS_FLUSH_INTERVAL: '1s', ...env },
    },
  })
}

/** Ends with the test. */
function start(env: Record<string, string>, options: Partial<ServiceOptions> = {}): RunningService {
  const service = spawn(env, options)
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  return service
}

/** Sends all four parts; returns how many responses had status 200, and 429. */
async function load(service: RunningService): Promise<{ ok: number; over: number }> {
  const statuses: number[] = []
  const part = async () => {
    const lanes = Array.from({ length: 10 }, async () => {
      for (let i = 0; i < PART / 10; i++) statuses.push(await send(service))
    })
    await Promise.all(lanes)
  }
  await service.logged('Listening for HTTP')
  await part()
  writeFileSync(join(service.rulesDirectory, 'shop.yaml'), `${RULES}  - key: new\n`)
  await eventually(() => expect(service.log.split('Successfully loaded new configuration')).toHaveLength(3))
  await part()
  service.child.send({ crashWorker: 1 })
  await service.logged('starting another')
  await eventually(async () => expect((await fetch(`${service.http}/healthcheck`)).status).toBe(200))
  await part()
  await part()
  const count = (wanted: number) => statuses.filter((status) => status === wanted).length
  return { ok: count(200), over: count(429) }
}

/** On a connection of its own, so that both workers have some. */
function send(service: RunningService): Promise<number> {
  const body = JSON.stringify({
    domain: 'shop',
    descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }],
  })
  return new Promise((resolve, reject) => {
    const sent = request(`${service.http}/json`, { method: 'POST', agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode as number))
    })
    sent.on('error', reject).end(body)
  })
}

/** Adds up lines like `name:3|c`. */
function sumCounters(text: string): Record<string, number> {
  const found: Record<string, number> = {}
  for (const [, name, value] of text.matchAll(/^([^:\n]+):([0-9.]+)\|c/gm))
    found[name] = (found[name] ?? 0) + Number(value)
  return found
}

function expectedCounters(ok: number, over: number) {
  return { [`${NAME}.total_hits`]: ok + over, [`${NAME}.over_limit`]: over, [`${NAME}.within_limit`]: ok }
}

const LAST_ONLY = { STATS_FLUSH_INTERVAL: '1h' } // everything is in the last flush

/** A statsd over TCP that keeps the text it receives, and the settings that lead to it. */
async function startStatsd() {
  const sink = { text: '', env: {} }
  const server = createServer((socket) => {
    socket.setEncoding('utf8').on('data', (chunk) => {
      sink.text += chunk
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  sink.env = { USE_STATSD: 'true', STATSD_HOST: '127.0.0.1', STATSD_PORT: String(port) }
  return sink
}

test('7.3: statsd over TCP gets every hit, the last ones at the end; no worker is reported as unresponsive then', async () => {
  const sink = await startStatsd()
  const service = start({ ...sink.env, ...LAST_ONLY })
  await service.logged('statistics go to')
  const { ok, over } = await load(service)
  expect([ok, over]).toEqual([LIMIT, 4 * PART - LIMIT])
  expect((await service.stop()).code).toBe(0)
  await eventually(() => expect(sumCounters(sink.text)).toMatchObject(expectedCounters(ok, over)))
  await eventually(() => expect(sink.text).toMatch(/^sluice\.workers\.unresponsive:0\|g$/m))
})

test('7.5: DogStatsD over UDP gets every hit', async () => {
  let text = ''
  const server = createSocket('udp4').on('message', (datagram) => {
    text += `${datagram}\n`
  })
  server.bind(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const port = String(server.address().port)
  const service = start({ USE_DOG_STATSD: 'true', STATSD_HOST: '127.0.0.1', STATSD_PORT: port })
  await service.logged('statistics go to')
  const { ok, over } = await load(service)
  expect((await service.stop()).code).toBe(0)
  await eventually(() => expect(sumCounters(text)).toMatchObject(expectedCounters(ok, over)))
})

async function scrape(port: number): Promise<string> {
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
}

/** Two calls over gRPC, one of which fails, and one over HTTP. */
async function expectCallsCounted(service: RunningService, port: number): Promise<void> {
  const client = new GrpcClient(service.address('gRPC'))
  onTestFinished(() => client.close())
  await client.ask(question('shop', { user: 'bob' }))
  await expect(client.ask(question('', { user: 'bob' }))).rejects.toThrow(
    'rate limit domain must not be empty',
  )
  await send(service) // over HTTP, so not among the gRPC calls
  const text = await scrape(port)
  const method = '{grpc_method="ShouldRateLimit"}'
  expect(text).toContain(`ratelimit_service_total_requests${method} 2\n`)
  expect(text).toContain(`ratelimit_service_response_time_seconds_count${method} 2\n`)
  expect(text).toContain('ratelimit_service_should_rate_limit_error{err_type="service_error"} 1\n')
  expect(text).toContain('ratelimit_service_should_rate_limit_error{err_type="redis_error"} 0\n')
}

describe('Prometheus', () => {
  let port: number
  let service: RunningService

  beforeAll(async () => {
    port = await freePort()
    service = spawn(
      {
        ...{ USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: `127.0.0.1:${port}` },
        PROMETHEUS_NATIVE_SERIES: 'true',
      },
      { frontend: 'http2' },
    )
    await service.logged('Listening for HTTP')
  })
  afterAll(() => service?.stop('SIGKILL').then(() => {}))

  test('7.6: has every hit; two scrapes at once take nothing from each other', async () => {
    const { ok, over } = await load(service)
    for (const value of ['free', 'paid', 'paid', 'paid'])
      await postJson(service, { domain: 'shop', descriptors: [{ entries: [{ key: 'plan', value }] }] })
    for (const text of await Promise.all([scrape(port), scrape(port)])) {
      expect(text).toContain(
        `ratelimit_service_rate_limit_total_hits{domain="shop",key1="user"} ${ok + over}\n`,
      )
      expect(text).toContain(`sluice_hits_total{code="ok",domain="shop",rule="user"} ${ok}\n`)
      expect(text).toContain(`sluice_hits_total{code="over_limit",domain="shop",rule="user"} ${over}\n`)
      expect(text).toContain(`sluice_hits_total{code="ok",domain="shop",rule="plan"} 3\n`) // free and paid
      expect(text).toContain(`sluice_hits_total{code="over_limit",domain="shop",rule="plan"} 1\n`)
      expect(text).toContain(`sluice_limit_requests{domain="shop",rule="user",unit="day"} ${LIMIT}\n`)
    }
  })

  test('7.1 7.4: has the count and the time of each call by its method, failed ones too: http2', () =>
    expectCallsCounted(service, port))
})

test('7.1 7.4: Prometheus has the count and the time of each call by its method, failed ones too: grpc-js', async () => {
  const port = await freePort()
  const env = { USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: `127.0.0.1:${port}` }
  const service = start(env, { frontend: 'grpc-js' })
  await service.logged('Listening for HTTP')
  await expectCallsCounted(service, port)
})

test('6.6, 7.1: Prometheus is served before Redis is there; counters worth an alert are 0 before the first error', async () => {
  const [port, redisPort] = [await freePort(), await freePort()]
  const service = start({
    ...{ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redisPort}` },
    ...{ USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: `127.0.0.1:${port}` },
    REDIS_STARTUP_INITIAL_INTERVAL: '20ms',
  })
  await eventually(async () => expect(await scrape(port)).toContain('process_cpu_seconds_total'))
  expect(service.log).not.toContain('Listening for HTTP') // nor is any other port open
  const redis = await startRedis({ port: redisPort })
  onTestFinished(() => redis.stop())
  await service.logged('Listening for HTTP')
  const samples = (await scrape(port)).split('\n')
  expect(samples).toEqual(
    expect.arrayContaining([
      'ratelimit_service_config_load_error 0',
      'ratelimit_service_should_rate_limit_error{err_type="redis_error"} 0',
      'ratelimit_service_should_rate_limit_error{err_type="service_error"} 0',
      'ratelimit_service_global_shadow_mode 0',
      'ratelimit_redis_pool_cx_local_close 0',
      'runtime_load_failures 0',
      'sluice_statistics_dropped 0',
    ]),
  )
  expect(await send(service)).toBe(200)
  expect(await scrape(port)).toContain(
    'ratelimit_service_rate_limit_over_limit{domain="shop",key1="user"} 0\n',
  )
})

test('7.1, 7.3: loads, files, unknown domains and reserved tags are counted; an absent statsd delays no decision', async () => {
  const rules = { 'shop.yaml': RULES, 'deep/more.yaml': 'domain: more', 'notes.txt': '# none' }
  const env = { USE_STATSD: 'true', STATSD_HOST: '127.0.0.1', STATSD_PORT: String(await freePort()) }
  const service = start({ EXTRA_TAGS: 'region:a,zone:b', ...env }, { rules })
  await service.logged('Listening for HTTP')
  await postJson(service, { domain: 'nowhere', descriptors: [{ entries: [{ key: 'user', value: 'bob' }] }] })
  expect(await service.stats()).toMatchObject({
    'ratelimit.service.config_load_success': 1,
    'ratelimit.service.rate_limit.nowhere.domain_not_found': 1,
    'runtime.load_attempts': 1,
    'runtime.num_values': 3,
    reserved_tag: 1,
  })
  rmSync(join(service.rulesDirectory, 'notes.txt'))
  const afterRemoval = { 'runtime.num_values': 2, 'runtime.load_attempts': 2 }
  await eventually(async () => expect(await service.stats()).toMatchObject(afterRemoval))
  for (let i = 0; i < 50; i++) expect(await send(service)).toBe(200)
  await service.logged('statsd 127.0.0.1')
  expect((await service.stop()).code).toBe(0)
})

test('7.3: two sinks at once end the start with a line that names them', async () => {
  const service = start({ USE_STATSD: 'true', USE_PROMETHEUS: 'true' })
  await service.logged('unable to use more than one stats sink at the same time')
})

test('7.3: without a sink they are printed, on standard output alone, and the process ends with 0', async () => {
  const service = start({ LOG_LEVEL: 'warn' })
  await service.logged('Listening for HTTP')
  let printed = ''
  service.child.stdout!.on('data', (chunk) => {
    printed += chunk
  })
  expect(await send(service)).toBe(200)
  expect((await service.stop()).code).toBe(0)
  const line = printed.split('\n').find((each) => each.includes(`${NAME}.total_hits`))
  expect(JSON.parse(line ?? '')).toMatchObject({ msg: 'flushing counter', json: { value: '1.000000' } })
})
