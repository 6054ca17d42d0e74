/** The source contract, row by row (spec 13.1), and the bounds of every parameter (13.2). */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { specRows } from '../../helpers/spec.ts'
import { startApi } from './setup.ts'

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
})
afterEach(() => api.close())

// biome-ignore format: the columns are the specification
const SITE_FIELDS = ['slug', 'name', 'tier', 'url', 'first_seen', 'last_probed', 'reachable_cn', 'reachable_overseas']
/** The row of a parameter in the tables of 3.1 and 3.3; '' for those that have no table. */
function findRowId(path: string, name: string): string {
  const section = { sites: 'M3.1', leaderboard: 'M3.3' }[path]
  const hasName = ([names]: string[]) => names?.replace(' [S]', '').split(', ').includes(name)
  return section ? specRows(section).find(({ cells }) => hasName(cells))!.id : ''
}

const listSlugs = (response: { json: never }) =>
  (response.json as { sites: { slug: string }[] }).sites.map(({ slug }) => slug)

describe('M13#1: the source contract', () => {
  test('M3.1#11 2.1: a list item has exactly these fields', async () => {
    const response = await api.get('/api/v1/sites')
    expect(Object.keys(response.json)).toEqual(['total', 'sites'])
    for (const site of (response.json as { sites: object[] }).sites)
      expect(Object.keys(site)).toEqual(SITE_FIELDS)
  })

  test('2.2: a detail has these and five more', async () => {
    const { json } = await api.get('/api/v1/sites/alpha')
    const more = [
      'probe_history',
      'model_list_claimed',
      'model_list_verified',
      'network_profile',
      'screenshot_url',
    ]
    expect(Object.keys(json)).toEqual([...SITE_FIELDS, ...more])
    expect(json).toMatchObject({
      model_list_claimed: ['claude-sonnet-4-6', 'gpt-5.4'],
      model_list_verified: ['gpt-5.4'],
      screenshot_url: '/media/screenshots/alpha/2025-11.webp',
      network_profile: { tls: { days_left: 70 }, observed_at: '2025-11-20T11:00:00Z' },
    })
  })

  test('3.1: 50 sites by default, 3.3: 10 entries, board red', async () => {
    const many = Array.from({ length: 60 }, (_, i) => ({
      ...api.state.snapshot!.sites[0],
      id: i,
      slug: `s${i}`,
    }))
    const red = many.map(({ id, slug }, i) => ({
      ...{ siteId: id, slug, rank: i + 1, rankBefore: null, sinceSec: 0, reasons: ['fast'] },
    }))
    api.state.snapshot = { ...api.state.snapshot!, version: 8, sites: many, boards: { red, black: [] } }
    const list = (await api.get('/api/v1/sites')).json as { total: number; sites: [] }
    expect([list.total, list.sites.length]).toEqual([60, 50])
    const board = (await api.get('/api/v1/leaderboard')).json as { board: string; total: number; entries: [] }
    expect([board.board, board.total, board.entries.length]).toEqual(['red', 60, 10])
  })

  test('M1#6 3.3: an entry has the eight fields of a site and those of a board', async () => {
    const { json } = await api.get('/api/v1/leaderboard?board=black')
    expect(json).toMatchObject({
      ...{ board: 'black', generated_at: '2025-11-20T12:00:00Z', window_days: 30, total: 1 },
      entries: [
        {
          rank: 1,
          rank_change: 0,
          slug: 'down',
          score: 12.4,
          reasons: ['down_72h'],
          availability_7d: 0.9987,
        },
      ],
    })
    const best = (await api.get('/api/v1/leaderboard?limit=1')).json as { entries: { rank_change: number }[] }
    expect(best.entries.map(({ rank_change }) => rank_change)).toEqual([2])
  })

  // biome-ignore format: a table
  const errors = [
    ['GET',    '/api/v1/sites?limit=0',    400, 'invalid_parameter'],
    ['GET',    '/api/v1/sites/nobody',     404, 'site_not_found'],
    ['GET',    '/api/v1/sites/UPPER',      404, 'site_not_found'],
    ['GET',    '/api/v1/sites/%zz',        404, 'site_not_found'],
    ['GET',    '/api/v1/sites/alpha/none', 404, 'not_found'],
    ['GET',    '/api/v1/SITES',            404, 'not_found'],
    ['GET',    '/api',                     404, 'not_found'],
    ['DELETE', '/api/nothing',             404, 'not_found'],
    ['OPTIONS','/api/v1/nothing',          404, 'not_found'],
    ['GET',    '/api/v2/sites',            404, 'unknown_version'],
    ['POST',   '/api/v01',                 404, 'unknown_version'],
    ['GET',    '/api/v1/detections/x',     404, 'detection_not_found'],
    ['PUT',    '/api/v1/sites',            405, 'method_not_allowed'],
    ['GET',    '/api/v1/detections',       405, 'method_not_allowed'],
    ['BREW',   '/api/v1/sites',            405, 'method_not_allowed'],
  ] as const
  for (const [method, path, status, code] of errors) {
    test(`M1#13 M1.1#4-5 1.2: ${method} ${path} is ${status} ${code}`, async () => {
      const response = await api.request(method, path)
      expect(response.status).toBe(status)
      expect(Object.keys(response.json)).toEqual(['error', 'code'])
      expect(response.json).toMatchObject({ code })
      expect(response.headers['cache-control']).toBe('no-store')
    })
  }

  test('M1.1#4: 405 lists the allowed methods', async () => {
    expect((await api.request('PUT', '/api/v1/sites')).headers.allow).toBe('GET, HEAD, OPTIONS')
    expect((await api.request('PUT', '/api/v1/detections')).headers.allow).toBe('POST, OPTIONS')
  })

  test('M1#12: one slash at the end is treated as absent, two are not', async () => {
    expect((await api.get('/api/v1/sites/')).status).toBe(200)
    expect((await api.get('/api/v1/')).status).toBe(200)
    expect((await api.get('/api/v1/sites//')).status).toBe(404)
  })

  test('3.2: an alias returns the site and its current location', async () => {
    const response = await api.get('/api/v1/sites/old-alpha')
    expect(response.json).toMatchObject({ slug: 'alpha' })
    expect(response.headers['content-location']).toBe('/api/v1/sites/alpha')
  })

  test('1.2: before the store has loaded data is 503 not_ready, the rest is there', async () => {
    api.state.snapshot = null
    for (const path of ['sites', 'sites/alpha', 'models', 'leaderboard', 'meta']) {
      expect((await api.get(`/api/v1/${path}`)).json).toMatchObject({ code: 'not_ready' })
    }
    for (const path of ['limits', 'changelog', 'openapi.json']) {
      expect((await api.get(`/api/v1/${path}`)).status).toBe(200)
    }
  })

  test('1.2: an unexpected error is 500, logged, and without details', async () => {
    api.store.failure = new Error('disk at /var/lib is dead')
    const response = await api.get('/api/v1/sites/alpha')
    expect([response.status, response.json]).toEqual([
      500,
      { error: 'internal server error', code: 'internal_error' },
    ])
    expect(api.logged[0]).toContain(response.headers['x-request-id'])
    expect((await api.get('/api/v1/sites')).status).toBe(200) // lists need no disk
  })
})

