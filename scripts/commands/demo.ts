/**
 * `npm run demo`: a running monitor with sites and history in one command, without internet access.
 *
 *     relays on loopback ─► one full probe of each ─► 30 days of history ─► the monitor probes them from now on,
 *                                                                          and an agent acts as a vantage in cn
 *
 * All files are in a temporary folder, which is removed when the demo ends.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { loadCatalogue } from '../../monitor/catalogue/load.ts'
import { Egress, egressSettings } from '../../monitor/egress/egress.ts'
import type { Observation } from '../../monitor/facts.ts'
import { loadAsnTable } from '../../monitor/probe/asn.ts'
import { fullProbe } from '../../monitor/probe/full.ts'
import { listenAddress } from '../../monitor/service/options.ts'
import { Database } from '../../monitor/storage/database.ts'
import { databasePath } from '../../monitor/storage/path.ts'
import { openStore } from '../../monitor/storage/store.ts'
import { createVantage } from '../../monitor/storage/vantages.ts'
import { claimPorts } from '../../transports/ports.ts'
import { fillHistory } from './demo/history.ts'
import { DEMO_SITES, demoAsnTable, demoCatalogue, siteUrl } from './demo/sites.ts'
import { startWorld } from './demo/world.ts'

const USAGE = `usage: npm run demo -- [--days 30] [--addr 127.0.0.1:8090]

Starts small relays on this machine (good, slow, flapping, with false claims, parked, broken), generates their history and
runs the monitor on them. A second process acts as a vantage in cn, where one of them is blocked. Ctrl-C ends the demo and
removes its files.

  --days   of history, 1 to 60; default 30
  --addr   where the monitor listens; default MONITOR_ADDR, or 127.0.0.1:8090
`
const DAYS_MAX = 60
const DAY_SEC = 86_400
const AGENT_HOST = '127.0.0.1'
const SLUICE = fileURLToPath(new URL('../sluice.ts', import.meta.url))
const VANTAGE = 'main'
const AGENT = { name: 'shanghai', region: 'cn', country: 'CN' } as const
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const READY_POLL_MS = 100
const OPTIONS = {
  days: { type: 'string', default: '30' },
  addr: { type: 'string', default: process.env.MONITOR_ADDR ?? '127.0.0.1:8090' },
  help: { type: 'boolean', short: 'h' },
} as const

const { days, addr } = parseOptions()
const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'))
process.env.TMPDIR = folder // also for the relays' certificates
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const exitBySignal = () => process.exit(130)
for (const name of SIGNALS) process.on(name, exitBySignal)
try {
  const { host, port } = listenAddress('--addr', addr)
  const [, agentPort] = await claimPorts([
    { variable: '--addr', host, port },
    { variable: 'the port of the agent', host: AGENT_HOST, port: 0 },
  ])
  const agents = `${AGENT_HOST}:${agentPort}`
  const world = await startWorld(DEMO_SITES)
  const catalogue = join(folder, 'catalogue.yaml')
  const asnPath = join(folder, 'ip2asn.tsv')
  writeFileSync(asnPath, demoAsnTable())
  const token = await prepare(catalogue, asnPath, world.env)
  const env = {
    ...world.env,
    CATALOGUE_PATH: catalogue,
    ASN_DB: asnPath,
    AGENT_ADDR: agents,
    MONITOR_DATA_DIR: folder,
    MONITOR_ADDR: addr,
    PROBE_INTERVAL_S: '60',
    CONNECTIVITY_CHECK_URLS: '',
    BACKEND_TYPE: 'memory',
    DISABLE_STATS: 'true',
    DEBUG_PORT: '0',
    DEBUG_HOST: '127.0.0.1',
  }
  const agentEnv = {
    ...world.agentEnv,
    AGENT_SERVER: `http://${agents}`,
    AGENT_TOKEN: token,
    MONITOR_DATA_DIR: join(folder, 'agent'),
    CONNECTIVITY_CHECK_URLS: '',
    LOG_LEVEL: 'error',
  }
  await runMonitor(env, agentEnv)
  await world.close()
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error
  process.stderr.write(`demo: ${error.message}\n`)
  process.exit(error.exitCode)
}

function parseOptions(): { days: number; addr: string } {
  try {
    const { values } = parseArgs({ options: OPTIONS })
    const days = Number(values.days)
    const isValid = Number.isInteger(days) && days >= 1 && days <= DAYS_MAX
    if (isValid && !values.help) return { days, addr: values.addr }
    const message = isValid ? '' : `demo: --days must be a whole number from 1 to ${DAYS_MAX}\n\n`
    process.stdout.write(`${message}${USAGE}`)
    process.exit(isValid ? 0 : 2)
  } catch (error) {
    process.stderr.write(`demo: ${(error as Error).message}\n\n${USAGE}`)
    process.exit(2)
  }
}

/** Writes the catalogue, and a database with `days` of history. Returns the agent's token. */
async function prepare(cataloguePath: string, asnPath: string, env: Record<string, string>): Promise<string> {
  const nowSec = Math.floor(Date.now() / 1_000)
  const firstSeen = (ageDays = days) =>
    new Date((nowSec - ageDays * DAY_SEC) * 1_000).toISOString().slice(0, 10)
  writeFileSync(
    cataloguePath,
    demoCatalogue(DEMO_SITES, ({ ageDays }) => firstSeen(ageDays)),
  )
  const loaded = loadCatalogue({ path: cataloguePath })
  if (loaded.kind !== 'loaded') throw new Error(`the demo's catalogue is invalid: ${JSON.stringify(loaded)}`)
  printProgress(`probing each of ${DEMO_SITES.length} relays once …`)
  const observations = await probeOnce(nowSec, asnPath, env)
  const path = databasePath(folder)
  const store = await openStore({ path, log: (_, text) => printProgress(`${text}\n`) })
  const { ids } = await store.request({
    ...{ kind: 'sync-catalogue', sites: loaded.catalogue.entries },
    nowSec: nowSec - days * DAY_SEC,
  })
  const id = await store.request({ kind: 'vantage', name: VANTAGE, region: 'overseas', country: null })
  const { agentId, token } = addAgent(path)
  const probes = await fillHistory({
    ...{ store, path, ids, observations, days, nowSec, agentId },
    sites: DEMO_SITES,
    vantage: { id, name: VANTAGE },
    onProgress: (share) => printProgress(`generating ${days} days of history: ${Math.round(share * 100)} %`),
  })
  await store.close()
  printProgress(`${probes} probes of ${days} days, rolled up and evaluated.\n`)
  return token
}

