/**
 * What does the monitor's API cost with a full catalogue, and does anything beside it slow it down?
 *   floor     GET /limits: everything a request passes through, and a body of a line
 *   list      GET /sites?limit=200 and smaller pages      detail   GET /sites/{slug}, other sites each time
 *   alone, prober, polls   nothing else │ the prober at work on every site │ 100 held long-polls as well
 * Worth changing when `prober` or `polls` is more than 1.2 times slower than `alone`, or a p99 is above 50 ms.
 *
 * 5,000 sites with 30 days of hours; the file is made for it in a minute. autocannon asks from a process of its own.
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
import { size } from './size.ts'

const SITES = size({ small: 50, full: 5_000 })
const DAYS = size({ small: 2, full: 30 })
const WINDOW: object = size({ small: { amount: 320 }, full: { duration: 10 } }) // requests, or seconds; of autocannon
const KINDS = size<string[] | null>({ small: ['floor', 'detail'], full: null }) // null: all; each takes a second at least
const CONNECTIONS = 32
const POLLS = 100
const POLLS_PER_CLIENT = 2
const SILENT = Array.from({ length: POLLS / POLLS_PER_CLIENT }, (_, i) => `silent-${i}.com`) // a domain has its own bounds
const MODELS = 30
const START_MS = 60_000
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
  await fill(catalogue)
  const alone = await run('alone', { PROBER_ENABLED: 'false' })
  const prober = await run('prober', {})
  const polls = await run('polls', {}, true)
  for (const name of Object.keys(alone)) {
    const [a, b, c] = [alone[name], prober[name], polls[name]]
    const row = ([title, figures]: [string, Figures]) => {
      const ratio = title === 'alone' ? '' : `${(a.perSec / figures.perSec).toFixed(2)} x`.padStart(9)
      const what = `${figures.perSec.toFixed(0).padStart(7)} /s   p99 ${figures.p99Ms.toFixed(1).padStart(6)} ms`
      console.log(`monitor ${name.padEnd(16)}${title.padEnd(8)}${what}${ratio}`)
    }
    for (const each of [
      ['alone', a],
      ['prober', b],
      ['polls', c],
    ] as [string, Figures][])
      row(each)
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

/** One monitor, asked for each thing in turn. */
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
    await service.logged(MONITOR_LISTENS, START_MS)
    const port = Number(service.address('the monitor').split(':')[1])
    const base = `http://127.0.0.1:${port}/api/v1`
    if (isPolled) await holdPolls(port)
    const slugs = Array.from(
      { length: Math.min(SITES, 500) },
      (_, i) => `${base}/sites/site-${i * Math.floor(SITES / Math.min(SITES, 500))}`,
    )
    const asked: Record<string, string[]> = {
      floor: [`${base}/limits`],
      'list 200': [`${base}/sites?limit=200`],
      'list summary': [`${base}/sites?include=summary&limit=50`],
      'list pages': slugs.map((_, i) => `${base}/sites?limit=50&offset=${i * 7}&q=site`),
      detail: slugs,
    }
    const found: Record<string, Figures> = {}
    for (const name of KINDS ?? Object.keys(asked)) found[name] = await ask(asked[name])
    const status = readFileSync(`/proc/${service.child.pid}/status`, 'utf8')
    const mib = Number(/VmRSS:\s+(\d+) kB/.exec(status)![1]) / 1_024
    memory.push(
      `monitor memory          ${title.padEnd(8)}${mib.toFixed(0).padStart(7)} MiB, decision service included`,
    )
    return found
  } finally {
    await service.stop()
  }
}

/** autocannon goes through the addresses one by one. */
async function ask(urls: string[]): Promise<Figures> {
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
  if (non2xx > 0 || errors > 0) throw new Error(`${non2xx} answers were no success, ${errors} errors`)
  return figures
}

/** Each of so many clients has one unfinished detection, and waits for it twice. */
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

/** Until the detection is finished, or the service ends. */
async function poll(port: number, localAddress: string, id: string): Promise<void> {
  const path = `/api/v1/detections/${id}?wait=25&since=999999999`
  try {
    for (let isOpen = true; isOpen; ) {
      const { status } = JSON.parse(await send(port, { localAddress, path }))
      isOpen = status === 'queued' || status === 'running'
    }
  } catch {
    // it has ended
  }
}

function send(port: number, options: object, body?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = body ? { 'content-type': 'application/json', 'content-length': body.length } : {}
    const asked = request({ host: '127.0.0.1', port, agent: false, headers, ...options }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve(text))
    })
    asked.on('error', reject)
    asked.end(body)
  })
}

/** A catalogue of so many sites below one relay, and a database that has known them for so many days. */
async function fill(path: string): Promise<void> {
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

/** The same day for all, straight into the tables that roll-ups would fill. */
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
