/** Handshakes that work and handshakes that do not: facts of the certificate, also when it is not valid. */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'
import { createServer } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Egress, Visit } from '../../../monitor/egress/egress.ts'
import { Session } from '../../../monitor/egress/egress.ts'
import { LIMITS } from '../../../monitor/egress/limits.ts'
import type { Certificates, Pair } from '../../helpers/certificates.ts'
import { makeCertificates } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import type { RawServer, Responder } from './raw-server.ts'
import { listen, ok, redirect, startRaw } from './raw-server.ts'
import type { World } from './setup.ts'
import { RELAY, startWorld } from './setup.ts'

const NAMES = `DNS:${RELAY},DNS:*.wild.example.org,IP:127.0.0.2`
let world: World
let certificates: Certificates
let strangers: Certificates // of an authority nobody trusts
const relays: Record<string, RawServer> = {}
const others: Server[] = []
let egress: Egress
let impatient: Egress // for a peer that never responds

const read = (pair: Pair) => ({ cert: readFileSync(pair.cert), key: readFileSync(pair.key) })

beforeAll(async () => {
  world = await startWorld()
  ;[certificates, strangers] = await Promise.all([makeCertificates(NAMES), makeCertificates(`DNS:${RELAY}`)])
  const expired = await certificates.issue('expired', { names: NAMES, days: -1 })
  const wrong = await certificates.issue('wrong', { names: 'DNS:other.example.org' })
  const pairs = { good: certificates, expired, wrong, untrusted: strangers }
  for (const [name, pair] of Object.entries(pairs)) {
    relays[name] = await startRaw('127.0.0.2', 0, { ...read(pair), ALPNProtocols: ['h2', 'http/1.1'] })
    relays[name].on('/', ok('inside'))
  }
  relays.old = await startRaw('127.0.0.2', 0, { ...read(certificates), maxVersion: 'TLSv1.2' })
  relays.old.on('/', ok('inside'))
  const ports = Object.values(relays).map((relay) => relay.port)
  const ca = readFileSync(certificates.ca, 'utf8')
  const env = { PROBE_PORTS: [world.port, ...ports].join(',') }
  egress = world.egress({ ca }, env)
  impatient = world.egress({ ca, limits: { tlsMs: 300 } }, env)
  world.dns.setRecords('a.wild.example.org', { A: ['127.0.0.2'] })
})

afterEach(async () => {
  for (const relay of Object.values(relays)) await eventually(() => expect(relay.open).toBe(0))
})

afterAll(async () => {
  expect(world.tripped()).toBe(0)
  for (const relay of Object.values(relays)) await relay.close()
  for (const server of others) server.close()
  await Promise.all([world.close(), certificates.remove(), strangers.remove()])
})

const visit = (name: string, host = RELAY, path = '/', session?: Session): Promise<Visit> =>
  egress.visit({ url: `https://${host}:${relays[name].port}${path}`, purpose: 'catalogue', session })

test('M6.2#5: a valid certificate and its facts', async () => {
  const found = await visit('good')
  expect([found.error, found.body.toString()]).toEqual([null, 'inside'])
  expect(found.certificate).toMatchObject({
    version: 'TLSv1.3',
    issuer: 'Test CA',
    isValid: true,
    isChainValid: true,
    isNameValid: true,
    alpn: 'http/1.1',
    names: [RELAY, '*.wild.example.org'],
  })
  const twoDays = Date.now() / 1000 + 2 * 86_400
  expect(found.certificate?.notAfterSec).toSatisfy((sec: number) => Math.abs(sec - twoDays) < 600)
  expect(found.timings.tlsMs).toSatisfy(Number.isInteger)
  expect((await visit('old')).certificate?.version).toBe('TLSv1.2')
})

test('6.2: names by wildcard and by address', async () => {
  expect((await visit('good', 'a.wild.example.org')).error).toBeNull()
  expect((await visit('good', '127.0.0.2')).error).toBeNull()
  expect((await visit('untrusted', '127.0.0.2')).error).toBe('tls_untrusted')
})

test('5.5: the name is sent as SNI, an address is not', async () => {
  relays.good.on('/sni', (socket, request) => ok(String((socket as TLSSocket).servername))(socket, request))
  expect((await visit('good', RELAY, '/sni')).body.toString()).toBe(RELAY)
  expect((await visit('good', '127.0.0.2', '/sni')).body.toString()).toBe('false')
})

