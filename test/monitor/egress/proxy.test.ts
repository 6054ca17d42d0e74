/**
 * With EGRESS_PROXY every connection is a CONNECT. The proxy is a real one on 127.0.0.3, an address that is not allowed as a target;
 * the authority of the CONNECT selects what it does. Only the proxy resolves `known.example.org`.
 */
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Egress, EgressOptions, Visit } from '../../../monitor/egress/egress.ts'
import { Session } from '../../../monitor/egress/egress.ts'
import type { Certificates } from '../../helpers/certificates.ts'
import { makeCertificates } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import { LOCATIONS, URLS } from './corpus.ts'
import type { RawServer, Responder } from './raw-server.ts'
import { ok, redirect, reply, startRaw } from './raw-server.ts'
import type { World } from './setup.ts'
import { startWorld } from './setup.ts'

const KNOWN = 'known.example.org'
const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n'
const SECRET = 'pass@word'
const purpose = 'catalogue'
let world: World
let proxy: RawServer
let secure: RawServer // a relay behind TLS, on 127.0.0.2 as the other
let certificates: Certificates
let egress: Egress
let queriesBefore: number // DNS queries before the test

beforeAll(async () => {
  world = await startWorld()
  proxy = await startRaw('127.0.0.3')
  certificates = await makeCertificates(`DNS:${KNOWN}`)
  const [cert, key] = [certificates.cert, certificates.key].map((path) => readFileSync(path))
  secure = await startRaw('127.0.0.2', 0, { cert, key, ALPNProtocols: ['h2', 'http/1.1'] })
  for (const host of [KNOWN, 'other.example.org']) {
    proxy.on(`${host}:${world.port}`, tunnelTo(world.port))
    proxy.on(`${host}:${secure.port}`, tunnelTo(secure.port))
  }
  egress = createEgress()
})
beforeEach(() => {
  proxy.requests.length = 0
  world.relay.requests.length = 0
  queriesBefore = world.dns.queries.length
})
afterEach(async () => {
  expect(world.tripped()).toBe(0)
  expect(world.dns.queries.length).toBe(queriesBefore)
  await eventually(() => expect(proxy.open + world.relay.open + secure.open).toBe(0))
})
afterAll(async () => {
  await Promise.all([world.close(), proxy.close(), secure.close(), certificates.remove()])
})

/** Nothing is allowed here but the port: 127.0.0.2 is for the proxy to reach. */
function createEgress(limits: EgressOptions['limits'] = {}, env: Record<string, string> = {}): Egress {
  return world.egress(
    { ca: readFileSync(certificates.ca, 'utf8'), limits },
    {
      EGRESS_TEST_ALLOW: '',
      EGRESS_PROXY: `http://me:${encodeURIComponent(SECRET)}@127.0.0.3:${proxy.port}`,
      PROBE_PORTS: `80,443,${world.port},${secure.port}`,
      ...env,
    },
  )
}

function tunnelTo(port: number): Responder {
  return (socket) => {
    socket.removeAllListeners('data') // later bytes are for the target
    const target = connect(port, '127.0.0.2', () => socket.write(ESTABLISHED))
    target.on('error', () => socket.destroy())
    target.on('close', () => socket.destroy())
    socket.on('close', () => target.destroy())
    socket.pipe(target).pipe(socket)
  }
}

const visit = (path: string, host = KNOWN, port = world.port): Promise<Visit> =>
  egress.visit({ url: `http://${host}:${port}${path}`, purpose })
const authorities = () => proxy.requests.map((request) => request.split(' ')[1])

test('5.8: a target that only the proxy knows is visited by name, and no address is reported', async () => {
  world.relay.on('/plain', ok('inside'))
  let isAsked = false
  const onResolved = () => {
    isAsked = true
    return true
  }
  const found = await egress.visit({ url: world.url('/plain', KNOWN), purpose, onResolved })
  expect(found).toMatchObject({
    error: null,
    status: 200,
    addresses: [],
    hasIpv6: false,
    remoteAddress: null,
  })
  expect(found.body.toString()).toBe('inside')
  const { dnsMs, connectMs, tlsMs } = found.timings
  expect([dnsMs, Number.isInteger(connectMs), tlsMs, isAsked]).toEqual([null, true, null, false])
  expect(proxy.requests.map((request) => request.split('\r\n'))).toEqual([
    [
      `CONNECT ${KNOWN}:${world.port} HTTP/1.1`,
      `host: ${KNOWN}:${world.port}`,
      'connection: keep-alive',
      `proxy-authorization: Basic ${Buffer.from(`me:${SECRET}`).toString('base64')}`,
    ],
  ])
  expect(world.relay.requests.join()).not.toMatch(/proxy-|Basic/i)
  expect(await egress.names(KNOWN)).toMatchObject({ cnames: [], nameservers: [] })
})

