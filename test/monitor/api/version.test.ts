/** What v1 says of its end (spec 9): nothing, then when, then that it has come. */
import { afterEach, describe, expect, test } from 'vitest'
import { checkSuccessor, getNotice } from '../../../monitor/api/version.ts'
import { NOON } from './fake-store.ts'
import { startApi } from './setup.ts'

const DAY_SEC = 86_400
const RELEASED = NOON - 30 * DAY_SEC // 2025-10-21T12:00:00Z
const SUNSET = RELEASED + 365 * DAY_SEC
const successor = { releasedSec: RELEASED, sunsetSec: SUNSET }
const HELP = '</changelog#v2>; rel="deprecation", </changelog#v1-sunset>; rel="sunset"'

describe('9: a pure function of options and time', () => {
  // biome-ignore format: the columns are the specification
  const cases: [what: string, path: string, nowSec: number, headersCount: number, isRetired: boolean][] = [
    ['the second before the release',  '/api/v1/sites',  RELEASED - 1, 0, false],
    ['the release',                    '/api/v1/sites',  RELEASED,     3, false],
    ['the second before the sunset',   '/api/v1/sites',  SUNSET - 1,   3, false],
    ['the sunset',                     '/api/v1/sites',  SUNSET,       3, true],
    ['the index',                      '/api/v1',        SUNSET,       3, true],
    ['another version',                '/api/v2/sites',  SUNSET,       0, false],
    ['a name that begins alike',       '/api/v10',       SUNSET,       0, false],
  ]
  for (const [what, path, nowSec, headersCount, isRetired] of cases) {
    test(what, () => {
      const notice = getNotice(successor, path, nowSec)
      expect([notice.headers.length, notice.isRetired]).toEqual([headersCount, isRetired])
    })
  }

  test('no successor, no notice', () => {
    expect(getNotice(null, '/api/v1/sites', SUNSET)).toEqual({ headers: [], isRetired: false })
  })

  test('the successor of a path; v2 itself if the path is not valid in a header', () => {
    const link = (path: string) => getNotice(successor, path, NOON).headers[2][1].split(', ')[2]
    expect(link('/api/v1')).toBe('</api/v2>; rel="successor-version"')
    expect(link('/api/v1/sites/a%20b')).toBe('</api/v2/sites/a%20b>; rel="successor-version"')
    expect(link('/api/v1/sites/a>; rel="x')).toBe('</api/v2>; rel="successor-version"')
  })

  test('a sunset is at least 12 months after the release', () => {
    const released = Date.UTC(2027, 0, 31) / 1_000
    const sunset = Date.UTC(2028, 0, 31) / 1_000
    expect(() => checkSuccessor({ releasedSec: released, sunsetSec: sunset })).not.toThrow()
    expect(() => checkSuccessor({ releasedSec: released, sunsetSec: sunset - 1 })).toThrow(
      '2028-01-31T00:00:00.000Z',
    )
  })
})

describe('M1.3#11 M9#2: over HTTP', () => {
  let api: Awaited<ReturnType<typeof startApi>>
  afterEach(() => api.close())

  test('by default there are no such headers', async () => {
    api = await startApi()
    const { headers } = await api.get('/api/v1/sites')
    expect([headers.deprecation, headers.sunset, headers.link]).toEqual([
      undefined,
      undefined,
      expect.stringMatching(/^<[^,]*>; rel="first", [^,]*rel="last"$/),
    ])
  })

  test('from the release on every response of v1 has the headers, errors, 304 and 204 too; other responses do not', async () => {
    api = await startApi({ successor })
    const response = [
      await api.get('/api/v1/meta'),
      await api.request('HEAD', '/api/v1/meta'),
      await api.get('/api/v1/meta', { headers: { 'if-none-match': '*' } }),
      await api.request('OPTIONS', '/api/v1/meta'),
      await api.get('/api/v1/meta?%'),
      await api.request('PUT', '/api/v1/meta'),
    ]
    expect(response.map(({ status }) => status)).toEqual([200, 200, 304, 204, 400, 405])
    for (const { headers } of response) {
      expect(headers).toMatchObject({
        deprecation: `@${RELEASED}`,
        sunset: 'Wed, 21 Oct 2026 12:00:00 GMT',
        link: `${HELP}, </api/v2/meta>; rel="successor-version"`,
      })
    }
    expect((await api.get('/api/v1/nothing')).headers.sunset).toBeDefined()
    const other = await api.get('/api/v7/meta')
    expect([other.headers.sunset, other.headers.link]).toEqual([undefined, '</api/v1/changelog>; rel="help"'])
  })

  test('pages of a list keep their links', async () => {
    api = await startApi({ successor })
    const { link } = (await api.get('/api/v1/sites?limit=1')).headers
    expect(link).toContain('rel="successor-version"')
    expect(link).toContain('</api/v1/sites?limit=1&offset=1&sort=rank>; rel="next"')
  })

  test('after the sunset every request is 410, except preflights', async () => {
    api = await startApi({ successor })
    api.clock.ms = SUNSET * 1_000
    for (const [method, path] of [
      ['GET', '/api/v1'],
      ['HEAD', '/api/v1/sites'],
      ['GET', '/api/v1/nothing'],
      ['PUT', '/api/v1/sites'],
      ['POST', '/api/v1/detections'],
    ]) {
      const response = await api.request(method, path)
      expect([path, response.status]).toEqual([path, 410])
      expect(response.headers.link).toContain('rel="successor-version"')
      if (method !== 'HEAD') expect(response.json).toMatchObject({ code: 'version_retired' })
    }
    expect((await api.request('OPTIONS', '/api/v1/sites')).status).toBe(204)
    expect((await api.get('/api/v7')).status).toBe(404)
  })

  test('a service with a sunset that is too early does not start', async () => {
    api = await startApi()
    await expect(startApi({ successor: { releasedSec: NOON, sunsetSec: NOON + DAY_SEC } })).rejects.toThrow(
      'less than 12 months',
    )
  })
})