describe('3.1: filters and order', () => {
  // biome-ignore format: a table
  const cases = [
    ['',                      ['best', 'alpha', 'equal', 'cn-only', 'no-facts', 'down']],
    ['tier=A',                ['alpha', 'equal', 'cn-only']],
    ['tier=B',                []],
    ['region=cn',             ['best', 'alpha', 'equal', 'cn-only', 'no-facts']],
    ['region=overseas',       ['best', 'alpha', 'equal', 'no-facts']],
    ['region=both&tier=C',    ['no-facts']],
    ['limit=2&offset=1',      ['alpha', 'equal']],
    ['offset=6',              []],
    ['offset=1000000',        []],
    ['sort=name&limit=2',     ['no-facts', 'alpha']],
    ['sort=name&order=desc&limit=1', ['equal']],
    ['order=desc&limit=2',    ['down', 'no-facts']],
    ['sort=availability&order=asc', ['alpha', 'best', 'cn-only', 'down', 'equal', 'no-facts']],
    ['sort=latency&tier=C',   ['no-facts']],
    ['q=CN-',                 ['cn-only']],
    ['q=%E7%AB%99',           ['no-facts']],
    ['q=gr%C3%B6SSE',         []],
    ['q=gr%C3%B6%C3%9Fe',     ['no-facts']],
    ['q=site+best',           ['best']],
    ['status=down',           ['down']],
    ['software=unknown',      ['no-facts']],
    ['model=gpt-5.4',         ['best', 'alpha', 'cn-only']],
    ['model=models/OpenAI/GPT-5.4', ['best', 'alpha', 'cn-only']],
    ['model=gpt-5.4&tier=A',  ['alpha', 'cn-only']],
    ['model=qwen3-max',       ['best']],
    ['model=gpt-5',           []],
  ] as const
  for (const [query, slugs] of cases) {
    test(`M3.1#10-12: ?${query}`, async () => {
      const response = await api.get(`/api/v1/sites?${query}`)
      expect(listSlugs(response)).toEqual(slugs)
    })
  }

  test('M3.1#13: Link names the existing pages and keeps the parameters', async () => {
    const link = async (query: string) => (await api.get(`/api/v1/sites?${query}`)).headers.link
    expect(await link('tier=A&limit=1&offset=1')).toBe(
      [
        '</api/v1/sites?limit=1&offset=0&sort=rank&tier=A>; rel="first"',
        '</api/v1/sites?limit=1&offset=0&sort=rank&tier=A>; rel="prev"',
        '</api/v1/sites?limit=1&offset=2&sort=rank&tier=A>; rel="next"',
        '</api/v1/sites?limit=1&offset=2&sort=rank&tier=A>; rel="last"',
      ].join(', '),
    )
    expect(await link('tier=B')).toBeUndefined()
    expect(await link('')).not.toMatch(/prev|next/)
  })

  test('3.1: Link of a filter by model keeps it', async () => {
    const { link } = (await api.get('/api/v1/sites?model=gpt-5.4&limit=1')).headers
    expect(link).toContain('</api/v1/sites?limit=1&model=gpt-5.4&offset=1&sort=rank>; rel="next"')
  })

  test('M3.1#14: include=summary adds one object to each', async () => {
    const { sites } = (await api.get('/api/v1/sites?include=summary')).json as {
      sites: Record<string, object>[]
    }
    for (const site of sites) expect(Object.keys(site)).toEqual([...SITE_FIELDS, 'summary'])
    expect(sites[0].summary).toMatchObject({
      score: 95,
      availability_7d: 0.9987,
      status: 'up',
      latency_p50_ms: 230,
    })
  })
})

