/**
 * Deterministic simulation of the service's engine and stores: many schedules, each drawn from its seed (README.md).
 *
 *     $ npm run simulate -- --schedules 100000 --jobs 2          a new base seed each time, printed
 *     $ npm run simulate -- --seed 17 --schedules 1000           seeds 17 to 1016
 *     $ npm run simulate -- --one 23 --trace                     one schedule, with all its events
 *     $ npm run simulate -- --one 23 --faults 2 --calls 17       a part of it: these faults of its plan, the first calls
 *
 * Ends with 1 after the first schedule that breaks an invariant; --keep-going counts them all. Ends with 2 if a flag is wrong.
 */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { describe } from './faults.ts'
import { drawPlan } from './plan.ts'
import { runSchedule } from './schedule.ts'
import { describeFailure, type Part, takePart, wholePart } from './shrink.ts'

const SEEDS_MAX = 2 ** 31
const PROGRESS_SCHEDULES = 500
const FAILURES_SHOWN_MAX = 10

const { values: flags } = parseArgs({
  options: {
    schedules: { type: 'string', default: '1000' },
    seed: { type: 'string' },
    jobs: { type: 'string', default: '1' },
    one: { type: 'string' },
    faults: { type: 'string' }, // with --one: indices, with commas between them; '' = none
    calls: { type: 'string' }, // with --one: how many of the first ones
    trace: { type: 'boolean', default: false },
    'keep-going': { type: 'boolean', default: false },
  },
})

/** Reads a whole number of a flag; anything else ends the process with 2. */
function readWhole(name: 'schedules' | 'seed' | 'jobs' | 'one' | 'calls', text: string, min = 0): number {
  const value = Number(text)
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= min) return value
  console.error(`--${name} ${text}: write a whole number of at least ${min}`)
  process.exit(2)
}

/** What one process has done. */
interface Progress {
  schedules: number
  calls: number
  decisions: number
  degraded: number
  virtualMs: number
  failures: string[]
}

function emptyProgress(): Progress {
  return { schedules: 0, calls: 0, decisions: 0, degraded: 0, virtualMs: 0, failures: [] }
}

let seedNow = -1 // of the schedule that runs

async function runMany(
  firstSeed: number,
  stride: number,
  count: number,
  onProgress: (now: Progress) => void,
): Promise<Progress> {
  const progress = emptyProgress()
  for (let i = 0; i < count; i++) {
    const seed = (firstSeed + i * stride) % SEEDS_MAX
    seedNow = seed
    const outcome = await runSchedule(drawPlan(seed))
    progress.schedules++
    progress.calls += outcome.callsCount
    progress.decisions += outcome.decisionsCount
    progress.degraded += outcome.degradedCount
    progress.virtualMs += outcome.virtualMs
    if (outcome.violation !== null) {
      const failure = await describeFailure(seed, outcome.violation)
      progress.failures.push(failure)
      console.error(`\n${failure}`)
      if (!flags['keep-going'] || progress.failures.length >= FAILURES_SHOWN_MAX) break
    }
    if (progress.schedules % PROGRESS_SCHEDULES === 0) onProgress(progress)
  }
  return progress
}

function toPart(seed: number): Part {
  const whole = wholePart(drawPlan(seed))
  return {
    faults: flags.faults === undefined ? whole.faults : flags.faults.split(',').filter(Boolean).map(Number),
    callsCount: flags.calls === undefined ? whole.callsCount : readWhole('calls', flags.calls, 1),
  }
}

async function runOne(seed: number): Promise<boolean> {
  const plan = takePart(drawPlan(seed), toPart(seed))
  const { store, serversCount, workersCount, settings, versions, faults, calls } = plan
  console.log(
    `seed ${seed}: ${store}, servers ${serversCount}, workers ${workersCount}, ${calls.length} calls`,
  )
  console.log(`settings ${JSON.stringify(settings)}`)
  for (const [version, rules] of versions.entries()) console.log(`rules v${version} ${JSON.stringify(rules)}`)
  for (const fault of faults)
    console.log(`fault at ${fault.atMs.toFixed(1)} ms: ${fault.kind} ${describe(fault)}`)
  const { violation } = await runSchedule(plan, flags.trace ? (line) => console.log(line) : null)
  console.log(violation === null ? 'every invariant holds' : `VIOLATION ${violation.message}`)
  return violation === null
}

