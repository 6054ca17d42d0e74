/**
 * The monitor's process as operators and balancers meet it: whose rules it decides by, what its port takes, how it ends.
 *
 *     rule files ──► service ──► monitor          balancer ── PROXY v2 ──► sluice monitor ◄── /readyz, SIGTERM
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../helpers/ports.ts'
import { postJson, type RunningService, spawnService } from '../helpers/service.ts'

const POLL = { timeout: 10_000 }
const OTHERS_RULES: Record<string, string> = { 'shop.yaml': 'domain: shop' }

interface Started {
  service: RunningService
  port: number
  origin: string
}

/** `serve` with the monitor beside it, or `monitor` alone. */
async function start(command: 'serve' | 'monitor', env = {}, rules = OTHERS_RULES): Promise<Started> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-life-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
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
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  await service.logged("Listening for the monitor on '")
  const address = service.address('the monitor')
  return { service, port: Number(address.split(':')[1]), origin: `http://${address}` }
}

/** `from`: of 127.0.0.0/8. */
function open(port: number, from?: string): Socket & { text: string } {
  const socket = Object.assign(connect({ port, host: '127.0.0.1', localAddress: from }), { text: '' })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {}) // a reset is an answer, too
  socket.on('data', (chunk) => {
    socket.text += chunk
  })
  return socket
}

describe('4.1: whose rules the monitor decides by', () => {
  const rules = (requests: number) => `
domain: relay_monitor
descriptors:
  - key: class
    value: read
    descriptors:
      - key: ip
        rate_limit: { unit: hour, requests_per_unit: ${requests} }
`

  test('4.1: its own until a file has the domain, then those, changed with the file; nobody else sees its own', async () => {
    const { service, origin } = await start(
      'serve',
      { HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true', RUNTIME_IGNOREDOTFILES: 'true' },
      { '.keep': '' },
    )
    const seen = async () => {
      const [config, health, read] = await Promise.all([
        fetch(`${service.debug}/rlconfig`).then((response) => response.text()),
        fetch(`${service.http}/healthcheck`),
        fetch(`${origin}/api/v1/changelog`),
      ])
      const [first] = config.split('\n').filter((line) => !line.startsWith('#')) // what the last load said
      return [first.split(':')[0], health.status, read.headers.get('x-ratelimit-limit')]
    }
    const file = join(service.rulesDirectory, 'monitor.yaml')
    const loaded = 'relay_monitor.class_read.ip'
    await expect.poll(seen, POLL).toEqual(['', 500, '120'])
    writeFileSync(file, rules(500))
    await expect.poll(seen, POLL).toEqual([loaded, 200, '500'])
    writeFileSync(file, rules(777))
    await expect.poll(seen, POLL).toEqual([loaded, 200, '777'])
    expect(service.log).not.toContain('Error loading new configuration')
    writeFileSync(file, 'domain: [')
    await service.logged('Error loading new configuration')
    expect(await seen()).toEqual([loaded, 200, '777'])
    unlinkSync(file)
    await expect.poll(seen, POLL).toEqual(['', 500, '120'])
  })
})

describe('1.2: how long the header of a request may be', () => {
  const LINE = 'GET /api/v1/changelog HTTP/1.1\r\nHost: a\r\nConnection: close\r\n'
  const FIELD_BYTES_MAX = 4_000

  /** A request whose header has exactly so many bytes, in fields of about equal length. */
  function header(bytes: number): string {
    const left = bytes - LINE.length - '\r\n'.length
    const count = Math.ceil(left / FIELD_BYTES_MAX)
    const ends = Array.from({ length: count + 1 }, (_, i) => Math.floor((left * i) / count))
    const fields = ends.slice(1).map((end, i) => `X-${i}: `.padEnd(end - ends[i] - '\r\n'.length, 'x'))
    return `${LINE}${fields.join('\r\n')}\r\n\r\n`
  }

  test('1.2: 15.5 KB are answered, more than 16 KiB are not', async () => {
    const { port } = await start('monitor')
    for (const [bytes, outcome] of [
      [15_500, /^HTTP\/1\.1 200 /],
      [15_872, /^HTTP\/1\.1 200 /],
      [16_385, /^(HTTP\/1\.1 431 |$)/],
      [20_000, /^(HTTP\/1\.1 431 |$)/],
    ] as const) {
      const text = header(bytes)
      expect(text.length).toBe(bytes)
      const socket = open(port)
      socket.write(text)
      await once(socket, 'close')
      expect([bytes, socket.text]).toEqual([bytes, expect.stringMatching(outcome)])
    }
  })
})

describe('4.3: behind a balancer that speaks PROXY v2', () => {
  const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
  const LOCAL = 0x20 // the balancer itself asks
  const PROXY = 0x21

  function proxyHeader(command: number, source: number[]): Buffer {
    const family = source.length === 16 ? 0x21 : 0x11
    const addresses = source.length === 0 ? [] : [...source, ...source, 0x12, 0x34, 0, 80]
    const head = [command, source.length === 0 ? 0 : family, 0, addresses.length]
    return Buffer.concat([SIGNATURE, Buffer.from([...head, ...addresses])])
  }

  const GET = 'GET /api/v1/limits HTTP/1.1\r\nHost: a\r\n\r\n'
  const CLIENT = /"client":"([^"]*)"/g

  test('4.3: who asks is who the balancer says, for each request of a connection; nobody else is believed', async () => {
    const { port } = await start('monitor', { PROXY_PROTOCOL: 'true', TRUSTED_PROXIES: '127.0.0.1' })
    const ipv6 = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9]
    // biome-ignore format: the columns are the specification
    const cases: [from: string, header: Buffer, client: string][] = [
      // peer,       what comes first                        -> client
      ['127.0.0.1', proxyHeader(PROXY, [203, 0, 113, 9]), '203.0.113.9'],
      ['127.0.0.1', proxyHeader(PROXY, ipv6),             '2001:db8:1:2::/64'],
      ['127.0.0.1', proxyHeader(LOCAL, []),               '127.0.0.1'],
      ['127.0.0.1', Buffer.alloc(0),                      '127.0.0.1'],
      ['127.0.0.2', proxyHeader(PROXY, [203, 0, 113, 9]), '127.0.0.2'],
    ]
    for (const [from, header, client] of cases) {
      const socket = open(port, from)
      const clients = () => [...socket.text.matchAll(CLIENT)].map(([, name]) => name)
      socket.write(Buffer.concat([header, Buffer.from(GET)]))
      await expect.poll(clients, POLL).toEqual([client])
      socket.write(GET)
      await expect.poll(clients, POLL).toEqual([client, client])
    }
  })
})

