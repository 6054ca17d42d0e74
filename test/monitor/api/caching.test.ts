/** HEAD, conditional requests, codings, CORS (spec 1.1, 1.4, 1.5, 13.5). */
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Bodies, preferredCoding } from '../../../monitor/api/bodies.ts'
import { type ReceivedResponse, startApi } from './setup.ts'

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
})
afterEach(() => api.close())

const KEPT = { connection: 'keep-alive' } // without it node asks for the end itself
const PATHS = ['', '/sites', '/sites/alpha', '/leaderboard', '/meta', '/changelog', '/openapi.json']
const lasting = ({ headers }: ReceivedResponse) => {
  const {
    date,
    ratelimit,
    'x-request-id': _id,
    'x-ratelimit-remaining': _left,
    connection,
    ...rest
  } = headers
  return rest
}

describe('M13#5: HEAD and conditions', () => {
  for (const path of [...PATHS, '/limits', '/nothing', '/sites?limit=x', '/sites/nobody']) {
    for (const coding of ['identity', 'gzip', 'br']) {
      test(`M1.1#2: HEAD ${path} is GET without its body, ${coding}`, async () => {
        const headers = { 'accept-encoding': coding }
        const got = await api.get(`/api/v1${path}`, { headers })
        const head = await api.request('HEAD', `/api/v1${path}`, { headers })
        expect(head.status).toBe(got.status)
        expect(lasting(head)).toEqual(lasting(got))
        expect([head.bytes.length, Number(head.headers['content-length'])]).toEqual([0, got.bytes.length])
      })
    }
  }

  for (const path of PATHS) {
    test(`M1#2 M1.4#1: ${path} has one ETag in all codings, and 304 for it`, async () => {
      const tags = new Set<string>()
      for (const coding of ['identity', 'gzip', 'br']) {
        const { headers } = await api.get(`/api/v1${path}`, { headers: { 'accept-encoding': coding } })
        tags.add(headers.etag)
      }
      expect(tags.size).toBe(1)
      const [etag] = tags
      expect(etag).toMatch(/^W\/"[0-9a-f]{16}"$/)
      for (const match of [etag, etag.slice(2), `"x", ${etag}`, '*', ` ${etag} , W/"y"`]) {
        for (const coding of ['identity', 'gzip']) {
          const headers = { 'if-none-match': match, 'accept-encoding': coding }
          for (const method of ['GET', 'HEAD']) {
            const response = await api.request(method, `/api/v1${path}`, { headers })
            expect([response.status, response.headers.etag, response.headers['content-type']]).toEqual([
              304,
              etag,
              undefined,
            ])
            expect(response.headers['cache-control']).toMatch(/^private, max-age=/)
          }
        }
      }
      const other = await api.get(`/api/v1${path}`, { headers: { 'if-none-match': 'W/"0000000000000000"' } })
      expect(other.status).toBe(200)
    })
  }

  test('1.4: equal data of a newer version has the same ETag, other data another', async () => {
    const before = (await api.get('/api/v1/sites')).headers.etag
    api.state.snapshot = { ...api.state.snapshot!, version: 8 }
    expect((await api.get('/api/v1/sites')).headers.etag).toBe(before)
    api.state.snapshot = { ...api.state.snapshot!, version: 9, sites: api.state.snapshot!.sites.slice(1) }
    expect((await api.get('/api/v1/sites')).headers.etag).not.toBe(before)
  })

  test("1.4: a site's body is built once, and again when its row changes or an hour has passed", async () => {
    for (let i = 0; i < 3; i++) await api.get('/api/v1/sites/alpha', { headers: { 'accept-encoding': 'br' } })
    expect(api.store.reads).toBe(4) // history, observation, models, screenshot
    const snapshot = api.state.snapshot!
    api.state.snapshot = { ...snapshot, version: 8, generatedAtSec: snapshot.generatedAtSec + 5 }
    await api.get('/api/v1/sites/alpha')
    expect(api.store.reads).toBe(4) // another site was probed
    const sites = snapshot.sites.map((site) => ({ ...site, lastProbedSec: site.lastProbedSec + 1 }))
    api.state.snapshot = { ...snapshot, version: 9, sites }
    await Promise.all([api.get('/api/v1/sites/alpha'), api.get('/api/v1/sites/alpha')])
    expect(api.store.reads).toBe(8)
    api.state.snapshot = {
      ...api.state.snapshot!,
      version: 10,
      generatedAtSec: snapshot.generatedAtSec + 3_600,
    }
    await api.get('/api/v1/sites/alpha')
    expect(api.store.reads).toBe(12)
  })

  test('M1.4#2: a list is built once per data version', async () => {
    const first = await api.get('/api/v1/sites')
    const snapshot = api.state.snapshot!
    const sites = snapshot.sites.map((site) => ({ ...site, name: 'Another' }))
    api.state.snapshot = { ...snapshot, sites } // the same version: what was built holds
    expect((await api.get('/api/v1/sites')).bytes).toEqual(first.bytes)
    api.state.snapshot = { ...snapshot, sites, version: 8 }
    expect((await api.get('/api/v1/sites')).bytes).not.toEqual(first.bytes)
  })

  // biome-ignore format: a table
  const cacheControls = [
    ['/sites',        'private, max-age=15',   'public, max-age=15, stale-while-revalidate=60'],
    ['/sites/alpha',  'private, max-age=15',   'public, max-age=15, stale-while-revalidate=60'],
    ['/leaderboard',  'private, max-age=15',   'public, max-age=15, stale-while-revalidate=60'],
    ['/openapi.json', 'private, max-age=3600', 'private, max-age=3600'],
    ['/limits',       'no-store',              'no-store'],
    ['/nothing',      'no-store',              'no-store'],
  ]
  test('M1.3#9 M1.4#3: Cache-Control by kind, and with API_SHARED_CACHE', async () => {
    const shared = await startApi({ isSharedCache: true, hasDraftFields: false })
    for (const [path, own, all] of cacheControls) {
      expect((await api.get(`/api/v1${path}`)).headers['cache-control']).toBe(own)
      const response = await shared.get(`/api/v1${path}`)
      expect([response.headers['cache-control'], response.headers.ratelimit]).toEqual([all, undefined])
    }
    shared.close()
  })
})