describe('M3.6#5: models', () => {
  const models = async (query: string) => {
    const { json } = await api.get(`/api/v1/models?${query}`)
    const response = json as {
      total: number
      models: { id: string; sites: number; verified_sites: string[] }[]
    }
    return [
      response.total,
      ...response.models.map(({ id, sites, verified_sites }) => `${id} ${sites} ${verified_sites}`),
    ]
  }

  // biome-ignore format: the columns are the specification
  const cases = [
    ['',                  [3, 'gpt-5.4 3 alpha,best', 'claude-sonnet-4-6 1 ', 'qwen3-max 1 best']],
    ['limit=1&offset=1',  [3, 'claude-sonnet-4-6 1 ']],
    ['offset=3',          [3]],
    ['q=GPT',             [1, 'gpt-5.4 3 alpha,best']],
    ['q=nobody',          [0]],
  ] as const
  for (const [query, expected] of cases) {
    test(`3.6: ?${query}`, async () => expect(await models(query)).toEqual(expected))
  }

  test('3.6: an unpublished site does not count', async () => {
    const { sites } = api.state.snapshot!
    api.state.snapshot = {
      ...api.state.snapshot!,
      version: 8,
      sites: sites.filter(({ slug }) => slug !== 'best'),
    }
    expect(await models('')).toEqual([2, 'gpt-5.4 2 alpha', 'claude-sonnet-4-6 1 '])
  })

  test('3.6: at most 50 sites are named, all are counted', async () => {
    const [alpha] = api.state.snapshot!.sites
    const sites = Array.from({ length: 60 }, (_, i) => ({ ...alpha, slug: `s${i}` }))
    api.state.snapshot = { ...api.state.snapshot!, version: 8, sites }
    const [, first] = await models('q=gpt')
    expect(first).toBe(`gpt-5.4 60 ${sites.slice(0, 50).map(({ slug }) => slug)}`)
  })

  test('3.6: Link names the existing pages; the database is not read', async () => {
    const response = await api.get('/api/v1/models?limit=1&q=e')
    expect(response.headers.link).toBe(
      [
        '</api/v1/models?limit=1&offset=0&q=e>; rel="first"',
        '</api/v1/models?limit=1&offset=1&q=e>; rel="next"',
        '</api/v1/models?limit=1&offset=1&q=e>; rel="last"',
      ].join(', '),
    )
    await api.get('/api/v1/sites?model=gpt-5.4')
    expect(api.store.reads).toBe(0)
  })
})

