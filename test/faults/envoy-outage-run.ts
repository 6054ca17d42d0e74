/**
 * One outage as users of Envoy see it.
 *
 *     open loop ── GET, x-user: u7 ──► Envoy ── upstream, served by the same Envoy
 *                                        │ rate limit filter: timeout 20 ms, failure_mode_deny: true
 *                                        ▼
 *                              Sluice or envoyproxy/ratelimit ──► Redis or memcached, killed or stopped meanwhile
 *
 *     warm-up    before      fault                    after
 *     ───────────┬───────────┬────────────────────────┬──────────
 *     dropped    counted     waits? failed? degraded?  counted again
 *
 * Store, service and Envoy run in sessions of their own, since Linux shares cores between sessions where autogroups are on: together
 * they would get one share, and wait for the load generator.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startReference } from '../differential/reference.ts'
import { type Envoy, exampleConfig, spawnEnvoy } from '../helpers/envoy.ts'
import { type Fault, type FaultyStore, type Store, startFaultyStore } from '../helpers/faulty-store.ts'
import { startHttpLoad, type TimedRequest } from '../helpers/http-load.ts'
import { spawnService } from '../helpers/service.ts'

export const POLICIES = ['local', 'allow', 'deny', 'error'] as const
export type Policy = (typeof POLICIES)[number]
export const REFERENCE = 'envoyproxy/ratelimit'

/** What a user got. `counted` and `refused` are the service's answers by a count in the store. */
export const KINDS = ['counted', 'degraded', 'denied', 'refused', 'failed'] as const
export type Kind = (typeof KINDS)[number]

export const TIMEOUT_MS = 20 // of Envoy's rate limit filter, its default
export const KEYS = 1_000
const WARM_UP_MS = 1_500
const LOG_POLL_MS = 5
const ENVOY_FLUSH_MS = 250 // histograms of Envoy are complete after one
const DEGRADED_HEADER = 'x-ratelimit-degraded'

export interface Plan {
  store: Store
  fault: Fault
  service: Policy | typeof REFERENCE
  program: string // of the reference
  ratePerSec: number
  limit: number // per user and day
  beforeMs: number
  faultMs: number
  afterMs: number
  env: Record<string, string> // further settings of Sluice
}

export interface Answer {
  atMs: number // when the request was due, since the fault began
  latencyMs: number // since then; infinite = none
  kind: Kind
  user: number
}

export interface Outcome {
  answers: readonly Answer[] // in the order in which they were due, warm-up included
  firstMs: number // when the warm-up ended, before the fault, so negative
  faultMs: number // how long the fault lasted
  openMs: number // from its start to the log line of the circuit breaker; infinite = there was none
  lagMs: number // of the generator
  envoy: EnvoyFigures // without the warm-up
  envoyInAll: EnvoyFigures // with it
  envoyWhileOpen: EnvoyFigures | null // from soon after the circuit breaker opened to the end of the fault
}

/** Envoy's own statistics of the rate limit filter and of the filter's cluster. */
export interface EnvoyFigures {
  ok: number
  error: number
  overLimit: number
  failureModeAllowed: number
  timeouts: number // calls that Envoy gave up
  connections: number // opened
  connectionsLost: number
  connectFailures: number
  /** How long the service took as Envoy saw it: calls by whole milliseconds, without those that timed out. */
  callsByMs: ReadonlyMap<number, number>
}

interface Decider {
  grpcPort: string
  log(): string
  stop(): Promise<unknown>
}

/** As Envoy prints it. Numbers are rounded down to two digits, so whole milliseconds below 100 are exact. */
interface Histogram {
  name: string
  totals: { lower_bound: number; count: number }[]
}

type Admin = (path: string) => Promise<string>

