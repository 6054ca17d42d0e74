/** `/media/screenshots/{slug}/{yyyy-mm}.webp` on the public port; what is kept of pictures: ../screenshots/screenshots.test.ts. */
import { request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Body } from '../../../monitor/api/bodies.ts'
import { startSite } from './setup.ts'

const IMAGE = Buffer.from('RIFF....WEBPVP8 image')
const PATH = '/media/screenshots/alpha/2026-11.webp'
const asked: string[] = []

let site: Awaited<ReturnType<typeof startSite>>
beforeAll(async () => {
  const body = new Body(IMAGE)
  const get = async (siteId: number, month: string) => {
    asked.push(`${siteId} ${month}`)
    if (month === '2026-10') throw new Error('the disk')
    return month === '2026-11' ? body : null
  }
  site = await startSite({ images: { get } })
})
afterAll(() => site.close())

/** As it is on the wire: `fetch` would normalize the path. */
function send(method: string, path: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number; headers: Record<string, unknown>; body: Buffer }>(
    (resolve, reject) => {
      const sent = request(site.origin, { method, path, headers, agent: false }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk) => chunks.push(chunk))
        response.on('end', () => {
          const { date: _, uwebsockets: __, connection: ___, ...rest } = response.headers
          resolve({ status: response.statusCode!, headers: rest, body: Buffer.concat(chunks) })
        })
      })
      sent.on('error', reject)
      sent.end()
    },
  )
}

test('M8.3#4: exactly these headers, the same for HEAD; 304 by ETag', async () => {
  const got = await send('GET', PATH)
  expect([got.status, got.body]).toEqual([200, IMAGE])
  expect(got.headers).toEqual({
    'content-type': 'image/webp',
    'content-length': String(IMAGE.length),
    'cache-control': 'public, max-age=31536000, immutable',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
    etag: expect.stringMatching(/^W\/"[0-9a-f]{16}"$/),
    'x-request-id': expect.any(String),
  })
  const head = await send('HEAD', PATH)
  expect([head.status, head.body.length]).toEqual([200, 0])
  const { 'x-request-id': _, ...same } = got.headers
  expect(head.headers).toMatchObject(same)

  const kept = await send('GET', PATH, { 'if-none-match': String(got.headers.etag) })
  expect([kept.status, kept.body.length]).toEqual([304, 0])
  expect(kept.headers).toMatchObject({
    etag: got.headers.etag,
    'cache-control': got.headers['cache-control'],
  })
  expect((await send('GET', PATH, { 'if-none-match': '"other"' })).status).toBe(200)
})

test.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])(
  '%s on a picture: 405 with Allow',
  async (method) => {
    const { status, headers } = await send(method, PATH)
    expect([status, headers.allow]).toEqual([405, 'GET, HEAD'])
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
  },
)

// biome-ignore format: a list
const MISSING = [
  '/media/screenshots/alpha/2026-09.webp', '/media/screenshots/none/2026-11.webp', '/media/screenshots/alpha/2026-11.png',
  '/media/screenshots/alpha/2026-11.webp//', '/media/screenshots//2026-11.webp', '/media/screenshots/', '/media/screenshots/alpha/',
  '/media/screenshots/../alpha/2026-11.webp', '/media/screenshots/alpha/../alpha/2026-11.webp', '/media/screenshots/%2e%2e/2026-11.webp',
  '/media/screenshots/alpha/..%2f2026-11.webp', '/media/screenshots/alpha/2026-11.webp%00', '/media/screenshots/ALPHA/2026-11.webp',
  '/media/screenshots/alpha\\2026-11.webp', '/media/screenshots/alpha/2026-1.webp', '/media/screenshots/alpha/02026-11.webp',
  `/media/screenshots/${'a'.repeat(64)}/2026-11.webp`, `/media/screenshots/${'a'.repeat(4_000)}/2026-11.webp`,
  '/media/screenshots/__proto__/2026-11.webp', '/media/screenshots/constructor/2026-11.webp',
]
test.each(MISSING.map((path) => [path.slice(0, 60), path]))(
  'M8.3#4: no picture at %s: 404 as a page, with the headers of pages',
  async (_, path) => {
    asked.length = 0
    const { status, headers } = await send('GET', path)
    expect(status).toBe(404)
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
    expect(headers['content-security-policy']).toContain("script-src 'self'")
    expect(headers['cache-control']).not.toContain('immutable')
    expect(asked.every((each) => /^[0-9]+ 2026-09$/.test(each))).toBe(true) // nothing else reaches the disk
  },
)

test('a picture that cannot be read: 500 as a page, logged, and never kept by caches', async () => {
  const { status, headers } = await send('GET', '/media/screenshots/alpha/2026-10.webp')
  expect(status).toBe(500)
  expect(String(headers['cache-control'])).not.toContain('immutable')
  expect(site.logged.join()).toContain('the disk')
})
