/** Which site is next and what becomes of a try, on a real store; the job is the test's. And the parts around it. */
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findBrowser } from '../../../monitor/screenshots/find-browser.ts'
import { ImageCache } from '../../../monitor/screenshots/image-cache.ts'
import { readImage, sweepImages, writeImage } from '../../../monitor/screenshots/image-files.ts'
import type { ScreenshotResult } from '../../../monitor/screenshots/job.ts'
import { Screenshots } from '../../../monitor/screenshots/screenshots.ts'
import type { Store } from '../../../monitor/storage/store.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const NOW_SEC = Date.parse('2026-11-20T12:00:00Z') / 1_000
const taken: ScreenshotResult = {
  ...{ sha256: 'a'.repeat(64), bytes: 1_000, width: 1_280, height: 800, ms: 1, denials: [['reserved', 2]] },
}

/** A store of rows in memory, and a job that answers with `results` in turn, then with a picture. */
function start(results: ScreenshotResult[], slugs = ['a']) {
  const rows = new Map<number, { isTaken: boolean; errors: string | null; triedAtSec: number }>()
  const logged: string[] = []
  const asked: string[] = []
  const store = {
    write: (write: { siteId: number; path: string | null; error: string | null; takenAtSec: number }) =>
      rows.set(write.siteId, {
        isTaken: write.path !== null,
        errors: write.error,
        triedAtSec: write.takenAtSec,
      }),
    flush: async () => {},
    read: async (method: string) =>
      method === 'screenshotStates'
        ? [...rows].map(([siteId, row]) => ({ siteId, hasPicture: row.isTaken, ...row }))
        : [],
  }
  const screenshots = new Screenshots({
    store: store as unknown as Store,
    browser: { executable: '/chromium', hasSandbox: true },
    folder: makeTemporaryFolder(),
    owner: `none-${process.pid}`,
    ...{ version: '1', ownHosts: [], nowSec: () => NOW_SEC },
    log: (level, text) => logged.push(`${level} ${text}`),
    run: async ({ url }) => {
      asked.push(new URL(url).hostname)
      return results.shift() ?? taken
    },
  })
  onTestFinished(() => screenshots.close())
  const setSites = (names: string[]) =>
    screenshots.setSites(
      names.map((slug, i) => ({ siteId: i + 1, slug, url: `https://${slug}/`, extraPort: null })),
      [],
    )
  setSites(slugs)
  screenshots.start()
  return { screenshots, rows, logged, asked, setSites }
}

test('M8.3#1: every site without a picture gets one, one after another', async () => {
  const { asked, rows, screenshots } = start([], ['a', 'b', 'c'])
  await eventually(() => expect(asked).toEqual(['a', 'b', 'c']))
  await eventually(() => expect([...rows.values()].every(({ isTaken }) => isTaken)).toBe(true))
  expect(screenshots.denials.get('reserved')).toBe(6)
})

test('M8.3#1: a failure of the site is one of its tries; others go on, and it waits for its next day', async () => {
  const { asked, rows, logged } = start([{ reason: 'timeout', detail: 'x', denials: [] }], ['a', 'b'])
  await eventually(() => expect(rows.get(2)?.isTaken).toBe(true))
  expect(asked).toEqual(['a', 'b'])
  expect(rows.get(1)).toMatchObject({ isTaken: false, errors: 'timeout', triedAtSec: NOW_SEC })
  expect(logged).toContain('info no screenshot of a (timeout: x), try 1 of 3')
})

test('a failure of this host is no try, and pauses; a missing sandbox ends the feature', async () => {
  const { rows, logged, screenshots } = start([{ reason: 'store', detail: 'ENOSPC', denials: [] }])
  await eventually(() => expect(logged).toEqual(['error screenshots pause for 60 min (store: ENOSPC)']))
  expect([rows.size, screenshots.isEnabled]).toEqual([0, true])
  const other = start([{ reason: 'sandbox', detail: 'x', denials: [] }])
  await eventually(() => expect(other.logged.join()).toContain('SCREENSHOT_NO_SANDBOX=true'))
  expect([other.rows.size, other.screenshots.isEnabled]).toEqual([0, false])
})

