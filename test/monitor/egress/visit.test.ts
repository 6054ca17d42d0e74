/** Visits of a relay that behaves, and of one that redirects. */
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { Session } from '../../../monitor/egress/egress.ts'
import { LIMITS } from '../../../monitor/egress/limits.ts'
import { eventually } from '../../helpers/eventually.ts'
import { ok, redirect, reply } from './raw-server.ts'
import type { World } from './setup.ts'
import { RELAY, startWorld } from './setup.ts'

let world: World
const purpose = 'catalogue'

beforeAll(async () => {
  world = await startWorld()
})
afterEach(async () => {
  expect(world.tripped()).toBe(0)
  await eventually(() => expect(world.relay.open).toBe(0)) // no connection outlives its visit or session
})
afterAll(() => world.close())

test('M6.2#1-2 5: a visit gives status, headers, body, timings, addresses', async () => {
  world.relay.on('/plain', ok('{"data":[]}', 'X-New-Api-Version: v1\r\nset-cookie: a\r\nSet-Cookie: b\r\n'))
  const visit = await world.egress().visit({ url: world.url('/plain#part'), purpose })
  expect(visit).toMatchObject({
    error: null,
    url: world.url('/plain'),
    status: 200,
    httpVersion: '1.1',
    certificate: null,
    addresses: ['127.0.0.2'],
    hasIpv6: false,
    remoteAddress: '127.0.0.2',
    isReused: false,
  })
  expect(visit.body.toString()).toBe('{"data":[]}')
  expect(visit.headers.get('x-new-api-version')).toBe('v1')
  expect(visit.headers.get('set-cookie')).toBe('a, b')
  expect(visit.hops).toHaveLength(1)
  const { dnsMs, connectMs, tlsMs, ttfbMs, totalMs } = visit.timings
  for (const ms of [dnsMs, connectMs, ttfbMs, totalMs]) expect(ms).toSatisfy(Number.isInteger)
  expect(tlsMs).toBeNull()
  expect(totalMs).toBeGreaterThanOrEqual(ttfbMs as number)
})

test('M5#10: the headers of a request', async () => {
  world.relay.on('/headers', ok(''))
  const egress = world.egress({}, { PUBLIC_BASE_URL: 'http://127.0.0.1:8090/' })
  await egress.visit({ url: world.url('/headers?a=1'), purpose, headers: { authorization: 'Bearer k' } })
  expect(world.relay.requests.at(-1)?.split('\r\n')).toEqual([
    'GET /headers?a=1 HTTP/1.1',
    `host: ${RELAY}:${world.port}`,
    'user-agent: RelayMonitor/1.0.0 (+http://127.0.0.1:8090/about/probe)',
    'accept-encoding: gzip, br',
    'accept: */*',
    'authorization: Bearer k',
    'connection: close',
  ])
  for (const header of ['cookie', 'referer', 'host', 'Accept']) {
    const visit = egress.visit({ url: world.url('/headers'), purpose, headers: { [header]: 'x' } })
    await expect(visit, header).rejects.toThrow(`header ${header} is not sent to targets`)
  }
})

test('5.10: a key that is not valid in a header is an error of the caller, and is not in the message', async () => {
  for (const value of ['secret\n', 'sec\r\nret', ' secret', 'sécret', '']) {
    const headers = { 'x-api-key': value }
    const visit = world.egress().visit({ url: world.url('/headers'), purpose, headers })
    await expect(visit).rejects.toThrow(/^header x-api-key has characters that are not visible$/)
  }
})

test('M5#8: HTTP_PROXY and its friends are ignored', async () => {
  world.relay.on('/plain', ok('direct'))
  const proxy = `http://127.0.0.1:${world.port}` // the tripwire
  for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY']) vi.stubEnv(name, proxy)
  vi.stubEnv('NODE_USE_ENV_PROXY', '1')
  const visit = await world.egress().visit({ url: world.url('/plain'), purpose })
  vi.unstubAllEnvs()
  expect(visit.body.toString()).toBe('direct')
})

test('5: a status of 400 and more is a response', async () => {
  world.relay.on('/401', reply('HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}'))
  const visit = await world.egress().visit({ url: world.url('/401'), purpose })
  expect([visit.error, visit.status, visit.body.toString()]).toEqual([null, 401, '{}'])
})

// biome-ignore format: the columns are the specification
const complete: [string, Buffer, string][] = [
  ['gzip',                 gzipSync('hello'), 'content-encoding: gzip\r\n'],
  ['x-gzip, upper case',   gzipSync('hello'), 'Content-Encoding: X-GZIP\r\n'],
  ['identity',             Buffer.from('hello'), 'content-encoding: identity\r\n'],
]
for (const [name, body, line] of complete) {
  test(`5.9: a body in ${name}`, async () => {
    world.relay.on('/encoded', ok(body, line))
    const visit = await world.egress().visit({ url: world.url('/encoded'), purpose })
    expect([visit.error, visit.body.toString()]).toEqual([null, 'hello'])
  })
}

