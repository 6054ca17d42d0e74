/**
 * The pages in real Chromium (acceptance test 12 of the specification): both themes, both widths, with and without scripts,
 * by keyboard; axe finds nothing serious, the policy is not violated, nothing is asked of another origin.
 */
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { en } from '../../../monitor/site/messages/en.ts'
import { openUws } from '../../../transports/uws.ts'
import { chromiumPath } from '../../helpers/chromium.ts'
import { size } from '../../helpers/size.ts'
import { startApi } from '../api/setup.ts'
import { startSite } from './setup.ts'

const TABS_MAX = 80
const START_MS_MAX = 120_000 // of the browser, beside a load
const PAGES = [
  '/',
  '/?tier=S',
  '/sites/alpha',
  '/sites/down',
  '/sites/unknown-site',
  '/leaderboard',
  '/submit',
  '/methodology',
  '/about/probe',
  '/changelog',
  '/docs',
]
const VIEWS = [
  { width: 1280, colorScheme: 'light', lang: 'en' },
  { width: 320, colorScheme: 'dark', lang: 'zh-CN' },
] as const
/** Every width with every theme and language. */
const ALL_VIEWS = [1280, 320].flatMap((width) =>
  (['light', 'dark'] as const).flatMap((colorScheme) =>
    ['en', 'zh-CN'].map((lang) => ({ width, colorScheme, lang })),
  ),
)

let api: Awaited<ReturnType<typeof startApi>>
let web: Awaited<ReturnType<typeof startSite>>
let opened: NonNullable<ReturnType<typeof openUws>>
let origin: string
let browser: Browser

beforeAll(async () => {
  api = await startApi()
  web = await startSite({
    details: api.store,
    detections: api.queue,
    snapshot: () => api.state.snapshot,
  })
  opened = openUws('127.0.0.1', 0, (app) =>
    app.any('/*', (res, req) => (req.getUrl().startsWith('/api/') ? api.api : web.site).handle(res, req)),
  )!
  origin = `http://127.0.0.1:${opened.port}`
  browser = await launch()
}, START_MS_MAX)

function launch(more: string[] = []): Promise<Browser> {
  const isRoot = process.getuid?.() === 0
  return chromium.launch({
    executablePath: chromiumPath(),
    args: ['--disable-gpu', '--disable-dev-shm-usage', ...(isRoot ? ['--no-sandbox'] : []), ...more],
    timeout: START_MS_MAX,
  })
}

/** A client may have two unfinished detections, and all visitors here are one client. */
afterEach(() => {
  for (let next = api.queue.take(); next !== null; next = api.queue.take())
    api.queue.finish(next.id, { failure: 'internal_error' })
})

afterAll(async () => {
  await browser?.close()
  opened?.close()
  web?.close()
  api?.close()
}, START_MS_MAX)

const AXE_RUN = "axe.run({ resultTypes: ['violations'] })"

interface View {
  width: number
  colorScheme: 'light' | 'dark'
  lang: string
  javaScriptEnabled?: boolean
}

/** A visitor; `problems` collects what a visitor must never meet. */
async function openVisitor({ width, colorScheme, lang, javaScriptEnabled = true }: View) {
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    ...{ colorScheme, javaScriptEnabled, locale: lang },
  })
  const page = await context.newPage()
  const problems: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('404')) problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith(origin)) problems.push(`asks ${request.url()}`)
  })
  const visit = (path: string) => page.goto(origin + path, { timeout: START_MS_MAX })
  return { page, problems, visit, close: () => context.close() }
}

const overflow = (page: Page) =>
  page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')

