/** Rate headers on every status, who shares a quota, and that it is the decision service's own (spec 4, 13.3, 13.4). */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { loadRules } from '../../../engine/config/load.ts'
import type { RulesImage } from '../../../engine/config/rules.ts'
import type { Engine } from '../../../engine/decision/engine.ts'
import { MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../../../engine/stores/memory/table-layout.ts'
import { DEFAULT_RULES, defaultRules, quotaRules } from '../../../monitor/api/default-rules.ts'
import { parseRange } from '../../../monitor/egress/address.ts'
import { Unit } from '../../../proto/ratelimit.ts'
import { HttpServer } from '../../../transports/http/server.ts'
import { engine, rule } from '../../engine/harness.ts'
import { createSnapshot, NOON } from './fake-store.ts'
import { type ReceivedResponse, send, startApi } from './setup.ts'

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
})
afterEach(() => api.close())

async function loadImage(text: string): Promise<RulesImage> {
  const files = [{ name: 'x.yaml', bytes: Buffer.from(text) }]
  const loaded = await loadRules({ from: 'files', files, isMerging: false })
  if (!loaded.ok) throw new Error(loaded.error)
  return loaded.image
}

const rates = ({ headers }: ReceivedResponse) =>
  ['limit', 'remaining', 'reset'].map((name) => Number(headers[`x-ratelimit-${name}`]))
const json = { 'content-type': 'application/json' }

