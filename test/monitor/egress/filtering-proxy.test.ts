/**
 * The browser's proxy against the prober's corpus (spec 13.7): what the prober must not reach, neither a request nor a CONNECT
 * through the proxy reaches. As in ssrf.test.ts, Node's diagnostics channel must see no connection, except the test's own.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Egress } from '../../../monitor/egress/egress.ts'
import {
  FilteringProxy,
  type FilteringProxyOptions,
  PROXY_USER,
} from '../../../monitor/egress/filtering-proxy.ts'
import { eventually } from '../../helpers/eventually.ts'
import { ANSWERS, LOCATIONS, URLS } from './corpus.ts'
import { ok, redirect, reply } from './raw-server.ts'
import type { World } from './setup.ts'
import { startWorld } from './setup.ts'

let world: World
let closed: FilteringProxy // no override at all
let open: FilteringProxy // 127.0.0.2 may be reached
let sockets = 0
const count = () => {
  sockets++
}
const limits = { requests: 10_000, ms: 600_000, connections: 1_000 }

beforeAll(async () => {
  world = await startWorld()
  closed = await FilteringProxy.listen({ egress: world.egress({}, { EGRESS_TEST_ALLOW: '' }), limits })
  open = await FilteringProxy.listen({ egress: world.egress(), limits })
  world.dns.setRecords('loopback.example.org', { A: ['127.0.0.1'] })
  world.dns.setRecords('mixed.example.org', { A: ['127.0.0.2', '127.0.0.1'] })
  subscribe('net.client.socket', count)
})
beforeEach(() => {
  sockets = 0
})
afterEach(() => expect(world.tripped()).toBe(0))
afterAll(async () => {
  unsubscribe('net.client.socket', count)
  await Promise.all([closed.close(), open.close()])
  await world.close()
})

const withPort = (text: string) => text.replaceAll('PORT', String(world.port))

function authorization({ password }: Pick<FilteringProxy, 'password'>): string {
  return `Proxy-Authorization: Basic ${Buffer.from(`${PROXY_USER}:${password}`).toString('base64')}\r\n`
}

/** Sends bytes and reads until the end; '' = closed without a response. */
async function send(proxy: FilteringProxy, bytes: string): Promise<string> {
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  socket.on('error', () => {})
  socket.write(bytes)
  await once(socket, 'close')
  return text
}

function get(proxy: FilteringProxy, url: string, fields = authorization(proxy)): Promise<string> {
  return send(proxy, `GET ${url} HTTP/1.1\r\nHost: relay.example.org\r\n${fields}Connection: close\r\n\r\n`)
}

const toStatus = (response: string) => Number(response.split(' ')[1] ?? 0)