test('a site that is added later wakes it', async () => {
  const { asked, setSites } = start([], [])
  setSites(['late'])
  await eventually(() => expect(asked).toEqual(['late']))
})

test('M8.3#2: which browser: CHROMIUM_PATH, else PATH; root needs SCREENSHOT_NO_SANDBOX', () => {
  const folder = makeTemporaryFolder()
  for (const name of ['google-chrome', 'chromium-browser', 'other'])
    writeFileSync(join(folder, name), '', { mode: 0o755 })
  mkdirSync(join(folder, 'chromium'))
  const settings = { SCREENSHOTS_ENABLED: 'auto', CHROMIUM_PATH: '', SCREENSHOT_NO_SANDBOX: false } as const
  const env = { PATH: folder }
  const found = { executable: join(folder, 'chromium-browser'), hasSandbox: true } // a folder is no browser
  expect(findBrowser(settings, env, 1_000)).toEqual(found)
  const other = { ...settings, CHROMIUM_PATH: join(folder, 'other') }
  expect(findBrowser(other, env, 1_000)).toMatchObject({ executable: other.CHROMIUM_PATH })
  expect(findBrowser(settings, env, 0)).toMatchObject({ executable: null })
  expect(findBrowser({ ...settings, SCREENSHOT_NO_SANDBOX: true }, env, 0)).toMatchObject({
    hasSandbox: false,
  })
  expect(findBrowser(settings, {}, 1_000)).toMatchObject({ executable: null, isWanted: false })
  const wanted = { ...settings, SCREENSHOTS_ENABLED: 'true', CHROMIUM_PATH: '/none' } as const
  expect(findBrowser(wanted, env, 1_000)).toMatchObject({ executable: null, isWanted: true })
  expect(findBrowser({ ...settings, SCREENSHOTS_ENABLED: 'false' }, env, 1_000)).toMatchObject({ why: null })
})

test('M8.3#4: equal pictures are one file; files without a row are removed after an hour', async () => {
  const folder = join(makeTemporaryFolder(), 'screenshots')
  const [one, again, two] = await Promise.all(
    ['one', 'one', 'two'].map((text) => writeImage(folder, Buffer.from(text))),
  )
  expect(one).toBe(again)
  expect(readdirSync(folder).sort()).toEqual([`${one}.webp`, `${two}.webp`].sort())
  expect(String(await readImage(folder, one))).toBe('one')
  expect(await readImage(folder, '../x')).toBeNull()
  writeFileSync(join(folder, 'README'), '')
  expect(await sweepImages(folder, new Set(), Date.now())).toBe(0)
  for (const name of readdirSync(folder)) utimesSync(join(folder, name), 1, 1)
  expect(await sweepImages(folder, new Set([one]), Date.now())).toBe(1)
  expect(readdirSync(folder).sort()).toEqual([`${one}.webp`, 'README'].sort())
  await expect(writeImage('/proc/none', Buffer.from('x'))).rejects.toThrow()
})

test('pictures are read once, kept, and asked for only in months that are kept', async () => {
  const folder = makeTemporaryFolder()
  const sha256 = await writeImage(folder, Buffer.from('image'))
  let reads = 0
  const read = async () => {
    reads++
    return { sha256, path: '/x', takenAtSec: NOW_SEC }
  }
  const images = new ImageCache({ read } as unknown as Store, folder)
  const bodies = await Promise.all([1, 2, 3].map(() => images.get(1, '2026-11', 7, NOW_SEC)))
  expect(bodies.map((body) => String(body?.plain))).toEqual(['image', 'image', 'image'])
  expect(await images.get(1, '2026-11', 7, NOW_SEC)).toBe(bodies[0])
  expect(reads).toBe(1)
  for (const month of ['2026-12', '2025-10', '2026-13', '2026-00', '1999-11', 'x'])
    expect(await images.get(1, month, 7, NOW_SEC)).toBeNull()
  expect(reads).toBe(1)
  const many = Array.from({ length: 40 }, (_, i) => images.get(i + 2, '2026-11', 7, NOW_SEC))
  const settled = await Promise.allSettled(many)
  expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(8)
})
