/** Figures of the page of a site, and why it has its tier. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SiteFacts } from '../../../../monitor/api/site-facts.ts'
import { en } from '../../../../monitor/site/messages/en.ts'
import { zh } from '../../../../monitor/site/messages/zh.ts'
import { mergeRegions } from '../../../../monitor/site/pages/site.ts'
import { createSnapshot, SITES, site as siteState } from '../../api/fake-store.ts'
import { startSite } from '../setup.ts'
import { withModels } from './with-models.ts'

test('M11#2: incidents of both regions with the same minutes and cause are one row', () => {
  const incident = (id: number, region: 'cn' | 'overseas' | 'all', more = {}) => ({
    id,
    region,
    started_at: '2025-11-20T10:00:05Z',
    ended_at: '2025-11-20T11:00:00Z' as string | null,
    duration_s: 3_595,
    cause: 'http_5xx',
    vantages: 1,
    ...more,
  })
  const show = (...incidents: ReturnType<typeof incident>[]) =>
    mergeRegions(incidents).map(({ id, region }) => `${id} ${region}`)
  const later = { started_at: '2025-11-20T10:00:50Z' }
  expect(show(incident(1, 'cn'), incident(2, 'overseas', later))).toEqual(['1 both'])
  expect(show(incident(1, 'cn'), incident(2, 'cn', later))).toEqual(['1 cn', '2 cn'])
  expect(show(incident(1, 'all'), incident(2, 'cn'))).toEqual(['1 all', '2 cn'])
  expect(show(incident(1, 'cn'), incident(2, 'overseas', { ended_at: null }))).toHaveLength(2)
  expect(show(incident(1, 'cn'), incident(2, 'overseas', { cause: 'tls_reset' }))).toHaveLength(2)
})

let site: Awaited<ReturnType<typeof startSite>>
beforeAll(async () => {
  site = await startSite()
})
afterAll(() => site.close())

test('M11#2: the tile of models counts those claimed and listed, not all listed', async () => {
  const alpha = withModels(SITES[0], 0.5, { modelsVerified: 9 })
  site.state.snapshot = createSnapshot([alpha], { version: 21 })
  const { text } = await site.get('/sites/alpha')
  site.state.snapshot = createSnapshot()
  expect(text).toContain('<dd>1<span class="unit"> / 2</span></dd>')
  expect(text).toContain(`${en.sitePage.claimedOnly} `)
  expect(text).not.toContain(en.charts.listUnread)
})

test('M11#2: claims of a site whose list could not be read are neither confirmed nor refuted', async () => {
  site.state.snapshot = createSnapshot([withModels(SITES[4], null)], { version: 22 })
  for (const [lang, { sitePage, charts }] of [
    ['en', en],
    ['zh-CN', zh],
  ] as const) {
    const { text } = await site.get(`/sites/equal?lang=${lang}`)
    expect(text).toContain(`<dd>40</dd><dd class="sub muted">${sitePage.figures.claimedUnread}</dd>`)
    expect(text).toContain(sitePage.claimedUnread)
    expect(text).toContain(sitePage.unreadMeans)
    expect(text).toContain(charts.listUnread)
    expect(text).not.toContain(sitePage.claimedOnly)
  }
  site.state.snapshot = createSnapshot()
})

test('M11#2: a 30-day figure of fewer days says so', async () => {
  const { text } = await site.get('/sites/alpha')
  expect(text).toContain('<dd>98.00%</dd><dd class="sub muted">2 days only, peak hours not measured</dd>')
  const facts = { ...(SITES[0].facts as SiteFacts), days: new Array(30).fill(1) }
  site.state.snapshot = createSnapshot([siteState(1, 'alpha', { facts })], { version: 25 })
  const whole = (await site.get('/sites/alpha')).text
  site.state.snapshot = createSnapshot()
  expect(whole).toContain('<dd class="sub muted">peak hours not measured</dd>')
})

test('M8.3: without a picture there is no heading, unless pictures are being taken', async () => {
  expect((await site.get('/sites/best')).text).not.toContain('id="screenshot"')
  expect((await site.get('/sites/alpha')).text).toContain('id="screenshot"')
  const other = await startSite({ hasScreenshots: () => true })
  const { text } = await other.get('/sites/best')
  other.close()
  expect(text).toContain(en.sitePage.noScreenshot)
})

test('M7.2: a tier that its score alone would not give is explained where no cap explains it', async () => {
  const facts = { ...(SITES[0].facts as SiteFacts), caps: [] }
  const sites = [
    siteState(1, 'kept', { tier: 'B', score: 64.2, facts }),
    siteState(2, 'not-yet', { tier: 'B', score: 80.4, facts }),
    siteState(3, 'own', { tier: 'B', score: 66, facts }),
    siteState(4, 'capped', { tier: 'C', score: 81, facts: SITES[0].facts }),
  ]
  site.state.snapshot = createSnapshot(sites, { version: 23 })
  const read = async (slug: string) => (await site.get(`/sites/${slug}`)).text
  expect(await read('kept')).toContain(en.sitePage.tierKept('B', 'C'))
  expect(await read('not-yet')).toContain(en.sitePage.tierKept('B', 'A'))
  for (const slug of ['own', 'capped']) expect(await read(slug)).not.toContain('The score alone would now')
  site.state.snapshot = createSnapshot()
})
