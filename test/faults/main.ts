/**
 * The fault lab: runs scenarios of `scenarios/`, prints a line per round and a table, and exits with 1 if an invariant was broken.
 *
 *     $ npm run test:faults                                      one round of each: some minutes
 *     $ npm run test:faults -- --list
 *     $ npm run test:faults -- --only redis-killed --seed 7      one scenario, or each whose name begins so
 *     $ npm run test:faults -- --decisions 10000000              so many over all scenarios, in equal parts
 *     $ npm run test:faults -- --seconds 5 --rate 500            length of each fault; calls per second
 *     $ npm run test:faults -- --runs 5 --write docs/reliability.md     five of each, with seeds one apart; writes their rows of the table
 *
 * A bad flag ends it with 2. The interface of a scenario is in scenario.ts, the invariants are in history.ts.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { RUNS_MIN, updateTable } from './lab-table.ts'
import type { LabOptions, Outcome, Scenario } from './scenario.ts'

const FOLDER = new URL('./scenarios/', import.meta.url)
const DECISIONS_COLUMNS = [
  'scenario',
  'rounds',
  'untimed', // rounds
  'calls',
  'decisions',
  'degraded',
  'failed',
  'late',
  'unanswered',
] as const
const OTHER_COLUMNS = [
  'compared',
  'slowest',
  'back',
  'RSS',
  'descriptors',
  'lag',
  'unknown hits',
  'broken',
] as const

/** Files of scenarios that come first: what most readers ask about. The others follow by name. */
const FIRST = ['redis.ts', 'redis-proxy.ts', 'sentinel.ts', 'cluster.ts', 'memcached.ts']

