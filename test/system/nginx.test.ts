/**
 * A real nginx before a real monitor: the configuration of examples/nginx, with other ports. A TCP proxy between them counts
 * connections.
 */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { exampleConfig, startNginx } from '../helpers/nginx.ts'
import type { RunningService } from '../helpers/service.ts'
import { startTcpProxy, type TcpProxy } from '../helpers/tcp-proxy.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'
import { send } from '../monitor/api/setup.ts'

const QUOTA = 100
const SITES = '/api/v1/sites'
const UNTRUSTED = 'but TRUSTED_PROXIES is empty'

let trusting: RunningService // trusts the nginx in front of it
let untrusting: RunningService

beforeAll(async () => {
  const [first, second] = ['127.0.0.1', ''].map((TRUSTED_PROXIES) => {
    const folder = makeTemporaryFolder()
    writeFileSync(join(folder, 'catalogue.yaml'), 'version: 1\nsites: []\n')
    return spawnMonitor({ folder, rules: quotas(QUOTA), env: { PROBER_ENABLED: 'false', TRUSTED_PROXIES } })
  })
  trusting = first
  untrusting = second
  await Promise.all([first.logged(MONITOR_LISTENS), second.logged(MONITOR_LISTENS)])
})
afterAll(() => Promise.all([trusting?.stop('SIGKILL'), untrusting?.stop('SIGKILL')]))

/** An nginx before a monitor, until the test ends, and the proxy between the two. */
async function startFront(
  monitor: RunningService,
  config = exampleConfig(),
): Promise<{ port: number; between: TcpProxy }> {
  const between = await startTcpProxy(Number(monitor.address('the monitor').split(':').at(-1)))
  onTestFinished(() => between.stop())
  const { port } = await startNginx(config, { upstreamPort: between.port })
  return { port, between }
}

const countUsed = ({ headers }: { headers: Record<string, string> }) =>
  QUOTA - Number(headers['x-ratelimit-remaining'])

test('examples/nginx: HTTP/1.1, kept connections, and a quota for each client', async () => {
  const { port, between } = await startFront(trusting)
  const from = async (address: string, headers: Record<string, string> = {}) => {
    const response = await send(port, 'GET', SITES, { from: address, headers })
    expect(response.status).toBe(200)
    return countUsed(response)
  }
  expect(await from('127.0.0.5')).toBe(1)
  expect(await from('127.0.0.5')).toBe(2)
  expect(await from('127.0.0.6')).toBe(1)
  expect(await from('127.0.0.5', { 'x-forwarded-for': '198.51.100.1' })).toBe(3) // not trusted
  expect(await from('127.0.0.5', { 'x-forwarded-for': '127.0.0.1, 127.0.0.1' })).toBe(4)
  expect(between.connectionsCount).toBe(1) // by clients with a connection each
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
      expect.stringMatching('text/html'),
    ])
  }
  const health = await fetch(`http://127.0.0.1:${port}/healthz`) // refused by nginx itself
  expect([health.status, await health.text()]).toEqual([404, expect.stringContaining('nginx')])
  expect(trusting.log).not.toContain(UNTRUSTED)
})

test('examples/nginx: without TRUSTED_PROXIES all clients share one quota, and one warning is logged', async () => {
  const { port } = await startFront(untrusting)
  const counts: number[] = []
  for (const from of ['127.0.0.5', '127.0.0.6', '127.0.0.7'])
    counts.push(countUsed(await send(port, 'GET', SITES, { from })))
  expect(counts).toEqual([1, 2, 3])
  await untrusting.logged('requests come from 127.0.0.1 with the header x-forwarded-for')
  expect(untrusting.log.split(UNTRUSTED).length - 1).toBe(1)
  expect(untrusting.log).toContain('set TRUSTED_PROXIES=127.0.0.1 and CLIENT_IP_HEADER=x-forwarded-for.')
})

test('examples/nginx: without its line for HTTP/1.1 requests fail; without the one for kept connections each has its own', async () => {
  const without = (line: string) => {
    expect(exampleConfig()).toContain(line)
    return exampleConfig().replace(line, '')
  }
  const old = await startFront(untrusting, without('proxy_http_version 1.1;'))
  expect((await fetch(`http://127.0.0.1:${old.port}${SITES}`)).status).toBe(505)
  const closing = await startFront(untrusting, without('proxy_set_header Connection "";'))
  for (let i = 0; i < 3; i++) await send(closing.port, 'GET', SITES, {})
  expect(closing.between.connectionsCount).toBe(3)
})

test('a header line without a name, at which uWebSockets.js stops reading, does not pass nginx', async () => {
  const { port, between } = await startFront(trusting)
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
