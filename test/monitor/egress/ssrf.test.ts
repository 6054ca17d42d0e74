/**
 * The corpus of spec 13.7 against an Egress as it runs outside tests, but for the port, and against one whose only open
 * address is 127.0.0.2. Nobody may reach the tripwire on 127.0.0.1 and ::1; and not one socket may be made at all, which
 * Node tells through its diagnostics channel, so a packet to 10.0.0.1 would be seen as well.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { dial } from '../../../monitor/egress/connect.ts'
import type { Egress } from '../../../monitor/egress/egress.ts'
import { Session } from '../../../monitor/egress/egress.ts'
import { ANSWERS, LOCATIONS, URLS } from './corpus.ts'
import { ok, redirect } from './raw-server.ts'
import type { World } from './setup.ts'
import { startWorld } from './setup.ts'

let world: World
let closed: Egress // no override at all
let open: Egress // 127.0.0.2 may be reached
let sockets = 0
const count = () => {
  sockets++
}

beforeAll(async () => {
  world = await startWorld()
  closed = world.egress({}, { EGRESS_TEST_ALLOW: '' })
  open = world.egress()
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
  await world.close()
})

const withPort = (text: string) => text.replaceAll('PORT', String(world.port))

test('M13#7: the corpus has at least 150 targets, each once', () => {
  expect(URLS.length + ANSWERS.length + LOCATIONS.length).toBeGreaterThanOrEqual(150)
  expect(URLS.length).toBeGreaterThanOrEqual(150)
  expect(new Set(URLS.map(([, url]) => url)).size).toBe(URLS.length)
})

for (const [kind, url, stage] of URLS) {
  test(`13.7: ${kind}: ${JSON.stringify(url)}`, async () => {
    const queriesBefore = world.dns.queries.length
    const verdict = closed.check(withPort(url))
    const code = stage === 'form' ? 'invalid_url' : 'target_not_allowed'
    expect('refusal' in verdict && verdict.refusal.code).toBe(code)
    for (const purpose of ['catalogue', 'detection'] as const) {
      const visit = await closed.visit({ url: withPort(url), purpose })
      expect([visit.error, visit.addresses, visit.status]).toEqual(['target_not_allowed', [], null])
      expect((await closed.handshake({ url: withPort(url), purpose })).error).toBe('target_not_allowed')
    }
    expect(sockets).toBe(0)
    expect(world.dns.queries.length).toBe(queriesBefore) // static: no question leaves
  })
}

for (const [i, [kind, A, AAAA]] of ANSWERS.entries()) {
  test(`13.7: a name that is ${kind}: ${[...A, ...AAAA].join(' ')}`, async () => {
    const host = `answer-${i}.example.org`
    world.dns.setRecords(host, { A: [...A], AAAA: [...AAAA] })
    expect(closed.check(world.url('/', host))).toHaveProperty('target')
    const catalogue = await closed.visit({ url: world.url('/', host), purpose: 'catalogue' })
    expect([catalogue.error, catalogue.addresses]).toEqual(['dns_bogus', []])
    const detection = await closed.visit({ url: world.url('/', host), purpose: 'detection' })
    expect([detection.error, detection.addresses]).toEqual(['target_not_allowed', []])
    const handshake = await closed.handshake({ url: `https://${host}/`, purpose: 'detection' })
    expect([handshake.error, handshake.addresses]).toEqual(['target_not_allowed', []])
    expect(sockets).toBe(0)
  })
}

for (const location of LOCATIONS) {
  test(`13.7: a redirect to ${JSON.stringify(location)}`, async () => {
    world.relay.on('/go', redirect(withPort(location)))
    for (const purpose of ['catalogue', 'detection'] as const) {
      sockets = 0
      const visit = await open.visit({ url: world.url('/go'), purpose })
      expect(visit.error).toBe('redirect_refused')
      expect(sockets).toBe(1) // to the relay
      expect(visit.hops[0]).toMatchObject({ status: 302, location: withPort(location).trim() })
    }
  })
}

test('13.7: a redirect from the third hop is refused like one from the first', async () => {
  world.relay.on('/1', redirect('/2'))
  world.relay.on('/2', redirect('/3'))
  world.relay.on('/3', redirect(withPort('http://127.0.0.1:PORT/')))
  const visit = await open.visit({ url: world.url('/1'), purpose: 'catalogue' })
  expect([visit.error, visit.hops.length]).toEqual(['redirect_refused', 4])
})

test('13.7: rebinding: the address that was checked is the one that is connected to', async () => {
  world.relay.on('/rebind', ok('the relay'))
  world.dns.setRecords('rebind.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])
  const visit = await open.visit({ url: world.url('/rebind', 'rebind.example.org'), purpose: 'catalogue' })
  expect([visit.error, visit.body.toString(), visit.remoteAddress]).toEqual([null, 'the relay', '127.0.0.2'])
  expect(world.dns.queries.filter((line) => line === 'A rebind.example.org')).toHaveLength(1)
  const again = await open.visit({ url: world.url('/rebind', 'rebind.example.org'), purpose: 'catalogue' })
  expect(again.error).toBe('dns_bogus')
})

test('13.7: rebinding behind a redirect to the same name', async () => {
  world.relay.on('/turn', redirect('/turned'))
  world.dns.setRecords('turn.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])
  const visit = await open.visit({ url: world.url('/turn', 'turn.example.org'), purpose: 'catalogue' })
  expect([visit.error, visit.hops.length]).toEqual(['redirect_refused', 2])
})

test('13.7: a kept connection that closed is not reopened to a new address of the name', async () => {
  world.relay.on('/keep', ok('x'))
  world.relay.on('/dies', (socket) => socket.destroy())
  world.dns.setRecords('keep.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])
  const session = new Session()
  const [first, second] = ['/keep', '/dies'].map((path) => world.url(path, 'keep.example.org'))
  expect((await open.visit({ url: first, purpose: 'catalogue', session })).error).toBeNull()
  expect((await open.visit({ url: second, purpose: 'catalogue', session })).error).toBe('dns_bogus')
  session.close()
})

test('13.7: a redirect does not use a kept connection: its hop is checked anew', async () => {
  world.relay.on('/keep', ok('x'))
  world.relay.on('/back', redirect(withPort('http://moves.example.org:PORT/keep')))
  world.dns.setRecords('moves.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])
  const session = new Session()
  const first = await open.visit({
    url: world.url('/keep', 'moves.example.org'),
    purpose: 'catalogue',
    session,
  })
  const second = await open.visit({ url: world.url('/back'), purpose: 'catalogue', session })
  session.close()
  expect([first.error, second.error]).toEqual([null, 'redirect_refused'])
})

test('M5#6: a peer that is not who was checked is destroyed', async () => {
  const deceive = (message: unknown) => {
    Object.defineProperty((message as { socket: Socket }).socket, 'remoteAddress', { value: '127.0.0.3' })
  }
  const before = world.relay.requests.length
  subscribe('net.client.socket', deceive)
  const visit = await open.visit({ url: world.url('/'), purpose: 'catalogue' })
  unsubscribe('net.client.socket', deceive)
  expect([visit.error, visit.detail]).toEqual(['target_not_allowed', 'another peer'])
  expect(world.relay.requests.length).toBe(before)
})

test('M5#5: a name that reaches the socket is not looked up', async () => {
  const signal = new AbortController().signal
  await expect(dial({ address: 'localhost', port: world.port }, signal)).rejects.toThrow()
})

test('M5#4: the public address of this installation, and those of the cache backend', async () => {
  const egress = world.egress({ ownHosts: ['2620:fe::9'] }, { PUBLIC_BASE_URL: 'https://9.9.9.9:8090' })
  world.dns.setRecords('name-of-us.example.org', { A: ['9.9.9.9'] })
  world.dns.setRecords('six.example.org', { AAAA: ['2620:fe::9'] })
  const error = async (url: string) => (await egress.visit({ url, purpose: 'detection' })).error
  expect(await error('https://9.9.9.9/')).toBe('target_not_allowed')
  expect(await error('https://name-of-us.example.org/')).toBe('target_not_allowed')
  expect(await error('https://six.example.org/')).toBe('target_not_allowed')
  expect(egress.denials.get('own')).toBe(3)
  expect(sockets).toBe(0)
})

test('5: a host that opted out is not resolved either', async () => {
  const egress = world.egress()
  egress.optOut = ['Example.ORG']
  const queriesBefore = world.dns.queries.length
  expect((await egress.visit({ url: world.url('/'), purpose: 'catalogue' })).error).toBe('target_not_allowed')
  expect(await egress.names('relay.example.org')).toMatchObject({ cnames: [], nameservers: [] })
  expect(world.dns.queries.length).toBe(queriesBefore)
})

test('M5#12: a denial after DNS is delayed to a whole step for a detection, and immediate for a probe', async () => {
  const measureMs = async (purpose: 'catalogue' | 'detection', denialStepMs: number) => {
    const egress = world.egress({ limits: { denialStepMs } })
    const url = world.url('/', 'loopback.example.org')
    return (await egress.visit({ url, purpose })).timings.totalMs as number
  }
  expect(await measureMs('detection', 300)).toBeGreaterThanOrEqual(299)
  expect(await measureMs('catalogue', 600_000)).toBeLessThan(600_000)
})
