/** Relays over TLS: certificates that are in order and that are not, keys, and what http leads to. */
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { detect } from '../../../monitor/probe/detect.ts'
import { fullProbe } from '../../../monitor/probe/full.ts'
import { lightProbe } from '../../../monitor/probe/probe.ts'
import type { Step } from '../../../monitor/probe/steps.ts'
import { KEY, MODELS } from '../../helpers/fake-relays.ts'
import type { Relays } from './setup.ts'
import { NOW_SEC, startRelays } from './setup.ts'

let world: Relays
beforeAll(async () => {
  world = await startRelays({
    good: { kind: 'new-api', certificate: 'good' },
    expired: { kind: 'new-api', certificate: 'expired' },
    wrong: { kind: 'new-api', certificate: 'wrong' },
    strange: { kind: 'new-api', certificate: 'strange' },
    echo: { kind: 'echo', certificate: 'good' },
    down: { kind: 'downgrade', certificate: 'good' },
    sub2api: { kind: 'sub2api', certificate: 'good' },
    priced: { kind: 'priced', certificate: 'good' },
  })
})
afterAll(() => world.close())

// biome-ignore format: the columns are the specification
const cases = [
  // relay     outcome error                http   valid
  ['good',    'up',   null,                 401,   true],
  ['expired', 'down', 'tls_expired',        null,  false],
  ['wrong',   'down', 'tls_name_mismatch',  null,  false],
  ['strange', 'down', 'tls_untrusted',      null,  false],
  ['down',    'down', 'redirect_refused',   301,   true],
] as const
for (const [name, outcome, error, httpStatus, isValid] of cases) {
  test(`6.2, 6.3: ${name}: ${error ?? outcome}, with its certificate`, async () => {
    const light = await lightProbe(world.context(), world.target(name))
    expect(light.probe).toMatchObject({ outcome, error, httpStatus })
    const full = await fullProbe(world.context(), world.target(name))
    expect(full.probe).toMatchObject({ outcome, error, httpStatus })
    const { tls } = full.observation!.profile
    expect(Object.keys(tls!).sort()).toEqual(['alpn', 'isValid', 'issuer', 'notAfterSec', 'version'])
    expect(tls).toMatchObject({ isValid, issuer: 'Test CA', version: 'TLSv1.3', alpn: 'h2' })
  })
}

test('6.3: a reset after the ClientHello, and silence after it', async () => {
  for (const [error, respond] of [
    ['tls_reset', 'reset'],
    ['tls_timeout', 'hang'],
  ] as const) {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', () => respond === 'reset' && socket.resetAndDestroy())
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.2', resolve))
    world.dns.setRecords('hello.example.org', { A: ['127.0.0.2'] })
    const { port: extraPort } = server.address() as AddressInfo
    const url = `https://hello.example.org:${extraPort}`
    const target = { url, apiBase: url, purpose: 'catalogue', extraPort } as const
    expect((await lightProbe(world.context(), target)).probe).toMatchObject({ outcome: 'down', error })
    const full = await fullProbe(world.context(), target)
    expect(full.probe.error).toBe(error)
    expect(full.observation).toMatchObject({ models: null, profile: { tls: null, ips: ['127.0.0.2'] } })
    server.close()
  }
})

test('6.1: the key is sent once, over https; its listing is verified, and requests without it count as before', async () => {
  world.relays.good.requests.length = 0
  const { observation, probe } = await fullProbe(world.context(), world.target('good', { key: KEY }))
  expect(observation).toMatchObject({ listing: 'key_required', models: MODELS })
  expect(probe.httpStatus).toBe(401)
  const requested = ['/v1/models', '/', '/v1/models', '/api/status', '/api/pricing']
  expect(world.relays.good.requests.filter((path) => path !== '*')).toEqual(requested)
  const wrong = await fullProbe(world.context(), world.target('good', { key: 'sk-other' }))
  expect(wrong.observation).toMatchObject({ listing: 'key_required', models: null })
})

test('6.1: with a key one request is left after the price list; it goes to the recognized program', async () => {
  const requested = [
    '/v1/models',
    '/',
    '/v1/models',
    '/api/status',
    '/api/pricing',
    '/api/v1/settings/public',
  ]
  for (const name of ['sub2api', 'priced']) {
    world.relays[name].requests.length = 0
    const { observation } = await fullProbe(world.context(), world.target(name, { key: KEY }))
    expect(world.relays[name].requests.filter((path) => path !== '*')).toEqual(requested)
    expect(observation?.claimed).toHaveLength(name === 'priced' ? 2 : 0)
    expect(observation?.profile.software.version).toBe(name === 'priced' ? null : '0.1.121')
  }
})

test('7.2: a response that repeats the key of the request is not a leak', async () => {
  const key = `sk-${'a1'.repeat(20)}`
  const attempt = await fullProbe(world.context(), world.target('echo', { key }))
  expect(attempt.observation?.hygiene.leaksUpstream).toBe(false)
  expect(JSON.stringify(attempt)).not.toContain(key)
})

test('3.5: the step of the handshake: what it found, or its error', async () => {
  const request = { region: 'overseas', isSingleVantage: false } as const
  const steps: string[] = []
  const onStep = ({ name, status, detail }: Step) => name === 'tls' && steps.push(`${status}: ${detail}`)
  await detect(world.context(), { ...request, url: 'https://good.example.org', onStep })
  await detect(world.context(), { ...request, url: 'https://wrong.example.org', onStep })
  const asOfThen = world.context({ nowMs: () => (NOW_SEC - 30 * 86_400) * 1_000 })
  await detect(asOfThen, { ...request, url: 'https://good.example.org', onStep })
  expect(steps[0]).toMatch(/^warn: TLSv1\.3, h2, (1 day|2 days) left$/)
  expect(steps[1]).toBe('error: tls_name_mismatch')
  expect(steps[2]).toMatch(/^ok: TLSv1\.3, h2, 3(1 day|2 days) left$/)
})

test('6.1: over plain http the key is not sent', async () => {
  const { observation } = await fullProbe(world.context(), world.target('new-api', { key: KEY }))
  expect(observation?.models).toBeNull()
})

test('3.5: a certificate with two days left is a notice; an invalid one another, and no relay is up behind it', async () => {
  const request = { region: 'overseas', isSingleVantage: false } as const
  const good = await detect(world.context(), { ...request, url: 'https://good.example.org' })
  expect(good).toMatchObject({
    status: 'done',
    result: { verdict: 'relay', notices: ['cert_expires_soon'], estimatedTier: 'B' },
  })
  const expired = await detect(world.context(), { ...request, url: 'https://expired.example.org' })
  expect(expired).toMatchObject({ result: { verdict: 'unreachable', notices: ['cert_invalid'] } })
  const asOfThen = world.context({ nowMs: () => (NOW_SEC - 30 * 86_400) * 1_000 })
  const early = await detect(asOfThen, { ...request, url: 'https://good.example.org' })
  expect(early).toMatchObject({ result: { notices: [] } })
})
