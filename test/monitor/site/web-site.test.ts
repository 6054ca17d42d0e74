import { afterAll, beforeAll, expect, test } from 'vitest'
import { CODES } from '../../../monitor/api/codes.ts'
import { ENDPOINTS, TAGS } from '../../../monitor/api/schema/endpoints.ts'
import { HEADERS_OF_ALL, OTHER_HEADERS } from '../../../monitor/api/schema/openapi.ts'
import { components } from '../../../monitor/api/schema/resources.ts'
import { en } from '../../../monitor/site/messages/en.ts'
import { zh } from '../../../monitor/site/messages/zh.ts'
import { createSnapshot, SITES, site as siteState } from '../api/fake-store.ts'
import { startSite } from './setup.ts'

let site: Awaited<ReturnType<typeof startSite>>

beforeAll(async () => {
  site = await startSite()
})
afterAll(() => site.close())

const PAGES = [
  '/',
  '/sites/alpha',
  '/sites/down',
  '/sites/no-facts',
  '/leaderboard',
  '/submit',
  '/methodology',
  '/about/probe',
  '/changelog',
  '/docs',
]

test.each(PAGES)(
  'M11#8 M11#9: %s is a whole page in both languages, without inline script or style',
  async (path) => {
    for (const [lang, messages] of [
      ['en', en],
      ['zh-CN', zh],
    ] as const) {
      const { status, headers, text } = await site.get(`${path}?lang=${lang}`)
      expect(status).toBe(200)
      expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(headers.get('content-security-policy')).toContain("script-src 'self'")
      expect(text).toContain(`<html lang="${lang}">`)
      expect(text).toContain(messages.frame.times)
      expect(text.match(/<h1/g)).toHaveLength(1)
      expect(text).not.toMatch(/<script(?![^>]* src=)|<style|\sstyle=|\son\w+=/)
      expect(text).not.toMatch(/undefined|NaN|\[object|null</)
    }
  },
)

test('every link and asset of every page leads somewhere', async () => {
  const seen = new Set<string>()
  const queue = [...PAGES]
  while (queue.length > 0) {
    const path = queue.pop()!
    if (seen.has(path) || /^\/(api|media)\//.test(path)) continue // the API is another handler; no pictures are taken yet
    seen.add(path)
    const { status, headers, text } = await site.get(path)
    expect(status, path).toBe(200)
    if (!headers.get('content-type')!.startsWith('text/html')) continue
    for (const [, target] of text.matchAll(/(?:href|src)="(\/[^"#]*)/g))
      queue.push(target.replaceAll('&amp;', '&'))
    for (const [, id] of text.matchAll(/href="#([^"]+)"/g))
      expect(text, `${path} #${id}`).toContain(`id="${id}"`)
  }
  expect(seen.size).toBeGreaterThan(25)
})

test('text from outside cannot become markup', async () => {
  const hostile = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    '</title><svg onload=alert(1)>',
    '&lt;b&gt;',
    '\u202Ertl\u0000',
  ]
  const sites = hostile.map((name, i) => siteState(20 + i, `hostile-${i}`, { name }))
  site.state.snapshot = createSnapshot([...SITES, ...sites], { version: 8 })
  for (const path of ['/', ...sites.map(({ slug }) => `/sites/${slug}`)]) {
    const { status, text } = await site.get(path)
    expect(status).toBe(200)
    expect(text).not.toMatch(/<script>|<img src=x|<svg onload|<b>'/)
  }
  const query = encodeURIComponent(hostile[1])
  expect((await site.get(`/?q=${query}`)).text).not.toContain('<img src=x')
  expect((await site.get(`/sites/${query}`)).text).not.toContain('<img src=x')
  site.state.snapshot = createSnapshot()
})

test('M11#1: filters are in the address, and the form keeps them', async () => {
  const { text } = await site.get('/?tier=S&status=&q=')
  expect(text).toContain('1 of 6 sites match.')
  expect(text).toContain('<option value="S" selected>')
  expect(text).toContain('/sites/best')
  expect(text).not.toContain('/sites/alpha')
  const wrong = await site.get('/?tier=Z')
  expect(wrong.status).toBe(400)
  expect(wrong.text).toContain(en.errors.badFilterText)
  expect(wrong.text).toContain('<span lang="en">tier must be one of S, A, B, C, D</span>')
  expect((await site.get('/?tier=Z&lang=zh-CN')).text).toContain(zh.errors.badFilterText)
})

test('a region that is not measured is never shown as a finding', async () => {
  const list = (await site.get('/')).text
  expect(list).toContain(en.list.notMeasured.cn.title)
  const page = (await site.get('/sites/down')).text
  expect(page).toMatch(/region-none"><h3>From China<\/h3>.*Not measured/)
  const time = '<time datetime="2025-11-20T11:59:00Z">11:59</time>'
  expect(page).toContain(`checked ${time} UTC.`)
  expect((await site.get('/sites/down?lang=zh-CN')).text).toContain(`，${time} UTC 检查。`)
})

test('the language: ?lang=, then Accept-Language by weight, then English', async () => {
  const lang = async (path: string, accepted?: string) => {
    const { text } = await site.get(path, accepted === undefined ? {} : { 'accept-language': accepted })
    return /<html lang="([^"]+)"/.exec(text)![1]
  }
  expect(await lang('/', 'zh-CN,zh;q=0.9,en;q=0.8')).toBe('zh-CN')
  expect(await lang('/', 'fr, en;q=0.5, zh;q=0.4')).toBe('en')
  expect(await lang('/', 'zh;q=0')).toBe('en')
  expect(await lang('/?lang=zh', 'en')).toBe('zh-CN')
  expect(await lang('/?lang=tlh', 'fr')).toBe('en')
})

test('pages are kept while the data stays, with an ETag and compressed forms', async () => {
  const first = await site.get('/leaderboard')
  const again = await site.get('/leaderboard', { 'if-none-match': first.headers.get('etag')! })
  expect([again.status, again.text]).toEqual([304, ''])
  const asset = /href="(\/assets\/style\.[0-9a-f]+\.css)"/.exec(first.text)![1]
  const style = await site.get(asset, { 'accept-encoding': 'br' })
  expect(style.headers.get('content-encoding')).toBe('br')
  expect(style.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
})

test('pages are rendered once per data version and language', async () => {
  const [kept, changed] = [createSnapshot(SITES, { version: 8 }), createSnapshot([], { version: 8 })]
  const read = async (snapshot: typeof kept, language: string, coding = 'identity') => {
    site.state.snapshot = snapshot
    const headers = { 'accept-language': language, 'accept-encoding': coding }
    return (await site.get('/', headers)).text
  }
  const [en, zh] = [await read(kept, 'en'), await read(kept, 'zh')]
  expect(en).toContain('/sites/alpha')
  expect(zh).not.toBe(en)
  for (const coding of ['identity', 'br', 'gzip']) {
    expect(await read(changed, 'en', coding)).toBe(en) // the version is the same, so the other snapshot is not read
    expect(await read(changed, 'zh', coding)).toBe(zh)
  }
  expect(await read({ ...changed, version: 9 }, 'en')).not.toContain('/sites/alpha')
  site.state.snapshot = createSnapshot()
})

test('other languages are named to search engines by absolute addresses, or not at all', async () => {
  expect((await site.get('/leaderboard')).text).not.toContain('rel="alternate" hreflang')
  const known = await startSite({ publicBaseUrl: 'https://monitor.example.org' })
  try {
    const { text } = await known.get('/leaderboard')
    for (const language of ['en', 'zh-CN'])
      expect(text).toContain(
        `hreflang="${language}" href="https://monitor.example.org/leaderboard?lang=${language}"`,
      )
    expect((await known.get('/nowhere')).text).not.toContain('rel="alternate" hreflang')
  } finally {
    known.close()
  }
})

test('M11#2: an alias leads to its site; an unknown slug offers the nearest', async () => {
  const alias = await site.get('/sites/old-alpha')
  expect([alias.status, alias.headers.get('location')]).toEqual([308, '/sites/alpha'])
  const unknown = await site.get('/sites/alphabet')
  expect(unknown.status).toBe(404)
  expect(unknown.text).toMatch(/Perhaps you meant.*\/sites\/alpha/s)
  expect((await site.get('/nowhere')).status).toBe(404)
})

test('other methods get 405 with Allow', async () => {
  const { status, headers } = await site.post('/leaderboard', {})
  expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})

test('before the data is loaded: 503 with Retry-After', async () => {
  site.state.snapshot = null
  const { status, headers, text } = await site.get('/')
  site.state.snapshot = createSnapshot()
  expect([status, headers.get('retry-after')]).toEqual([503, '5'])
  expect(text).toContain(en.errors.notReady)
})

test('a failure is a page with the request id, which the log has, too', async () => {
  site.state.snapshot = createSnapshot(SITES, { version: 9 }) // nothing of it is kept
  site.store.failure = new Error('the disk is gone')
  const { status, headers, text } = await site.get('/sites/equal')
  site.store.failure = null
  site.state.snapshot = createSnapshot()
  expect(status).toBe(500)
  expect(text).toContain(headers.get('x-request-id'))
  expect(text).not.toContain('the disk')
  expect(site.logged.at(-1)).toMatch(
    new RegExp(`${headers.get('x-request-id')} failed: Error: the disk is gone`),
  )
})

test('the operator’s address is a link wherever it stands, with the site as the subject of a mistake', async () => {
  for (const [path, link] of [
    ['/methodology', '<a href="mailto:help@example.org">help@example.org</a>'],
    ['/about/probe', '<a href="mailto:help@example.org">help@example.org</a>'],
    ['/sites/down', 'mailto:help@example.org?subject=Report%20a%20mistake%3A%20Site%20down"'],
    ['/leaderboard', 'mailto:help@example.org?subject=Report%20a%20mistake%3A%20Site%20down"'],
  ])
    expect([path, (await site.get(path)).text.includes(link)]).toEqual([path, true])
  for (const path of ['/sites/down', '/leaderboard'])
    expect((await site.get(path)).text).toContain('<a href="/about/probe#out">Take a site off</a>')
})

test('M11#10 M11#12: badges and small files for machines', async () => {
  expect((await site.get('/robots.txt')).text).toContain('Disallow: /detections/')
  expect((await site.get('/.well-known/security.txt')).text).toContain('Contact: mailto:help@example.org')
  expect((await site.get('/badge/best.svg')).text).toContain('Relay tier S')
  expect((await site.get('/changelog.atom')).headers.get('content-type')).toContain('application/atom+xml')
  expect((await site.get('/sitemap.xml')).status).toBe(404) // needs PUBLIC_BASE_URL
})

test('M11#2: the page of a site answers why it has its tier, from where it is reached, and what failed', async () => {
  const { text } = await site.get('/sites/alpha')
  for (const heading of [
    'Why tier A',
    'Reachability',
    'What went wrong',
    'The last 30 days',
    'Incidents',
    'Models',
  ]) {
    expect(text).toMatch(new RegExp(`<h2 id="[a-z]+">${heading}</h2>`))
  }
  expect(text).toContain('href="https://alpha.example.com" rel="nofollow noopener noreferrer ugc"')
  expect(text).toContain('<div class="region"><h3>From China</h3>')
  expect(text).toContain(en.codes.caps.certificate_invalid)
  expect(text).toMatch(/<details class="more"><summary>Show as a table/)
})

test('M11#3: both boards with reasons in words, rank change, date and appeal', async () => {
  const { text } = await site.get('/leaderboard')
  expect(text).toMatch(/Recommended<\/h2>.*Site best.*Site alpha/s)
  expect(text).toContain('▲2')
  expect(text).toContain(en.codes.redReasons.models_true)
  expect(text).toContain(en.codes.blackReasons.down_72h)
  expect(text).toContain(en.boards.appealTitle)
  expect(text).toContain('mailto:help@example.org')
})

test('M11#3: each warning links the section of the site page that it rests on, and says how much that is', async () => {
  const { text } = await site.get('/leaderboard')
  const links = [...text.matchAll(/<li><span class="status status-down">.*?<a href="([^"#]+)#([^"]+)">/g)]
  expect(links.length).toBeGreaterThan(0)
  for (const [, path, id] of links) expect((await site.get(path)).text).toContain(`id="${id}"`)
  expect(text).toContain('8,640 probes counted in 30 days')
})

test('M11#6: the changelog and its feed have the same entries', async () => {
  const page = (await site.get('/changelog')).text
  const feed = (await site.get('/changelog.atom')).text
  const ids = [...page.matchAll(/<section aria-labelledby="([^"]+)"/g)].map(([, id]) => id)
  expect(ids.length).toBeGreaterThan(1)
  for (const id of ids) expect(feed).toContain(`2026:changelog/${id}</id>`)
})

test('M11#7: the reference names every operation, parameter and code', async () => {
  const text = (await site.get('/docs')).text.replaceAll('<wbr>', '')
  for (const { path, parameters } of ENDPOINTS) {
    expect(text).toContain(`/api/v1${path === '/' ? '' : path}`)
    for (const { name } of parameters) expect(text).toContain(`<th scope="row" class="mono">${name}</th>`)
  }
  for (const { kind, code, meaning } of CODES) {
    expect(text).toContain(`<tr id="${kind}-${code}"><th scope="row"><span class="mono">${code}</span>`)
    expect(text).toContain(meaning.split('`')[0])
  }
  for (const name of Object.keys({ ...HEADERS_OF_ALL, ...OTHER_HEADERS }))
    expect(text).toContain(`<dt class="mono">${name}</dt>`)
  for (const [name, { properties = {} }] of Object.entries(components(false))) {
    expect(text).toContain(`id="schema-${name}"`)
    for (const member of Object.keys(properties)) expect(text).toContain(`<dt class="mono">${member}</dt>`)
  }
})

test('M11#7: a form of the reference leads to the API, without its empty fields, and nowhere else', async () => {
  // biome-ignore format: a table
  const cases: [string, string][] = [
    ['listSites?tier=A&region=&limit=5&q=',           '/api/v1/sites?tier=A&limit=5'],
    ['listSites',                                     '/api/v1/sites'],
    ['listSites?unknown=1&q=a%26b%20%E7%AB%99',       '/api/v1/sites?q=a%26b+%E7%AB%99'],
    ['getIndex?',                                     '/api/v1'],
    ['getSite?slug=alpha&history=none',               '/api/v1/sites/alpha?history=none'],
    ['getSite?slug=',                                 '/api/v1/sites/-'],
    ['getSite?slug=%2F%2Fevil.example%0d%0aX-A:+1',   '/api/v1/sites/%2F%2Fevil.example%0D%0AX-A%3A%201'],
    ['getSite?slug=%ff%00',                           '/api/v1/sites/%EF%BF%BD%00'],
    ['getDetection?id=1&wait=2',                      '/api/v1/detections/1?wait=2'],
  ]
  for (const [form, target] of cases) {
    const { status, headers } = await site.get(`/docs/try/${form}`)
    expect([form, status, headers.get('location')]).toEqual([form, 303, target])
  }
  for (const id of ['submitDetection', 'nothing', '__proto__', 'constructor'])
    expect([id, (await site.get(`/docs/try/${id}`)).status]).toEqual([id, 404])
  const { text } = await site.get('/docs')
  const forms = [...text.matchAll(/action="\/docs\/try\/(\w+)"/g)].map(([, id]) => id)
  expect(forms).toEqual(
    Object.keys(TAGS).flatMap((tag) =>
      ENDPOINTS.filter((each) => each.tag === tag && each.method === 'GET').map(({ id }) => id),
    ),
  )
})

test('the reference has the first site in its examples; its ETag outlasts a data version', async () => {
  const first = (await site.get('/docs')).headers.get('etag')
  const { snapshot } = site.state
  site.state.snapshot = { ...snapshot!, version: snapshot!.version + 1 }
  expect((await site.get('/docs')).headers.get('etag')).toBe(first)
  site.state.snapshot = { ...snapshot!, version: snapshot!.version + 2, sites: [...SITES].reverse() }
  expect((await site.get('/docs')).headers.get('etag')).not.toBe(first)
  site.state.snapshot = snapshot
})

test('M11#1: a page ignores parameters that are not its own', async () => {
  for (const query of ['utm_source=mail', '__proto__=1', 'lang=zh-CN&x=%00', 'teir=A'])
    expect([query, (await site.get(`/?${query}`)).status]).toEqual([query, 200])
})

test('a page beyond the end is the last one; a column that is sorted by can be reversed', async () => {
  const beyond = (await site.get('/?offset=9999')).text
  expect(beyond).toContain('/sites/alpha')
  expect(beyond).not.toContain('class="pager"') // six sites are one page
  const many = Array.from({ length: 60 }, (_, i) => siteState(i, `many-${i}`))
  site.state.snapshot = createSnapshot(many, { version: 30 })
  expect((await site.get('/?offset=9999')).text).toContain('51 to 60 of 60')
  site.state.snapshot = createSnapshot()
  const { text } = await site.get('/?sort=name')
  expect(text).toMatch(/aria-sort="ascending"><a href="\/\?order=desc&amp;sort=name">/)
  expect((await site.get('/?sort=name&order=desc')).text).toMatch(/aria-sort="descending"/)
})