test('5.8: TLS is with the target, under its name', async () => {
  secure.on('/sni', (socket, request) => ok(String((socket as TLSSocket).servername))(socket, request))
  const url = `https://${KNOWN}:${secure.port}/sni`
  const found = await egress.visit({ url, purpose })
  expect([found.error, found.body.toString(), found.certificate?.isValid]).toEqual([null, KNOWN, true])
  const handshake = await egress.handshake({ url, purpose })
  expect(handshake).toMatchObject({ error: null, addresses: [], remoteAddress: null, isOurs: false })
  expect(handshake.certificate?.alpn).toBe('h2')
  const strange = await egress.visit({ url: url.replace(KNOWN, 'other.example.org'), purpose })
  expect([strange.error, strange.status]).toEqual(['tls_name_mismatch', null])
})

test('5.8: a session keeps its connection through the proxy', async () => {
  world.relay.on('/plain', ok('inside'))
  const session = new Session()
  const take = () => egress.visit({ url: world.url('/plain', KNOWN), purpose, session })
  const [first, second] = [await take(), await take()]
  session.close()
  expect([first.error, first.isReused, second.error, second.isReused]).toEqual([null, false, null, true])
  expect(authorities()).toEqual([`${KNOWN}:${world.port}`])
})

test('5.7, 5.8: each hop of a redirect is a separate CONNECT', async () => {
  world.relay.on('/go', redirect(`http://other.example.org:${world.port}/there`))
  world.relay.on('/there', ok('arrived'))
  const found = await visit('/go')
  expect([found.error, found.body.toString(), found.hops.length]).toEqual([null, 'arrived', 2])
  expect(authorities()).toEqual([`${KNOWN}:${world.port}`, `other.example.org:${world.port}`])
})

const withPort = (text: string) => text.replaceAll('PORT', String(world.port))

test('5.8, 13.7: a target that is refused without DNS never reaches the proxy', async () => {
  for (const [, url] of URLS) {
    for (const take of [egress.visit, egress.handshake]) {
      const found = await take.call(egress, { url: withPort(url), purpose })
      expect([url, found.error]).toEqual([url, 'target_not_allowed'])
    }
  }
  expect(proxy.requests).toEqual([])
})

const byName = /loopback|mixed/ // refused for what they resolve to: the proxy's part
for (const location of LOCATIONS.filter((text) => !byName.test(text))) {
  test(`5.8, 13.7: a redirect to ${JSON.stringify(location)} is refused here`, async () => {
    world.relay.on('/go', redirect(withPort(location)))
    expect((await visit('/go')).error).toBe('redirect_refused')
    expect(authorities()).toEqual([`${KNOWN}:${world.port}`])
  })
}

test('5.8: a host that opted out and the proxy itself are not allowed as targets', async () => {
  const restricted = createEgress({}, { EGRESS_PROXY: `http://proxy.example.org:${proxy.port}` })
  restricted.optOut = [KNOWN]
  for (const [host, reason] of [
    [KNOWN, 'opted_out'],
    ['proxy.example.org', 'own_name'],
  ]) {
    expect(restricted.check(world.url('/', host))).toMatchObject({ refusal: { reason } })
  }
})

test('5.8: a public literal address is passed to the proxy unchanged', async () => {
  world.relay.on('/plain', ok('inside'))
  proxy.on('9.9.9.9:80', tunnelTo(world.port))
  proxy.on('[2620:fe::9]:80', tunnelTo(world.port))
  expect((await visit('/plain', '9.9.9.9', 80)).error).toBeNull()
  expect((await visit('/plain', '[2620:fe::9]', 80)).error).toBeNull()
  expect(authorities()).toEqual(['9.9.9.9:80', '[2620:fe::9]:80'])
})

test('5.8: bytes of the target that arrive with the response of the proxy are kept', async () => {
  proxy.on('early.example.org:80', reply(`${ESTABLISHED}HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly`))
  const found = await visit('/', 'early.example.org', 80)
  expect([found.error, found.body.toString()]).toEqual([null, 'early'])
})

const status = (line: string): Responder => reply(`HTTP/1.1 ${line}\r\ncontent-length: 0\r\n\r\n`)