export async function runOutage(plan: Plan): Promise<Outcome> {
  const stops: (() => unknown)[] = []
  try {
    const store = await startFaultyStore(plan.store, plan.fault, true)
    stops.push(() => store.stop())
    const decider = await startDecider(plan, store)
    stops.push(() => decider.stop())
    const envoy = await spawnEnvoy(createEnvoyConfig(decider.grpcPort, TIMEOUT_MS), true)
    stops.push(() => envoy.stop())
    return await measure(plan, store, decider, envoy)
  } finally {
    for (const stop of stops.reverse()) await stop()
  }
}

async function measure(plan: Plan, store: FaultyStore, decider: Decider, envoy: Envoy): Promise<Outcome> {
  const load = startHttpLoad({
    url: `${envoy.url}/limited`,
    ratePerSec: plan.ratePerSec,
    header: (request) => `x-user: u${request % KEYS}`,
    answerHeader: DEGRADED_HEADER,
  })
  await sleep(WARM_UP_MS)
  const before = await readEnvoy(envoy.admin)
  const firstMs = performance.now()
  await sleep(plan.beforeMs)
  let startMs = performance.now()
  await store.begin()
  if (plan.fault === 'stop') startMs = performance.now() // until then it was asked for its process id
  const opening = watchOpening(decider, envoy.admin, startMs + plan.faultMs)
  await sleep(startMs + plan.faultMs - performance.now())
  const during = await readEnvoy(envoy.admin)
  await store.end()
  const endMs = performance.now()
  await sleep(plan.afterMs)
  const requests = await load.stop()
  const { openedMs, figures } = await opening
  await sleep(2 * ENVOY_FLUSH_MS)
  const envoyInAll = await readEnvoy(envoy.admin)
  return {
    answers: requests.map((request, index) => toAnswer(request, index, startMs, plan)),
    firstMs: firstMs - startMs,
    faultMs: endMs - startMs,
    openMs: openedMs - startMs,
    lagMs: requests.reduce((most, { dueMs, lagMs }) => (dueMs >= firstMs ? Math.max(most, lagMs) : most), 0),
    envoy: subtract(envoyInAll, before),
    envoyInAll,
    envoyWhileOpen: figures && subtract(during, figures),
  }
}

/** When the circuit breaker opened, by its log line, and Envoy's figures soon after. */
async function watchOpening({ log }: Decider, admin: Admin, endMs: number) {
  const isOpen = () => log().includes('the circuit breaker is open for')
  while (!isOpen() && performance.now() < endMs) await sleep(LOG_POLL_MS)
  if (!isOpen()) return { openedMs: Number.POSITIVE_INFINITY, figures: null }
  const openedMs = performance.now()
  await sleep(TIMEOUT_MS + 2 * ENVOY_FLUSH_MS) // of the last calls that waited
  return { openedMs, figures: await readEnvoy(admin) }
}

async function startDecider({ service, program, limit, env }: Plan, store: FaultyStore): Promise<Decider> {
  const policy = service === REFERENCE ? '' : ` on_store_error: ${service},`
  const rules = `domain: envoy\ndescriptors:\n  - { key: user,${policy} rate_limit: { unit: day, requests_per_unit: ${limit} } }\n`
  if (service !== REFERENCE) {
    const sluice = spawnService({
      rules: { 'envoy.yaml': rules },
      env: { DEGRADED_HEADER: 'true', ...store.env, ...env },
      hasOwnSession: true,
    })
    await sluice.logged("Listening for HTTP on '")
    return {
      grpcPort: sluice.address('gRPC').split(':')[1],
      log: () => sluice.log,
      stop: () => sluice.stop('SIGKILL'),
    }
  }
  if (program === '') throw new Error('SLUICE_REFERENCE does not name the program of envoyproxy/ratelimit')
  const root = mkdtempSync(join(tmpdir(), 'sluice-outage-'))
  mkdirSync(join(root, 'rl', 'config'), { recursive: true })
  writeFileSync(join(root, 'rl', 'config', 'envoy.yaml'), rules)
  const folders = { RUNTIME_ROOT: root, RUNTIME_SUBDIRECTORY: 'rl', RUNTIME_WATCH_ROOT: 'false' }
  const reference = await startReference(program, { ...folders, ...store.env }, true)
  const stop = async () => {
    await reference.stop()
    rmSync(root, { recursive: true, force: true })
  }
  return { grpcPort: reference.grpc.split(':')[1], log: reference.log, stop }
}