describe('M13#3: rate headers', () => {
  test('M1.3#10 M4.2#1-2: Remaining falls by one, Reset is the end of the aligned window, 429 at the end', async () => {
    api.clock.ms = (NOON + 18) * 1_000
    for (let left = 119; left >= 0; left--) {
      const response = await api.get('/api/v1/leaderboard')
      expect(response.status).toBe(200)
      expect(rates(response)).toEqual([120, left, NOON + 60])
    }
    const over = await api.get('/api/v1/sites/nobody') // instead of its 404
    expect([over.status, over.json]).toMatchObject([429, { code: 'rate_limited' }])
    expect(rates(over)).toEqual([120, 0, NOON + 60])
    expect(over.headers).toMatchObject({
      'retry-after': '42',
      'ratelimit-policy': '"read";q=120;w=60',
      ratelimit: '"read";r=0;t=42',
    })
    expect((await api.get('/api/v1/limits')).status).toBe(200) // costs nothing
    expect((await api.request('OPTIONS', '/api/v1/sites')).status).toBe(204)
    api.clock.ms = (NOON + 60) * 1_000
    expect(rates(await api.get('/api/v1/leaderboard'))).toEqual([120, 119, NOON + 120])
  })

  test('M1.3#1-3 M4.2#5: on every status there is, one hit each', async () => {
    const etag = (await api.get('/api/v1/sites')).headers.etag
    api.state.snapshot = { ...api.state.snapshot!, aliases: {} }
    let left = 119
    // biome-ignore format: a table
    const requests: [number, () => Promise<ReceivedResponse>][] = [
      [200, () => api.request('HEAD', '/api/v1/sites')],
      [304, () => api.get('/api/v1/sites', { headers: { 'if-none-match': etag } })],
      [400, () => api.get('/api/v1/sites?limit=x')],
      [401, () => api.get('/api/v1/sites', { headers: { 'x-api-key': 'rm_wrong' } })],
      [404, () => api.get('/api/v1/nothing')],
      [405, () => api.request('PATCH', '/api/v1/sites')],
      [410, () => api.get('/api/v1/detections/00000000-0000-7000-8000-000000000000')],
    ]
    for (const [status, send] of requests) {
      const response = await send()
      expect([response.status, ...rates(response)]).toEqual([status, 120, --left, NOON + 60])
    }
    api.store.failure = new Error('dead')
    const broken = await api.get('/api/v1/sites/alpha')
    expect([broken.status, ...rates(broken)]).toEqual([500, 120, --left, NOON + 60])
    api.store.failure = null
    api.state.snapshot = null
    const early = await api.get('/api/v1/sites')
    expect([early.status, ...rates(early)]).toEqual([503, 120, --left, NOON + 60])
    const free = await api.request('OPTIONS', '/api/v1/sites')
    expect([free.status, ...rates(free)]).toEqual([204, 120, left, NOON + 60])
  })

  test('M4.2#7: a submission has its own class, and an invalid one counts too', async () => {
    const submit = (body: string | Buffer, headers = json as Record<string, string>) =>
      api.request('POST', '/api/v1/detections', { body, headers })
    // biome-ignore format: a table
    const requests: [number, Promise<ReceivedResponse>][] = [
      [413, submit('x'.repeat(4_097))],
      [413, submit('x'.repeat(200_000))],
      [400, submit('{')],
      [422, submit('{"url":"http://127.0.0.1/"}')],
      [202, submit('{"url":"https://a.example.com/"}')],
    ]
    const left: number[] = []
    for (const [status, asking] of requests) {
      const response = await asking
      expect(response.status).toBe(status)
      expect(rates(response)[0]).toBe(20)
      expect(rates(response)[2]).toBe(NOON + 3_600)
      left.push(rates(response)[1])
    }
    expect(left.sort((a, b) => a - b)).toEqual([15, 16, 17, 18, 19])
    expect(rates(await api.get('/api/v1/meta'))).toEqual([120, 119, NOON + 60])
    // A page of another site can send this without asking first, so it must not use up the visitor's submissions.
    const foreign = await submit('{}', { 'content-type': 'text/plain' })
    expect([foreign.status, ...rates(foreign)]).toEqual([415, 120, 118, NOON + 60])
  })

  test('M3.6#1: /limits reports all classes without consuming', async () => {
    await api.get('/api/v1/meta')
    for (let i = 0; i < 3; i++) {
      expect((await api.get('/api/v1/limits')).json).toEqual({
        ...{ client: '127.0.0.1', key: null, contact: 'help@example.org' },
        limits: [
          { class: 'read', limit: 120, remaining: 119, window_s: 60, reset: NOON + 60 },
          { class: 'submit', limit: 20, remaining: 20, window_s: 3_600, reset: NOON + 3_600 },
          { class: 'page', limit: 240, remaining: 240, window_s: 60, reset: NOON + 60 },
        ],
      })
    }
  })

  test('M4.3#2: forwarding headers count only from a trusted proxy; /64 neighbours share', async () => {
    const left = async (response: Promise<ReceivedResponse>) => rates(await response)[1]
    const forged = { headers: { 'x-forwarded-for': '198.51.100.9' } }
    expect(await left(api.get('/api/v1/meta', forged))).toBe(119)
    expect(await left(api.get('/api/v1/meta'))).toBe(118) // the same client
    expect(await left(api.get('/api/v1/meta', { from: '127.0.0.2' }))).toBe(119)
    api.close()
    const address = { trusted: [parseRange('127.0.0.0/8')!], header: 'x-forwarded-for' as const }
    const direct = { hasProxyProtocol: false, trustsUnix: false, ipv6Prefix: 64 }
    api = await startApi({ address: { ...address, ...direct } })
    const from = (text: string) => left(api.get('/api/v1/meta', { headers: { 'x-forwarded-for': text } }))
    expect(await from('2001:db8:1:2::1')).toBe(119)
    expect(await from('6.6.6.6, 2001:db8:1:2:ffff::9')).toBe(118)
    expect(await from('2001:db8:1:3::1')).toBe(119)
    const lines = ['6.6.6.6', '2001:db8:1:3::2'] as unknown as string // the proxy's own is the last
    expect(await from(lines)).toBe(118)
    expect(api.lines.map(({ client }) => client)[0]).toBe('2001:db8:1::/48')
  })

  test('M4.2#6: an engine that fails lets reading pass and submissions not, under the limits that are configured', async () => {
    api.close()
    const rules = DEFAULT_RULES.replace(
      'requests_per_unit: 120 }',
      `requests_per_unit: 1000 }
      - { key: ip, value: 127.0.0.2, rate_limit: { unit: hour, requests_per_unit: 7 } }`,
    )
    const { engine: real } = engine(null, { nowSec: () => NOON })
    real.setRules(await loadImage(rules))
    const fail: Engine['decide'] = (_, caller) => caller.onError(new Error('no store'))
    const broken = { decide: fail, findLimit: real.findLimit.bind(real) } as unknown as Engine
    const failures: string[] = []
    api = await startApi({ limiter: broken, onQuotaFailure: (kind) => failures.push(kind) })
    expect(rates(await api.get('/api/v1/sites', { from: '127.0.0.2' }))).toEqual([7, 7, NOON + 3_600])
    expect(rates(await api.get('/api/v1/sites'))).toEqual([1_000, 1_000, NOON + 60])
    const response = await api.submit('https://a.example.com/')
    expect([response.status, ...rates(response)]).toEqual([503, 20, 20, NOON + 3_600])
    expect(failures).toEqual(['read', 'read', 'submit'])
  })

  test('M4.2#6: a request does not wait for an engine that does not respond', async () => {
    api.close()
    const silent = { decide: () => {}, findLimit: () => null } as unknown as Engine
    api = await startApi({ limiter: silent })
    expect((await api.get('/api/v1/sites')).status).toBe(200)
    expect((await api.submit('https://a.example.com/')).status).toBe(503)
  })

  test('M4.2#4 4.1: an operator blocks one address, exempts one, tries one out', async () => {
    const text = DEFAULT_RULES.replace(
      'requests_per_unit: 120 }',
      `requests_per_unit: 120 }
      - { key: ip, value: 127.0.0.2, rate_limit: { unit: minute, requests_per_unit: 0 } }
      - { key: ip, value: 127.0.0.3, rate_limit: { unlimited: true } }
      - { key: ip, value: 127.0.0.4, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 0 } }`,
    )
    api.limiter.setRules(quotaRules(await loadImage(text), await defaultRules()))
    const requests = async (from: string) => {
      const response = await api.get('/api/v1/meta', { from })
      return [response.status, ...rates(response)]
    }
    expect(await requests('127.0.0.2')).toEqual([429, 0, 0, NOON + 60])
    expect(await requests('127.0.0.3')).toEqual([200, 4_294_967_295, 4_294_967_295, NOON + 60])
    expect(await requests('127.0.0.4')).toEqual([200, 0, 0, NOON + 3_600])
  })
})

