/**
 * What does a page of the web site cost compared with the API's response with the same data, on the same core?
 *   floor  the API: /sites with summaries, /sites/{slug}, the red board
 *   page   the list of 50 sites, one site, the boards
 *   304    the client has it │ plain, br, gzip: kept bodies │ cold: the data changes before each request, br
 * Worth changing when a kept page is more than 2 times its floor; such a request is headers, a quota and a write.
 *
 * 5,000 sites over a store in memory. Processor time of this process, which has the server alone and compresses on its other threads;
 * autocannon runs in a process of its own. Windows alternate. Pages per second are those of one core.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { compile } from '../engine/match/compile.ts'
import { Api } from '../monitor/api/api.ts'
import { DIRECT } from '../monitor/api/client-address.ts'
import { DOMAIN } from '../monitor/api/default-rules.ts'
import type { SiteFacts } from '../monitor/api/site-facts.ts'
import { DetectionQueue } from '../monitor/detections/detection-queue.ts'
import { WebSite } from '../monitor/site/web-site.ts'
import type { SiteState, Snapshot } from '../monitor/storage/snapshot.ts'
import {
  createSnapshot,
  FakeStore,
  NOON,
  SITES as SAMPLE_SITES,
  site,
} from '../test/monitor/api/fake-store.ts'
import { openUws } from '../transports/uws.ts'
import { benchEngine, ruleNode } from './engine.ts'
import { seeded, size } from './size.ts'

const SITES = size({ small: 60, full: 5_000 })
const ROUNDS = size({ small: 1, full: 3 })
const KEPT_REQUESTS = size({ small: 40, full: 10_000 })
const COLD_REQUESTS = size({ small: 8, full: 200 })
const CONNECTIONS = 8
const KINDS = size({ small: ['br', 'cold'], full: ['304', 'plain', 'br', 'gzip', 'cold'] })
const NAMES = size({ small: ['list'], full: ['list', 'site', 'boards'] }) // each window starts a process
const AUTOCANNON = fileURLToPath(new URL('../node_modules/autocannon/autocannon.js', import.meta.url))
const SLUG = `relay-${SITES >> 1}`

// biome-ignore format: a table
const PATHS: Record<string, { api: string; page: string }> = {
  list:   { api: '/api/v1/sites?include=summary', page: '/' },
  site:   { api: `/api/v1/sites/${SLUG}?history=full`, page: `/sites/${SLUG}` },
  boards: { api: '/api/v1/leaderboard',           page: '/leaderboard' },
}
const CODINGS: Record<string, string> = { plain: 'identity', br: 'br', gzip: 'gzip', 304: 'br', cold: 'br' }

const random = seeded(17)
let isCold = false
let snapshot = createSnapshot(Array.from({ length: SITES }, (_, i) => createSite(i)))
const opened = openServer()
const origin = `http://127.0.0.1:${opened.port}`
try {
  for (const name of NAMES) {
    const { api, page } = PATHS[name]
    for (const kind of KINDS) {
      await request(api, kind, CONNECTIONS) // code is compiled, bodies are kept
      await request(page, kind, CONNECTIONS)
      const rounds = []
      for (let round = 0; round < ROUNDS; round++)
        rounds.push({ floor: await measure(api, kind), page: await measure(page, kind) })
      print('floor', name, kind, median(rounds.map(({ floor }) => floor)))
      const ratio = median(rounds.map((each) => each.page / each.floor))
      print('page', name, kind, median(rounds.map((each) => each.page)), `${ratio.toFixed(2).padStart(9)} x`)
    }
  }
} finally {
  opened.close()
}

function print(row: string, name: string, kind: string, us: number, ratio = ''): void {
  const perSec = Math.round(1e6 / us).toLocaleString('en')
  console.log(
    `site    ${row.padEnd(6)}${name.padEnd(8)}${kind.padEnd(7)}${us.toFixed(1).padStart(9)} us${perSec.padStart(9)} /s${ratio}`,
  )
}

/** Processor time of one request in µs. */
async function measure(path: string, kind: string): Promise<number> {
  const count = kind === 'cold' ? COLD_REQUESTS : KEPT_REQUESTS
  const before = process.cpuUsage()
  await request(path, kind, count)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / count
}

/** Sends the same request `count` times. Fails if a status is not the one that is meant. */
async function request(path: string, kind: string, count: number): Promise<void> {
  const headers: Record<string, string> = { 'accept-encoding': CODINGS[kind] }
  if (kind === '304') {
    const { headers: received } = await fetch(origin + path, { headers })
    headers['if-none-match'] = received.get('etag')!
  }
  isCold = kind === 'cold'
  const options = { url: origin + path, amount: count, connections: CONNECTIONS, timeout: 60, headers }
  const script = `
    require(${JSON.stringify(AUTOCANNON)})(${JSON.stringify(options)}, (error, { statusCodeStats, errors }) => {
      if (error) throw error
      console.log(JSON.stringify({ statuses: Object.keys(statusCodeStats), errors }))
    })`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script])
  isCold = false
  const wanted = JSON.stringify({ statuses: [kind === '304' ? '304' : '200'], errors: 0 })
  if (stdout.trim() !== wanted) throw new Error(`${path} ${kind}: ${stdout}`)
}

function openServer() {
  const nowMs = () => NOON * 1_000
  const limiter = benchEngine(random)
  const byClient = ruleNode('class', '', [ruleNode('ip')])
  limiter.setRules(compile([{ name: DOMAIN, nodes: [byClient] }]))
  const store = new FakeStore()
  const all = {
    limiter,
    nowMs,
    snapshot: () => snapshot,
    details: store,
    detections: new DetectionQueue({ store, nowMs, reuseSec: 600, queueMax: 100, runningMax: 4 }),
    checkUrl: () => {
      throw new Error('nothing is submitted here')
    },
    hasDetections: true,
    hasDraftFields: true,
    address: DIRECT,
    publicBaseUrl: '',
    supportEmail: '',
    isSharedCache: false,
    probeIntervalSec: 300,
    userAgent: 'bench',
    version: 'bench',
    images: { get: async () => null },
    log: (_: string, message: string) => console.log(message),
  }
  const [api, web] = [new Api(all), new WebSite(all)]
  return openUws('127.0.0.1', 0, (app) =>
    app.any('/*', (res, req) => {
      if (isCold) snapshot = change(snapshot)
      if (req.getUrl().startsWith('/api/')) api.handle(res, req)
      else web.handle(res, req)
    }),
  )!
}

/** The next publication: one site was probed since. */
function change(before: Snapshot): Snapshot {
  const sites = before.sites.map((each) =>
    each.slug === SLUG ? { ...each, lastProbedSec: each.lastProbedSec + 1 } : each,
  )
  return { ...before, sites, version: before.version + 1 }
}

/** Figures differ from site to site, as they would compress too well otherwise. */
function createSite(i: number): SiteState {
  const facts: SiteFacts = {
    ...(SAMPLE_SITES[0].facts as SiteFacts),
    availability7d: random(),
    availability30d: random(),
    p50Ms: Math.round(2_000 * random()),
    days: Array.from({ length: 30 }, () => random()),
  }
  return site(i + 1, `relay-${i}`, { facts, tier: 'SABCD'[i % 5] as 'S', score: 100 * random() })
}

function median(numbers: number[]): number {
  return numbers.sort((a, b) => a - b)[numbers.length >> 1]
}