describe('M13#2: bounds', () => {
  // biome-ignore format: a table
  const cases = [
    ['sites', 'tier',    ['S', 'D'],         ['s', 'E', 'SA', '%53A', '']],
    ['sites', 'tier',    ['%53'],            ['%', '%ff', '%5']],
    ['sites', 'region',  ['cn', 'overseas', 'both'], ['CN', 'eu', '']],
    ['sites', 'limit',   ['1', '2', '199', '200', '%35'], ['0', '201', '-1', '+1', '1.0', '01', '%201', '1e2', '', '١', '9999999999']],
    ['sites', 'offset',  ['0', '999999', '1000000'], ['1000001', '-0', '00', '']],
    ['sites', 'sort',    ['rank', 'name', 'first_seen', 'last_probed', 'availability', 'latency'], ['Rank', 'score']],
    ['sites', 'order',   ['asc', 'desc'],    ['up', 'ASC']],
    ['sites', 'q',       ['x', 'x'.repeat(64)], ['', 'x'.repeat(65)]],
    ['sites', 'software', ['x', 'x'.repeat(128)], ['', 'x'.repeat(129)]],
    ['sites', 'status',  ['up', 'degraded', 'down'], ['UP', 'unknown']],
    ['sites', 'model',   ['x', 'x'.repeat(128)], ['', 'x'.repeat(129)]],
    ['sites', 'include', ['summary'],        ['all']],
    ['models', 'q',      ['x', 'x'.repeat(64)], ['', 'x'.repeat(65)]],
    ['models', 'limit',  ['1', '200'],       ['0', '201', '1.0']],
    ['models', 'offset', ['0', '1000000'],   ['1000001', '-1']],
    ['sites/alpha', 'history', ['none', 'days', 'full', 'hour', 'day', 'raw'], ['week', 'FULL', '']],
    ['sites/alpha/history', 'history', ['hour', 'day', 'raw'], ['none', 'full', '']],
    ['sites/alpha/history', 'days', ['1', '30'], ['0', '31']],
    ['sites/alpha/history', 'region', ['cn', 'overseas', 'all'], ['both']],
    ['leaderboard', 'board', ['red', 'black'], ['Red', 'white', '']],
    ['leaderboard', 'limit', ['1', '99', '100'], ['0', '101', '-1']],
  ] as const
  for (const [path, name, good, bad] of cases) {
    test(`M1#10-11 ${findRowId(path, name)}: ${path} ${name}`, async () => {
      const status = async (query: string) => (await api.get(`/api/v1/${path}?${query}`)).status
      for (const value of good) expect([value, await status(`${name}=${value}`)]).toEqual([value, 200])
      for (const value of bad) {
        const response = await api.get(`/api/v1/${path}?${name}=${encodeURI(value).replaceAll('%25', '%')}`)
        expect([value, response.status]).toEqual([value, 400])
        expect(response.json).toMatchObject({ code: 'invalid_parameter' })
      }
      expect(await status(`${name}=${good[0]}&${name}=${good[0]}`)).toBe(400)
      expect(await status(name)).toBe(400)
    })
  }

  test('3.2: at most 721 hours, 31 days, oldest first', async () => {
    const history = async (kind: string) =>
      (await api.get(`/api/v1/sites/alpha?history=${kind}`)).json as {
        probe_history: { at: string; window_s: number }[]
      }
    const hours = (await history('hour')).probe_history
    expect([hours.length, hours[0].at, hours.at(-1)!.at]).toEqual([
      721,
      '2025-10-21T12:00:00Z',
      '2025-11-20T12:00:00Z',
    ])
    expect((await history('day')).probe_history.length).toBe(31)
    const raw = (await history('raw')).probe_history
    expect(raw.map(({ at, window_s }) => [at, window_s])).toEqual([
      ['2025-11-20T11:54:00Z', 0],
      ['2025-11-20T11:59:00Z', 0],
    ])
  })

  for (const [i, path] of ['score', 'history?days=1', 'models', 'incidents'].entries()) {
    test(`M3.2#${i + 1}: /sites/alpha/${path} conforms`, async () => {
      expect((await api.get(`/api/v1/sites/alpha/${path}`)).status).toBe(200)
      expect((await api.get(`/api/v1/sites/nobody/${path}`)).json).toMatchObject({ code: 'site_not_found' })
    })
  }

  test('M3.6#2-4: the small ones conform', async () => {
    for (const path of ['', '/limits', '/meta', '/changelog', '/openapi.json']) {
      expect((await api.get(`/api/v1${path}`)).status).toBe(200)
    }
    const meta = (await api.get('/api/v1/meta')).json
    expect(meta).toMatchObject({
      data_version: 7,
      sites: 6,
      regions: { cn: { measured: false }, overseas: { measured: true } },
    })
  })
})
