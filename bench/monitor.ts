/**
 * What does the monitor's API cost with a full catalogue, and do the prober and long-polls slow it down?
 *   floor     GET /limits: every step of a request, with a body of one line
 *   list      GET /sites?limit=200 and smaller pages
 *   detail    GET /sites/{slug}, each time another site
 *   alone     nothing else runs │ prober   the prober probes every site │ polls   the same, and 100 long-polls are held
 * Worth changing when `prober` or `polls` is more than 1.2 times slower than `alone`, or a p99 is above 50 ms.
 *
 * 5,000 sites with 30 days of hourly figures; creating the database takes a minute. autocannon runs in a process of its own.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { loadCatalogue } from '../monitor/catalogue/load.ts'
import evaluate from '../monitor/evaluation/job.ts'
import type { Observation } from '../monitor/facts.ts'
import { addProbe, emptyBucket, HOUR_SEC } from '../monitor/scoring/bucket.ts'
import { packHistogram } from '../monitor/scoring/histogram.ts'
import { Database } from '../monitor/storage/database.ts'
import { databasePath } from '../monitor/storage/path.ts'
import { openStore } from '../monitor/storage/store.ts'
import { startFakeRelay } from '../test/helpers/fake-relays.ts'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../test/helpers/monitor.ts'
import { START_MS_MAX } from './serving.ts'
import { size } from './size.ts'

const SITES = size({ small: 20, full: 5_000 })
const DAYS = size({ small: 2, full: 30 })
const WINDOW: object = size({ small: { amount: 100, timeout: 60 }, full: { duration: 10 } }) // requests, or seconds; of autocannon
const KINDS = size<string[] | null>({ small: ['floor'], full: null }) // null = all; each takes at least a second
const HAS_PROBER_ALONE = size({ small: false, full: true }) // `polls` has the prober, too
const CONNECTIONS = 32
const POLLS = 100
const POLLS_PER_CLIENT = 2
const SILENT = Array.from({ length: POLLS / POLLS_PER_CLIENT }, (_, i) => `silent-${i}.com`) // because polls are limited per domain
const MODELS = 30
const DAY_SEC = 86_400
const AUTOCANNON = fileURLToPath(new URL('../node_modules/autocannon/autocannon.js', import.meta.url))
const nowSec = Math.floor(Date.now() / 1_000)

const PROBE = {
  atSec: nowSec,
  kind: 'light',
  outcome: 'up',
  error: null,
  httpStatus: 200,
  timings: { dnsMs: 4, connectMs: 30, tlsMs: null, ttfbMs: 210, totalMs: 220 },
} as const

const OBSERVATION: Observation = {
  atSec: nowSec,
  models: [],
  listing: 'open',
  claimed: [],
  profile: {
    cdn: { provider: null, evidence: [] },
    asn: { number: null, name: null, country: null },
    ips: ['127.0.0.2'],
    hasIpv6: false,
    tls: null,
    software: { name: 'unknown', version: null, confidence: 0 },
  },
  hygiene: { redirectsToHttps: false, hasHsts: null, leaksUpstream: false },
  isParked: false,
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const memory: string[] = []
const relay = await startFakeRelay('open')
const silent = await startFakeRelay('silent')
try {
  const catalogue = join(folder, 'catalogue.yaml')
  await fillDatabase(catalogue)
  const runs: [title: string, figures: Record<string, Figures>][] = []
  runs.push(['alone', await run('alone', { PROBER_ENABLED: 'false' })])
  if (HAS_PROBER_ALONE) runs.push(['prober', await run('prober', {})])
  runs.push(['polls', await run('polls', {}, true)])
  const [, alone] = runs[0]
  for (const name of Object.keys(alone)) {
    for (const [title, { [name]: figures }] of runs) {
      const ratio =
        title === 'alone' ? '' : `${(alone[name].perSec / figures.perSec).toFixed(2)} x`.padStart(9)
      const text = `${figures.perSec.toFixed(0).padStart(7)} /s   p99 ${figures.p99Ms.toFixed(1).padStart(6)} ms`
      console.log(`monitor ${name.padEnd(16)}${title.padEnd(8)}${text}${ratio}`)
    }
  }
  for (const line of memory) console.log(line)
} finally {
  await Promise.all([relay.close(), silent.close()])
  rmSync(folder, { recursive: true, force: true })
}

interface Figures {
  perSec: number
  p99Ms: number
}

/** Starts a monitor and measures one kind of request after the other. */
async function run(
  title: string,
  env: Record<string, string>,
  isPolled = false,
): Promise<Record<string, Figures>> {
  const silents = Object.fromEntries(SILENT.map((name) => [name, silent.port]))
  const service = spawnMonitor({
    folder,
    rules: quotas(),
    hosts: { 'relay.example.com': relay.port, ...silents },
    env: { MONITOR_ADDR: '0.0.0.0:0', PROBE_INTERVAL_S: '300', ...env },
  })
  try {
    await service.logged(MONITOR_LISTENS, START_MS_MAX)
    const port = Number(service.address('the monitor').split(':')[1])
    const base = `http://127.0.0.1:${port}/api/v1`
    if (isPolled) await holdPolls(port)
    const slugs = Array.from(
      { length: Math.min(SITES, 500) },
      (_, i) => `${base}/sites/site-${i * Math.floor(SITES / Math.min(SITES, 500))}`,
    )
    const urls: Record<string, string[]> = {
      floor: [`${base}/limits`],
      'list 200': [`${base}/sites?limit=200`],
      'list summary': [`${base}/sites?include=summary&limit=50`],
      'list pages': slugs.map((_, i) => `${base}/sites?limit=50&offset=${i * 7}&q=site`),
      detail: slugs,
    }
    const figures: Record<string, Figures> = {}
    for (const name of KINDS ?? Object.keys(urls)) figures[name] = await measureUrls(urls[name])
    const status = readFileSync(`/proc/${service.child.pid}/status`, 'utf8')
    const mib = Number(/VmRSS:\s+(\d+) kB/.exec(status)![1]) / 1_024
    memory.push(
      `monitor memory          ${title.padEnd(8)}${mib.toFixed(0).padStart(7)} MiB, decision service included`,
    )
    return figures
  } finally {
    await service.stop()
  }
}

