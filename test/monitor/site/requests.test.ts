/** Requests of clients that are careless or hostile: odd queries, methods and slashes, and many of them. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { Body } from '../../../monitor/api/bodies.ts'
import type { Details } from '../../../monitor/api/site-detail.ts'
import { en } from '../../../monitor/site/messages/en.ts'
import { createSnapshot } from '../api/fake-store.ts'
import { startSite } from './setup.ts'

let site: Awaited<ReturnType<typeof startSite>>
beforeAll(async () => {
  site = await startSite()
})
afterAll(() => site.close())

test.each(['/?utm_source=50%', '/?fbclid=%E4%B8', '/?%ff=1', '/?lang=%ff'])(
  '%s: what other sites add to a link is not read',
  async (path) => {
    expect((await site.get(path)).status).toBe(200)
  },
)

test('a filter that cannot be decoded is refused', async () => {
  expect((await site.get('/?q=50%')).status).toBe(400)
})

test('one slash at the end is as none', async () => {
  const [with1, without] = [await site.get('/leaderboard/'), await site.get('/leaderboard')]
  expect([with1.status, with1.text]).toEqual([200, without.text])
  expect((await site.get('/leaderboard//')).status).toBe(404)
})

test('assets take GET and HEAD; /favicon.ico leads to the icon', async () => {
  const style = /href="(\/assets\/style\.[0-9a-f]+\.css)"/.exec((await site.get('/')).text)![1]
  for (const path of [style, '/favicon.svg', '/favicon.ico', '/media/screenshots/alpha/2026-07.webp']) {
    const { status, headers } = await site.post(path, {})
    expect([path, status, headers.get('allow')]).toEqual([path, 405, 'GET, HEAD'])
  }
  const { status, headers } = await site.get('/favicon.ico')
  expect([status, headers.get('location')]).toEqual([301, '/favicon.svg'])
  expect(headers.get('x-ratelimit-limit')).toBeNull()
})

test('badges know former slugs; shared files carry nothing of one client', async () => {
  expect((await site.get('/badge/old-alpha.svg')).text).toBe((await site.get('/badge/alpha.svg')).text)
  for (const path of ['/badge/alpha.svg', '/robots.txt', '/changelog.atom', '/manifest.webmanifest']) {
    const { headers } = await site.get(path)
    expect([path, headers.get('vary')]).toEqual([path, 'Accept-Encoding'])
    expect(headers.get('x-ratelimit-limit')).toBeNull()
  }
  expect((await site.get('/leaderboard')).headers.get('vary')).toBe('Accept-Encoding, Accept-Language')
})

test('forms of the reference: no value longer than its field, no dot segments, no text of the request in the body', async () => {
  const long = await site.get(`/docs/try/listSites?q=${'%ff'.repeat(65)}`)
  expect(long.status).toBe(400)
  expect(long.text).toContain('q must have at most 64 characters')
  expect((await site.get(`/docs/try/listSites?limit=${'1'.repeat(65)}`)).status).toBe(400)
  for (const slug of ['', '.', '..']) {
    const { status, headers } = await site.get(`/docs/try/getSite?slug=${slug}`)
    expect([status, headers.get('location')]).toEqual([303, '/api/v1/sites/-'])
  }
  expect((await site.get('/docs/try/getSite?slug=spoofed')).text).not.toContain('spoofed')
})

const PAGES_PER_MINUTE = 240

test('pages for clients beyond their quota and for other methods are made once, not for each request', async () => {
  const other = await startSite()
  const read = async (init?: RequestInit) => {
    const response = await fetch(`${other.origin}/leaderboard`, init)
    return { status: response.status, text: await response.text() }
  }
  const render = vi.spyOn(Body.prototype, 'bytes', 'get')
  const { text } = await read({ method: 'DELETE' })
  const count = render.mock.calls.length
  expect(count).toBeGreaterThan(0) // it was kept
  for (let i = 0; i < PAGES_PER_MINUTE - 2; i++) expect((await read({ method: 'DELETE' })).text).toBe(text)
  expect(render.mock.calls.length).toBe(count)
  expect((await read()).status).toBe(200)
  const over = await read()
  expect(over.status).toBe(429)
  render.mockClear()
  expect(await read()).toEqual(over)
  expect(render).not.toHaveBeenCalled()
  render.mockRestore()
  other.close()
})

test('text before the last slash of a model, which is not compared, is not shown as a finding', async () => {
  const { text } = await site.get(`/?model=${encodeURIComponent('Verified by the police/gpt-5.4')}`)
  const row = text.match(/href="\/sites\/alpha".*?<\/th>/)![0]
  expect(row).toContain(en.list.modelListed('<bdi>gpt-5.4</bdi>'))
  expect(row).not.toContain('police')
})

test('of a listing of thousands of models, 300 of each group are on the page; the API has the rest', async () => {
  const catalogue = Array.from({ length: 5_000 }, (_, i) => `${'&'.repeat(100)}${i}`)
  const read = (async (method: string, ...args: [number]) =>
    method === 'modelSources'
      ? { catalogue, answered: null }
      : site.store.read(method as 'models', ...args)) as Details['read']
  const other = await startSite({ details: { ...site.store, read } as never })
  const { text } = await other.get('/sites/alpha')
  other.close()
  expect(text.match(/(?:&amp;)+\d+<\/bdi>/g)!.length).toBe(300)
  expect(text).toContain('/api/v1/sites/alpha/models')
})

test('a filter that was not asked before does not visit every model of every site again', async () => {
  const snapshot = createSnapshot()
  const other = await startSite({ snapshot: () => snapshot })
  const visit = vi.spyOn(snapshot.models, 'each')
  const { text } = await other.get('/?q=first')
  expect(text).toContain('<datalist id="models"><option value="gpt-5.4">')
  expect(visit).toHaveBeenCalledTimes(snapshot.sites.length)
  await other.get('/?q=second')
  expect(visit).toHaveBeenCalledTimes(snapshot.sites.length)
  visit.mockRestore()
  other.close()
})