// biome-ignore format: the columns are the specification
const failures: [string, Responder, string, boolean, string][] = [
  // the proxy                 does                                     error                 ours?  detail
  ['responds 502',                 status('502 Bad Gateway'),               'connect_unreachable', false, 'proxy 502'],
  ['responds 503',                 status('503 Service Unavailable'),       'connect_unreachable', false, 'proxy 503'],
  ['responds 504',                 status('504 Gateway Timeout'),           'connect_timeout',     false, 'proxy 504'],
  ['responds 403',                 status('403 Forbidden'),                 'target_not_allowed',  true,  'proxy'],
  ['responds 407',                 status('407 Proxy Authentication Required\r\nproxy-authenticate: Basic'), 'connect_unreachable', true, 'proxy 407'],
  ['responds 500',                 status('500 Oops'),                      'connect_unreachable', true,  'proxy 500'],
  ['responds 302',                 status('302 Found\r\nlocation: http://127.0.0.1/'), 'connect_unreachable', true, 'proxy 302'],
  ['responds 100',                 status('100 Continue'),                  'connect_unreachable', true,  'proxy 100'],
  ['is no proxy',              reply('SSH-2.0-OpenSSH_9.9\r\n'),        'connect_unreachable', true,  'proxy HPE_INVALID_CONSTANT'],
  ['hangs up',                 (socket) => socket.end(),                'connect_reset',       true,  'proxy ECONNRESET'],
  ['has a head of 80 KiB',     reply(`HTTP/1.1 200 OK\r\na: ${'x'.repeat(80 * 1_024)}\r\n\r\n`), 'connect_unreachable', true, 'proxy HPE_HEADER_OVERFLOW'],
  ['has a head without end',   (socket) => void socket.write('HTTP/1.1 200 OK\r\na: x'), 'connect_timeout', false, 'deadline'],
  ['does not respond',             () => {},                                'connect_timeout',     false, 'deadline'],
]
for (const [name, respond, error, isOurs, detail] of failures) {
  test(`5.8, 5.9: a proxy that ${name}: ${error}${isOurs ? ', own failure' : ''}`, async () => {
    proxy.on('fails.example.org:80', respond)
    const impatient = createEgress(detail === 'deadline' ? { connectMs: 100 } : {})
    const request = { url: 'http://fails.example.org/', purpose } as const
    const found = await impatient.visit(request)
    expect(found).toMatchObject({ error, isOurs, detail, status: null, addresses: [] })
    expect(found.timings.connectMs).toBeNull()
    expect(await impatient.handshake(request)).toMatchObject({ error, isOurs, detail })
    expect(JSON.stringify(found)).not.toContain(SECRET)
  })
}

test('5.8: a proxy that is not running is a failure of this side', async () => {
  const gone = await startRaw('127.0.0.3')
  await gone.close()
  const unreachable = createEgress(
    {},
    { EGRESS_PROXY: `http://me:${encodeURIComponent(SECRET)}@127.0.0.3:${gone.port}` },
  )
  const found = await unreachable.visit({ url: world.url('/', KNOWN), purpose })
  expect(found).toMatchObject({ error: 'connect_refused', isOurs: true, detail: 'proxy ECONNREFUSED' })
})

test('5.8: an abort ends a pending CONNECT', async () => {
  proxy.on('waits.example.org:80', () => controller.abort())
  const controller = new AbortController()
  const found = await egress.visit({ url: 'http://waits.example.org/', purpose, signal: controller.signal })
  expect([found.error, found.detail]).toEqual(['connect_timeout', 'given up'])
})

test('5.8, 5.12: a denial by the proxy is delayed to a whole step for a detection, counted, and refused as a redirect', async () => {
  proxy.on('inside.example.org:80', status('403 Forbidden'))
  const patient = createEgress({ denialStepMs: 100 })
  const found = await patient.visit({ url: 'http://inside.example.org/', purpose: 'detection' })
  expect([found.error, patient.denials.get('proxy')]).toEqual(['target_not_allowed', 1])
  expect(found.timings.totalMs).toBeGreaterThanOrEqual(99)
  world.relay.on('/go', redirect('http://inside.example.org/'))
  expect(await visit('/go')).toMatchObject({ error: 'redirect_refused', isOurs: true })
})

test('5.9: the limits of a response also apply behind the proxy', async () => {
  world.relay.on('/long', ok(Buffer.alloc(256 * 1_024 + 1)))
  expect((await visit('/long')).error).toBe('too_large')
  world.relay.on('/silent', () => {})
  const late = await createEgress({ firstByteMs: 100 }).visit({ url: world.url('/silent', KNOWN), purpose })
  expect(late.error).toBe('http_timeout')
})