test.each<View>(size({ small: [...VIEWS], full: ALL_VIEWS }))(
  'M13#12: every page, $width px, $colorScheme, $lang',
  async (view) => {
    const { page, problems, visit, close } = await openVisitor(view)
    for (const path of PAGES) {
      await visit(path)
      await page.evaluate(axe.source)
      const { violations } = (await page.evaluate(AXE_RUN)) as axe.AxeResults
      const serious = violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`)
      expect(serious, path).toEqual([])
      expect(await overflow(page), path).toBe(0)
      expect(problems, path).toEqual([])
    }
    await close()
  },
  START_MS_MAX,
)

test(
  'without JavaScript every page is whole',
  async () => {
    const view = { width: 320, colorScheme: 'light', lang: 'en', javaScriptEnabled: false } as const
    const { page, problems, visit, close } = await openVisitor(view)
    for (const path of PAGES) {
      await visit(path)
      expect(await page.locator('h1').count(), path).toBe(1)
      expect(problems, path).toEqual([])
    }
    await close()
  },
  START_MS_MAX,
)

test(
  'the theme is chosen by buttons and kept',
  async () => {
    const { page, problems, visit, close } = await openVisitor(VIEWS[0])
    await visit('/')
    const paper = () => page.evaluate('getComputedStyle(document.documentElement).backgroundColor')
    const light = await paper()
    await page.getByRole('button', { name: 'Dark theme' }).click()
    expect(await paper()).not.toBe(light)
    await page.goto(`${origin}/leaderboard`)
    expect(await paper()).not.toBe(light)
    expect(await page.getByRole('button', { name: 'Dark theme' }).getAttribute('aria-pressed')).toBe('true')
    expect(problems).toEqual([])
    await close()
  },
  START_MS_MAX,
)

test(
  'filters apply in place, announce their count, and are in the address',
  async () => {
    const { page, problems, visit, close } = await openVisitor(VIEWS[0])
    await visit('/')
    await page.locator('.sites .row').nth(5).waitFor()
    await page.selectOption('#tier', 'S')
    await page.waitForURL(`${origin}/?tier=S`)
    await page.locator('#count', { hasText: '1 of 6 sites match.' }).waitFor()
    expect(await page.locator('.sites .row').count()).toBe(1)
    expect(await page.locator('.sites .row .name').textContent()).toBe('Site best')
    expect(await page.locator('.sites .row .tier').getAttribute('class')).toBe('tier tier-S')
    expect(await page.locator('.tools a[hreflang]').getAttribute('href')).toContain('tier=S')
    expect(await page.locator('.sites .warned').count()).toBe(0)
    await page.selectOption('#tier', 'D')
    await page.locator('.sites .warned', { hasText: 'warned of' }).waitFor()
    expect(await page.locator('.sites .row .name').textContent()).toBe('Site down')
    expect(await page.locator('.sites .warned use').getAttribute('href')).toBe('#glyph-stop')
    await page.selectOption('#tier', 'B') // none has it: the page itself says so
    await page.locator('.notice', { hasText: 'No site matches.' }).waitFor()
    expect(problems).toEqual([])
    await close()
  },
  START_MS_MAX,
)

test(
  'on a small screen the filters give way to their results; a reload with a filter leads to them, too',
  async () => {
    const { page, problems, visit, close } = await openVisitor(VIEWS[1])
    await visit('/')
    const filters = page.locator('details.filters')
    await filters.locator('summary').click()
    await page.locator('#q').fill('best')
    await page.keyboard.press('Enter')
    await page.locator('#count').waitFor()
    await page.locator('details.filters:not([open])').waitFor()
    expect(await page.locator('.sites .row').count()).toBe(1)
    expect(await page.locator('form.filter-grid').getAttribute('action')).toBe('/#count')
    expect(problems).toEqual([])
    await close()
  },
  START_MS_MAX,
)

test(
  'by keyboard: the skip link is first, and every control of the header has a visible focus',
  async () => {
    const { page, visit, close } = await openVisitor({ width: 1280, colorScheme: 'light', lang: 'en' })
    await visit('/')
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.className')).toBe('skip')
    const seen: unknown[] = []
    for (let i = 0; i < 10; i++) {
      await page.keyboard.press('Tab')
      seen.push(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'))
    }
    expect(new Set(seen)).toEqual(new Set(['solid']))
    await close()
  },
  START_MS_MAX,
)

test(
  'a submission is followed to its page',
  async () => {
    const { page, problems, visit, close } = await openVisitor({
      width: 320,
      colorScheme: 'light',
      lang: 'en',
    })
    await visit('/submit')
    await page.fill('#url', 'https://followed.example.com')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/detections\//)
    expect(await page.locator('h1').textContent()).toBe('Detection is queued')
    expect(problems).toEqual([])
    await close()
  },
  START_MS_MAX,
)

test(
  'models of a site are found as one types, also behind the disclosure',
  async () => {
    const { page, problems, visit, close } = await openVisitor(VIEWS[0])
    await visit('/sites/equal')
    expect(await page.getByText('model-39', { exact: true }).isVisible()).toBe(false)
    await page.getByLabel('Find a model').fill('MODEL-3')
    const heading = page.locator('.models .group-count').nth(1)
    await page.locator('#models-found', { hasText: '11 found' }).waitFor()
    expect(await heading.textContent()).toBe('11')
    expect(await page.getByText('model-39', { exact: true }).isVisible()).toBe(true)
    expect(await page.getByText('model-20', { exact: true }).isVisible()).toBe(false)
    await page.getByLabel('Find a model').fill('')
    expect(await heading.textContent()).toBe('40')
    expect(await page.getByText('model-20', { exact: true }).isVisible()).toBe(true)
    expect(problems).toEqual([])
    await close()
  },
  START_MS_MAX,
)

test(
  'the link of a detection can be copied',
  async () => {
    const { page, problems, visit, close } = await openVisitor(VIEWS[0])
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin })
    await visit('/submit')
    await page.fill('#url', 'https://copied.example.com')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/detections\//)
    await page.getByRole('button', { name: 'Copy the link' }).click()
    await page.getByText('Copied.', { exact: true }).waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(page.url())
    expect(problems).toEqual([])
    await close()
  },
  START_MS_MAX,
)

test(
  'a page that must wait counts down and loads itself again',
  async () => {
    const { page, visit, close } = await openVisitor(VIEWS[0])
    const { snapshot } = api.state
    api.state.snapshot = null
    await page.clock.install()
    await visit('/leaderboard')
    const count = page.locator('[data-seconds]')
    expect(await count.textContent()).toBe('5')
    await page.clock.runFor(2_000)
    expect(await count.textContent()).toBe('3')
    api.state.snapshot = snapshot
    await page.clock.runFor(3_000)
    await page.locator('h1', { hasText: 'Recommended, and warned of' }).waitFor()
    await close()
  },
  START_MS_MAX,
)

test(
  'over plain http to a name, the form of the site is accepted and the form of another site is refused',
  async () => {
    const other = await startSite({ publicBaseUrl: 'http://monitor.example' })
    const { port } = new URL(other.origin)
    const evil = openUws('127.0.0.1', 0, (app) =>
      app.any('/*', (res) => {
        res.writeHeader('Content-Type', 'text/html')
        res.end(
          '<form method="post" action="http://monitor.example/submit"><input name="url" value="https://b.example.com"><button>',
        )
      }),
    )!
    const rules = [`MAP monitor.example:80 127.0.0.1:${port}`, `MAP evil.example:80 127.0.0.1:${evil.port}`]
    const visitor = await launch([`--host-resolver-rules=${rules.join(',')}`])
    try {
      const page = await visitor.newPage()
      await page.goto('http://evil.example/')
      await page.click('button')
      await page.waitForURL('http://monitor.example/submit')
      expect(await page.textContent('main')).toContain(en.submit.crossSite)
      await page.goto('http://monitor.example/submit')
      await page.fill('#url', 'https://a.example.com')
      await page.click('form button[type=submit]')
      await page.waitForURL(/\/detections\//)
    } finally {
      await visitor.close()
      evil.close()
      other.close()
    }
  },
  START_MS_MAX,
)

test(
  'M13#12: filter, sort, theme and submission by keyboard alone',
  async () => {
    const { page, problems, visit, close } = await openVisitor(VIEWS[0])
    await visit('/')
    const tabTo = async (selector: string) => {
      for (let i = 0; i < TABS_MAX; i++) {
        await page.keyboard.press('Tab')
        if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return
      }
      throw new Error(`${selector} is not reached by ${TABS_MAX} tabs`)
    }
    await tabTo('#tier')
    await page.keyboard.press('S')
    await page.locator('#count', { hasText: '1 of 6 sites match.' }).waitFor()
    await tabTo('.sites thead .col-availability a')
    await page.keyboard.press('Enter')
    await page.waitForURL(/sort=availability/)
    expect(page.url()).toContain('tier=S')
    await tabTo('[data-set-theme="dark"]')
    await page.keyboard.press('Space')
    expect(await page.getAttribute('html', 'data-theme')).toBe('dark')
    await visit('/submit')
    await tabTo('#url')
    await page.keyboard.type('https://by-keyboard.example.com')
    await tabTo('button[type=submit]')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/detections\//)
    expect(problems).toEqual([])
    await close()
  },
  START_MS_MAX,
)