describe('12: a monitor that cannot start beside the service', () => {
  const LISTENS_AGAIN_MS = 90_000 // it is tried again after 1 s, 5 s and 30 s

  async function startUnfit(folder: string, env: Record<string, string>): Promise<RunningService> {
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

  /** What it logged of its monitor, once it listens after all. */
  async function linesUntilItListens(service: RunningService): Promise<string[]> {
    await expect.poll(() => service.log, { timeout: LISTENS_AGAIN_MS }).toContain('the monitor listens again')
    return service.log.split('\n').filter((line) => /monitor/.test(line) && !/debug|ASN_DB/.test(line))
  }

  const isServing = async (service: RunningService) => {
    const entries = [{ key: 'user', value: 'alice' }]
    const { status } = await postJson(service, { domain: 'shop', descriptors: [{ entries }] })
    return [status, (await service.stats())['sluice.monitor.up']]
  }

  test.each(['a port that is taken', 'a folder that cannot be made'])(
    '%s is one sentence; decisions go on, and the monitor starts when it can',
    async (what) => {
      const folder = mkdtempSync(join(tmpdir(), 'sluice-unfit-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const taken = createServer().listen(0, '127.0.0.1')
      await once(taken, 'listening')
      onTestFinished(() => void taken.close())
      const isPort = what.includes('port')
      const port = isPort ? (taken.address() as AddressInfo).port : 0
      const file = join(folder, 'data')
      if (!isPort) writeFileSync(file, '')
      const service = await startUnfit(folder, {
        MONITOR_ADDR: `127.0.0.1:${port}`,
        MONITOR_DATA_DIR: join(file, 'monitor'),
      })
      await service.logged('the monitor is down')
      expect(await isServing(service)).toEqual([200, 0])
      await expect.poll(() => service.stats().then((stats) => stats['sluice.monitor.up']), POLL).toBe(0)
      if (isPort) taken.close()
      else unlinkSync(file)
      const lines = await linesUntilItListens(service)
      expect(lines).toHaveLength(2)
      expect(lines[0]).toMatch(
        isPort ? /MONITOR_ADDR.*in use.*\[PORT_IN_USE\]/ : /ENOTDIR.*MONITOR_DATA_DIR.*\[STORE_UNUSABLE\]/,
      )
      expect(lines[0]).not.toMatch(/ {4}at |\.ts:\d/)
      await expect.poll(() => isServing(service), POLL).toEqual([200, 1])
    },
    LISTENS_AGAIN_MS + 30_000,
  )
})

describe('12: life and death of the process', () => {
  const BODY = '{"url":"https://relay.example.com/"}'
  const HEAD = `POST /api/v1/detections HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n`

  const HELD_MS = 500 // everything else has ended by then; requests have 5 s

  test('M11#11 12: ready, and after SIGTERM not any more, while a request that is under way is finished', async () => {
    const { port, service } = await start('monitor', { PROBER_ENABLED: 'false' })
    const kept = new Agent({ keepAlive: true, maxSockets: 1 }) // the port takes no connection after the signal
    onTestFinished(() => kept.destroy())
    const ask = (path: string) => asked(kept, port, path)
    await expect.poll(() => ask('/readyz'), POLL).toEqual([200, 'ready\n'])
    expect(await ask('/healthz')).toEqual([200, 'ok\n'])
    const held = open(port)
    const closed = once(held, 'close')
    held.write(HEAD + BODY.slice(0, 9))
    const submissions = async () =>
      /"class":"submit","limit":20,"remaining":(\d+)/.exec((await ask('/api/v1/limits'))[1])?.[1]
    await expect.poll(submissions, POLL).toBe('19') // it has come, and waits for the rest of its body
    service.child.kill('SIGTERM')
    await expect.poll(() => ask('/readyz'), { ...POLL, interval: 5 }).toEqual([503, 'not ready\n'])
    await sleep(HELD_MS)
    expect(await ask('/healthz')).toEqual([200, 'ok\n'])
    held.write(BODY.slice(9))
    await closed
    expect(held.text).toMatch(/^HTTP\/1\.1 202 /)
    expect(await service.exited).toMatchObject({ code: 0, signal: null })
  })
})

function asked(agent: Agent, port: number, path: string): Promise<[status: number, text: string]> {
  return new Promise((resolve, reject) => {
    const asking = request({ agent, host: '127.0.0.1', port, path }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve([response.statusCode!, text]))
    })
    asking.on('error', reject)
    asking.end()
  })
}

describe('12: a monitor alone', () => {
  test('HEAD of a plain page has its length and no body', async () => {
    const { port } = await start('monitor', { PROBER_ENABLED: 'false' })
    for (const path of ['/healthz', '/methodology', '/nothing']) {
      const socket = open(port)
      socket.write(`HEAD ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
      await once(socket, 'close')
      expect(socket.text).toMatch(/^HTTP\/1\.1 (200|404) [\s\S]*\r\nContent-Length: [1-9]\d*\r\n\r\n$/)
    }
  })

  test('its figures and threads are seen through the debug port, its figures through Prometheus, too', async () => {
    const port = await freePort()
    const { service, origin } = await start('monitor', {
      ...{ DISABLE_STATS: 'false', USE_STATSD: 'false', USE_PROMETHEUS: 'true' },
      PROMETHEUS_ADDR: `127.0.0.1:${port}`,
    })
    expect((await fetch(`${origin}/api/v1/sites`)).status).toBe(200)
    const name = 'sluice.monitor.http_requests.GET.200./api/v1/sites'
    await expect.poll(async () => (await service.stats())[name], POLL).toBe(1)
    await expect.poll(async () => (await service.stats())['sluice.monitor.catalogue_sites'], POLL).toBe(0)
    expect(await (await fetch(`${service.debug}/debug/threads`)).text()).toMatch(/main[\s\S]+monitor/)
    const scraped = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    expect(scraped).toContain('sluice_monitor_catalogue_sites 0')
  })
})
