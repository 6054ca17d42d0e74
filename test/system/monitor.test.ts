/**
 * The monitor in the running service: its thread, its prober, its database, beside the workers that decide.
 *
 *     fake relay ◄── prober ── store ── evaluation ── api ◄── this test ──► POST /json of the workers: the same counters
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type FakeRelay, MODELS, startFakeRelay } from '../helpers/fake-relays.ts'
import { MONITOR_LISTENS, monitorUrl, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, spawnService } from '../helpers/service.ts'
import { soonProbed } from '../helpers/slugs.ts'

const RULES = quotas(1_000)
const HOUR_MS = 3_600_000
const RELAY = soonProbed('relay', 60)
const OTHER = soonProbed('other', 60)

let relay: FakeRelay
let other: FakeRelay
beforeAll(async () => {
  relay = await startFakeRelay('open')
  other = await startFakeRelay('new-api')
})
afterAll(() => Promise.all([relay.close(), other.close()]))

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-monitor-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

interface Started {
  service: RunningService
  url: string
  // biome-ignore lint/suspicious/noExplicitAny: what each test expects
  get: (path: string) => Promise<{ status: number; headers: Headers; json: any }>
  catalogue: (text: string) => void
}

async function start(
  env: Record<string, string> = {},
  sites = SITES,
  folder = newFolder(),
): Promise<Started> {
  const path = join(folder, 'catalogue.yaml')
  const catalogue = (text: string) => writeFileSync(path, `version: 1\nsites:\n${text}`)
  catalogue(sites)
  const service = spawnMonitor({
    folder,
    rules: RULES,
    hosts: { 'relay.example.com': relay.port, 'other.example.com': other.port },
    env: { LOG_LEVEL: 'info', ...env },
  })
  onTestFinished(async () => {
    await service.stop('SIGKILL')
  })
  await service.logged(MONITOR_LISTENS)
  const url = monitorUrl(service)
  const get = async (path: string) => {
    const response = await fetch(url + path)
    return { status: response.status, headers: response.headers, json: await response.json() }
  }
  return { service, url, get, catalogue }
}

const siteOf = (slug: string, host: string) =>
  `  - { slug: ${slug}, name: A relay, url: "http://${host}.example.com", models_claimed: [${MODELS[0]}, none-such] }
`
const SITES = siteOf(RELAY, 'relay')

async function submit(url: string, target: string) {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/detections`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ url: target }),
  })
  return {
    status: response.status,
    json: (await response.json()) as { id: string; status: string; version: number },
  }
}

describe('a site', () => {
  test('2.1, 6.1, 7.1: listed, probed and judged within seconds; gone as soon as the catalogue says so', async () => {
    const { get, catalogue } = await start()
    await expect.poll(async () => (await get('/sites')).json.total, { timeout: 20_000 }).toBe(1)
    const { json: site } = await get(`/sites/${RELAY}`)
    expect(site).toMatchObject({
      slug: RELAY,
      tier: 'B', // provisional: a first look is no history
      reachable_overseas: true,
      reachable_cn: false,
      model_list_claimed: [MODELS[0], 'none-such'].sort(),
    })
    await expect
      .poll(async () => (await get(`/sites/${RELAY}`)).json.model_list_verified, { timeout: 20_000 })
      .toEqual([...MODELS].sort())
    expect((await get('/meta')).json.regions).toEqual({
      cn: { measured: false },
      overseas: { measured: true },
    })
    catalogue(siteOf(OTHER, 'other'))
    await expect.poll(async () => (await get(`/sites/${RELAY}`)).status, { timeout: 20_000 }).toBe(404)
    await expect.poll(async () => (await get(`/sites/${OTHER}`)).status, { timeout: 20_000 }).toBe(200)
  })
})

describe('a detection', () => {
  test('3.4, 3.5: is queued, run step by step, found, and given again', async () => {
    const { url, get } = await start(
      {},
      '  []\n'.replace('  []', '  - { slug: other, name: O, url: "http://other.example.com", hidden: true }'),
    )
    const first = await submit(url, 'http://relay.example.com/v1')
    expect(first.status).toBe(202)
    let { json } = await get(`/detections/${first.json.id}?wait=5&since=${first.json.version}`)
    expect(json.version).toBeGreaterThan(first.json.version)
    for (let i = 0; i < 50 && json.status !== 'done'; i++) {
      json = (await get(`/detections/${first.json.id}?wait=5&since=${json.version}`)).json
    }
    expect(json).toMatchObject({
      status: 'done',
      result: { verdict: 'compatible_api', vantage: 'main', models_total: MODELS.length },
    })
    expect(json.steps.map(({ status }: { status: string }) => status)).not.toContain('pending')
    const again = await submit(url, 'http://relay.example.com/')
    expect([again.status, again.json.id]).toEqual([200, first.json.id])
  })
})

test('1.2, 5: without a catalogue that loads nothing is shown and nobody looked at: opt-outs are not known', async () => {
  const folder = newFolder()
  const before = await start({}, SITES, folder)
  await expect.poll(async () => (await before.get('/sites')).json.total, { timeout: 20_000 }).toBe(1)
  await before.service.stop('SIGTERM')
  const { url, get, catalogue } = await start({}, '  [{\n', folder)
  expect((await submit(url, 'http://relay.example.com/')).status).toBe(503)
  expect([(await get('/sites')).json.code, (await get('/leaderboard')).status]).toEqual(['not_ready', 503])
  const readyz = async () => (await fetch(new URL('/readyz', url))).status
  expect(await readyz()).toBe(503)
  catalogue(SITES)
  await expect.poll(readyz, { timeout: 10_000 }).toBe(200)
  expect((await get('/sites')).json.total).toBe(1)
  expect((await submit(url, 'http://relay.example.com/')).status).toBe(202)
})

test('5: who opts out of a running monitor is refused, and hidden, also while the catalogue is broken', async () => {
  const folder = newFolder()
  const { url, get, catalogue } = await start({}, SITES + siteOf(OTHER, 'other'), folder)
  await expect.poll(async () => (await get('/sites')).json.total, { timeout: 20_000 }).toBe(2)
  catalogue('  [{\n')
  writeFileSync(join(folder, 'optout.yaml'), 'version: 1\nhosts: [other.example.com]\n')
  await expect.poll(async () => (await get(`/sites/${OTHER}`)).status, { timeout: 10_000 }).toBe(404)
  expect((await submit(url, 'http://other.example.com/')).status).toBe(422)
  expect((await get(`/sites/${RELAY}`)).status).toBe(200)
})

describe('a detection and a restart', () => {
  test('3.5: queued and running ones survive kill -9, and end under their ids', async () => {
    const folder = newFolder()
    relay.turn('silent')
    onTestFinished(() => relay.turn('open'))
    const env = { DETECTION_CONCURRENCY: '1' }
    const first = await start(env, SITES, folder)
    const running = await submit(first.url, 'http://relay.example.com/')
    const queued = await submit(first.url, 'http://other.example.com/')
    expect([running.json.status, queued.json.status]).toEqual(['running', 'queued'])
    await sleep(600) // 250 ms may be lost
    await first.service.stop('SIGKILL')
    relay.turn('open')
    const { get } = await start(env, SITES, folder)
    for (const { json } of [running, queued]) {
      const statusOf = async () => (await get(`/detections/${json.id}`)).json.status
      await expect.poll(statusOf, { timeout: 20_000 }).toBe('done')
    }
  })
})

describe('4: quotas are those of the decision service', () => {
  test.each(['memory', 'Redis'])(
    'with %s a request to the API and one to /json count on one counter',
    async (store) => {
      if (HOUR_MS - (Date.now() % HOUR_MS) < 30_000) await sleep(30_000) // the window must not end in the middle
      let env = {}
      if (store === 'Redis') {
        const redis = await startRedis()
        onTestFinished(() => redis.stop())
        env = {
          BACKEND_TYPE: 'redis',
          REDIS_URL: redis.address,
          REDIS_SOCKET_TYPE: 'tcp',
          EXPIRATION_JITTER_MAX_SECONDS: '0',
        }
      }
      const { get, service } = await start(env)
      // The first decision may take longer than the 20 ms it has; then the built-in limit is told.
      const limitOf = async () =>
        (await get('/limits')).json.limits.find((each: { class: string }) => each.class === 'read').limit
      await expect.poll(limitOf).toBe(1_000)
      for (let i = 1; i <= 3; i++)
        expect((await get('/sites')).headers.get('x-ratelimit-remaining')).toBe(String(1_000 - i))
      const entries = [
        { key: 'class', value: 'read' },
        { key: 'ip', value: '127.0.0.1' },
      ]
      const { text } = await postJson(service, { domain: 'relay_monitor', descriptors: [{ entries }] })
      expect(JSON.parse(text).statuses[0]).toMatchObject({ code: 'OK', limitRemaining: 996 })
      const last = await get('/sites')
      expect(last.headers.get('x-ratelimit-remaining')).toBe('995')
      const peeked = (await get('/limits')).json.limits.find(
        (each: { class: string }) => each.class === 'read',
      )
      expect(peeked).toMatchObject({ limit: 1_000, remaining: 995 })
    },
  )
})

test('12: what was asked and what was probed is among the statistics of the service', async () => {
  const { get, service, url } = await start()
  for (let i = 0; i < 3; i++) await get('/sites')
  await get('/nothing')
  expect((await submit(url, 'http://10.0.0.1/')).status).toBe(422)
  await expect
    .poll(() => service.stats(), { timeout: 20_000, interval: 500 })
    .toMatchObject({
      'sluice.monitor.http_requests.GET.200./api/v1/sites': 3,
      'sluice.monitor.http_requests.GET.404.none': 1,
      'sluice.monitor.probes.overseas.up': expect.any(Number),
      'sluice.monitor.catalogue_sites': 1,
      'sluice.memory_store.public_live_evictions': 0,
      'sluice.monitor.store_queue': expect.any(Number),
      'sluice.monitor.vantage_online.main': 1,
      'sluice.monitor.egress_denied.reserved': 1,
    })
})

describe('start and end', () => {
  test('12: SIGTERM answers who is held, keeps what was queued, and ends with 0', async () => {
    const { service, url, get } = await start({ DETECTION_CONCURRENCY: '1' })
    relay.turn('silent')
    onTestFinished(() => relay.turn('open'))
    const { json } = await submit(url, 'http://relay.example.com/')
    const held = get(`/detections/${json.id}?wait=25&since=99`)
    await sleep(300)
    service.child.kill('SIGTERM')
    expect((await held).status).toBe(200)
    expect(await service.exited).toMatchObject({ code: 0 })
  })

  test('12: a port that is taken costs no decision, and is told', async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void taken.close())
    const { port } = taken.address() as { port: number }
    const service = spawnMonitor({
      folder: newFolder(),
      rules: RULES,
      env: { MONITOR_ADDR: `127.0.0.1:${port}` },
    })
    onTestFinished(() => service.stop('SIGKILL').then(() => {}))
    await service.logged('PORT_IN_USE')
    const entries = [
      { key: 'class', value: 'read' },
      { key: 'ip', value: '192.0.2.1' },
    ]
    expect((await postJson(service, { domain: 'relay_monitor', descriptors: [{ entries }] })).status).toBe(
      200,
    )
  })

  test('12: a second monitor on the same port is told, and shares nothing', async () => {
    const { url } = await start()
    const port = new URL(url).port
    const second = spawnMonitor({
      folder: newFolder(),
      rules: RULES,
      env: { MONITOR_ADDR: `127.0.0.1:${port}` },
    })
    onTestFinished(() => second.stop('SIGKILL').then(() => {}))
    await second.logged(`MONITOR_ADDR=${port}: 127.0.0.1:${port} is already in use`)
  })

  test.each([
    ['MONITOR_ADDR', 'nowhere'],
    ['TRUSTED_PROXIES', '10.0.0.0/8,many'],
    ['PUBLIC_BASE_URL', 'monitor'],
    ['VANTAGE_NAME', 'Main Street'],
    ['VANTAGE_REGION', 'mars'],
    ['PROBE_INTERVAL_S', '10'],
  ])('12: %s=%s ends the start with a line that names it', async (name, value) => {
    const service = spawnService({
      rules: { 'monitor.yaml': RULES },
      env: { MONITOR_ENABLED: 'true', BACKEND_TYPE: 'memory', [name]: value },
    })
    const { code } = await service.exited
    expect(code).not.toBe(0)
    expect(service.log).toContain(name)
  })
})
