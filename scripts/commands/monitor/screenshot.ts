/**
 * One screenshot now, by the job that takes the monthly ones (spec 8.3), as the site's picture of this month.
 *
 *     slug ─► catalogue entry, id ─► job: target, browser, file ─► row ─► a running monitor shows it
 */
import { join } from 'node:path'
import { MessageChannel } from 'node:worker_threads'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { VERSION } from '../../../engine/runtime/version.ts'
import type { ScreenshotReason } from '../../../monitor/screenshots/failure.ts'
import { findBrowser, NO_SANDBOX } from '../../../monitor/screenshots/find-browser.ts'
import { imagesFolder } from '../../../monitor/screenshots/image-files.ts'
import takeScreenshot from '../../../monitor/screenshots/job.ts'
import { toOwner } from '../../../monitor/screenshots/run-folder.ts'
import { toMonth } from '../../../monitor/screenshots/schedule.ts'
import { screenshotPath } from '../../../monitor/screenshots/screenshots.ts'
import { ownHosts } from '../../../monitor/service/options.ts'
import { proberSites } from '../../../monitor/service/sites.ts'
import { openStore } from '../../../monitor/storage/store.ts'
import type { Io } from '../io.ts'
import { note, printJson } from '../output.ts'
import type { Command } from './command.ts'
import { type CommandContext, createContext, readCatalogue, readOptOuts, withDatabase } from './context.ts'

export const screenshot: Command = {
  usage: `screenshot <slug>

Takes a screenshot of a site now and prints its file, address, size and time as JSON. It becomes the site's picture of this
month, also if there is one already: browsers that have seen that one keep it. A failure is not one of the site's tries.
Exit code 0: taken; 1: not taken, with the reason.
`,
  operands: [1, 1],
  async run({ operands: [name] }, io) {
    const context = createContext(io)
    const { settings } = context
    const browser = findBrowser({ ...settings, SCREENSHOTS_ENABLED: 'true' }, io.env)
    if (browser.executable === null) throw failure('BROWSER_MISSING', name, `${browser.why}`, '')
    const site = await findSite(name, context)
    const { port1, port2 } = new MessageChannel()
    io.onSignal(() => port1.postMessage('close')) // the browser is ended, then the command
    const folder = imagesFolder(settings.MONITOR_DATA_DIR)
    const result = await takeScreenshot(
      {
        ...{ url: site.url, extraPort: site.extraPort, folder, version: VERSION, closing: port2 },
        ...{ executable: browser.executable, hasSandbox: browser.hasSandbox },
        optOut: [...readOptOuts(settings.CATALOGUE_PATH).hosts],
        ownHosts: ownHosts(settings),
        owner: toOwner(settings.MONITOR_DATA_DIR, `command${process.pid}`),
      },
      { env: io.env },
    ).finally(() => port1.close())
    if ('reason' in result) {
      const { reason, detail } = result
      throw failure('SCREENSHOT_FAILED', name, `no screenshot (${reason}: ${detail}).`, FIXES[reason])
    }
    const { sha256, bytes, width, height, ms } = result
    const month = toMonth(Math.floor(Date.now() / 1_000))
    const path = screenshotPath(site.slug, month)
    await store(context, io, { siteId: site.siteId, month, path, sha256, width, height })
    printJson(io, { slug: site.slug, file: join(folder, `${sha256}.webp`), path, bytes, width, height, ms })
    return 0
  },
}

const FIXES: Record<ScreenshotReason, string> = {
  target_not_allowed:
    'Only public addresses on PROBE_PORTS are shown, and no site that opted out; sluice monitor probe tells more.',
  unreachable: 'Check the site with sluice monitor probe; the browser needs a certificate that is valid.',
  http_error: 'Check the url of its entry: it must be a page, not an API.',
  timeout: 'Try again; the page must be there within 20 s, the start of the browser included.',
  too_large: 'Set screenshot: false in its entry; its page exceeds 60 requests or 8 MiB.',
  memory: 'Set screenshot: false in its entry; its page takes more than 1 GiB of memory.',
  crashed: 'Try again; if it persists, set screenshot: false in its entry, or update Chromium.',
  image_too_large: 'Set screenshot: false in its entry; its picture exceeds 400 KiB at every quality.',
  browser: 'Start the browser by hand (CHROMIUM_PATH) and read what it prints; check the network and /tmp.',
  sandbox: NO_SANDBOX,
  store: 'Check the free space and the permissions of screenshots/ in MONITOR_DATA_DIR.',
  closed: 'Run it again.',
}

function failure(code: string, where: string, what: string, fix: string): ConfigurationError {
  return new ConfigurationError({ code, where, what, fix })
}

async function findSite(name: string, { settings, options, path }: CommandContext) {
  const { entries } = readCatalogue(settings.CATALOGUE_PATH, options)
  const entry = entries.find(({ slug, aliases }) => slug === name || aliases.includes(name))
  if (!entry) {
    const what = `there is no site "${name}".`
    throw failure('SITE_UNKNOWN', settings.CATALOGUE_PATH, what, 'sluice monitor list shows all.')
  }
  const { slug } = entry
  if (!entry.hasScreenshot || entry.isHidden) {
    const what = `"${slug}" is hidden, or has screenshot: false.`
    throw failure('SCREENSHOT_OFF', settings.CATALOGUE_PATH, what, 'Change its entry.')
  }
  const row = await withDatabase(path, (database) =>
    database.get<{ id: number }>('SELECT id FROM site WHERE slug = ?', slug),
  )
  if (!row) {
    const what = `the monitor has not loaded "${slug}" yet.`
    throw failure(
      'SITE_NOT_LOADED',
      path,
      what,
      'Start the monitor, or wait until it has read the catalogue.',
    )
  }
  const { ports } = options
  const [site] = proberSites([entry], { ids: { [slug]: row.id }, probeStates: new Map(), ports, folder: '' })
  return site
}

interface Row {
  siteId: number
  month: string
  path: string
  sha256: string
  width: number
  height: number
}

async function store({ path }: CommandContext, io: Io, row: Row): Promise<void> {
  const store = await openStore({ path, log: (level, text) => level !== 'info' && note(io, text) })
  store.write({ kind: 'screenshot', ...row, takenAtSec: Math.floor(Date.now() / 1_000), error: null })
  const lostCount = await store.close()
  if (lostCount + store.metrics().refused === 0) return
  throw failure(
    'STORE_FAILED',
    path,
    'the picture is taken, but not in the database.',
    'Check the disk and try again.',
  )
}
