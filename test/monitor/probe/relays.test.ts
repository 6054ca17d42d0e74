/** Every fake relay, looked at once lightly and once fully: what is found is the specification's table. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fullProbe } from '../../../monitor/probe/full.ts'
import { lightProbe } from '../../../monitor/probe/probe.ts'
import type { RelayKind } from '../../helpers/fake-relays.ts'
import { MODELS, RELAYS } from '../../helpers/fake-relays.ts'
import type { Relays } from './setup.ts'
import { NOW_SEC, SLOW, startRelays } from './setup.ts'

let world: Relays
beforeAll(async () => {
  world = await startRelays()
})
afterAll(() => world.close())

// biome-ignore format: the columns are the specification
const cases: [RelayKind, string, string | null, number | null, string, string, number, number | null][] = [
  // relay                 outcome     error               http  listing         software          confidence, models
  ['new-api',              'up',       null,               401, 'key_required', 'new-api v1.0.0',          0.99,   null],
  ['one-api',              'up',       null,               401, 'key_required', 'one-api v0.6.10',         0.99,   null],
  ['one-hub',              'up',       null,               401, 'key_required', 'one-hub v0.6.10',         0.99,   null],
  ['done-hub',             'up',       null,               401, 'key_required', 'done-hub v0.6.10',        0.99,   null],
  ['veloera',              'up',       null,               401, 'key_required', 'veloera v1.0.0',          0.99,   null],
  ['sub2api',              'up',       null,               401, 'key_required', 'sub2api 0.1.121',         0.9,    null],
  ['claude-relay-service', 'up',       null,               401, 'key_required', 'claude-relay-service 1.1.200', 0.94, null],
  ['litellm',              'up',       null,               401, 'key_required', 'litellm 1.80.0',          0.9,    null],
  ['liar',                 'up',       null,               200, 'open',         'new-api v1.0.0',          0.99,      1],
  ['open',                 'up',       null,               200, 'open',         'unknown ',                0,         3],
  ['open-models',          'up',       null,               200, 'open',         'unknown ',                0,         2],
  ['empty',                'up',       null,               200, 'open',         'unknown ',                0,         0],
  ['wild',                 'up',       null,               200, 'open',         'unknown ',                0,     5_000],
  ['key-only',             'up',       null,               403, 'key_required', 'unknown ',                0,      null],
  ['slow',                 'degraded', 'slow',             200, 'open',         'unknown ',                0,         3],
  ['too-many',             'degraded', 'http_429',         429, 'absent',       'unknown ',                0,      null],
  ['challenge',            'degraded', 'challenge',        403, 'absent',       'unknown ',                0,      null],
  ['challenge-marks',      'degraded', 'challenge',        503, 'absent',       'unknown ',                0,      null],
  ['parked',               'down',     'parked',           200, 'absent',       'unknown ',                0,      null],
  ['plain',                'down',     'not_api',          200, 'absent',       'unknown ',                0,      null],
  ['json-elsewhere',       'down',     'not_api',          200, 'absent',       'unknown ',                0,      null],
  ['broken-json',          'down',     'body_invalid',     200, 'absent',       'unknown ',                0,      null],
  ['html-401',             'down',     'http_4xx',         401, 'absent',       'unknown ',                0,      null],
  ['gone',                 'down',     'http_4xx',         404, 'absent',       'unknown ',                0,      null],
  ['failing',              'down',     'http_5xx',         500, 'absent',       'unknown ',                0,      null],
  ['priced',               'down',     'http_5xx',         500, 'absent',       'unknown ',                0,      null],
  ['busy',                 'down',     'http_5xx',         503, 'absent',       'unknown ',                0,      null],
  ['huge',                 'down',     'too_large',        200, 'absent',       'unknown ',                0,      null],
  ['redirect-loop',        'down',     'redirect_loop',    302, 'absent',       'unknown ',                0,      null],
  ['redirect-private',     'down',     'redirect_refused', null, 'absent',      'unknown ',                0,      null],
  ['reset',                'down',     'http_reset',       null, 'absent',      'unknown ',                0,      null],
  ['reset-in-the-middle',  'down',     'http_reset',       200, 'absent',       'unknown ',                0,      null],
  ['silent',               'down',     'http_timeout',     null, 'absent',      'unknown ',                0,      null],
]
for (const [kind, outcome, error, httpStatus, listing, software, confidence, models] of cases) {
  test(`M6.1#3 M6.2#8 M6.2#10-16 M6.3#1-3: ${kind} is ${outcome}${error ? `, ${error}` : ''}; ${listing}; ${software}`, async () => {
    const relay = world.relays[kind]
    const context = world.context(kind === 'slow' ? SLOW : {})
    const light = await lightProbe(context, world.target(kind))
    expect(light.probe).toMatchObject({ kind: 'light', outcome, error, httpStatus, atSec: NOW_SEC })
    expect(light.listing.auth).toBe(listing)
    expect(light.probe.address).toBe(kind === 'redirect-private' ? null : '127.0.0.2')

    relay.requests.length = 0
    const full = await fullProbe(context, world.target(kind))
    expect(full.probe).toMatchObject({
      kind: 'full',
      outcome,
      error,
      httpStatus,
      address: light.probe.address,
    })
    expect(full.observation).toMatchObject({
      listing,
      isParked: kind === 'parked',
      profile: { ips: ['127.0.0.2'], hasIpv6: false, tls: null },
    })
    const { name, version, confidence: found } = full.observation!.profile.software
    expect([`${name} ${version ?? ''}`, found]).toEqual([software, confidence])
    expect(full.observation!.models?.length ?? null).toBe(models)
    expect(relay.requests.length).toBeLessThanOrEqual(kind === 'redirect-loop' ? 1 : 7) // 6, and a hop of a redirect
  })
}

test('M13#8: every fake relay is in the table, except those that need more than one probe', () => {
  const elsewhere = ['flapping', 'downgrade', 'echo']
  expect([...cases.map(([kind]) => kind), ...elsewhere].sort()).toEqual(Object.keys(RELAYS).sort())
})

test('6.3: a flapping relay has the status of its latest probe', async () => {
  const outcomes: string[] = []
  for (let i = 0; i < 4; i++) {
    outcomes.push((await lightProbe(world.context(), world.target('flapping'))).probe.outcome)
  }
  expect(outcomes).toEqual(['up', 'down', 'up', 'down'])
})

test('M6.1#2: a light probe is one request of the listing, without a key', async () => {
  const { requests } = world.relays.open
  requests.length = 0
  const { probe } = await lightProbe(world.context(), world.target('open', { key: 'sk-x' }))
  expect(requests).toEqual(['/v1/models'])
  const { dnsMs, connectMs, tlsMs, ttfbMs, totalMs } = probe.timings
  for (const ms of [dnsMs, connectMs, ttfbMs, totalMs]) expect(ms).toSatisfy(Number.isInteger)
  expect(tlsMs).toBeNull()
})

// biome-ignore format: the columns are the specification
const requests: [RelayKind, string[]][] = [
  ['new-api',              ['/v1/models', '/', '/api/status', '/api/pricing']],
  ['one-hub',              ['/v1/models', '/', '/api/status', '/api/pricing', '/api/available_model']],
  ['sub2api',              ['/v1/models', '/', '/api/status', '/api/pricing', '/api/v1/settings/public']],
  ['claude-relay-service', ['/v1/models', '/', '/admin-next/api-stats', '/api/status', '/api/pricing', '/health']],
  ['litellm',              ['/v1/models', '/', '/api/status', '/api/pricing']], // its header has said it all
  ['open',                 ['/v1/models', '/', '/api/status', '/api/pricing', '/api/v1/settings/public', '/health']],
  ['challenge',            ['/v1/models']],
  ['too-many',             ['/v1/models']],
  ['silent',               ['/v1/models']],
  ['redirect-loop',        ['/v1/models']],
  ['huge',                 ['/v1/models', '/', '/api/status', '/api/pricing', '/api/v1/settings/public', '/health']],
]
for (const [kind, paths] of requests) {
  test(`M6.1#2: a full probe of ${kind} sends ${paths.length} requests`, async () => {
    const relay = world.relays[kind]
    relay.requests.length = 0
    await fullProbe(world.context(), world.target(kind))
    expect(relay.requests).toEqual(paths)
  })
}

test('6.1: a full probe has one connection, besides the handshake; its listing is measured on a new one', async () => {
  const relay = world.relays['one-api']
  const before = relay.connections
  const { probe } = await fullProbe(world.context(), world.target('one-api'))
  expect(relay.connections - before).toBe(2)
  expect(probe.timings.connectMs).not.toBeNull()
})

test('M7.1#1: claimed comes from the price list and from available models, sorted', async () => {
  const claimed = async (kind: string) =>
    (await fullProbe(world.context(), world.target(kind))).observation?.claimed
  expect(await claimed('new-api')).toEqual([...MODELS].sort())
  expect(await claimed('one-hub')).toEqual(['gpt-5.4', 'o9-mini'])
  expect(await claimed('liar')).toHaveLength(5)
  expect(await claimed('open')).toEqual([])
})

test('7.1: a site of an unknown program keeps its claims; a listing that failed is null, not empty', async () => {
  const { observation } = await fullProbe(world.context(), world.target('priced'))
  expect(observation).toMatchObject({ listing: 'absent', models: null })
  expect(observation?.claimed).toEqual(['claude-opus-5', 'gpt-5.4'])
  const empty = await fullProbe(world.context(), world.target('empty'))
  expect(empty.observation).toMatchObject({ listing: 'open', models: [] })
})

test('M6.2#4: ids are trimmed, cleaned, unique, of 1 to 128 characters, without models/', async () => {
  const { listing } = await lightProbe(world.context(), world.target('wild'))
  expect(listing.models?.slice(0, 5)).toEqual(['gpt-5.4', 'x', 'ab', 'z'.repeat(128), 'm-0'])
})

test('7.2: errors that name the upstream', async () => {
  const hygiene = async (kind: string) =>
    (await fullProbe(world.context(), world.target(kind))).observation?.hygiene
  expect(await hygiene('liar')).toEqual({ redirectsToHttps: false, hasHsts: false, leaksUpstream: true })
  expect((await hygiene('new-api'))?.leaksUpstream).toBe(false)
})

test('6.2: site notices are facts, bounded and cleaned', async () => {
  const notices = async (kind: string) =>
    (await fullProbe(world.context(), world.target(kind))).observation?.notices
  const ofNewApi = { systemName: 'My relay', startTimeSec: 1_790_000_000, hasTopUp: false }
  expect(await notices('new-api')).toEqual(ofNewApi)
  expect((await notices('one-api'))?.hasTopUp).toBe(true)
  expect(await notices('open')).toEqual({ systemName: null, startTimeSec: null, hasTopUp: null })
})

test('6.4: Retry-After is handed on, up to an hour', async () => {
  const after = async (kind: string) => (await lightProbe(world.context(), world.target(kind))).retryAfterMs
  expect([await after('too-many'), await after('busy'), await after('open')]).toEqual([120_000, 3_600_000, 0])
})

test('M6.2#6 M6.2#9: an alias names the CDN, a name server the parking service', async () => {
  world.dns.setRecords('open.example.org', { CNAME: ['d1.cloudfront.net'] })
  world.dns.setRecords('plain.example.org', { NS: ['ns1.sedoparking.com'] })
  const open = await fullProbe(world.context(), world.target('open'))
  expect(open.observation?.profile.cdn).toEqual({
    provider: 'cloudfront',
    evidence: ['cname:cloudfront.net'],
  })
  const plain = await fullProbe(world.context(), world.target('plain'))
  expect([plain.probe.error, plain.observation?.isParked]).toEqual(['parked', true])
  world.dns.setRecords('open.example.org', { NS: ['ns1.sedoparking.com'] })
  const works = await fullProbe(world.context(), world.target('open'))
  expect([works.probe.error, works.observation?.isParked]).toEqual([null, false])
  world.dns.setRecords('plain.example.org', {})
})

test('6.2: base paths; a base that ends in /v1 names it once', async () => {
  const url = 'http://open.example.org'
  const relay = world.relays.open
  for (const [apiBase, path] of [
    [`${url}/v1`, '/v1/models'],
    [`${url}/v1/models/`, '/v1/models'],
    [`${url}/api/`, '/api/v1/models'],
  ]) {
    await lightProbe(world.context(), { url, apiBase, purpose: 'catalogue' })
    expect(relay.requests.at(-1)).toBe(path)
  }
})

// biome-ignore format: the columns are the specification
const unreachable = [
  ['no-such-name.example.org', 'dns_nxdomain'],
  ['poisoned.example.org',     'dns_bogus'],
  ['closed.example.org',       'connect_refused'],
] as const
for (const [host, error] of unreachable) {
  test(`6.3: ${host}: ${error}, no observation`, async () => {
    world.dns.setRecords('poisoned.example.org', { A: ['127.0.0.1'] })
    world.dns.setRecords('closed.example.org', { A: ['127.0.0.2'] })
    const target = { url: `http://${host}`, apiBase: `http://${host}:8443`, purpose: 'catalogue' } as const
    for (const probe of [lightProbe, fullProbe]) {
      const attempt = await probe(world.context(), target)
      expect(attempt.probe).toMatchObject({ outcome: 'down', error, httpStatus: null })
      expect(attempt.probe.address).toBe(error === 'connect_refused' ? '127.0.0.2' : null)
      if ('observation' in attempt) expect(attempt.observation).toBeNull()
    }
  })
}

test('M6.3#4: a failure of this side is inconclusive', async () => {
  const { egress } = world.context()
  const visit = await egress.visit({ url: 'http://reset.example.org/', purpose: 'catalogue' })
  const ownFailure = { ...egress, visit: async () => ({ ...visit, isOurs: true }) }
  const { probe } = await lightProbe(world.context({ egress: ownFailure }), world.target('reset'))
  expect(probe.outcome).toBe('inconclusive')
})