test('5.10: a response to HEAD has no body, even with Content-Length', async () => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\ncontent-encoding: gzip\r\n\r\n'
  world.relay.on('/head', reply(head))
  const visit = await world.egress().visit({ url: world.url('/head'), purpose, method: 'HEAD' })
  expect([visit.error, visit.status, visit.body.length]).toEqual([null, 200, 0])
})

test('5.9: an empty body with Content-Encoding: gzip, a 204 and a 304 are complete', async () => {
  world.relay.on('/empty', ok('', 'content-encoding: gzip\r\n'))
  world.relay.on('/204', reply('HTTP/1.1 204 No Content\r\ncontent-encoding: gzip\r\n\r\n'))
  world.relay.on('/304', reply('HTTP/1.1 304 Not Modified\r\ncontent-encoding: br\r\n\r\n'))
  for (const path of ['/empty', '/204', '/304']) {
    const visit = await world.egress().visit({ url: world.url(path), purpose })
    expect([path, visit.error, visit.detail]).toEqual([path, null, null])
  }
})

test('M6.2#1 6.1: the visits of a session share a connection, and only measure it once', async () => {
  world.relay.on('/one', ok('1'))
  world.relay.on('/two', ok('2'))
  const [session, egress, before] = [new Session(), world.egress(), world.relay.connections]
  const first = await egress.visit({ url: world.url('/one'), purpose, session })
  const second = await egress.visit({ url: world.url('/two'), purpose, session })
  session.close()
  expect(world.relay.connections - before).toBe(1)
  expect([first.isReused, second.isReused]).toEqual([false, true])
  expect(second.timings).toMatchObject({ dnsMs: null, connectMs: null, tlsMs: null })
  expect(second.addresses).toEqual(['127.0.0.2'])
  expect(second.body.toString()).toBe('2')
})

test('6.1: a kept connection that closed is opened again, with a new lookup', async () => {
  world.relay.on('/one', ok('1'))
  world.relay.on('/dies', (socket, request) => {
    const isFirst = world.relay.requests.filter((other) => other === request).length === 1
    if (isFirst) socket.destroy()
    else ok('alive')(socket, request)
  })
  const [session, egress] = [new Session(), world.egress()]
  await egress.visit({ url: world.url('/one'), purpose, session })
  const visit = await egress.visit({ url: world.url('/dies'), purpose, session })
  session.close()
  expect([visit.error, visit.body.toString(), visit.isReused]).toEqual([null, 'alive', false])
  expect(visit.timings.dnsMs).not.toBeNull()
})

test('6.1: a server that closes is not waited for; a closed session keeps nothing', async () => {
  world.relay.on('/closes', ok('bye', 'connection: close\r\n'))
  const [session, egress] = [new Session(), world.egress()]
  await egress.visit({ url: world.url('/closes'), purpose, session })
  const visit = await egress.visit({ url: world.url('/closes'), purpose, session })
  expect([visit.error, visit.isReused]).toEqual([null, false])
  session.close()
  world.relay.on('/one', ok('1'))
  const after = await egress.visit({ url: world.url('/one'), purpose, session })
  expect([after.error, after.isReused]).toEqual([null, false])
})

test('M5#7: three redirects are followed, a fourth is not', async () => {
  world.relay.on('/a', redirect('/b', 301))
  world.relay.on('/b', redirect('c?x=1', 307))
  world.relay.on('/c', redirect(world.url('/end'), 308))
  world.relay.on('/end', ok('end'))
  const visit = await world.egress().visit({ url: world.url('/a'), purpose })
  expect([visit.error, visit.url, visit.body.toString()]).toEqual([null, world.url('/end'), 'end'])
  expect(visit.hops.map(({ url, status, location }) => [url, status, location])).toEqual([
    [world.url('/a'), 301, '/b'],
    [world.url('/b'), 307, 'c?x=1'],
    [world.url('/c?x=1'), 308, world.url('/end')],
    [world.url('/end'), 200, null],
  ])
  world.relay.on('/0', redirect('/a'))
  const tooMany = await world.egress().visit({ url: world.url('/0'), purpose })
  expect([tooMany.error, tooMany.detail, tooMany.hops.length]).toEqual(['redirect_loop', 'too many', 4])
})

