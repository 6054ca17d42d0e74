/**
 * What callers see while the counter store is away: a steady rate of calls, and in the middle of them the store is killed, or stopped
 * without closing its connections. Prints one row per store, fault and policy, each figure as median and worst of the runs.
 *
 *     $ node test/faults/outage.ts --runs 5                       everything: a quarter of an hour
 *     $ node test/faults/outage.ts --store redis --fault stop --policy local --rate 2000 --seconds 5
 *     $ node test/faults/outage.ts --timeout 20 --fault stop      each call with a grpc-timeout of 20 ms, as Envoy sends
 *     $ node test/faults/outage.ts --env REDIS_OPERATION_TIMEOUT=20ms --fault stop
 *
 *     before      fault                    after
 *     ────────────┬────────────────────────┬──────────
 *     counted     slow? failed? degraded?  counted again
 *
 * Latency counts from when a call was due, so a client that falls behind is not taken for a fast service; a run in which it fell behind by
 * more than LAG_MS_MAX says nothing and is repeated; a row without a valid run, or no row at all, ends with exit code 1. Rules never
 * reach their limits. Columns:
 *     calls      of the whole run; each is answered, or the row says how many are not
 *     failed     calls that got an error            degraded   calls that a policy answered
 *     slow       calls due in the fault that waited more than SLOW_MS; a loaded machine adds some
 *     slowest    longest wait of any call           back       from the end of the fault to the last call that was not counted
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { FAULTS, type Fault, STORES, type Store, startFaultyStore } from '../helpers/faulty-store.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { spawnService } from '../helpers/service.ts'

const POLICIES = ['error', 'allow', 'deny', 'local'] as const
const LIMIT = 4_000_000_000
const KEYS = 1_000
const CONNECTIONS = 4
const BEFORE_MS = 1_500
const AFTER_MS = 2_500
const SLOW_MS = 20 // the default timeout of Envoy's rate limit filter
const LAG_MS_MAX = 100
const REPEATS_MAX = 20 // of all runs of a row; beyond, there are fewer runs
const ANSWER_MS_MAX = 30_000 // calls that have no answer then are reported as unanswered

type Policy = (typeof POLICIES)[number]

interface Call {
  dueMs: number
  latencyMs: number
  kind: string // counted, a policy, failed, or unanswered
}

interface Figures {
  calls: number
  unanswered: number
  failed: number
  degraded: number
  slowestMs: number
  slow: number
  backMs: number
  lagMs: number // longest time from when a call was due to when it was made
}

interface Plan {
  store: Store
  fault: Fault
  policy: Policy
  ratePerSec: number
  timeoutMs: number | undefined // of each call
  faultMs: number
  env: Record<string, string>
}

async function run({ store, fault, policy, ratePerSec, timeoutMs, faultMs, env }: Plan): Promise<Figures> {
  const faulty = await startFaultyStore(store, fault)
  const rule = `{ key: user, on_store_error: ${policy}, rate_limit: { unit: day, requests_per_unit: ${LIMIT} } }`
  const service = spawnService({
    rules: { 'shop.yaml': `domain: shop\ndescriptors:\n  - ${rule}\n` },
    env: { DEGRADED_HEADER: 'true', ...faulty.env, ...env },
  })
  const clients: GrpcClient[] = []
  try {
    await service.logged("Listening for HTTP on '")
    for (let i = 0; i < CONNECTIONS; i++) clients.push(new GrpcClient(service.address('gRPC')))
    await Promise.all(clients.map((client) => client.ask(question('shop', { user: 'first' }))))
    const load = startLoad(clients, ratePerSec, timeoutMs)
    await sleep(BEFORE_MS)
    const faultStartMs = performance.now()
    await faulty.begin()
    await sleep(faultMs)
    await faulty.end()
    const faultEndMs = performance.now()
    await sleep(AFTER_MS)
    const { calls, lagMs } = await load.stop()
    return { ...summarize(calls, faultStartMs, faultEndMs), lagMs }
  } finally {
    for (const client of clients) client.close()
    await service.stop('SIGKILL')
    await faulty.stop()
  }
}

/** An open loop: calls are made when they are due, whatever the answers to earlier ones do. */
function startLoad(clients: readonly GrpcClient[], ratePerSec: number, timeoutMs: number | undefined) {
  const calls: Call[] = []
  const startMs = performance.now()
  let pendingCount = 0
  let lagMs = 0
  const ask = async (call: Call, i: number) => {
    pendingCount++
    try {
      const request = question('shop', { user: `u${i % KEYS}` })
      const { responseHeadersToAdd } = await clients[i % clients.length].ask(request, timeoutMs)
      call.kind = responseHeadersToAdd[0]?.value ?? 'counted'
    } catch {
      call.kind = 'failed'
    }
    call.latencyMs = performance.now() - call.dueMs
    pendingCount--
  }
  const timer = setInterval(() => {
    const dueCount = Math.floor(((performance.now() - startMs) * ratePerSec) / 1_000)
    while (calls.length < dueCount) {
      const i = calls.length
      const call = {
        dueMs: startMs + (i * 1_000) / ratePerSec,
        latencyMs: Number.POSITIVE_INFINITY,
        kind: 'unanswered',
      }
      calls.push(call)
      lagMs = Math.max(lagMs, performance.now() - call.dueMs)
      void ask(call, i)
    }
  }, 1)
  return {
    async stop(): Promise<{ calls: readonly Call[]; lagMs: number }> {
      clearInterval(timer)
      const endMs = performance.now() + ANSWER_MS_MAX
      while (pendingCount > 0 && performance.now() < endMs) await sleep(20)
      return { calls, lagMs }
    },
  }
}

