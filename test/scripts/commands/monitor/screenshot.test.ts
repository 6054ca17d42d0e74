/** `sluice monitor screenshot` with a real Chromium at a relay on 127.0.0.2 (monitor spec 8.3). */
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { expect, onTestFinished, test } from 'vitest'
import { readWebpSize } from '../../../../monitor/screenshots/webp.ts'
import { chromiumPath } from '../../../helpers/chromium.ts'
import { startFakeRelay } from '../../../helpers/fake-relays.ts'
import { toCatalogue } from '../../../monitor/catalogue/catalogues.ts'
import { type MonitorCommand, monitorIn } from './command.ts'

const isRoot = process.getuid?.() === 0

async function start(more = '', settings: Record<string, string> = {}) {
  const relay = await startFakeRelay('new-api')
  onTestFinished(() => relay.close())
  const monitor = monitorIn(
    {
      'catalogue.yaml': toCatalogue(
        `slug: mine\nname: Mine\nurl: http://127.0.0.2:${relay.port}\naliases: [was-mine]${more}`,
      ),
    },
    {
      ...{ NODE_ENV: 'test', EGRESS_TEST_ALLOW: '127.0.0.2', CHROMIUM_PATH: chromiumPath() },
      ...{ SCREENSHOT_NO_SANDBOX: String(isRoot), ...settings },
    },
  )
  return { monitor, relay }
}

async function addSite(monitor: MonitorCommand) {
  const database = await monitor.openDatabase()
  database.run(
    `INSERT INTO site (slug, name, url, api_base, first_seen, catalogue_json) VALUES ('mine', 'Mine', 'x', 'x', 0, '{}')`,
  )
  return database
}

test('M8.3#4: prints file, address, size and time; the picture is the one of this month', async () => {
  const { monitor } = await start()
  const database = await addSite(monitor)
  const { code, out, err } = await monitor.run('screenshot', 'was-mine')
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const printed = JSON.parse(out)
  const month = new Date().toISOString().slice(0, 7)
  expect(printed).toEqual({
    slug: 'mine',
    file: expect.stringMatching(/\/data\/screenshots\/[0-9a-f]{64}\.webp$/),
    path: `/media/screenshots/mine/${month}.webp`,
    bytes: expect.any(Number),
    ...{ width: 1_280, height: 800, ms: expect.any(Number) },
  })
  const image = readFileSync(printed.file)
  expect(image.length).toBe(printed.bytes)
  expect(readWebpSize(image)).toEqual({ width: 1_280, height: 800 })
  expect(database.all('SELECT month, path, sha256, error FROM screenshot')).toEqual([
    { month, path: printed.path, sha256: printed.file.slice(-69, -5), error: null },
  ])
  const left = (await readdir(tmpdir())).filter((name) => name.includes(`-command${process.pid}-`))
  expect(left).toEqual([])
})

test('M8.3#3: a site that cannot be reached: the reason and what to do; nothing is stored', async () => {
  const { monitor, relay } = await start()
  const database = await addSite(monitor)
  await relay.close()
  const { code, out, err } = await monitor.run('screenshot', 'mine')
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(
    /^sluice: mine: no screenshot \(unreachable: .*\)\. Check the site with sluice monitor probe; .*\[SCREENSHOT_FAILED\]\n$/,
  )
  expect(database.all('SELECT * FROM screenshot')).toEqual([])
})

// biome-ignore format: the columns are the specification
const refusals = [
  // what, slug, rest of the entry, settings → message
  ['an unknown slug',        'other', '',                     {},                                    /there is no site "other"\. .*\[SITE_UNKNOWN\]/],
  ['screenshot: false',      'mine',  '\nscreenshot: false',  {},                                    /"mine" is hidden, or has screenshot: false\. .*\[SCREENSHOT_OFF\]/],
  ['no database',            'mine',  '',                     {},                                    /there is no database yet; .*\[STORE_MISSING\]/],
  ['no browser',             'mine',  '',                     { CHROMIUM_PATH: '/none' },            /CHROMIUM_PATH \/none is not an executable file\. ?\[BROWSER_MISSING\]/],
] as const
for (const [what, slug, more, settings, message] of refusals) {
  test(`${what}: refused before a browser is started`, async () => {
    const { monitor, relay } = await start(more, settings)
    const { code, out, err } = await monitor.run('screenshot', slug)
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toMatch(message)
    expect(relay.requests).toEqual([])
  })
}

test('a site that the monitor has not loaded yet', async () => {
  const { monitor } = await start()
  await monitor.openDatabase()
  const { code, err } = await monitor.run('screenshot', 'mine')
  expect(code).toBe(1)
  expect(err).toMatch(/has not loaded "mine" yet\. .*\[SITE_NOT_LOADED\]/)
})
