/**
 * The monitor in the running service: its thread, its prober, its database, beside the workers that decide.
 *
 *     fake relay ◄── prober ── store ── evaluation ── api ◄── this test ──► POST /json of the workers: the same counters
 *
 * The tests run in order on one service, which is killed and started again on the same folder, with Redis, in the middle.
 */
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Database } from '../../monitor/storage/database.ts'
import { databasePath } from '../../monitor/storage/path.ts'
import { eventually } from '../helpers/eventually.ts'
import { type FakeRelay, MODELS, startFakeRelay } from '../helpers/fake-relays.ts'
import { MONITOR_LISTENS, monitorUrl, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { postJson, type RunningService, spawnService } from '../helpers/service.ts'
import { soonProbed } from '../helpers/slugs.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const QUOTA = 100_000
const RULES = quotas(QUOTA).replace('unit: hour', 'unit: year') // no window ends while the tests run
const WAIT = { timeout: 20_000 }
const RELAY = soonProbed('relay', 60)
const OTHER = soonProbed('other', 60)
const CLIENT = '127.0.0.9' // has a quota of its own
const BROKEN = '  [{\n'

const folder = makeTemporaryFolder()
let relay: FakeRelay
let other: FakeRelay
let redis: RedisServer
let service: RunningService
let url: string

beforeAll(async () => {
  relay = await startFakeRelay('open')
  other = await startFakeRelay('new-api')
  redis = await startRedis()
  writeCatalogue(siteLine(RELAY, 'relay') + siteLine(OTHER, 'other'))
  await start({})
})
afterAll(async () => {
  await service.stop('SIGKILL')
  await Promise.all([relay.close(), other.close(), redis.stop()])
})

async function start(env: Record<string, string>): Promise<void> {
  const hosts = ['relay', 'first', 'second', 'third'].map((name) => [`${name}.example.com`, relay.port])
  service = spawnMonitor({
    folder,
    rules: RULES,
    hosts: { ...Object.fromEntries(hosts), 'other.example.com': other.port },
    env: { LOG_LEVEL: 'info', DETECTION_CONCURRENCY: '1', ...env },
  })
  await service.logged(MONITOR_LISTENS)
  url = monitorUrl(service)
}

function writeCatalogue(sites: string): void {
  writeFileSync(join(folder, 'catalogue.yaml'), `version: 1\nsites:\n${sites}`)
}

function siteLine(slug: string, host: string): string {
  return `  - { slug: ${slug}, name: A relay, url: "http://${host}.example.com", models_claimed: [${MODELS[0]}, none-such] }\n`
}

async function get(path: string) {
  const response = await fetch(url + path)
  // biome-ignore lint/suspicious/noExplicitAny: what each test expects
  return { status: response.status, json: (await response.json()) as any }
}

const getStatus = async (path: string) => (await get(path)).status

async function submit(target: string) {
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ url: target })
  const response = await fetch(`${url}/detections`, { method: 'POST', headers, body })
  return {
    status: response.status,
    json: (await response.json()) as { id: string; status: string; version: number },
  }
}

/** A request from CLIENT: the quota that is left, and the body. */
function getAsClient(path: string): Promise<{ remaining: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url + path, { localAddress: CLIENT, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () =>
        resolve({ remaining: Number(response.headers['x-ratelimit-remaining']), text }),
      )
    })
    sent.on('error', reject).end()
  })
}

/** How many requests of the class `read` CLIENT may send, and has left; reading them costs nothing. */
async function getReadLimit(): Promise<{ limit: number; remaining: number }> {
  const { text } = await getAsClient('/limits')
  return JSON.parse(text).limits.find((each: { class: string }) => each.class === 'read')
}

async function expectSharedCounter(): Promise<void> {
  // The first decision may take longer than the 20 ms it has; then the built-in limit is reported.
  await expect.poll(async () => (await getReadLimit()).limit, WAIT).toBe(QUOTA)
  for (let i = 1; i <= 3; i++) expect((await getAsClient('/sites')).remaining).toBe(QUOTA - i)
  const entries = [
    { key: 'class', value: 'read' },
    { key: 'ip', value: CLIENT },
  ]
  const { text } = await postJson(service, { domain: 'relay_monitor', descriptors: [{ entries }] })
  expect(JSON.parse(text).statuses[0]).toMatchObject({ code: 'OK', limitRemaining: QUOTA - 4 })
  expect((await getAsClient('/sites')).remaining).toBe(QUOTA - 5)
  expect(await getReadLimit()).toMatchObject({ limit: QUOTA, remaining: QUOTA - 5 })
}

