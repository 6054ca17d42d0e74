/** Look-ups against a name server that answers, stays silent or lies, and what comes before a request: connecting. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import { connect } from 'node:net'
import os from 'node:os'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Failure } from '../../../monitor/egress/failure.ts'
import { toFailure } from '../../../monitor/egress/failure.ts'
import { LIMITS } from '../../../monitor/egress/limits.ts'
import { resolveHost } from '../../../monitor/egress/resolver.ts'
import { freePort } from '../../helpers/ports.ts'
import type { Zone } from './dns-server.ts'
import { ok } from './raw-server.ts'
import type { World } from './setup.ts'
import { startWorld } from './setup.ts'

let world: World
const limits = { ...LIMITS, dnsMs: 400, dnsTryMs: 200 }

beforeAll(async () => {
  world = await startWorld()
})
afterAll(async () => {
  expect(world.tripped()).toBe(0)
  await world.close()
})

const MANY = Array.from({ length: 65 }, (_, i) => `8.8.8.${i}`)

// biome-ignore format: the columns are the specification
const lookups: [string, Zone, string][] = [
  ['A and AAAA',                     { A: ['8.8.8.8', '8.8.4.4'], AAAA: ['2606:4700::1'] }, '8.8.8.8 8.8.4.4 2606:4700::1'],
  ['A only',                         { A: ['8.8.8.8'] },                                 '8.8.8.8'],
  ['AAAA only',                      { AAAA: ['2606:4700::1'] },                         '2606:4700::1'],
  ['AAAA dropped by the server',     { A: ['8.8.8.8'], silent: ['AAAA'] },               '8.8.8.8'],
  ['no such name',                   { code: 'NXDOMAIN' },                               'dns_nxdomain'],
  ['a name without addresses',       {},                                                 'dns_error'],
  ['a server that fails',            { code: 'SERVFAIL' },                               'dns_error'],
  ['a server that refuses',          { code: 'REFUSED' },                                'dns_error'],
  ['a server that is silent',     { silent: ['A', 'AAAA'] },                          'dns_timeout'],
  ['one silence, no address',        { silent: ['A'] },                                  'dns_timeout'],
  ['64 addresses',                   { A: MANY.slice(1) },                               MANY.slice(1).join(' ')],
  ['65 addresses',                   { A: MANY },                                        'dns_bogus'],
  ['65 of both families',            { A: MANY.slice(1), AAAA: ['2606:4700::1'] },       'dns_bogus'],
]
for (const [i, [name, zone, wanted]] of lookups.entries()) {
  test(`M5#3 6.3: ${name}: ${wanted}`, async () => {
    const host = `lookup-${i}.example.org`
    world.dns.setRecords(host, zone)
    const found = await resolveHost(host, { limits, servers: [world.dns.server] }).then(
      (addresses) => addresses.join(' '),
      (failure: Failure) => failure.code,
    )
    expect(found).toBe(wanted)
  })
}

test('M5#3: the interfaces are read once per lookup, not once per address', async () => {
  const { networkInterfaces } = os
  let reads = 0
  os.networkInterfaces = () => {
    reads++
    return networkInterfaces()
  }
  syncBuiltinESMExports() // for those who import it by name
  try {
    world.dns.setRecords('many.example.org', { A: [...MANY.slice(2), '10.0.0.1'] })
    const visit = await world
      .egress()
      .visit({ url: world.url('/', 'many.example.org'), purpose: 'catalogue' })
    expect([visit.error, visit.detail, reads]).toEqual(['dns_bogus', 'reserved', 1])
  } finally {
    os.networkInterfaces = networkInterfaces
    syncBuiltinESMExports()
  }
})

test('M5#3: two tries of a silent server, and no more than the deadline', async () => {
  world.dns.setRecords('tries.example.org', { silent: ['A', 'AAAA'] })
  const options = { limits: { ...LIMITS, dnsTryMs: 100 }, servers: [world.dns.server] }
  await expect(resolveHost('tries.example.org', options)).rejects.toMatchObject({ code: 'dns_timeout' })
  expect(world.dns.queries.filter((line) => line === 'A tries.example.org')).toHaveLength(2)
})

test('M5#3: no hosts file and no search domains: exactly the name is queried', async () => {
  const options = { limits, servers: [world.dns.server] }
  await expect(resolveHost('ip6-localhost', options)).rejects.toMatchObject({ code: 'dns_nxdomain' })
  expect(world.dns.queries.filter((line) => line.includes('ip6-localhost'))).toEqual([
    'A ip6-localhost',
    'AAAA ip6-localhost',
  ])
})

test('2.2: IPv6 is reported, IPv4 is tried first', async () => {
  world.relay.on('/', ok('x'))
  world.dns.setRecords('dual.example.org', { A: ['127.0.0.2'], AAAA: ['2606:4700:4700::1111'] })
  const visit = await world.egress().visit({ url: world.url('/', 'dual.example.org'), purpose: 'catalogue' })
  expect(visit).toMatchObject({
    error: null,
    hasIpv6: true,
    addresses: ['127.0.0.2', '2606:4700:4700::1111'],
    remoteAddress: '127.0.0.2',
  })
})

test('5.5: after an address that refuses, the next is tried', async () => {
  const egress = world.egress({}, { EGRESS_TEST_ALLOW: '127.0.0.2/31' })
  world.dns.setRecords('second.example.org', { A: ['127.0.0.3', '127.0.0.2'] })
  const visit = await egress.visit({ url: world.url('/', 'second.example.org'), purpose: 'catalogue' })
  expect([visit.error, visit.remoteAddress]).toEqual([null, '127.0.0.2'])
})

test('6.2: CNAME chain and name servers, of the nearest name that has some', async () => {
  world.dns.setRecords('www.shop.example.org', { CNAME: ['Edge.CDN.example.net'] })
  world.dns.setRecords('edge.cdn.example.net', { CNAME: ['pop.cdn.example.net'] })
  world.dns.setRecords('shop.example.org', { NS: ['ns1.parking.example.net', 'ns2.parking.example.net'] })
  expect(await world.egress().names('www.shop.example.org')).toMatchObject({
    cnames: ['edge.cdn.example.net', 'pop.cdn.example.net'],
    nameservers: ['ns1.parking.example.net', 'ns2.parking.example.net'],
  })
})

test('6.2: a cycle of CNAMEs ends, and a name that is not allowed is not queried', async () => {
  world.dns.setRecords('round.example.org', { CNAME: ['and.example.org'] })
  world.dns.setRecords('and.example.org', { CNAME: ['round.example.org'] })
  expect((await world.egress().names('round.example.org')).cnames).toEqual(['and.example.org'])
  expect((await world.egress().names('round.example.org')).hasFailed).toBe(false) // no NS records: not a failure
  world.dns.setRecords('silent.example.org', { silent: ['CNAME', 'NS'] })
  const limits = { dnsTryMs: 100, dnsTries: 1 }
  expect(await world.egress({ limits }).names('silent.example.org')).toMatchObject({
    cnames: [],
    hasFailed: true,
  })
  const queriesBefore = world.dns.queries.length
  for (const host of ['db.internal', 'localhost', '8.8.8.8', 'a/../b', '']) {
    expect(await world.egress().names(host)).toMatchObject({ cnames: [], nameservers: [] })
  }
  expect(world.dns.queries.length).toBe(queriesBefore)
})

test('6.3: a closed port: connect_refused', async () => {
  const port = await freePort()
  const url = `http://127.0.0.2:${port}/`
  const visit = await world.egress().visit({ url, purpose: 'catalogue', extraPort: port })
  expect([visit.error, visit.detail, visit.isOurs]).toEqual(['connect_refused', 'ECONNREFUSED', false])
})

test('6.3: a host that accepts no connection: connect_timeout', async () => {
  const program = `const s = require('net').createServer().listen(0, '127.0.0.2', 1, () => console.log(s.address().port))`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout, 'data')
  const port = Number(line)
  child.kill('SIGSTOP') // its queue of two fills up, and the kernel drops what comes then
  const fillers = Array.from({ length: 8 }, () => connect(port, '127.0.0.2').on('error', () => {}))
  await Promise.all(fillers.slice(0, 2).map((socket) => once(socket, 'connect')))
  const egress = world.egress({ limits: { connectMs: 300 } })
  const url = `http://127.0.0.2:${port}/`
  const visit = await egress.visit({ url, purpose: 'catalogue', extraPort: port })
  for (const socket of fillers) socket.destroy()
  child.kill('SIGKILL')
  expect([visit.error, visit.detail]).toEqual(['connect_timeout', 'deadline'])
})

// biome-ignore format: the columns are the specification
const codes = [
  ['connect', 'ECONNRESET',                   'connect_reset',       false],
  ['connect', 'EHOSTUNREACH',                 'connect_unreachable', false],
  ['connect', 'ENETUNREACH',                  'connect_unreachable', false],
  ['connect', 'EMFILE',                       'connect_unreachable', true],
  ['connect', 'EADDRNOTAVAIL',                'connect_unreachable', true],
  ['tls',     'ERR_SSL_WRONG_VERSION_NUMBER', 'tls_protocol',        false],
  ['tls',     'ECONNRESET',                   'tls_reset',           false],
  ['http',    'EPIPE',                        'http_reset',          false],
  ['http',    'HPE_INVALID_CONSTANT',         'body_invalid',        false],
  ['http',    'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'tls_protocol', false],
  ['dns',     'EBADRESP',                     'dns_error',           false],
] as const
for (const [phase, code, error, isOurs] of codes) {
  test(`6.3: ${code} while ${phase}: ${error}${isOurs ? ', and a failure of this side' : ''}`, () => {
    expect(toFailure(phase, Object.assign(new Error('secret <b>text</b>'), { code }))).toMatchObject({
      code: error,
      detail: code,
      isOurs,
    })
  })
}

test('5.11: no text of a target is in a failure', () => {
  for (const code of [undefined, '<script>', 'x'.repeat(99), 7]) {
    const { detail, message } = toFailure('http', Object.assign(new Error('<b>text</b>'), { code }))
    expect(detail).toMatch(/^[A-Za-z0-9_]{0,60}$/)
    expect(message).not.toContain('text')
  }
})
