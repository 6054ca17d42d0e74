/** CORS as a real browser judges it (spec 1.5, 13.5): a page of another origin asks the API. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../../helpers/chromium.ts'
import { createSnapshot, NOON } from './fake-store.ts'
import { startApi } from './setup.ts'

const PAGE_MS_MAX = 25_000 // a start of the browser takes 1 s on an idle machine
const KEY = `rm_${'Aa0'.repeat(10)}zz`
const RATE = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']
const EXPOSED = [...RATE, 'RateLimit', 'RateLimit-Policy', 'ETag', 'X-Request-Id', 'Location', 'Retry-After']

/** What the page asks, by name; each ends as what a script can see, or as `refused` by the browser. */
const ASKED = {
  plain: ['/sites?limit=1', {}],
  key: ['/sites?limit=1', { headers: { 'X-API-Key': KEY } }],
  bearer: ['/meta', { headers: { Authorization: `Bearer ${KEY}` } }],
  wrongKey: ['/meta', { headers: { 'X-API-Key': 'x' } }],
  known: ['/sites?limit=1', { headers: { 'If-None-Match': '*' } }],
  submission: [
    '/detections',
    {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ url: 'https://a.example.com' }),
    },
  ],
  nothing: ['/nothing', {}],
  head: ['/sites', { method: 'HEAD', headers: { 'X-API-Key': KEY } }],
  cookies: ['/sites', { credentials: 'include' }],
  otherHeader: ['/sites', { headers: { 'X-Other': '1' } }],
  put: ['/sites', { method: 'PUT' }],
} as const

interface Seen {
  status: number
  body: { code?: string; total?: number; status?: string } | null
  headers: Record<string, string>
}

let api: Awaited<ReturnType<typeof startApi>>
let page: Server
let seen: Record<keyof typeof ASKED, Seen | 'refused'>

beforeAll(async () => {
  const hash = createHash('sha256').update(KEY).digest()
  const apiKey = { id: 'k_1', hash, tier: 'partner', expiresAtSec: null, revokedAtSec: null }
  api = await startApi()
  api.state.snapshot = createSnapshot(undefined, { apiKeys: [apiKey] })
  const report = Promise.withResolvers<typeof seen>()
  page = createServer((request, response) => {
    response.setHeader('Content-Type', 'text/html')
    if (request.method === 'GET') return response.end(`<script type="module">${script(api.port)}</script>`)
    let text = ''
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => report.resolve(JSON.parse(text)))
    return response.end()
  })
  page.listen(0, '127.0.0.1')
  await once(page, 'listening')
  const close = openPage(`http://127.0.0.1:${(page.address() as AddressInfo).port}/`)
  const timer = setTimeout(() => report.reject(new Error('the page reported nothing')), PAGE_MS_MAX)
  try {
    seen = await report.promise
  } catch (error) {
    throw new Error(`${(error as Error).message}; the browser said:\n${await close()}`)
  } finally {
    clearTimeout(timer)
    await close()
  }
}, PAGE_MS_MAX + 5_000)

afterAll(() => {
  api?.close()
  page?.close()
  page?.closeAllConnections()
})

function script(port: number): string {
  return `
    const seen = {}
    for (const [name, [path, init]] of Object.entries(${JSON.stringify(ASKED)})) {
      try {
        const response = await fetch('http://127.0.0.1:${port}/api/v1' + path, { cache: 'no-store', ...init })
        const text = await response.text()
        const headers = ${JSON.stringify(EXPOSED)}.flatMap((each) => response.headers.has(each) ? [[each, response.headers.get(each)]] : [])
        seen[name] = { status: response.status, body: text ? JSON.parse(text) : null, headers: Object.fromEntries(headers) }
      } catch { seen[name] = 'refused' }
    }
    await fetch('/seen', { method: 'POST', body: JSON.stringify(seen) })`
}

const getSeen = (name: keyof typeof ASKED) => seen[name] as Seen
const preflights = () => api.lines.filter(({ method }) => method === 'OPTIONS').length

test('13.5: a page of another origin reads the list, and the headers that it may see', () => {
  expect(getSeen('plain')).toMatchObject({ status: 200, body: { total: 6 } })
  expect(Object.keys(getSeen('plain').headers)).toEqual([
    ...RATE,
    'RateLimit',
    'RateLimit-Policy',
    'ETag',
    'X-Request-Id',
  ])
  expect(getSeen('plain').headers['X-RateLimit-Reset']).toBe(String(NOON + 60))
})

test('13.5: preflighted headers: both ways to send a key, and If-None-Match', () => {
  expect(getSeen('key')).toMatchObject({ status: 200, headers: { 'X-RateLimit-Limit': '1200' } })
  expect(getSeen('bearer')).toMatchObject({ status: 200, headers: { 'X-RateLimit-Limit': '1200' } })
  expect(getSeen('head')).toMatchObject({ status: 200, body: null, headers: { 'X-RateLimit-Limit': '1200' } })
  expect(getSeen('known')).toMatchObject({ status: 304, body: null })
  expect(preflights()).toBeGreaterThanOrEqual(4) // one is kept per path
})

test('13.5: a submission is preflighted, and its Location can be read', () => {
  const { status, body, headers } = getSeen('submission')
  expect([status, body?.status, headers['Retry-After']]).toEqual([202, 'queued', '2'])
  expect(headers.Location).toMatch(/^\/api\/v1\/detections\//)
})

test('1.5: errors are for the page to read, too', () => {
  expect(getSeen('nothing')).toMatchObject({ status: 404, body: { code: 'not_found' } })
  expect(getSeen('wrongKey')).toMatchObject({ status: 401, body: { code: 'invalid_api_key' } })
})

test('1.5: no cookies, no other header, no other method', () => {
  expect([seen.cookies, seen.otherHeader, seen.put]).toEqual(['refused', 'refused', 'refused'])
})