/** Like `sluice monitor vantage create`. */
function addAgent(path: string): { agentId: number; token: string } {
  const database = new Database(path)
  try {
    const token = createVantage(database, AGENT)
    const row = database.get<{ id: number }>('SELECT id FROM vantage WHERE name = ?', AGENT.name)
    return { agentId: row!.id, token }
  } finally {
    database.close()
  }
}

async function probeOnce(
  nowSec: number,
  asnPath: string,
  env: Record<string, string>,
): Promise<Map<string, Observation>> {
  const ca = readFileSync(env.NODE_EXTRA_CA_CERTS, 'utf8')
  const egress = new Egress({ settings: egressSettings(env), version: 'demo', ca })
  const context = { egress, asn: await loadAsnTable(asnPath), nowMs: () => nowSec * 1_000 }
  const observations = DEMO_SITES.map(async (site) => {
    const url = siteUrl(site)
    const { observation } = await fullProbe(context, { url, apiBase: url, purpose: 'catalogue' })
    return [site.slug, observation] as const
  })
  const pairs = await Promise.all(observations)
  return new Map(pairs.flatMap(([slug, observation]) => (observation ? [[slug, observation]] : [])))
}

/** Resolves when the monitor has ended, by Ctrl-C or by itself. */
async function runMonitor(env: Record<string, string>, agentEnv: Record<string, string>): Promise<void> {
  const monitor = startSluice(['monitor'], env)
  const children = [monitor]
  for (const name of SIGNALS)
    process.off(name, exitBySignal).on(name, () => {
      for (const child of children) child.kill(name)
    })
  const ended = waitForExit(monitor)
  if (await Promise.race([waitUntilReady(), ended.then(() => false)])) {
    children.push(startSluice(['monitor', 'agent'], agentEnv))
    process.stdout.write(describeRequests())
  }
  process.exitCode = await ended
  for (const agent of children.slice(1)) {
    agent.kill('SIGTERM')
    await waitForExit(agent)
  }
}

function startSluice(args: string[], env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, [SLUICE, ...args], { env: { ...process.env, ...env }, stdio: 'inherit' })
}

function waitForExit(child: ChildProcess): Promise<number> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode ?? 1)
  return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
}

async function waitUntilReady(): Promise<boolean> {
  for (;;) {
    const isReady = await fetch(`http://${addr}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReady) return true
    await sleep(READY_POLL_MS, undefined, { ref: false }) // does not outlive the monitor
  }
}

function describeRequests(): string {
  const base = `http://${addr}/api/v1`
  return `
The monitor serves ${DEMO_SITES.length} relays on this machine and probes each once a minute. Try it:

  curl -s '${base}/sites?include=summary'
  curl -s '${base}/sites?region=cn'
  curl -s '${base}/sites/bamboo'          # blocked in cn: see network_profile.china
  curl -s '${base}/sites/ember?history=day'
  curl -s '${base}/leaderboard?board=black'
  curl -s -H 'Content-Type: application/json' -d '{"url":"${siteUrl(DEMO_SITES[0])}"}' ${base}/detections

Ctrl-C ends it.
`
}

/** On a terminal one line that is overwritten; elsewhere only whole lines. */
function printProgress(text: string): void {
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${text}`)
  else if (text.endsWith('\n')) process.stdout.write(text)
}
