/**
 * The monitor's process as operators and balancers see it: its rules, the limits of its port, its shutdown.
 *
 *     rule files ──► service ──► monitor          balancer ── PROXY v2 ──► sluice monitor ◄── /readyz, SIGTERM
 */
import { once } from 'node:events'
import { unlinkSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { freePort } from '../helpers/ports.ts'
import { isRefused } from '../helpers/refused.ts'
import { postJson, type RunningService, spawnService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const POLL = { timeout: 20_000 }
const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1') // of PROXY v2
const LOCAL = 0x20 // the balancer itself sends the request
const PROXY = 0x21
const SHOP_RULES: Record<string, string> = { 'shop.yaml': 'domain: shop' }

interface Started {
  service: RunningService
  port: number
  origin: string
}

/** `serve` with the monitor beside it, or `monitor` alone. The caller stops it. */
async function start(command: 'serve' | 'monitor', env = {}, rules = SHOP_RULES): Promise<Started> {
  const folder = makeTemporaryFolder()
  const catalogue = join(folder, 'catalogue.yaml')
  writeFileSync(catalogue, 'version: 1\nsites: []\n')
  const service = spawnService({
    args: [command],
    rules,
    env: {
      MONITOR_ENABLED: 'true',
      MONITOR_ADDR: '127.0.0.1:0',
      MONITOR_DATA_DIR: folder,
      CATALOGUE_PATH: catalogue,
      CONNECTIVITY_CHECK_URLS: '',
      BACKEND_TYPE: 'memory',
      ...env,
    },
  })
  await service.logged("Listening for the monitor on '")
  const address = service.address('the monitor')
  return { service, port: Number(address.split(':')[1]), origin: `http://${address}` }
}

/** `from`: of 127.0.0.0/8. */
function open(port: number, from?: string): Socket & { text: string } {
  const socket = Object.assign(connect({ port, host: '127.0.0.1', localAddress: from }), { text: '' })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {}) // a reset is one of the outcomes
  socket.on('data', (chunk) => {
    socket.text += chunk
  })
  return socket
}

describe('4.1: the rules of the monitor', () => {
  const rules = (requests: number) => `
domain: relay_monitor
descriptors:
  - key: class
    value: read
    descriptors:
      - key: ip
        rate_limit: { unit: hour, requests_per_unit: ${requests} }
`

  test('4.1: built-in rules until a file has the domain, then those of the file; built-in ones are not listed', async () => {
    const { service, origin } = await start(
      'serve',
      { HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true', RUNTIME_IGNOREDOTFILES: 'true' },
      { '.keep': '' },
    )
    onTestFinished(() => service.stop('SIGKILL').then(() => {}))
    const readState = async () => {
      const [config, health, read] = await Promise.all([
        fetch(`${service.debug}/rlconfig`).then((response) => response.text()),
        fetch(`${service.http}/healthcheck`),
        fetch(`${origin}/api/v1/changelog`),
      ])
      const [first] = config.split('\n').filter((line) => !line.startsWith('#')) // the outcome of the last load
      return [first.split(':')[0], health.status, read.headers.get('x-ratelimit-limit')]
    }
    const file = join(service.rulesDirectory, 'monitor.yaml')
    const loaded = 'relay_monitor.class_read.ip'
    await expect.poll(readState, POLL).toEqual(['', 500, '120'])
    writeFileSync(file, rules(500))
    await expect.poll(readState, POLL).toEqual([loaded, 200, '500'])
    writeFileSync(file, rules(777))
    await expect.poll(readState, POLL).toEqual([loaded, 200, '777'])
    expect(service.log).not.toContain('Error loading new configuration')
    writeFileSync(file, 'domain: [')
    await service.logged('Error loading new configuration')
    expect(await readState()).toEqual([loaded, 200, '777'])
    unlinkSync(file)
    await expect.poll(readState, POLL).toEqual(['', 500, '120'])
  })
})

describe('12: a monitor that cannot start beside the service', () => {
  const LISTENS_AGAIN_MS = 90_000 // it is tried again after 1 s, 5 s and 30 s

  async function startFailing(folder: string, env: Record<string, string>): Promise<RunningService> {
    const catalogue = join(folder, 'catalogue.yaml')
    writeFileSync(catalogue, 'version: 1\nsites: []\n')
    const service = spawnService({
      rules: { 'shop.yaml': 'domain: shop' },
      env: {
        ...{
          MONITOR_ENABLED: 'true',
          CATALOGUE_PATH: catalogue,
          CONNECTIVITY_CHECK_URLS: '',
          BACKEND_TYPE: 'memory',
        },
        ...env,
      },
    })
    onTestFinished(() => service.stop('SIGKILL').then(() => {}))
    return service
  }

  /** The lines about its monitor, once that listens. */
  async function getLinesUntilListening(service: RunningService): Promise<string[]> {
    await expect.poll(() => service.log, { timeout: LISTENS_AGAIN_MS }).toContain('the monitor listens again')
    return service.log.split('\n').filter((line) => /monitor/.test(line) && !/debug|ASN_DB/.test(line))
  }

  const getState = async (service: RunningService) => {
    const entries = [{ key: 'user', value: 'alice' }]
    const { status } = await postJson(service, { domain: 'shop', descriptors: [{ entries }] })
    return [status, (await service.stats())['sluice.monitor.up']]
  }

  test.each(['a port in use', 'a folder that cannot be made'])(
    '%s is logged in one sentence; decisions go on, and the monitor starts when it can',
    async (what) => {
      const folder = makeTemporaryFolder()
      const taken = createServer().listen(0, '127.0.0.1')
      await once(taken, 'listening')
      onTestFinished(() => void taken.close())
      const isPort = what.includes('port')
      const port = isPort ? (taken.address() as AddressInfo).port : 0
      const file = join(folder, 'data')
      if (!isPort) writeFileSync(file, '')
      const service = await startFailing(folder, {
        MONITOR_ADDR: `127.0.0.1:${port}`,
        MONITOR_DATA_DIR: join(file, 'monitor'),
      })
      await service.logged('the monitor is down')
      expect(await getState(service)).toEqual([200, 0])
      await expect.poll(() => service.stats().then((stats) => stats['sluice.monitor.up']), POLL).toBe(0)
      if (isPort) taken.close()
      else unlinkSync(file)
      const lines = await getLinesUntilListening(service)
      expect(lines).toHaveLength(2)
      expect(lines[0]).toMatch(
        isPort ? /MONITOR_ADDR.*in use.*\[PORT_IN_USE\]/ : /ENOTDIR.*MONITOR_DATA_DIR.*\[STORE_UNUSABLE\]/,
      )
      expect(lines[0]).not.toMatch(/ {4}at |\.ts:\d/)
      await expect.poll(() => getState(service), POLL).toEqual([200, 1])
    },
    LISTENS_AGAIN_MS + 30_000,
  )
})

describe('a monitor alone', () => {
  let metricsPort: number
  let service: RunningService
  let port: number
  let origin: string

  beforeAll(async () => {
    metricsPort = await freePort()
    const started = await start('monitor', {
      ...{ PROBER_ENABLED: 'false', PROXY_PROTOCOL: 'true', TRUSTED_PROXIES: '127.0.0.1' },
      ...{ DISABLE_STATS: 'false', USE_STATSD: 'false', USE_PROMETHEUS: 'true' },
      PROMETHEUS_ADDR: `127.0.0.1:${metricsPort}`,
    })
    ;({ service, port, origin } = started)
  })
  afterAll(() => service?.stop('SIGKILL').then(() => {}))

  test('12: its metrics and threads are on the debug port, its metrics also in Prometheus', async () => {
    expect((await fetch(`${origin}/api/v1/sites`)).status).toBe(200)
    const name = 'sluice.monitor.http_requests.GET.200./api/v1/sites'
    await expect.poll(async () => (await service.stats())[name], POLL).toBe(1)
    await expect.poll(async () => (await service.stats())['sluice.monitor.catalogue_sites'], POLL).toBe(0)
    expect(await (await fetch(`${service.debug}/debug/threads`)).text()).toMatch(/main[\s\S]+monitor/)
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
    expect(text).toContain('sluice_monitor_catalogue_sites 0')
  })

  test('12: the response to HEAD of a plain page has a length and no body', async () => {
    for (const path of ['/healthz', '/methodology', '/nothing']) {
      const socket = open(port)
      socket.write(`HEAD ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
      await once(socket, 'close')
      expect(socket.text).toMatch(/^HTTP\/1\.1 (200|404) [\s\S]*\r\nContent-Length: [1-9]\d*\r\n\r\n$/)
    }
  })

  test.each([
    [15_500, /^HTTP\/1\.1 200 /],
    [15_872, /^HTTP\/1\.1 200 /],
    [16_385, /^(HTTP\/1\.1 431 |$)/],
    [20_000, /^(HTTP\/1\.1 431 |$)/],
  ])('1.2: a header of 15.5 KB is accepted, one above 16 KiB is not: %i bytes', async (bytes, outcome) => {
    const text = makeHeader(bytes)
    expect(text.length).toBe(bytes)
    const socket = open(port)
    socket.write(text)
    await once(socket, 'close')
    expect(socket.text).toMatch(outcome)
  })

  const IPV6 = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9]
  // biome-ignore format: the columns are the specification
  test.each([
    // peer,       header of PROXY v2                      -> client
    ['127.0.0.1', proxyHeader(PROXY, [203, 0, 113, 9]), '203.0.113.9'],
    ['127.0.0.1', proxyHeader(PROXY, IPV6),             '2001:db8:1:2::/64'],
    ['127.0.0.1', proxyHeader(LOCAL, []),               '127.0.0.1'],
    ['127.0.0.1', Buffer.alloc(0),                      '127.0.0.1'],
    ['127.0.0.2', proxyHeader(PROXY, [203, 0, 113, 9]), '127.0.0.2'],
  ] as const)('4.3: behind a balancer with PROXY v2, from %s: the client of each request is %3$s', async (peer, header, client) => {
    const socket = open(port, peer)
    const findClients = () => [...socket.text.matchAll(/"client":"([^"]*)"/g)].map(([, name]) => name)
    const get = 'GET /api/v1/limits HTTP/1.1\r\nHost: a\r\n\r\n'
    socket.write(Buffer.concat([header, Buffer.from(get)]))
    await expect.poll(findClients, POLL).toEqual([client])
    socket.write(get)
    await expect.poll(findClients, POLL).toEqual([client, client])
  })

  test('M11#11 12: ready, then not ready after SIGTERM, while a running request is completed', async () => {
    const BODY = '{"url":"https://relay.example.com/"}'
    const HEAD = `POST /api/v1/detections HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n`
    const kept = new Agent({ keepAlive: true, maxSockets: 1 }) // the port takes no connection after the signal
    onTestFinished(() => kept.destroy())
    const get = (path: string) => getWith(kept, port, path)
    await expect.poll(() => get('/readyz'), POLL).toEqual([200, 'ready\n'])
    expect(await get('/healthz')).toEqual([200, 'ok\n'])
    const running = open(port)
    const closed = once(running, 'close')
    running.write(HEAD + BODY.slice(0, 9))
    const countSubmissions = async () =>
      /"class":"submit","limit":20,"remaining":(\d+)/.exec((await get('/api/v1/limits'))[1])?.[1]
    await expect.poll(countSubmissions, POLL).toBe('19') // received, and waiting for the rest of its body
    service.child.kill('SIGTERM')
    await expect.poll(() => get('/readyz'), { ...POLL, interval: 5 }).toEqual([503, 'not ready\n'])
    await eventually(async () => expect(await isRefused(port)).toBe(true)) // the drain has begun
    expect(await get('/healthz')).toEqual([200, 'ok\n'])
    running.write(BODY.slice(9))
    await closed
    expect(running.text).toMatch(/^HTTP\/1\.1 202 /)
    expect(await service.exited).toMatchObject({ code: 0, signal: null })
  })
})

const FIELD_BYTES_MAX = 4_000

/** A request whose header has exactly so many bytes, in fields of about equal length. */
function makeHeader(bytes: number): string {
  const line = 'GET /api/v1/changelog HTTP/1.1\r\nHost: a\r\nConnection: close\r\n'
  const left = bytes - line.length - '\r\n'.length
  const count = Math.ceil(left / FIELD_BYTES_MAX)
  const ends = Array.from({ length: count + 1 }, (_, i) => Math.floor((left * i) / count))
  const fields = ends.slice(1).map((end, i) => `X-${i}: `.padEnd(end - ends[i] - '\r\n'.length, 'x'))
  return `${line}${fields.join('\r\n')}\r\n\r\n`
}

function proxyHeader(command: number, source: number[]): Buffer {
  const family = source.length === 16 ? 0x21 : 0x11
  const addresses = source.length === 0 ? [] : [...source, ...source, 0x12, 0x34, 0, 80]
  const head = [command, source.length === 0 ? 0 : family, 0, addresses.length]
  return Buffer.concat([SIGNATURE, Buffer.from([...head, ...addresses])])
}

function getWith(agent: Agent, port: number, path: string): Promise<[status: number, text: string]> {
  return new Promise((resolve, reject) => {
    const sent = request({ agent, host: '127.0.0.1', port, path }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve([response.statusCode!, text]))
    })
    sent.on('error', reject)
    sent.end()
  })
}
