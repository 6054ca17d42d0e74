/** The forms of `/docs` in real Chromium: with scripts the answer is shown in place, without them it is opened as JSON. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openUws } from '../../../transports/uws.ts'
import { chromiumPath } from '../../helpers/chromium.ts'
import { startApi } from '../api/setup.ts'
import { startSite } from './setup.ts'

const START_MS_MAX = 120_000 // of the browser, beside a load

let api: Awaited<ReturnType<typeof startApi>>
let web: Awaited<ReturnType<typeof startSite>>
let opened: NonNullable<ReturnType<typeof openUws>>
let origin: string
let browser: Browser

beforeAll(async () => {
  api = await startApi()
  web = await startSite({ details: api.store, snapshot: () => api.state.snapshot })
  opened = openUws('127.0.0.1', 0, (app) =>
    app.any('/*', (res, req) => (req.getUrl().startsWith('/api/') ? api.api : web.site).handle(res, req)),
  )!
  origin = `http://127.0.0.1:${opened.port}`
  const isRoot = process.getuid?.() === 0
  browser = await chromium.launch({
    executablePath: chromiumPath(),
    args: ['--disable-gpu', '--disable-dev-shm-usage', ...(isRoot ? ['--no-sandbox'] : [])],
    timeout: START_MS_MAX,
  })
}, START_MS_MAX)

afterAll(async () => {
  await browser?.close()
  opened?.close()
  web?.close()
  api?.close()
}, START_MS_MAX)

async function openDocs(
  width: number,
  { javaScriptEnabled = true, query = '' } = {},
): Promise<[Page, string[]]> {
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    javaScriptEnabled,
    locale: 'en',
  })
  const page = await context.newPage()
  page.setDefaultTimeout(START_MS_MAX)
  const problems: string[] = []
  page.on('console', (message) => {
    const isAsked = message.text().includes('status of 400') // the browser logs what the API refuses
    if (['error', 'warning'].includes(message.type()) && !isAsked) problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(String(error)))
  await page.goto(`${origin}/docs${query}`)
  return [page, problems]
}

test('M11#7: a form shows status, quota and body in place, and the line for curl follows it', async () => {
  const [page, problems] = await openDocs(1280)
  expect(await page.locator('[data-curl=getMeta]').textContent()).toBe(`curl -s '${origin}/api/v1/meta'`)
  const form = page.locator('form[data-try="listSites"]')
  await form.locator('[name=tier]').selectOption('A')
  await form.locator('[name=limit]').fill('1')
  await form.getByRole('button').click()
  await form.getByRole('status').filter({ hasText: '200 OK' }).waitFor()
  const body = await form.locator('.answer pre').textContent()
  expect(body).toMatch(/^X-RateLimit-Limit: 120\nX-RateLimit-Remaining: \d+\n/)
  expect(JSON.parse(body!.slice(body!.indexOf('{')))).toMatchObject({
    total: 3,
    sites: [{ slug: 'alpha', tier: 'A' }],
  })
  expect(await page.locator('[data-curl=listSites]').textContent()).toBe(
    `curl -s '${origin}/api/v1/sites?tier=A&limit=1'`,
  )
  expect(page.url()).toBe(`${origin}/docs`)
  const site = page.locator('form[data-try="getSite"]')
  await site.locator('[name=slug]').fill('no such/site')
  await site.getByRole('button').click()
  await site.getByRole('status').filter({ hasText: '404' }).waitFor()
  expect(await site.locator('.answer pre').textContent()).toContain('site_not_found')
  expect(problems.filter((each) => !each.includes('404'))).toEqual([])
  await page.context().close()
})

test('M11#7: without scripts the answer is opened as JSON', async () => {
  const [page] = await openDocs(320, { javaScriptEnabled: false })
  const form = page.locator('form[data-try="getSite"]')
  await form.locator('[name=history]').selectOption('none')
  await form.getByRole('button').click()
  await page.waitForURL(`${origin}/api/v1/sites/*?history=none`)
  expect(await page.locator('body').textContent()).toContain('"probe_history":[]')
  await page.context().close()
})

test('a link to a schema opens it', async () => {
  const [page, problems] = await openDocs(1280)
  const schema = page.locator('#schema-SiteList')
  expect(await schema.getAttribute('open')).toBeNull()
  await page.locator('a[href="#schema-SiteList"]').first().click()
  await page.locator('#schema-SiteList[open]').waitFor()
  expect(problems).toEqual([])
  await page.context().close()
})

test.each(['', '?lang=zh-CN'])('readable at 320 px: nothing is wider than the page %s', async (query) => {
  const [page, problems] = await openDocs(320, { query })
  await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
  const widest = await page.evaluate('document.documentElement.scrollWidth')
  expect(widest).toBe(320)
  const hidden = await page.evaluate(
    "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth + 1).length",
  )
  expect(hidden).toBe(0) // tables need no scrolling to the side either
  expect(problems).toEqual([])
  await page.context().close()
})
