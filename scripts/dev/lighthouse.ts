/**
 * `npm run lighthouse`: Lighthouse in mobile settings on the monitor's list, one site and the boards, in the local Chromium.
 *
 *     demo on a free port (or --url) ─► one run per page ─► a table, what lowered a score; exit code 1 beyond a bound
 *
 * Lighthouse is not a devDependency: 176 MB in 114 packages would double the time of an install. npm fetches the pinned version once
 * and keeps it in its cache.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { chromiumPath } from '../../test/helpers/chromium.ts'
import { freePort } from '../../test/helpers/ports.ts'
import {
  CATEGORIES,
  type Figures,
  formatTable,
  listBeyond,
  type Report,
  toFigures,
} from './lighthouse-figures.ts'

const LIGHTHOUSE = 'lighthouse@13.5.0'
const DEMO = fileURLToPath(new URL('../commands/demo.ts', import.meta.url))
const START_MS_MAX = 300_000
const START_POLL_MS = 200
const FETCH_MS_MAX = 10_000 // then it is asked again
const RUN_MS_MAX = 300_000
const REPORT_BYTES_MAX = 64 * 1024 * 1024 // of what it prints; beyond: it is ended

const USAGE = `usage: npm run lighthouse -- [--url http://127.0.0.1:8090] [--runs 1]

  --url    a running monitor; default: a demo of its own, on a free port
  --runs   1 to 9 runs of each page; the run with the median performance is reported
`

const { url, runs } = parseOptions()
const folder = mkdtempSync(join(tmpdir(), 'sluice-lighthouse-'))
const demo = url === null ? await startDemo() : null
try {
  const origin = url ?? demo!.origin
  const slug = await Promise.race([waitForSite(origin), ...(demo ? [demo.failed] : [])])
  const all: Figures[] = []
  for (const path of ['/', `/sites/${slug}`, '/leaderboard']) all.push(await measure(origin, path))
  process.stdout.write(formatTable(all))
  process.exitCode = all.every((figures) => listBeyond(figures).length === 0) ? 0 : 1
} finally {
  await demo?.stop()
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
}

function parseOptions(): { url: string | null; runs: number } {
  const options = {
    url: { type: 'string' },
    runs: { type: 'string', default: '1' },
    help: { type: 'boolean', short: 'h' },
  } as const
  try {
    const { values } = parseArgs({ options })
    if (values.help) {
      process.stdout.write(USAGE)
      process.exit(0)
    }
    if (!/^[1-9]$/.test(values.runs))
      throw new Error(`--runs ${values.runs} is not a number from 1 to 9. Use for example 3.`)
    if (values.url !== undefined && !/^https?:$/.test(URL.parse(values.url)?.protocol ?? ''))
      throw new Error(
        `--url ${values.url} is not an http or https address. Use for example http://127.0.0.1:8090.`,
      )
    return { url: values.url === undefined ? null : new URL(values.url).origin, runs: Number(values.runs) }
  } catch (error) {
    process.stderr.write(`lighthouse: ${(error as Error).message}\n\n${USAGE}`)
    process.exit(2)
  }
}

interface RunningDemo {
  origin: string
  failed: Promise<never> // rejects if the demo ends before `stop`
  stop: () => Promise<void>
}

async function startDemo(): Promise<RunningDemo> {
  const addr = `127.0.0.1:${await freePort()}`
  const flags = ['--disable-warning=ExperimentalWarning', DEMO, '--addr', addr]
  const child: ChildProcess = spawn(process.execPath, flags, { stdio: ['ignore', 'ignore', 'inherit'] })
  let isStopping = false
  const failed = new Promise<never>((_, reject) => {
    child.once('exit', (code, signal) => {
      if (!isStopping)
        reject(new Error(`the demo has ended with ${signal ?? `exit code ${code}`}, see above`))
    })
  })
  failed.catch(() => {}) // after the wait for a site, a page that cannot be loaded reports it
  const stop = async () => {
    isStopping = true
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  process.once('exit', () => child.kill())
  return { origin: `http://${addr}`, failed, stop }
}

/** The slug of the first site of the list, once there is one. */
async function waitForSite(origin: string): Promise<string> {
  const endMs = Date.now() + START_MS_MAX
  for (;;) {
    try {
      const response = await fetch(`${origin}/api/v1/sites?limit=1`, {
        signal: AbortSignal.timeout(FETCH_MS_MAX),
      })
      const { sites } = (await response.json()) as { sites?: { slug: string }[] }
      if (sites?.[0]) return sites[0].slug
    } catch {} // not listening yet
    if (Date.now() > endMs) throw new Error(`${origin} lists no site after ${START_MS_MAX / 1_000} s`)
    await sleep(START_POLL_MS)
  }
}

/** The run with the median performance. */
async function measure(origin: string, path: string): Promise<Figures> {
  const all: Figures[] = []
  for (let run = 0; run < runs; run++) all.push(toFigures(path, await audit(origin + path)))
  all.sort((a, b) => a.scores[0] - b.scores[0])
  return all[Math.floor(all.length / 2)]
}

async function audit(page: string): Promise<Report> {
  const out = join(folder, 'report.json')
  const isRoot = process.getuid?.() === 0
  const flags = ['--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--no-proxy-server']
  const args = [
    ...['exec', '--yes', `--package=${LIGHTHOUSE}`, '--', 'lighthouse', page, '--quiet'],
    ...['--output=json', `--output-path=${out}`, '--no-enable-error-reporting'], // mobile is its default
    ...[
      `--only-categories=${CATEGORIES.join(',')}`,
      `--chrome-flags=${[...flags, ...(isRoot ? ['--no-sandbox'] : [])].join(' ')}`,
    ],
  ]
  const env = { ...process.env, CHROME_PATH: chromiumPath() }
  await promisify(execFile)('npm', args, { env, timeout: RUN_MS_MAX, maxBuffer: REPORT_BYTES_MAX })
  return JSON.parse(readFileSync(out, 'utf8'))
}