/** All scenarios. */
export async function loadScenarios(): Promise<readonly Scenario[]> {
  const files = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.ts') && !FIRST.includes(name))
    .sort()
  const modules = await Promise.all([...FIRST, ...files].map((name) => import(new URL(name, FOLDER).href)))
  const scenarios = modules.flatMap(({ scenarios: own }) => own as Scenario[])
  const names = scenarios.map(({ name }) => name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new Error(`two scenarios are called ${twice}`)
  return scenarios
}

function formatRow(name: string, { counts, rounds, violations, figures }: Outcome): string {
  const degraded = Object.values(counts.degraded).reduce((sum, each) => sum + each, 0)
  const broken = violations.map(({ invariant, count }) => `${invariant} ${count}`).join(', ')
  const cells = [
    ...[
      name,
      rounds,
      counts.untimedRounds,
      counts.calls,
      counts.decisions,
      degraded,
      counts.failed,
      counts.late,
      counts.unanswered,
    ],
    ...[counts.compared, `${Math.round(counts.slowestMs)} ms`, `${Math.round(counts.slowestBackMs)} ms`],
    ...[figures.rss, figures.descriptors, figures.lag, figures.unknown, broken === '' ? '-' : broken],
  ]
  return `| ${cells.map((cell) => cell ?? '').join(' | ')} |`
}

const indent = (text: string) => `    ${text}`

/** `found`: what was broken, in lines. */
async function runOnce(
  scenario: Scenario,
  options: LabOptions,
): Promise<{ outcome: Outcome | null; found: string[] }> {
  const { name } = scenario
  try {
    const outcome = await scenario.run(options)
    const found = outcome.violations.flatMap(({ invariant, count, examples }) => [
      `${name}: ${invariant} was broken ${count} times, for example:`,
      ...examples.map(indent),
    ])
    return { outcome, found }
  } catch (error) {
    const found = [`${name} could not be run:`, indent((error as Error).stack ?? String(error))]
    return { outcome: null, found }
  }
}

class FlagError extends Error {}

const FLAGS = {
  list: { type: 'boolean', default: false },
  only: { type: 'string' },
  seed: { type: 'string' },
  decisions: { type: 'string', default: '0' },
  seconds: { type: 'string', default: '1' },
  rate: { type: 'string', default: '2000' },
  runs: { type: 'string', default: '1' }, // of each scenario
  write: { type: 'string' }, // a document with the table of lab-table.ts
} as const

/** Throws FlagError, also for a flag that does not exist. */
function readFlags(args: string[]) {
  let flags: ReturnType<typeof parseArgs<{ args: string[]; options: typeof FLAGS }>>['values']
  try {
    flags = parseArgs({ args, options: FLAGS }).values
  } catch (error) {
    throw new FlagError((error as Error).message)
  }
  const { seed = String(Math.floor(Math.random() * 2 ** 31)), decisions, seconds, rate, runs } = flags
  return {
    ...flags,
    seed: readNumber('seed', seed, /^\d+$/),
    decisions: readNumber('decisions', decisions, /^\d+$/),
    seconds: readNumber('seconds', seconds, /^\d+(\.\d+)?$/),
    rate: readNumber('rate', rate, /^[1-9]\d*$/),
    runs: readNumber('runs', runs, /^[1-9]\d*$/),
  }
}

function readNumber(flag: string, text: string, form: RegExp): number {
  if (!form.test(text) || !Number.isSafeInteger(Math.ceil(Number(text))))
    throw new FlagError(`--${flag}: ${JSON.stringify(text)} is not a number that it can have`)
  return Number(text)
}

/** Returns the exit code. `args`: the flags, as above. */
export async function runLab(
  args: string[],
  all: readonly Scenario[],
  print: (text: string) => void,
): Promise<number> {
  let flags: ReturnType<typeof readFlags>
  try {
    flags = readFlags(args)
    if (flags.write !== undefined && flags.runs < RUNS_MIN)
      throw new FlagError(`--write: a row needs ${RUNS_MIN} runs or more; add --runs ${RUNS_MIN}`)
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    print(error.message)
    return 2
  }
  const { only } = flags
  const exact = all.filter(({ name }) => name === only)
  const chosen = exact.length > 0 ? exact : all.filter(({ name }) => name.startsWith(only ?? ''))
  if (flags.list || chosen.length === 0) {
    for (const { name, fault, promise } of all) print(`${name}\n    ${fault}\n    ${promise}`)
    return flags.list ? 0 : 1
  }
  const { seed, runs: runsCount } = flags
  const runnable = chosen.filter(({ skipReason }) => (skipReason?.() ?? null) === null)
  const decisionsEach = Math.ceil(flags.decisions / Math.max(runnable.length, 1) / runsCount)
  const rows: string[] = []
  const failures: string[] = []
  const measured = new Map<string, Outcome[]>()
  let decisions = 0
  let calls = 0
  const startMs = performance.now()
  for (const [i, scenario] of chosen.entries()) {
    const { name } = scenario
    print(`${name} (${i + 1} of ${chosen.length}), seed ${seed}: ${scenario.fault}`)
    const skipReason = scenario.skipReason?.() ?? null
    if (skipReason !== null) {
      print(`    skipped: ${skipReason}`)
      continue
    }
    const outcomes: Outcome[] = []
    for (let run = 0; run < runsCount; run++) {
      const options: LabOptions = {
        decisions: decisionsEach,
        seed: seed + run,
        faultMs: 1_000 * flags.seconds,
        ratePerSec: flags.rate,
        isTimed: true,
        log: (text) => print(`    ${text}`),
      }
      const { outcome, found } = await runOnce(scenario, options)
      if (outcome !== null) {
        calls += outcome.counts.calls
        decisions += outcome.counts.decisions
        outcomes.push(outcome)
        rows.push(formatRow(name, outcome))
      }
      if (found.length === 0) continue
      const same = `--only ${name} --seed ${options.seed} --decisions ${decisionsEach} --seconds ${flags.seconds} --rate ${flags.rate}`
      found.push(indent(`again: npm run test:faults -- ${same}`))
      for (const line of found) print(line)
      failures.push(...found)
    }
    if (outcomes.length < RUNS_MIN || flags.write === undefined) continue
    measured.set(name, outcomes) // written at once: a later scenario may be interrupted
    writeFileSync(flags.write, updateTable(readFileSync(flags.write, 'utf8'), all, measured))
  }
  const columns = [...DECISIONS_COLUMNS, ...OTHER_COLUMNS]
  print(`\n| ${columns.join(' | ')} |\n|${columns.map(() => '---').join('|')}|\n${rows.join('\n')}`)
  const minutes = ((performance.now() - startMs) / 60_000).toFixed(1)
  print(
    `\n${calls} calls, ${decisions} decisions in ${runnable.length} scenarios, seed ${seed}, ${minutes} min`,
  )
  for (const failure of failures) print(failure)
  return failures.length === 0 ? 0 : 1
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exitCode = await runLab(process.argv.slice(2), await loadScenarios(), console.log)