/** That of examples/envoy with a descriptor per user on /limited, and requests that fail when the decision does. */
export function createEnvoyConfig(grpcPort: string, timeoutMs: number): string {
  const replacements = [
    ['port_value: 8081', `port_value: ${grpcPort}`],
    ['timeout: 0.25s', `timeout: ${timeoutMs / 1_000}s`],
    ['failure_mode_deny: false', 'failure_mode_deny: true'],
    ['prefix: /slow', 'prefix: /limited'],
    [
      'generic_key: { descriptor_value: slow }',
      'request_headers: { header_name: x-user, descriptor_key: user }',
    ],
  ]
  let config = exampleConfig()
  for (const [from, to] of replacements) {
    if (!config.includes(from)) throw new Error(`examples/envoy/envoy.yaml has no "${from}"`)
    config = config.replaceAll(from, to)
  }
  return `${config}\nstats_flush_interval: ${ENVOY_FLUSH_MS / 1_000}s\n`
}

function toAnswer(
  { dueMs, latencyMs, status, answerHeader }: TimedRequest,
  index: number,
  startMs: number,
  { service }: Plan,
): Answer {
  const isDegraded = answerHeader === service
  let kind: Kind = 'failed'
  if (status === 200) kind = isDegraded ? 'degraded' : 'counted'
  else if (status === 429) kind = isDegraded ? 'denied' : 'refused'
  return { atMs: dueMs - startMs, latencyMs, kind, user: index % KEYS }
}

async function readEnvoy(admin: Admin): Promise<EnvoyFigures> {
  const { stats } = JSON.parse(
    await admin('/stats?format=json&histogram_buckets=detailed&filter=ratelimit|cluster.sluice.upstream_'),
  ) as { stats: { name?: string; value?: number; histograms?: { details: Histogram[] } }[] }
  const counter = (name: string) => stats.find((each) => each.name === name)?.value ?? 0
  const filter = (name: string) => counter(`cluster.service.ratelimit.${name}`)
  const cluster = (name: string) => counter(`cluster.sluice.upstream_${name}`)
  const histograms = stats.flatMap(({ histograms }) => histograms?.details ?? [])
  const times = histograms.find(({ name }) => name === 'cluster.sluice.upstream_rq_time')
  return {
    ok: filter('ok'),
    error: filter('error'),
    overLimit: filter('over_limit'),
    failureModeAllowed: filter('failure_mode_allowed'),
    timeouts: cluster('rq_timeout'),
    connections: cluster('cx_total'),
    connectionsLost: cluster('cx_destroy'),
    connectFailures: cluster('cx_connect_fail'),
    callsByMs: new Map(times?.totals.map((bucket) => [bucket.lower_bound, bucket.count])),
  }
}

function subtract(later: EnvoyFigures, earlier: EnvoyFigures): EnvoyFigures {
  const left = ([ms, count]: [number, number]): [number, number] => [
    ms,
    count - (earlier.callsByMs.get(ms) ?? 0),
  ]
  return {
    ok: later.ok - earlier.ok,
    error: later.error - earlier.error,
    overLimit: later.overLimit - earlier.overLimit,
    failureModeAllowed: later.failureModeAllowed - earlier.failureModeAllowed,
    timeouts: later.timeouts - earlier.timeouts,
    connections: later.connections - earlier.connections,
    connectionsLost: later.connectionsLost - earlier.connectionsLost,
    connectFailures: later.connectFailures - earlier.connectFailures,
    callsByMs: new Map([...later.callsByMs].map(left).filter(([, count]) => count > 0)),
  }
}
