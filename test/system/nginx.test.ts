/**
 * A real nginx before a real monitor: the configuration of examples/nginx, with other ports. A TCP proxy between them counts
 * connections.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { exampleConfig, startNginx } from '../helpers/nginx.ts'
import type { RunningService } from '../helpers/service.ts'
import { startTcpProxy, type TcpProxy } from '../helpers/tcp-proxy.ts'
import { send } from '../monitor/api/setup.ts'

const START_MAX_MS = 60_000
const TEST_MAX_MS = 120_000
const QUOTA = 100
const SITES = '/api/v1/sites'
const UNTRUSTED = 'but TRUSTED_PROXIES is empty'

async function start(
  config: string,
  env: Record<string, string>,
): Promise<{ service: RunningService; port: number; between: TcpProxy }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-nginx-monitor-'))
  writeFileSync(join(folder, 'catalogue.yaml'), 'version: 1\nsites: []\n')
  const more = { PROBER_ENABLED: 'false', ...env }
  const service = spawnMonitor({ folder, rules: quotas(QUOTA), env: more })
  onTestFinished(async () => {
    await service.stop('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  await service.logged(MONITOR_LISTENS, START_MAX_MS)
  const monitorPort = Number(service.address('the monitor').split(':').at(-1))
  const between = await startTcpProxy(monitorPort)
  onTestFinished(() => between.stop())
  const { port } = await startNginx(config, { upstreamPort: between.port })
  return { service, port, between }
}

const remaining = ({ headers }: { headers: Record<string, string> }) =>
  QUOTA - Number(headers['x-ratelimit-remaining'])

test('examples/nginx: HTTP/1.1, kept connections, and a quota for each caller', {
  timeout: TEST_MAX_MS,
}, async () => {
  const { service, port, between } = await start(exampleConfig(), { TRUSTED_PROXIES: '127.0.0.1' })
  const from = async (address: string, headers: Record<string, string> = {}) => {
    const told = await send(port, 'GET', SITES, { from: address, headers })
    expect(told.status).toBe(200)
    return remaining(told)
  }
  expect(await from('127.0.0.5')).toBe(1)
  expect(await from('127.0.0.5')).toBe(2)
  expect(await from('127.0.0.6')).toBe(1)
  expect(await from('127.0.0.5', { 'x-forwarded-for': '198.51.100.1' })).toBe(3) // its word is not believed
  expect(await from('127.0.0.5', { 'x-forwarded-for': '127.0.0.1, 127.0.0.1' })).toBe(4)
  expect(between.connectionsCount).toBe(1) // by callers who each had a connection of their own
  const posted = await send(port, 'POST', '/api/v1/detections', {
    headers: { 'content-type': 'application/json', 'transfer-encoding': 'chunked' },
    from: '127.0.0.7',
  })
  expect([posted.status, between.connectionsCount]).toEqual([400, 1]) // nginx sends a length, so the connection is kept
  for (const page of ['/methodology', '/about/probe']) {
    const { status, headers } = await fetch(`http://127.0.0.1:${port}${page}`)
    expect([page, status, headers.get('content-type')]).toEqual([
      page,
      200,
      expect.stringMatching('text/plain'),
    ])
  }
  const health = await fetch(`http://127.0.0.1:${port}/healthz`) // not for clients: nginx itself refuses it
  expect([health.status, await health.text()]).toEqual([404, expect.stringContaining('nginx')])
  expect(service.log).not.toContain(UNTRUSTED)
})

test('examples/nginx: without TRUSTED_PROXIES all share one quota, and one warning says so', {
  timeout: TEST_MAX_MS,
}, async () => {
  const { service, port } = await start(exampleConfig(), {})
  const counts: number[] = []
  for (const from of ['127.0.0.5', '127.0.0.6', '127.0.0.7'])
    counts.push(remaining(await send(port, 'GET', SITES, { from })))
  expect(counts).toEqual([1, 2, 3])
  await service.logged('requests come from 127.0.0.1 with the header x-forwarded-for')
  expect(service.log.split(UNTRUSTED).length - 1).toBe(1)
  expect(service.log).toContain('set TRUSTED_PROXIES=127.0.0.1 and CLIENT_IP_HEADER=x-forwarded-for.')
})

test('examples/nginx: what its lines are for', { timeout: TEST_MAX_MS }, async () => {
  const without = (line: string) => {
    expect(exampleConfig()).toContain(line)
    return exampleConfig().replace(line, '')
  }
  const old = await start(without('proxy_http_version 1.1;'), {})
  expect((await fetch(`http://127.0.0.1:${old.port}${SITES}`)).status).toBe(505)
  const closing = await start(without('proxy_set_header Connection "";'), {})
  for (let i = 0; i < 3; i++) await send(closing.port, 'GET', SITES, {})
  expect(closing.between.connectionsCount).toBe(3)
})

test('a header line without a name, behind which uWebSockets.js sees none, does not pass nginx', {
  timeout: TEST_MAX_MS,
}, async () => {
  const { port, between } = await start(exampleConfig(), { TRUSTED_PROXIES: '127.0.0.1' })
  const hidden = `GET ${SITES} HTTP/1.1\r\nHost: a\r\n\r\n`
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  const head =
    'POST /api/v1/detections HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n'
  socket.write(`${head}: x\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`)
  await once(socket, 'close')
  expect(text.split('HTTP/1.1 ').length - 1).toBe(1)
  expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\nServer: nginx/)
  expect(between.connectionsCount).toBe(0)
})