/** autocannon requests the addresses one after the other. */
async function measureUrls(urls: string[]): Promise<Figures> {
  const file = join(folder, 'requests.json')
  const paths = urls.map((url) => new URL(url).pathname + new URL(url).search)
  writeFileSync(file, JSON.stringify(paths))
  const script = `
    const cannon = require(${JSON.stringify(AUTOCANNON)})
    const paths = require(${JSON.stringify(file)})
    cannon({ url: ${JSON.stringify(new URL(urls[0]).origin)}, connections: ${CONNECTIONS}, ...${JSON.stringify(WINDOW)},
      requests: paths.map((path) => ({ method: 'GET', path })) }, (error, result) => {
      if (error) throw error
      const { non2xx, errors } = result
      console.log(JSON.stringify({ perSec: result.requests.average, p99Ms: result.latency.p99, non2xx, errors }))
    })`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script])
  const { non2xx, errors, ...figures } = JSON.parse(stdout)
  if (non2xx > 0 || errors > 0) throw new Error(`${non2xx} responses were not 2xx, ${errors} errors`)
  return figures
}

/** Each client starts a detection that does not finish, and polls it on two connections. */
async function holdPolls(port: number): Promise<void> {
  for (const [i, name] of SILENT.entries()) {
    const localAddress = `127.1.0.${i + 1}`
    const body = JSON.stringify({ url: `http://${name}/` })
    const { id } = JSON.parse(
      await send(port, { localAddress, method: 'POST', path: '/api/v1/detections' }, body),
    )
    for (let j = 0; j < POLLS_PER_CLIENT; j++) void poll(port, localAddress, id)
  }
}

/** Polls until the detection is finished or the service ends. */
async function poll(port: number, localAddress: string, id: string): Promise<void> {
  const path = `/api/v1/detections/${id}?wait=25&since=999999999`
  try {
    for (let isOpen = true; isOpen; ) {
      const { status } = JSON.parse(await send(port, { localAddress, path }))
      isOpen = status === 'queued' || status === 'running'
    }
  } catch {
    // the service has ended
  }
}

function send(port: number, options: object, body?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = body ? { 'content-type': 'application/json', 'content-length': body.length } : {}
    const outgoing = request({ host: '127.0.0.1', port, agent: false, headers, ...options }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve(text))
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

/** Writes a catalogue of SITES sites on one relay, and a database with DAYS days of figures for them. */
async function fillDatabase(path: string): Promise<void> {
  const entries = Array.from(
    { length: SITES },
    (_, i) => `  - { slug: site-${i}, name: Site ${i}, url: "http://relay.example.com/r/${i}" }\n`,
  )
  writeFileSync(path, `version: 1\nsites:\n${entries.join('')}`)
  const loaded = loadCatalogue({ path })
  if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded))
  const file = databasePath(folder)
  const store = await openStore({ path: file, log: (_, text) => console.log(text) })
  const { ids } = await store.request({ kind: 'sync-catalogue', sites: loaded.catalogue.entries, nowSec })
  const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  const models = Array.from({ length: MODELS }, (_, i) => `model-${i}`)
  for (const siteId of Object.values(ids)) {
    store.write({ kind: 'probe', siteId, vantageId, probe: PROBE })
    const sightings = models.map((id) => ({ key: id, id, isClaimed: true, isVerified: true }))
    store.write({ kind: 'observation', siteId, observation: { ...OBSERVATION, models }, models: sightings })
    if (siteId % 500 === 0) await store.flush()
  }
  await store.flush()
  await store.tick(nowSec)
  await store.close()
  fillBuckets(file)
  const again = await openStore({ path: file, log: (_, text) => console.log(text) })
  const writes = await evaluate({ path: file, nowSec, intervalSec: 300, ownVantage: 'main' })
  for (const write of writes) again.write(write)
  await again.flush()
  await again.close()
}

/** The same day for all sites, written into the tables that roll-ups fill. */
function fillBuckets(path: string): void {
  const database = new Database(path)
  const hour = emptyBucket(0, HOUR_SEC)
  for (let i = 0; i < 12; i++)
    addProbe(hour, { ...PROBE, timings: { ...PROBE.timings, ttfbMs: 200 + 20 * i } })
  const hist = packHistogram(hour.histogram)
  const first = nowSec - DAYS * DAY_SEC
  for (const [table, stepSec, factor] of [
    ['probe_hour', HOUR_SEC, 1],
    ['probe_day', DAY_SEC, 24],
  ] as const) {
    const from = Math.floor(first / stepSec) * stepSec
    const probes = 12 * factor
    database.transaction(() =>
      database.run(
        `INSERT OR IGNORE INTO ${table} WITH RECURSIVE span(at) AS (VALUES (${from}) UNION ALL SELECT at + ${stepSec} FROM span
         WHERE at + ${stepSec} < ${Math.floor(nowSec / stepSec) * stepSec})
         SELECT site.id, region.name, span.at, ${probes}, ${probes}, 0, 0, ?, '{"200":${probes}}', '{}'
         FROM site, (SELECT 'all' AS name UNION SELECT 'overseas') AS region, span`,
        hist,
      ),
    )
  }
  database.close()
}