describe('1: codings', () => {
  // biome-ignore format: a table
  const cases = [
    ['',                      'identity'],
    ['gzip',                  'gzip'],
    ['gzip, deflate, br',     'br'],
    ['GZIP;q=1.0, br;q=0.5',  'gzip'],
    ['br;q=0, gzip',          'gzip'],
    ['*',                     'br'],
    ['br;q=0, *;q=0.1',       'gzip'],
    ['deflate, zstd',         'identity'],
    ['br;q=x',                'identity'],
    ['identity;q=0',          'identity'],
  ]
  for (const [header, coding] of cases) {
    test(`1: Accept-Encoding: ${header} is ${coding}`, () => expect(preferredCoding(header)).toBe(coding))
  }

  test('M1#4: bodies from 1 KiB on are compressed, and hold the same', async () => {
    const plain = await api.get('/api/v1/openapi.json')
    for (const [coding, open] of [
      ['br', brotliDecompressSync],
      ['gzip', gunzipSync],
    ] as const) {
      const response = await api.get('/api/v1/openapi.json', { headers: { 'accept-encoding': coding } })
      expect(response.headers['content-encoding']).toBe(coding)
      expect(response.bytes.length).toBeLessThan(plain.bytes.length / 4)
      expect(open(response.bytes).equals(plain.bytes)).toBe(true)
    }
    const small = await api.get('/api/v1/limits', { headers: { 'accept-encoding': 'br' } })
    expect(small.headers['content-encoding']).toBeUndefined()
  })

  test('M1.4#2: small bodies count with what an entry costs, about 1,000 bytes', () => {
    const bodies = new Bodies(100_000)
    for (let i = 0; i < 200; i++) bodies.getText(`k${i}`, () => 'x')
    const build = vi.fn(() => 'x')
    for (let i = 0; i < 200; i++) bodies.getText(`k${199 - i}`, build)
    expect(build).toHaveBeenCalledTimes(103) // 97 entries of 1,024 bytes, a key and a byte are kept
  })

  test('M1.4#2: the cache stays within its bound', async () => {
    const bodies = new Bodies(100_000)
    for (let i = 0; i < 200; i++) await bodies.get(`k${i}`, () => 'x'.repeat(3_000)).form('gzip')
    expect(bodies.bytes).toBeLessThanOrEqual(100_000)
    expect(bodies.bytes).toBeGreaterThan(90_000)
  })
})

describe('1.5: CORS', () => {
  test('M1.1#3 1.5: a preflight', async () => {
    const origin = { origin: 'https://other.example', 'access-control-request-method': 'POST' }
    const response = await api.request('OPTIONS', '/api/v1/detections', { headers: origin })
    expect(response.status).toBe(204)
    expect(response.headers).toMatchObject({
      allow: 'POST, OPTIONS',
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, HEAD, POST, OPTIONS',
      'access-control-allow-headers': 'Accept, Authorization, Content-Type, If-None-Match, X-API-Key',
      'access-control-max-age': '86400',
    })
    expect(response.headers['access-control-allow-private-network']).toBeUndefined()
    expect(response.headers['access-control-allow-credentials']).toBeUndefined()
  })
})

test('M1#14: a body on GET is ignored', async () => {
  expect((await api.get('/api/v1/sites', { body: 'x'.repeat(4_096) })).status).toBe(200)
  const response = await api.get('/api/v1/sites', { body: 'x'.repeat(5_000), headers: KEPT })
  expect([response.status, response.headers.connection]).toEqual([200, 'close'])
})

test('12: after announceEnd health is 503, and drain has nothing to wait for', async () => {
  await api.api.drain(1_000)
  const response = await api.get('/api/v1/sites', { headers: KEPT })
  expect([response.status, response.headers.connection, response.json]).toMatchObject([
    503,
    'close',
    { code: 'not_ready' },
  ])
})