function show({ schedules, decisions, failures }: Progress, startMs: number): void {
  const rate = schedules / ((Date.now() - startMs) / 1_000)
  const rss = Math.round(process.memoryUsage.rss() / 2 ** 20)
  process.stderr.write(
    `\r${schedules} schedules, ${decisions} decisions, ${failures.length} failed, ${rate.toFixed(0)} per second, ${rss} MiB `,
  )
}

function add(progresses: readonly Progress[]): Progress {
  const sum = emptyProgress()
  for (const { schedules, calls, decisions, degraded, virtualMs, failures } of progresses) {
    sum.schedules += schedules
    sum.calls += calls
    sum.decisions += decisions
    sum.degraded += degraded
    sum.virtualMs += virtualMs
    sum.failures.push(...failures)
  }
  return sum
}

/** Job `i` of `n` takes every n-th seed in a process of its own. A failure of one ends all, unless --keep-going. */
async function runJobs(firstSeed: number, jobs: number, count: number, startMs: number): Promise<Progress> {
  const latest: Progress[] = []
  const children = Array.from({ length: jobs }, (_, i) => {
    const share = Math.floor(count / jobs) + (i < count % jobs ? 1 : 0)
    const args = ['--seed', String(firstSeed + i), '--schedules', String(share), `--jobs=-${jobs}`]
    return fork(fileURLToPath(import.meta.url), flags['keep-going'] ? [...args, '--keep-going'] : args)
  })
  await Promise.all(
    children.map((child, i) => {
      child.on('message', (progress: Progress) => {
        latest[i] = progress
        show(add(Object.values(latest)), startMs)
        if (progress.failures.length > 0 && !flags['keep-going']) for (const other of children) other.kill()
      })
      return new Promise((resolve) => child.once('exit', resolve))
    }),
  )
  return add(Object.values(latest))
}

async function main(): Promise<void> {
  process.on('unhandledRejection', (error) => {
    console.error(`\nseed ${seedNow}: a promise was rejected and not awaited:`, error)
    process.exit(1)
  })
  if (flags.one !== undefined) {
    seedNow = readWhole('one', flags.one)
    process.exitCode = (await runOne(seedNow)) ? 0 : 1
    return
  }
  const startMs = Date.now()
  const firstSeed =
    flags.seed === undefined ? Math.floor(Math.random() * SEEDS_MAX) : readWhole('seed', flags.seed)
  const isChild = process.send !== undefined // a job of `runJobs`
  const jobs = readWhole('jobs', flags.jobs, isChild ? Number.MIN_SAFE_INTEGER : 1)
  const count = readWhole('schedules', flags.schedules, isChild ? 0 : 1)
  if (jobs < 0) {
    const send = (progress: Progress) => process.send!(progress)
    const progress = await runMany(firstSeed, -jobs, count, send)
    process.send!(progress, () => process.disconnect())
    return
  }
  const progress =
    jobs > 1
      ? await runJobs(firstSeed, jobs, count, startMs)
      : await runMany(firstSeed, 1, count, (now) => show(now, startMs))
  show(progress, startMs)
  const { schedules, calls, decisions, degraded, virtualMs, failures } = progress
  const seconds = ((Date.now() - startMs) / 1_000).toFixed(0)
  console.log(`\nseeds from ${firstSeed}: ${schedules} schedules, ${calls} calls, ${decisions} decisions,`)
  console.log(
    `${degraded} answers degraded or failed, ${(virtualMs / 3_600_000).toFixed(1)} hours of virtual time in ${seconds} s`,
  )
  if (schedules < count || failures.length > 0) process.exitCode = 1
}

await main()