describe('with the counters in memory', () => {
  test('2.1, 6.1, 7.1: a site is listed, probed and rated soon, and gone when the catalogue drops it', async () => {
    await expect.poll(async () => (await get('/sites')).json.total, WAIT).toBe(2)
    expect((await get(`/sites/${RELAY}`)).json).toMatchObject({
      slug: RELAY,
      tier: 'B', // provisional: one probe is no history
      reachable_overseas: true,
      reachable_cn: false,
      model_list_claimed: [MODELS[0], 'none-such'].sort(),
    })
    await expect
      .poll(async () => (await get(`/sites/${RELAY}`)).json.model_list_verified, WAIT)
      .toEqual([...MODELS].sort())
    expect((await get('/meta')).json.regions).toEqual({
      cn: { measured: false },
      overseas: { measured: true },
    })
    writeCatalogue(siteLine(OTHER, 'other'))
    await expect.poll(() => getStatus(`/sites/${RELAY}`), WAIT).toBe(404)
    expect(await getStatus(`/sites/${OTHER}`)).toBe(200)
  })

  test('3.4, 3.5: a detection is queued, run step by step, found, and returned again', async () => {
    const first = await submit('http://first.example.com/v1')
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
    const again = await submit('http://first.example.com/')
    expect([again.status, again.json.id]).toEqual([200, first.json.id])
  })

  test('12: requests and probes are among the statistics of the service', async () => {
    for (let i = 0; i < 3; i++) await get('/changelog')
    await get('/nothing')
    expect((await submit('http://10.0.0.1/')).status).toBe(422)
    await expect
      .poll(() => service.stats(), WAIT)
      .toMatchObject({
        'sluice.monitor.http_requests.GET.200./api/v1/changelog': 3,
        'sluice.monitor.http_requests.GET.404.none': 1,
        'sluice.monitor.probes.overseas.up': expect.any(Number),
        'sluice.monitor.catalogue_sites': 1,
        'sluice.memory_store.public_live_evictions': 0,
        'sluice.monitor.store_queue': expect.any(Number),
        'sluice.monitor.vantage_online.main': 1,
        'sluice.monitor.egress_denied.reserved': 1,
      })
  })

  test('4: a request to the API and one to /json count on one counter', expectSharedCounter)

  test('12: a second monitor on the same port logs it, shares nothing, and costs no decision', async () => {
    const { port } = new URL(url)
    const second = spawnMonitor({
      folder: makeTemporaryFolder(),
      rules: RULES,
      env: { MONITOR_ADDR: `127.0.0.1:${port}` },
    })
    onTestFinished(() => second.stop('SIGKILL').then(() => {}))
    await second.logged(`MONITOR_ADDR=${port}: 127.0.0.1:${port} is already in use`)
    expect(second.log).toContain('[PORT_IN_USE]')
    const entries = [
      { key: 'class', value: 'read' },
      { key: 'ip', value: '192.0.2.1' },
    ]
    const body = { domain: 'relay_monitor', descriptors: [{ entries }] }
    expect((await postJson(second, body)).status).toBe(200)
  })
})

describe('after kill -9 and a restart with Redis and a catalogue that does not load', () => {
  let ids: string[]

  beforeAll(async () => {
    relay.turn('silent')
    const running = await submit('http://second.example.com/')
    const queued = await submit('http://other.example.com/')
    expect([running.json.status, queued.json.status]).toEqual(['running', 'queued'])
    ids = [running.json.id, queued.json.id]
    const database = new Database(databasePath(folder), { isReadOnly: true })
    const countStored = () =>
      database.get<{ count: number }>('SELECT count(*) AS count FROM detection WHERE id IN (?, ?)', ...ids)
    await eventually(() => expect(countStored()).toEqual({ count: 2 }))
    database.close()
    await service.stop('SIGKILL')
    relay.turn('open')
    writeCatalogue(BROKEN)
    await start({
      BACKEND_TYPE: 'redis',
      REDIS_URL: redis.address,
      REDIS_SOCKET_TYPE: 'tcp',
      EXPIRATION_JITTER_MAX_SECONDS: '0',
    })
  })

  test('1.2, 5: nothing is shown and nothing probed until the catalogue loads: opt-outs are not known', async () => {
    expect((await submit('http://relay.example.com/')).status).toBe(503)
    expect([(await get('/sites')).json.code, await getStatus('/leaderboard')]).toEqual(['not_ready', 503])
    const getReadiness = async () => (await fetch(new URL('/readyz', url))).status
    expect(await getReadiness()).toBe(503)
    writeCatalogue(siteLine(OTHER, 'other'))
    await expect.poll(getReadiness, WAIT).toBe(200)
    expect((await get('/sites')).json.total).toBe(1)
    expect((await submit('http://relay.example.com/')).status).toBe(202)
  })

  test('3.5: queued and running detections end under their ids', async () => {
    for (const id of ids)
      await expect.poll(async () => (await get(`/detections/${id}`)).json.status, WAIT).toBe('done')
  })

  test('4: a request to the API and one to /json count on one counter', expectSharedCounter)

  test('5: a site that opts out is hidden and refused, also while the catalogue is broken', async () => {
    writeCatalogue(siteLine(RELAY, 'relay') + siteLine(OTHER, 'other'))
    await expect.poll(async () => (await get('/sites')).json.total, WAIT).toBe(2)
    writeCatalogue(BROKEN)
    writeFileSync(join(folder, 'optout.yaml'), 'version: 1\nhosts: [other.example.com]\n')
    await expect.poll(() => getStatus(`/sites/${OTHER}`), WAIT).toBe(404)
    expect((await submit('http://other.example.com/')).status).toBe(422)
    expect(await getStatus(`/sites/${RELAY}`)).toBe(200)
  })

  test('12: SIGTERM responds to held polls, keeps the queue, and ends with 0', async () => {
    relay.turn('silent')
    const { json } = await submit('http://third.example.com/')
    const held = get(`/detections/${json.id}?wait=25&since=99`)
    const countHeld = async () => (await service.stats())['sluice.monitor.detections.held']
    await expect.poll(countHeld, WAIT).toBe(1)
    service.child.kill('SIGTERM')
    expect((await held).status).toBe(200)
    expect(await service.exited).toMatchObject({ code: 0 })
  })
})

test.each<Record<string, string>>([
  { MONITOR_ADDR: 'nowhere' },
  { VANTAGE_REGION: 'mars', PROBE_INTERVAL_S: '10' }, // both at once
])('12: %j ends the start with a line that names it', async (env) => {
  const failing = spawnService({
    rules: { 'monitor.yaml': RULES },
    env: { MONITOR_ENABLED: 'true', BACKEND_TYPE: 'memory', ...env },
  })
  expect((await failing.exited).code).toBe(2)
  for (const name of Object.keys(env)) expect(failing.log).toContain(name)
})
