/**
 * Statistics of the running service, to the last hit (spec 7): two workers, a reload, a worker that throws, then the end.
 *
 *     1,000 requests in four parts ──► workers ──► main ──► statsd (TCP) │ DogStatsD (UDP) │ Prometheus, scraped by two
 */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { freePort } from '../helpers/ports.ts'
import { type RunningService, spawnService } from '../helpers/service.ts'

const PART = 250
const LIMIT = 600
const RULES = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: ${LIMIT} }
`
const NAME = 'ratelimit.service.rate_limit.shop.user'
const WAIT = { timeout: 15_000, interval: 50 }

function start(env: Record<string, string>): RunningService {
  const service = spawnService({
    rules: { 'shop.yaml': RULES },
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
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  return service
}

/** All four parts; returns how many were answered with 200 and with 429. */
async function load(service: RunningService): Promise<{ ok: number; over: number }> {
  const statuses: number[] = []
  const part = async () => {
    const lanes = Array.from({ length: 10 }, async () => {
      for (let i = 0; i < PART / 10; i++) statuses.push(await ask(service))
    })
    await Promise.all(lanes)
  }
  await service.logged('Listening for HTTP')
  await part()
  writeFileSync(join(service.rulesDirectory, 'shop.yaml'), `${RULES}  - key: new\n`)
  await vi.waitFor(
    () => expect(service.log.split('Successfully loaded new configuration')).toHaveLength(3),
    WAIT,
  )
  await part()
  service.child.send({ crashWorker: 1 })
  await service.logged('starting another')
  await vi.waitFor(async () => expect((await fetch(`${service.http}/healthcheck`)).status).toBe(200), WAIT)
  await part()
  await part()
  const count = (wanted: number) => statuses.filter((status) => status === wanted).length
  return { ok: count(200), over: count(429) }
}

/** On a connection of its own, so that both workers have some. */
function ask(service: RunningService): Promise<number> {
  const body = JSON.stringify({
    domain: 'shop',
    descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }],
  })
  return new Promise((resolve, reject) => {
    const asking = request(`${service.http}/json`, { method: 'POST', agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode as number))
    })
    asking.on('error', reject).end(body)
  })
}

/** Adds up lines like `name:3|c`. */
function sums(text: string): Record<string, number> {
  const found: Record<string, number> = {}
  for (const [, name, value] of text.matchAll(/^([^:\n]+):([0-9.]+)\|c/gm))
    found[name] = (found[name] ?? 0) + Number(value)
  return found
}

function wanted(ok: number, over: number) {
  return { [`${NAME}.total_hits`]: ok + over, [`${NAME}.over_limit`]: over, [`${NAME}.within_limit`]: ok }
}

test('7.3: statsd over TCP gets every hit, the last ones at the end', async () => {
  let text = ''
  const server = createServer((socket) => {
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const port = String((server.address() as AddressInfo).port)
  const service = start({ USE_STATSD: 'true', STATSD_HOST: '127.0.0.1', STATSD_PORT: port })
  await service.logged('statistics go to')
  const { ok, over } = await load(service)
  expect([ok, over]).toEqual([LIMIT, 4 * PART - LIMIT])
  expect((await service.stop()).code).toBe(0)
  await vi.waitFor(() => expect(sums(text)).toMatchObject(wanted(ok, over)), WAIT)
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
  await vi.waitFor(() => expect(sums(text)).toMatchObject(wanted(ok, over)), WAIT)
})

test('7.6: Prometheus is told every hit, and two who scrape at once take nothing from each other', async () => {
  const port = await freePort()
  const service = start({
    ...{ USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: `127.0.0.1:${port}`, PROMETHEUS_NATIVE_SERIES: 'true' },
  })
  const { ok, over } = await load(service)
  const scrape = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  for (const text of await Promise.all([scrape(), scrape()])) {
    expect(text).toContain(
      `ratelimit_service_rate_limit_total_hits{domain="shop",key1="user"} ${ok + over}\n`,
    )
    expect(text).toContain(`sluice_decisions_total{code="ok",domain="shop",rule="user"} ${ok}\n`)
    expect(text).toContain(`sluice_decisions_total{code="over_limit",domain="shop",rule="user"} ${over}\n`)
    expect(text).toContain(`sluice_limit_requests{domain="shop",rule="user",unit="day"} ${LIMIT}\n`)
  }
})

test('7.3: two places at once end the start with a line that names them', async () => {
  const service = start({ USE_STATSD: 'true', USE_PROMETHEUS: 'true' })
  await service.logged('unable to use more than one stats sink at the same time')
})

test('7.3: a statsd that is not there stops nobody', async () => {
  const service = start({
    USE_STATSD: 'true',
    STATSD_HOST: '127.0.0.1',
    STATSD_PORT: String(await freePort()),
  })
  await service.logged('Listening for HTTP')
  for (let i = 0; i < 50; i++) expect(await ask(service)).toBe(200)
  await service.logged('statsd 127.0.0.1')
  expect((await service.stop()).code).toBe(0)
})

test('7.3: without a place they are printed, on standard output alone, and the process ends as ever', async () => {
  const service = start({ LOG_LEVEL: 'warn' })
  await service.logged('Listening for HTTP')
  let printed = ''
  service.child.stdout!.on('data', (chunk) => {
    printed += chunk
  })
  expect(await ask(service)).toBe(200)
  expect((await service.stop()).code).toBe(0)
  const line = printed.split('\n').find((each) => each.includes(`${NAME}.total_hits`))
  expect(JSON.parse(line ?? '')).toMatchObject({ msg: 'flushing counter', json: { value: '1.000000' } })
})