/** The tunnel's socket, or the status of the refusal. */
async function openTunnel(proxy: FilteringProxy, authority: string): Promise<Socket | number> {
  const socket = connect(proxy.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${authorization(proxy)}\r\n`)
  const ended = once(socket, 'close').then(() => [''])
  const [chunk] = await Promise.race([once(socket, 'data'), ended])
  const status = toStatus(String(chunk))
  if (status === 200) return socket
  socket.destroy()
  return status
}

async function listen(options: Partial<FilteringProxyOptions>): Promise<FilteringProxy> {
  return FilteringProxy.listen({ egress: world.egress(), ...options })
}

async function expectNoPort({ port }: FilteringProxy): Promise<void> {
  const [error] = await once(connect(port, '127.0.0.1'), 'error')
  expect(error.code).toBe('ECONNREFUSED')
}

/** What a client would write of a URL as the authority of a CONNECT. */
function toAuthority(url: string): string {
  const [, rest = ''] = url.split('//')
  const authority = rest.split('/')[0]
  return /:\d+$/.test(authority) ? authority : `${authority}:${world.port}`
}

for (const [kind, url] of URLS) {
  test(`13.7: through the proxy: ${kind}: ${JSON.stringify(url)}`, async () => {
    const queriesBefore = world.dns.queries.length
    expect([0, 400, 403]).toContain(toStatus(await get(closed, withPort(url))))
    expect([0, 400, 403]).toContain(await openTunnel(closed, toAuthority(withPort(url))))
    expect(sockets).toBe(2)
    expect(world.dns.queries.length).toBe(queriesBefore)
  })
}

for (const [i, [kind, A, AAAA]] of ANSWERS.entries()) {
  test(`13.7: through the proxy: a name that is ${kind}: ${[...A, ...AAAA].join(' ')}`, async () => {
    const host = `proxied-${i}.example.org`
    world.dns.setRecords(host, { A: [...A], AAAA: [...AAAA] })
    expect(toStatus(await get(closed, world.url('/', host)))).toBe(403)
    expect(await openTunnel(closed, `${host}:${world.port}`)).toBe(403)
    expect(sockets).toBe(2)
    expect(closed.refusedHosts.has(host)).toBe(true)
  })
}

test('13.7: through the proxy: a redirect is handed to the browser, and its target is judged when it is asked for', async () => {
  for (const location of LOCATIONS) {
    world.relay.on('/go', redirect(withPort(location)))
    expect(toStatus(await get(open, world.url('/go')))).toBe(302)
    if (!/^[\t]?https?:/.test(location) || !/127|localhost|\[|0x7f|213070/.test(location)) continue
    expect([0, 400, 403]).toContain(toStatus(await get(open, withPort(location))))
  }
})

test('13.7: through the proxy: rebinding: each request and each tunnel is judged anew, and the judged address is dialled', async () => {
  world.relay.on('/rebind', ok('the relay'))
  world.dns.setRecords('moving.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])
  const url = world.url('/rebind', 'moving.example.org')
  expect(await get(open, url)).toMatch(/^HTTP\/1.1 200 .*the relay$/s)
  expect(toStatus(await get(open, url))).toBe(403)
  expect(await openTunnel(open, `moving.example.org:${world.port}`)).toBe(403)
})

test('without the password nothing is resolved or connected', async () => {
  const queriesBefore = world.dns.queries.length
  const wrong = authorization({
    password: open.password.replace(/./, (digit) => (digit === '0' ? '1' : '0')),
  })
  for (const fields of ['', wrong, 'Proxy-Authorization: Bearer x\r\n', 'Authorization: Basic eDp5\r\n']) {
    expect(await get(open, world.url('/'), fields)).toMatch(/^HTTP\/1.1 407 .*proxy-authenticate: Basic/is)
    const tunnel = await send(
      open,
      `CONNECT relay.example.org:${world.port} HTTP/1.1\r\nHost: x\r\n${fields}\r\n`,
    )
    expect(tunnel).toMatch(/^HTTP\/1.1 407 .*Proxy-Authenticate: Basic/s)
  }
  expect(sockets).toBe(8)
  expect(world.dns.queries.length).toBe(queriesBefore)
  expect(open.password).not.toBe(closed.password)
})

test('a request is passed on without the fields of this connection, and its response as it is', async () => {
  const head =
    'HTTP/1.1 203 Here\r\ncontent-length: 2\r\nx-of: site\r\nproxy-authenticate: Basic realm=site\r\n\r\nhi'
  world.relay.on('/fields', reply(head))
  const fields = `${authorization(open)}Cookie: a=b\r\nProxy-Connection: keep-alive\r\nX-Gone: 1\r\n`
  const bytes = `GET ${world.url('/fields?q=1')} HTTP/1.1\r\nHost: other.example.org\r\n${fields}Connection: X-Gone, close\r\n\r\n`
  const response = await send(open, bytes)
  expect(response).toMatch(/^HTTP\/1.1 203 .*x-of: site\r\n.*\r\n\r\nhi$/s)
  expect(response).not.toContain('realm=site')
  const seen = world.relay.requests[world.relay.requests.length - 1]
  expect(seen).toMatch(/^GET \/fields\?q=1 HTTP\/1.1\r\n/)
  expect(seen).toContain(`Host: relay.example.org:${world.port}`)
  expect(seen).toContain('Cookie: a=b')
  expect(seen).not.toMatch(/proxy-|x-gone|other\.example/i)
})

test('a tunnel carries bytes in both directions until one side ends', async () => {
  world.relay.on('/tunnelled', (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong'))
  const socket = await openTunnel(open, `relay.example.org:${world.port}`)
  if (typeof socket === 'number') throw new Error(`refused: ${socket}`)
  socket.write('GET /tunnelled HTTP/1.1\r\n\r\n')
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  await once(socket, 'close')
  expect(text).toMatch(/pong$/)
})

test('the additional port of a catalogue entry is open on its own host only', async () => {
  const egress = world.egress({}, { PROBE_PORTS: '443' })
  world.relay.on('/', ok('x'))
  world.dns.setRecords('sibling.example.org', { A: ['127.0.0.2'] })
  const proxy = await listen({ egress, extra: { host: 'relay.example.org', port: world.port } })
  expect(toStatus(await get(proxy, world.url('/')))).toBe(200)
  expect(toStatus(await get(proxy, world.url('/', 'sibling.example.org')))).toBe(403)
  expect(await openTunnel(proxy, `sibling.example.org:${world.port}`)).toBe(403)
  await proxy.close()
})

test('a host that opted out is refused, also as a part of another page', async () => {
  const egress = world.egress()
  egress.optOut = ['example.org']
  const proxy = await listen({ egress })
  expect(toStatus(await get(proxy, world.url('/')))).toBe(403)
  expect(sockets).toBe(1)
  await proxy.close()
})

test('M8.3#3: beyond its bytes every connection is cut and no further one is served', async () => {
  let sent = 0
  world.relay.on('/endless', (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    const more = () => {
      while (!socket.destroyed && socket.write(Buffer.alloc(16_384))) sent += 16_384
    }
    socket.on('drain', more)
    more()
  })
  const proxy = await listen({ limits: { bytesMax: 100_000 } })
  const idle = await openTunnel(proxy, `relay.example.org:${world.port}`)
  if (typeof idle === 'number') throw new Error(`refused: ${idle}`)
  const cut = once(idle, 'close')
  const response = await get(proxy, world.url('/endless'))
  await cut
  expect(response.length).toBeLessThan(200_000)
  expect(proxy.isOverBytes).toBe(true)
  expect(sent).toBeGreaterThan(100_000) // the relay would have sent for ever
  await expectNoPort(proxy)
  await proxy.close()
})

test('M8.3#3: after its time the port is closed and every connection cut', async () => {
  world.relay.on('/silent', () => {})
  const proxy = await listen({ limits: { ms: 500 } })
  expect(await get(proxy, world.url('/silent'))).toBe('')
  await expectNoPort(proxy)
  await proxy.close()
})

test('requests, connections and heads are bounded', async () => {
  world.relay.on('/', ok('x'))
  const proxy = await listen({ limits: { requests: 2, connections: 2, headBytes: 8_192 } })
  expect(toStatus(await get(proxy, world.url('/')))).toBe(200)
  expect([0, 431]).toContain(toStatus(await get(proxy, world.url('/'), `X: ${'a'.repeat(9_000)}\r\n`)))
  world.relay.on('/long', reply(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(9_000)}\r\n\r\n`))
  expect(toStatus(await get(proxy, world.url('/long')))).toBe(502)
  expect(toStatus(await get(proxy, world.url('/')))).toBe(503)
  const idle = [1, 2].map(() => connect(proxy.port, '127.0.0.1'))
  await Promise.all(idle.map((socket) => once(socket, 'connect')))
  await eventually(async () => expect(await get(proxy, world.url('/'))).toBe(''))
  for (const socket of idle) socket.destroy()
  await proxy.close()
})

test('an unreachable target is 502; a closed proxy has no connection and no port', async () => {
  const egress = world.egress({}, { PROBE_PORTS: '1' })
  const proxy = await listen({ egress: egress as Egress })
  expect(toStatus(await get(proxy, 'http://relay.example.org:1/'))).toBe(502)
  expect(await openTunnel(proxy, 'relay.example.org:1')).toBe(502)
  expect(proxy.refusedHosts.size).toBe(0)
  await proxy.close()
  await expectNoPort(proxy)
})