describe('4.4: API keys', () => {
  const key = `rm_${'Aa0'.repeat(10)}zz`
  const stored = (more = {}) => ({
    ...{ id: 'k_1', hash: createHash('sha256').update(key).digest(), tier: 'partner' },
    ...{ expiresAtSec: NOON + 100, revokedAtSec: null, ...more },
  })
  const withKey = (headers: Record<string, string>, path = '/api/v1/limits') => api.get(path, { headers })

  test('4.4: a key has its own quota, by either header', async () => {
    api.state.snapshot = createSnapshot(undefined, { apiKeys: [stored()] })
    expect(rates(await withKey({ 'x-api-key': key }, '/api/v1/meta'))).toEqual([1_200, 1_199, NOON + 60])
    const response = await withKey({ authorization: `bearer ${key}` }, '/api/v1/meta')
    expect(rates(response)).toEqual([1_200, 1_198, NOON + 60])
    expect(response.headers['ratelimit-policy']).toBe('"key_read";q=1200;w=60')
    const limits = (await withKey({ 'x-api-key': key })).json as { key: string; limits: { class: string }[] }
    expect([limits.key, ...limits.limits.map((each) => each.class)]).toEqual([
      'k_1',
      'key_read',
      'key_submit',
      'page',
    ])
    const submitted = await api.submit('https://a.example.com/', { headers: { 'x-api-key': key } })
    expect(rates(submitted)).toEqual([300, 299, NOON + 3_600])
  })

  // biome-ignore format: a table
  const wrong: [string, Record<string, string>, object][] = [
    ['unknown',           { 'x-api-key': `rm_${'b'.repeat(32)}` }, {}],
    ['malformed',         { 'x-api-key': 'x' }, {}],
    ['empty bearer',      { authorization: 'Bearer' }, {}],
    ['two that differ',   { 'x-api-key': key, authorization: `Bearer ${key}x` }, {}],
    ['revoked',           { 'x-api-key': key }, { revokedAtSec: NOON - 1 }],
    ['expired',           { 'x-api-key': key }, { expiresAtSec: NOON }],
  ]
  for (const [what, headers, more] of wrong) {
    test(`4.4: ${what} is 401, counted against the address`, async () => {
      api.state.snapshot = createSnapshot(undefined, { apiKeys: [stored(more)] })
      const response = await withKey(headers, '/api/v1/meta')
      expect([response.status, ...rates(response)]).toEqual([401, 120, 119, NOON + 60])
      expect(response.headers['www-authenticate']).toBe('Bearer')
    })
  }

  test('1.2: 401 and 429 name the contact for a higher quota if the operator gives an address', async () => {
    const errorsWith = async (supportEmail: string) => {
      api.close()
      api = await startApi({ supportEmail })
      const wrong = await withKey({ 'x-api-key': 'x' }, '/api/v1/meta')
      for (let i = 0; i < 119; i++) await api.get('/api/v1/meta')
      return [wrong, await api.get('/api/v1/meta')].map(({ status, json }) => [
        status,
        (json as { error: string }).error,
      ])
    }
    const help = '; for an API key with a higher quota write to help@example.org'
    expect(await errorsWith('help@example.org')).toEqual([
      [401, `the API key is not valid${help}`],
      [429, `too many requests; see Retry-After${help}`],
    ])
    for (const none of ['', `${'x'.repeat(240)}@example.org`]) // an address that would be truncated is left out
      expect(await errorsWith(none)).toEqual([
        [401, 'the API key is not valid'],
        [429, 'too many requests; see Retry-After'],
      ])
  })

  test('4.4: other schemes of Authorization are no key', async () => {
    expect((await withKey({ authorization: 'Basic YTpi' })).status).toBe(200)
  })

  test('4.4: after 20 wrong keys of an address, its keys are not checked for 10 minutes', async () => {
    api.state.snapshot = createSnapshot(undefined, { apiKeys: [stored({ expiresAtSec: null })] })
    for (let i = 0; i < 20; i++)
      expect((await withKey({ 'x-api-key': 'x' }, '/api/v1/meta')).status).toBe(401)
    const blocked = await withKey({ 'x-api-key': key }, '/api/v1/meta')
    expect([blocked.status, ...rates(blocked), blocked.headers['retry-after']]).toEqual([
      429,
      20,
      0,
      NOON + 600,
      '600',
    ])
    expect((await api.get('/api/v1/meta')).status).toBe(200) // without a key
    expect((await api.get('/api/v1/meta', { from: '127.0.0.2', headers: { 'x-api-key': key } })).status).toBe(
      200,
    )
    api.clock.ms = (NOON + 600) * 1_000
    expect((await withKey({ 'x-api-key': key }, '/api/v1/meta')).status).toBe(200)
  })
})

