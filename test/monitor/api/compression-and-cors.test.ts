/** From which size on a body is compressed (spec 1), and which headers pages of other origins may read (spec 1.5). */
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { ChangelogEntry } from '../../../monitor/api/changelog.ts'
import { startApi } from './setup.ts'

const COMPRESSED_MIN_BYTES = 1_024

async function start(options: Parameters<typeof startApi>[0] = {}) {
  const api = await startApi(options)
  onTestFinished(() => api.close())
  return api
}

describe('1: bodies of 1 KiB and more are compressed', () => {
  /** A changelog whose body has exactly so many bytes, in as many characters of `filling` as that takes. */
  function changelog(bytes: number, filling: string): ChangelogEntry[] {
    const dates = { announced_on: '2025-01-01', effective_on: '2025-02-01' }
    const entry: ChangelogEntry = { id: 'a', ...dates, kind: 'added', endpoints: [], text: '' }
    const missing = bytes - Buffer.byteLength(JSON.stringify({ entries: [entry] }))
    const count = Math.floor(missing / Buffer.byteLength(filling))
    const rest = 'x'.repeat(missing - count * Buffer.byteLength(filling))
    return [{ ...entry, text: filling.repeat(count) + rest }]
  }

  // biome-ignore format: the columns are the specification
  const cases = [
    [COMPRESSED_MIN_BYTES - 1, 'x',  false],
    [COMPRESSED_MIN_BYTES,     'x',  true],
    [COMPRESSED_MIN_BYTES - 1, '站', false],
    [COMPRESSED_MIN_BYTES,     '站', true], // bytes count, not its 400 characters
  ] as const
  for (const [bytes, filling, isCompressed] of cases) {
    test(`1: ${bytes} bytes of ${filling} ${isCompressed ? 'are' : 'are not'}`, async () => {
      const api = await start({ changelog: changelog(bytes, filling) })
      const plain = await api.get('/api/v1/changelog')
      expect([plain.bytes.length, plain.headers['content-encoding']]).toEqual([bytes, undefined])
      for (const [coding, open] of [
        ['br', brotliDecompressSync],
        ['gzip', gunzipSync],
      ] as const) {
        const response = await api.get('/api/v1/changelog', { headers: { 'accept-encoding': coding } })
        expect(response.headers['content-encoding']).toBe(isCompressed ? coding : undefined)
        expect((isCompressed ? open(response.bytes) : response.bytes).equals(plain.bytes)).toBe(true)
      }
    })
  }
})

describe('1.5: what a page of another origin may read', () => {
  // biome-ignore format: the list of the specification, as it stands there
  const EXPOSED =
    'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, Location, ETag, Link, Deprecation, Sunset, X-Request-Id'

  // biome-ignore format: a table
  const requests = [
    ['GET',     '/api/v1/sites',      200],
    ['HEAD',    '/api/v1/sites',      200],
    ['OPTIONS', '/api/v1/detections', 204],
    ['GET',     '/api/v1/nothing',    404],
    ['PATCH',   '/api/v1/sites',      405],
    ['POST',    '/api/v1/detections', 415],
  ] as const
  for (const [method, path, status] of requests) {
    test(`1.5: with ${method} ${path}, ${status}`, async () => {
      const response = await (await start()).request(method, path)
      expect([response.status, response.headers['access-control-expose-headers']]).toEqual([status, EXPOSED])
    })
  }

  test('1.5: with 304', async () => {
    const api = await start()
    const response = await api.get('/api/v1/sites', { headers: { 'if-none-match': '*' } })
    expect([response.status, response.headers['access-control-expose-headers']]).toEqual([304, EXPOSED])
  })
})