// biome-ignore format: the columns are the specification
const invalid = [
  // relay       error                chain   name
  ['expired',    'tls_expired',       false,  true],
  ['wrong',      'tls_name_mismatch', true,   false],
  ['untrusted',  'tls_untrusted',     false,  true],
] as const
for (const [name, error, isChainValid, isNameValid] of invalid) {
  test(`M6.2#5: a certificate that is ${name}: ${error}, its facts kept, no request sent`, async () => {
    const found = await visit(name)
    expect([found.error, found.status, found.timings.ttfbMs]).toEqual([error, null, null])
    expect(found.certificate).toMatchObject({ isValid: false, isChainValid, isNameValid, issuer: 'Test CA' })
    expect(relays[name].requests).toEqual([])
    const handshake = await egress.handshake({
      url: `https://${RELAY}:${relays[name].port}/`,
      purpose: 'catalogue',
    })
    expect([handshake.error, handshake.certificate?.alpn]).toEqual([error, 'h2'])
  })
}

test('the issuer is text of a stranger: one line, nothing that is not seen or turns text around', async () => {
  const hostile = await makeCertificates(NAMES, 'A\u202eB\u200bC\u3164D')
  const server = await startRaw('127.0.0.2', 0, read(hostile))
  const client = world.egress({}, { PROBE_PORTS: String(server.port) })
  const found = await client.visit({ url: `https://${RELAY}:${server.port}/`, purpose: 'catalogue' })
  await Promise.all([server.close(), hostile.remove()])
  expect(found.certificate?.issuer).toBe('ABCD')
})

test('M6.2#5: the extra handshake offers h2', async () => {
  const url = `https://${RELAY}:${relays.good.port}/`
  const found = await egress.handshake({ url, purpose: 'catalogue' })
  expect(found).toMatchObject({ error: null, addresses: ['127.0.0.2'], remoteAddress: '127.0.0.2' })
  expect(found.certificate?.alpn).toBe('h2')
  expect((await egress.handshake({ url: world.url('/'), purpose: 'catalogue' })).certificate).toBeNull()
})

test('6.1: a session keeps a TLS connection, with its certificate', async () => {
  const session = new Session()
  await visit('good', RELAY, '/', session)
  const before = relays.good.connections
  const second = await visit('good', RELAY, '/', session)
  session.close()
  expect([second.isReused, relays.good.connections - before, second.timings.tlsMs]).toEqual([true, 0, null])
  expect(second.certificate?.isValid).toBe(true)
})

test('5.7: https to http is recorded and not followed', async () => {
  const location = world.url('/plain')
  relays.good.on('/down', redirect(location))
  const found = await visit('good', RELAY, '/down')
  expect([found.error, found.detail, found.hops]).toMatchObject([
    'redirect_refused',
    'downgrade',
    [{ location }],
  ])
  expect(world.relay.requests).toEqual([])
})

test('5.7: http to https is followed; the certificate is that of the last hop', async () => {
  world.relay.on('/up', redirect(`https://${RELAY}:${relays.good.port}/`))
  const found = await egress.visit({ url: world.url('/up'), purpose: 'catalogue' })
  expect([found.error, found.hops.length, found.certificate?.isValid]).toEqual([null, 2, true])
})

// biome-ignore format: the columns are the specification
const broken: [string, Responder, string][] = [
  ['says nothing',              () => {},                                             'tls_timeout'],
  ['closes',                    (socket) => socket.end(),                             'tls_reset'],
  ['resets after ClientHello',  (socket) => socket.resetAndDestroy(),                 'tls_reset'],
  ['speaks plain HTTP',         (socket) => socket.write('HTTP/1.1 400 Bad\r\n\r\n'), 'tls_protocol'],
  ['sends an alert',            (socket) => socket.write(Buffer.from('15030300020228', 'hex')), 'tls_protocol'],
]
for (const [name, respond, error] of broken) {
  test(`6.3: a peer that ${name}: ${error}`, async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => respond(socket, ''))
    })
    others.push(server)
    await listen(server, '127.0.0.2', 0)
    const { port } = server.address() as { port: number }
    const url = `https://${RELAY}:${port}/`
    const client = error === 'tls_timeout' ? impatient : egress
    const found = await client.visit({ url, purpose: 'catalogue', extraPort: port })
    expect([found.error, found.certificate]).toEqual([error, null])
    expect(found.timings.totalMs).toBeLessThan(LIMITS.tlsMs)
  })
}
