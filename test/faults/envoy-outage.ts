/**
 * What users of a real Envoy see while the counter store is away: 2,000 requests per second, the rate limit filter with a timeout of
 * 20 ms and `failure_mode_deny: true`, so that a decision that fails or comes late is an error page. Prints a row per policy, and one for
 * envoyproxy/ratelimit, each figure as median and worst of the runs.
 *
 *     $ node test/faults/envoy-outage.ts --runs 5                                everything: 20 minutes
 *     $ node test/faults/envoy-outage.ts --store redis --fault stop --policy local --runs 5 --rate 2000
 *     $ node test/faults/envoy-outage.ts --limit 5                               limits that refuse, and a check that they do
 *     $ node test/faults/envoy-outage.ts --picture docs/pictures --json runs.json
 *     $ node test/faults/envoy-outage.ts --picture docs/pictures --from runs.json    draws again without measuring
 *     $ node test/faults/envoy-outage.ts --env REDIS_OPERATION_TIMEOUT=50ms --fault stop
 *
 * envoyproxy/ratelimit takes part if SLUICE_REFERENCE names its program, or alone with `--policy envoyproxy/ratelimit`. Columns:
 *     200, degraded, 429   requests that passed by a count, that passed by a policy, that were refused (by a count or a policy)
 *     failed               5xx: users see it
 *     gave up              of those: calls that Envoy ended after its 20 ms; `open`: of those, while the circuit breaker was open
 *     opens                the circuit breaker, so long after the start of the fault
 *     p99 open             p99 of the service's time to answer while it was open, as Envoy saw it; whole ms, rounded down
 *     slowest              latency of a request that was due in the fault
 *     lost                 connections of Envoy to the service that were closed or could not be made
 *     back                 from the end of the fault to the last request that was not answered by a count
 *     wrong                answers that the limit does not allow (envoy-outage-limits.ts)
 *     differs              answers that Envoy's own statistics of the filter (error, over_limit, failure_mode_allowed) do not confirm
 *
 * A run on a machine that is too busy is repeated: the generator fell behind, or checks failed before the fault. `--busy` keeps it.
 * Exit code 1: a promise of a row is broken (envoy-outage-promises.ts), a row has no valid run, or no row was asked for.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { FAULTS, type Fault, STORES, type Store } from '../helpers/faulty-store.ts'
import { drawOutage } from './envoy-outage-picture.ts'
import { findBrokenPromises } from './envoy-outage-promises.ts'
import { POLICIES, REFERENCE, runOutage } from './envoy-outage-run.ts'
import { type Figures, type Row, type Run, summarize } from './envoy-outage-series.ts'

const LAG_MS_MAX = 100 // of the generator in a run that counts
const REPEATS_MAX = 10 // of all runs of a row; beyond, there are fewer runs
const LIMIT_NEVER_REACHED = 4_000_000_000
const BEFORE_MS = 1_500
const AFTER_MS = 2_500

// biome-ignore format: a table
const COLUMNS: [title: string, format: (runs: readonly Figures[]) => string][] = [
  ['requests', (runs) => formatRuns(runs, 'requests')],
  ['200', (runs) => formatRuns(runs, 'counted')],
  ['degraded', (runs) => formatRuns(runs, 'degraded')],
  ['429', (runs) => formatRuns(runs, 'refused')],
  ['failed', (runs) => formatRuns(runs, 'failed')],
  ['gave up', (runs) => formatRuns(runs, 'timeouts')],
  ['open', (runs) => formatRuns(runs, 'lateWhileOpen')],
  ['opens', (runs) => formatRuns(runs, 'openMs')],
  ['p99 open', (runs) => formatRuns(runs, 'serviceP99WhileOpenMs')],
  ['slowest', (runs) => formatRuns(runs, 'slowestMs')],
  ['lost', (runs) => formatRuns(runs, 'lost')],
  ['back', (runs) => formatRuns(runs, 'backMs')],
  ['wrong', (runs) => formatRuns(runs, 'wrong')],
  ['differs', (runs) => formatRuns(runs, 'differing')],
]

/** `median (worst)`. */
function formatRuns(runs: readonly Figures[], name: keyof Figures): string {
  const values = runs.map((figures) => figures[name]).sort((a, b) => a - b)
  const format = (value: number) => {
    if (!Number.isFinite(value)) return '-'
    return name.endsWith('Ms') ? `${Math.round(value)} ms` : String(value)
  }
  return `${format(values[Math.floor(values.length / 2)])} (${format(values.at(-1)!)})`
}

const { values: flags } = parseArgs({
  options: {
    store: { type: 'string' },
    fault: { type: 'string' },
    policy: { type: 'string' }, // one of POLICIES or REFERENCE
    rate: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '5' },
    runs: { type: 'string', default: '1' },
    limit: { type: 'string', default: String(LIMIT_NEVER_REACHED) }, // per user and day; there are 1,000 users
    env: { type: 'string', multiple: true, default: [] },
    busy: { type: 'boolean', default: false }, // keeps runs on a machine that is too busy
    picture: { type: 'string' }, // folder
    json: { type: 'string' }, // file, written after each row
    from: { type: 'string' }, // such a file
  },
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1)) // ends what it started, too
const program = process.env.SLUICE_REFERENCE ?? ''
const services = [...POLICIES, ...(program === '' ? [] : [REFERENCE])] as Row['service'][]

async function measureRow(store: Store, fault: Fault, service: Row['service']): Promise<Row> {
  const plan = {
    ...{ store, fault, service, program, beforeMs: BEFORE_MS, afterMs: AFTER_MS },
    ratePerSec: Number(flags.rate),
    limit: Number(flags.limit),
    faultMs: 1_000 * Number(flags.seconds),
    env: Object.fromEntries(flags.env.map((pair) => pair.split('=', 2))),
  }
  const runs: Run[] = []
  for (let repeats = 0; runs.length < Number(flags.runs) && repeats < REPEATS_MAX; ) {
    const run = summarize(await runOutage(plan), plan)
    const { lagMs, failedBefore } = run.figures
    if (flags.busy || (lagMs <= LAG_MS_MAX && failedBefore === 0)) runs.push(run)
    else repeats++
  }
  return { store, fault, service, ratePerSec: plan.ratePerSec, runs }
}

async function measureAll(): Promise<Row[]> {
  const rows: Row[] = []
  console.log(`| store | fault | policy | ${COLUMNS.map(([title]) => title).join(' | ')} |`)
  console.log(`|${'---|'.repeat(3 + COLUMNS.length)}`)
  for (const store of STORES.filter((each) => (flags.store ?? each) === each)) {
    for (const fault of FAULTS.filter((each) => (flags.fault ?? each) === each)) {
      for (const service of services.filter((each) => (flags.policy ?? each) === each)) {
        const row = await measureRow(store, fault, service)
        rows.push(row)
        const figures = row.runs.map((run) => run.figures)
        if (figures.length > 0)
          console.log(
            `| ${[store, fault, service, ...COLUMNS.map(([, format]) => format(figures))].join(' | ')} |`,
          )
        for (const problem of findBrokenPromises(row)) fail(problem)
        if (flags.json) writeFileSync(flags.json, JSON.stringify(rows))
      }
    }
  }
  if (rows.length === 0) fail('no row has this store, fault and policy')
  return rows
}

function fail(problem: string): void {
  console.log(`FAILED: ${problem}`)
  process.exitCode = 1
}

const rows: Row[] = flags.from ? JSON.parse(readFileSync(flags.from, 'utf8')) : await measureAll()
if (flags.picture) drawOutage(rows, flags.picture)
