/** Query strings: unknown parameters are refused with a suggestion on every endpoint; hostile ones cost little and echo little. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ApiError } from '../../../monitor/api/errors.ts'
import { readQuery } from '../../../monitor/api/query.ts'
import { ENDPOINTS } from '../../../monitor/api/schema/endpoints.ts'
import { size } from '../../helpers/size.ts'
import { DETECTIONS } from './golden-cases.ts'
import { startApi } from './setup.ts'

const SITES = ENDPOINTS.find(({ id }) => id === 'listSites')!.parameters
const TAKES =
  'this endpoint takes only tier, region, limit, offset, sort, order, q, software, model, status, include'
const ECHO_CHARS_MAX = 64 // spec 1.2

function refuse(query: string, parameters = SITES): string {
  try {
    readQuery(query, parameters)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'invalid_parameter') return error.message
    throw error
  }
  return ''
}

// biome-ignore format: a table
const cases: [string, string][] = [
  ['teir=A',                      'unknown query parameter `teir`; did you mean `tier`?'],
  ['Tier=A',                      'unknown query parameter `Tier`; did you mean `tier`?'],
  ['tier=A&limits=5',             'unknown query parameter `limits`; did you mean `limit`?'],
  ['page=2',                      `unknown query parameter \`page\`; ${TAKES}`],
  ['lang=en',                     `unknown query parameter \`lang\`; ${TAKES}`],
  ['_=1',                         `unknown query parameter \`_\`; ${TAKES}`],
  ['x',                           `unknown query parameter \`x\`; ${TAKES}`],
  ['=1',                          `unknown query parameter \`\`; ${TAKES}`],
  ['a%20b%60%00%0a=1',            `unknown query parameter \`a?b???\`; ${TAKES}`],
  ['%E7%AB%99=1',                 `unknown query parameter \`?\`; ${TAKES}`],
  ['%E2%80%AEreit=1',             `unknown query parameter \`?reit\`; ${TAKES}`],
  ['%F0%9F%98%80=1',              `unknown query parameter \`??\`; ${TAKES}`],
  ['<script>=1',                  `unknown query parameter \`<script>\`; ${TAKES}`],
  ['__proto__=1',                 `unknown query parameter \`__proto__\`; ${TAKES}`],
  ['constructor=1',               `unknown query parameter \`constructor\`; ${TAKES}`],
  ['toString=1',                  `unknown query parameter \`toString\`; ${TAKES}`],
  ['hasOwnProperty=1',            `unknown query parameter \`hasOwnProperty\`; ${TAKES}`],
  ['tier[]=A',                    `unknown query parameter \`tier[]\`; did you mean \`tier\`?`],
  [`${'x'.repeat(15_000)}=1`,     `unknown query parameter \`${'x'.repeat(32)}\`; ${TAKES}`],
  ['tier=A&tier=A',               'tier must not be given twice'],
  ['tier=A&tier=',                'tier must not be given twice'],
  ['tier=%00',                    'tier must be one of S, A, B, C, D'],
  ['q=%ff',                       'the query string has a percent-encoding that is not UTF-8'],
  ['%ff=1',                       'the query string has a percent-encoding that is not UTF-8'],
  ['%=1',                         'the query string has a percent-encoding that is not UTF-8'],
  ['%c0%af=1',                    'the query string has a percent-encoding that is not UTF-8'],
  ['%ed%a0%80=1',                 'the query string has a percent-encoding that is not UTF-8'],
  ['&&&',                         ''],
  ['&tier=A&',                    ''],
  ['q=__proto__',                 ''],
]
describe('M1#10: a query of the list', () => {
  for (const [query, error] of cases) {
    test(query.slice(0, 40), () => expect(refuse(query)).toBe(error))
  }

  test('of an endpoint without parameters', () => {
    expect(refuse('x=1', [])).toBe('unknown query parameter `x`; this endpoint takes no query parameters')
  })

  test('pages ignore parameters that are not theirs', () => {
    expect(readQuery('utm_source=mail&__proto__=1&tier=A', SITES, 'ignored')).toMatchObject({
      tier: 'A',
      limit: 50,
    })
  })

  test('many parameters: the first wrong one ends it', () => {
    expect(refuse(Array.from({ length: 8_000 }, (_, i) => `${i}`).join('&'))).toContain('`0`')
    expect(refuse('limit=1&'.repeat(2_000))).toBe('limit must not be given twice')
  })

  test('any text: an error of at most 300 printable characters, or parameters that are all known', () => {
    const part = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 80 }),
      fc.string({ unit: 'binary', maxLength: 80 }).map((text) => encodeURIComponent(text.toWellFormed())),
      fc.constantFrom('=', '&', '%', '%00', '%ff', '__proto__', 'tier=A', 'limit=5', '[]', 'constructor'),
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
        const error = refuse(parts.join(''))
        expect(error).toMatch(/^[ -~]{0,300}$/)
        const [, echoed = ''] = /`([^`]*)`/.exec(error) ?? []
        expect(echoed.length).toBeLessThanOrEqual(ECHO_CHARS_MAX)
        expect(Object.getPrototypeOf({})).toBe(Object.prototype)
      }),
      { numRuns: size({ small: 300, full: 20_000 }) },
    )
  })
})

describe('unknown parameters on a port', () => {
  let api: Awaited<ReturnType<typeof startApi>>
  beforeAll(async () => {
    api = await startApi()
    for (const row of DETECTIONS) api.store.detections.set(row.id, row)
  })
  afterAll(() => api.close())

  const toPath = ({ path }: { path: string }) =>
    `/api/v1${path === '/' ? '' : path}`.replace('{slug}', 'alpha').replace('{id}', DETECTIONS[1].id)

  test.each(ENDPOINTS.map((endpoint) => [endpoint.id, endpoint] as const))(
    '%s refuses them',
    async (_, endpoint) => {
      const path = toPath(endpoint)
      api.clock.ms += 60_000 // a window of its own
      // The parser's bound on headers is 4 KiB here; the composition raises it.
      for (const query of ['no_such_parameter=1', '__proto__=1', '%00=1', `${'x'.repeat(3_000)}=1`]) {
        const options =
          endpoint.method === 'POST'
            ? { body: '{"url":"https://a.example.com"}', headers: { 'content-type': 'application/json' } }
            : {}
        const response = await api.request(endpoint.method, `${path}?${query}`, options)
        expect([query.slice(0, 20), response.status]).toEqual([query.slice(0, 20), 400])
        expect(response.json).toMatchObject({
          code: 'invalid_parameter',
          error: expect.stringMatching(/^unknown query parameter `/),
        })
        expect((response.json as { error: string }).error.length).toBeLessThanOrEqual(300)
      }
      const { status } = await api.request('OPTIONS', `${path}?no_such_parameter=1`)
      expect(status).toBe(204) // a preflight has the query of its request
    },
  )

  test('HEAD as GET; every parameter that is documented is taken, with its example', async () => {
    expect((await api.request('HEAD', '/api/v1/sites?teir=A')).status).toBe(400)
    for (const endpoint of ENDPOINTS) {
      for (const { name, schema } of endpoint.parameters) {
        api.clock.ms += 60_000
        const value = name === 'wait' ? 0 : encodeURIComponent(String(schema.examples![0]))
        const { status } = await api.get(`${toPath(endpoint)}?${name}=${value}`)
        expect([endpoint.id, name, status]).toEqual([endpoint.id, name, 200])
      }
    }
  })
})