describe('M13#4: agreement with the decision service', () => {
  test('4.1: POST /json with the same descriptor sees the same counter', async () => {
    api.close()
    const table = createMemoryTable(1 << 20) // two workers, one table
    const nowSec = () => NOON
    const rules = await defaultRules()
    const [limiter, serviceLimiter] = [0, 1].map(
      () => engine(null, { store: new MemoryStore(table), nowSec }).engine,
    )
    for (const each of [limiter, serviceLimiter]) each.setRules(rules)
    api = await startApi({ limiter })
    const http = {
      host: '127.0.0.1',
      port: 0,
      bodyBytesMax: 10_000,
      health: { isHealthy: true, report: '' },
      log: () => {},
    }
    const service = new HttpServer({ ...http, limiter: serviceLimiter })
    const decide = async () => {
      const entries = [
        { key: 'class', value: 'read' },
        { key: 'ip', value: '127.0.0.1' },
      ]
      const body = JSON.stringify({ domain: 'relay_monitor', descriptors: [{ entries }] })
      const { json } = await send(service.port, 'POST', '/json', { body })
      return (json as { statuses: { limitRemaining: number }[] }).statuses[0].limitRemaining
    }
    try {
      expect(rates(await api.get('/api/v1/meta'))[1]).toBe(119)
      expect(await decide()).toBe(118)
      expect(rates(await api.get('/api/v1/meta'))[1]).toBe(117)
      expect(await decide()).toBe(116)
    } finally {
      service.close()
    }
  })
})

test('4.1: clients with unique addresses evict no counter of another domain', async () => {
  api.close()
  const table = createMemoryTable(512, 512) // 1 bucket, 2 public ones
  const store = () => new MemoryStore(table)
  const nowSec = () => NOON
  const shop = engine([rule('user', { unit: Unit.Minute })], { store: store(), nowSec })
  const limiter = engine(null, { store: store(), nowSec }).engine
  limiter.setRules(await defaultRules())
  api = await startApi({ limiter })
  const remaining = () => shop.decide({ user: 'alice' }).statuses[0].limitRemaining
  expect(remaining()).toBe(4)
  for (let i = 1; i <= 60; i++) await api.submit('http://10.0.0.1/', { from: `127.0.0.${i}` }) // counted for an hour
  expect(remaining()).toBe(3)
})

test('1.2: a body that does not arrive is 408, and the connection ends', async () => {
  api.close()
  api = await startApi({ bodyTimeoutMs: 50 })
  const socket = connect(api.port, '127.0.0.1')
  socket.write(
    'POST /api/v1/detections HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{',
  )
  let text = ''
  for await (const chunk of socket) text += chunk
  expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
  expect(text).toMatch(/\r\nConnection: close\r\n/i)
  expect(text).toMatch(/\r\nX-RateLimit-Remaining: 19\r\n/)
})

test('1.2: a length beyond the maximum is refused before the body arrives', async () => {
  const socket = connect(api.port, '127.0.0.1')
  socket.write(
    'POST /api/v1/detections HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{',
  )
  let text = ''
  for await (const chunk of socket) text += chunk
  expect(text).toMatch(/^HTTP\/1\.1 413 /)
})