test('5.7: the body of a redirect is not waited for', async () => {
  world.relay.on('/half', reply('HTTP/1.1 302 Found\r\nlocation: /end\r\ncontent-length: 99\r\n\r\nhalf'))
  world.relay.on('/end', ok('end'))
  const visit = await world.egress({ limits: { bodyMs: 500 } }).visit({ url: world.url('/half'), purpose })
  expect([visit.error, visit.body.toString()]).toEqual([null, 'end'])
})

test('5.7: a redirect without a location is a response', async () => {
  world.relay.on('/nowhere', reply('HTTP/1.1 302 Found\r\ncontent-length: 4\r\n\r\nlost'))
  const visit = await world.egress().visit({ url: world.url('/nowhere'), purpose })
  expect([visit.error, visit.status, visit.body.toString(), visit.hops.length]).toEqual([
    null,
    302,
    'lost',
    1,
  ])
})

test('5.7: a circle is seen before the count is full', async () => {
  world.relay.on('/x', redirect('/y#there'))
  world.relay.on('/y', redirect('/x#back'))
  const visit = await world.egress().visit({ url: world.url('/x'), purpose })
  expect([visit.error, visit.detail, visit.hops.length]).toEqual(['redirect_loop', 'seen before', 2])
})

test('5.7: each hop resolves again', async () => {
  world.dns.setRecords('first.example.org', { A: ['127.0.0.2'] })
  world.dns.setRecords('second.example.org', { A: ['127.0.0.2'] })
  world.relay.on('/', redirect(`http://second.example.org:${world.port}/plain`))
  world.relay.on('/plain', ok('x'))
  const visit = await world.egress().visit({ url: world.url('/', 'first.example.org'), purpose })
  expect(visit.error).toBeNull()
  for (const name of ['A first.example.org', 'AAAA first.example.org', 'A second.example.org']) {
    expect(world.dns.queries.filter((line) => line === name)).toHaveLength(1)
  }
})

test('5.1: the extra port of an entry is allowed on its host only', async () => {
  const egress = world.egress({}, { PROBE_PORTS: '80' })
  world.dns.setRecords('elsewhere.example.org', { A: ['127.0.0.2'] })
  world.relay.on('/stay', redirect('/plain'))
  world.relay.on('/leave', redirect(world.url('/plain', 'elsewhere.example.org')))
  const visit = (path: string, extraPort?: number) =>
    egress.visit({ url: world.url(path), purpose, extraPort })
  expect((await visit('/stay')).error).toBe('target_not_allowed')
  expect((await visit('/stay', world.port)).error).toBeNull()
  expect((await visit('/leave', world.port)).error).toBe('redirect_refused')
})

test('M5#7: a key is dropped when the origin changes, and stays dropped', async () => {
  world.dns.setRecords('other.example.org', { A: ['127.0.0.2'] })
  world.relay.on('/in', redirect('/same'))
  world.relay.on('/same', redirect(`http://other.example.org:${world.port}/out`))
  world.relay.on('/out', redirect(world.url('/home')))
  world.relay.on('/home', ok(''))
  const headers = { authorization: 'Bearer secret', 'x-api-key': 'secret', accept: 'application/json' }
  const before = world.relay.requests.length
  const visit = await world.egress().visit({ url: world.url('/in'), purpose, headers })
  expect(visit.error).toBeNull()
  const hops = world.relay.requests.slice(before)
  expect(hops.map((request) => request.includes('secret'))).toEqual([true, true, false, false])
  expect(hops.every((request) => request.includes('application/json'))).toBe(true)
})

test('5.7: redirects: none gives the redirect itself', async () => {
  world.relay.on('/to-https', redirect('https://relay.example.org/'))
  const url = world.url('/to-https')
  const visit = await world.egress().visit({ url, purpose, redirects: 'none' })
  expect([visit.error, visit.status, visit.hops[0].location]).toEqual([
    null,
    302,
    'https://relay.example.org/',
  ])
})

test('an abort ends the visit at once, in each phase', async () => {
  world.dns.setRecords('silent.example.org', { silent: ['A', 'AAAA'] })
  world.relay.on('/silent', () => {})
  world.relay.on('/half', reply('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'))
  const cases = [
    [world.url('/', 'silent.example.org'), 'dns_timeout'],
    [world.url('/silent'), 'http_timeout'],
    [world.url('/half'), 'http_timeout'],
  ] as const
  for (const [url, error] of cases) {
    const visit = await world.egress().visit({ url, purpose, signal: AbortSignal.timeout(100) })
    expect([url, visit.error]).toEqual([url, error])
    expect(visit.timings.totalMs).toBeLessThan(LIMITS.dnsMs)
  }
  const given = await world.egress().visit({ url: world.url('/half'), purpose, signal: AbortSignal.abort() })
  expect([given.error, given.detail]).toEqual(['dns_timeout', 'given up'])
})