function summarize(calls: readonly Call[], faultStartMs: number, faultEndMs: number): Omit<Figures, 'lagMs'> {
  const count = (isWanted: (call: Call) => boolean) => calls.filter(isWanted).length
  return {
    calls: calls.length,
    unanswered: count(({ kind }) => kind === 'unanswered'),
    failed: count(({ kind }) => kind === 'failed'),
    degraded: count(({ kind }) => POLICIES.some((policy) => policy === kind)),
    slowestMs: calls.reduce((longest, { latencyMs }) => Math.max(longest, latencyMs), 0),
    slow: count(({ latencyMs, dueMs }) => latencyMs > SLOW_MS && dueMs >= faultStartMs && dueMs < faultEndMs),
    backMs: Math.max(0, (calls.findLast(({ kind }) => kind !== 'counted')?.dueMs ?? faultEndMs) - faultEndMs),
  }
}

/** `median (worst)`. */
function formatRuns(runs: readonly Figures[], name: keyof Figures): string {
  const values = runs.map((figures) => figures[name]).sort((a, b) => a - b)
  const text = (value: number) => (name.endsWith('Ms') ? `${Math.round(value)} ms` : String(value))
  return `${text(values[Math.floor(values.length / 2)])} (${text(values.at(-1)!)})`
}

const { values: flags } = parseArgs({
  options: {
    store: { type: 'string' },
    fault: { type: 'string' },
    policy: { type: 'string' },
    rate: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '5' },
    timeout: { type: 'string' }, // grpc-timeout of each call in ms; absent = none
    runs: { type: 'string', default: '1' },
    env: { type: 'string', multiple: true, default: [] },
  },
})
let rowsCount = 0
function fail(problem: string): void {
  console.log(`FAILED: ${problem}`)
  process.exitCode = 1
}
const env = Object.fromEntries(flags.env.map((pair) => pair.split('=', 2)))

console.log(
  '| store | fault | policy | calls | failed | degraded | slow | slowest | back |\n|---|---|---|---|---|---|---|---|---|',
)
for (const store of STORES.filter((each) => (flags.store ?? each) === each)) {
  for (const fault of FAULTS.filter((each) => (flags.fault ?? each) === each)) {
    for (const policy of POLICIES.filter((each) => (flags.policy ?? each) === each)) {
      const plan = {
        store,
        fault,
        policy,
        ratePerSec: Number(flags.rate),
        timeoutMs: flags.timeout === undefined ? undefined : Number(flags.timeout),
        faultMs: 1_000 * Number(flags.seconds),
        env,
      }
      const runs: Figures[] = []
      for (let repeats = 0; runs.length < Number(flags.runs) && repeats < REPEATS_MAX; ) {
        const figures = await run(plan)
        if (figures.lagMs <= LAG_MS_MAX) runs.push(figures)
        else repeats++
      }
      rowsCount++
      if (runs.length === 0) {
        fail(`${store} ${fault} ${policy}: no run is valid`)
        continue
      }
      const cells = (['calls', 'failed', 'degraded', 'slow', 'slowestMs', 'backMs'] as const).map((name) =>
        formatRuns(runs, name),
      )
      const unanswered = runs.some((figures) => figures.unanswered > 0)
      console.log(
        `| ${store} | ${fault} | ${policy} | ${cells.join(' | ')} |${unanswered ? ` unanswered: ${formatRuns(runs, 'unanswered')}` : ''}`,
      )
    }
  }
}
if (rowsCount === 0) fail('no row has this store, fault and policy')
