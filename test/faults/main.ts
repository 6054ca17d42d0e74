/**
 * The fault lab: runs scenarios of `scenarios/`, prints a line per round and a table, and exits with 1 if an invariant was broken.
 *
 *     $ npm run test:faults                                      one round of each: some minutes
 *     $ npm run test:faults -- --list
 *     $ npm run test:faults -- --only redis-killed --seed 7      one scenario, or each whose name begins so
 *     $ npm run test:faults -- --decisions 10000000              so many over all scenarios, in equal parts
 *     $ npm run test:faults -- --seconds 5 --rate 500            length of each fault; calls per second
 *     $ npm run test:faults -- --runs 5 --write docs/reliability.md     five of each, with seeds one apart; writes their rows of the table
 *     $ npm run test:faults -- --runs 5 --json all.json          writes all that was found after each run, too
 *     $ npm run test:faults -- --join all.json part.json --write docs/reliability.md    runs nothing: joins results, later files win
 *
 * All flags but --list and --join may be combined. A row of the table is written if all runs of its scenario were sound.
 * A bad flag ends it with 2. The interface of a scenario is in scenario.ts, the invariants are in history.ts.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { RUNS_MIN, updateTable } from './lab-table.ts'
import {
  describeFailure,
  describeTotals,
  getSoundOutcomes,
  isSound,
  joinResults,
  type Results,
  ResultsError,
  type Run,
  readResults,
  writeResults,
} from './results.ts'
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
  'waited', // share of the time in which a thread of the service had no core
  'late by', // beyond the deadline and what the machine's delays explain
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
    ...[
      figures.rss,
      figures.descriptors,
      figures.lag,
      figures.waited,
      `${Math.round(counts.latestMs)} ms`,
      figures.unknown,
      broken === '' ? '-' : broken,
    ],
  ]
  return `| ${cells.map((cell) => cell ?? '').join(' | ')} |`
}

async function runOnce(scenario: Scenario, options: LabOptions): Promise<Run> {
  const run = { scenario: scenario.name, seed: options.seed }
  try {
    return { ...run, outcome: await scenario.run(options), error: null }
  } catch (error) {
    return { ...run, outcome: null, error: (error as Error).stack ?? String(error) }
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
  json: { type: 'string' }, // a file for the results
  join: { type: 'string', multiple: true }, // files of --json
} as const

/** Throws FlagError, also for a flag that does not exist. */
function readFlags(args: string[]) {
  let flags: ReturnType<typeof parseArgs<{ args: string[]; options: typeof FLAGS }>>['values']
  let files: string[]
  try {
    const parsed = parseArgs({ args, options: FLAGS, allowPositionals: true })
    flags = parsed.values
    files = parsed.positionals
  } catch (error) {
    throw new FlagError((error as Error).message)
  }
  if (files.length > 0 && flags.join === undefined)
    throw new FlagError(`${JSON.stringify(files[0])} is not a flag; use --join to combine result files`)
  const { seed = String(Math.floor(Math.random() * 2 ** 31)), decisions, seconds, rate, runs } = flags
  return {
    ...flags,
    files, // further ones to be joined
    seed: readNumber('seed', seed, /^\d+$/),
    decisions: readNumber('decisions', decisions, /^\d+$/),
    seconds: readNumber('seconds', seconds, /^\d+(\.\d+)?$/),
    rate: readNumber('rate', rate, /^[1-9]\d*$/),
    runs: readNumber('runs', runs, /^[1-9]\d*$/),
  }
}

type Flags = ReturnType<typeof readFlags>

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
  try {
    const flags = readFlags(args)
    if (flags.write !== undefined && flags.runs < RUNS_MIN && flags.join === undefined)
      throw new FlagError(`--write: a row needs ${RUNS_MIN} runs or more; add --runs ${RUNS_MIN}`)
    if (flags.join !== undefined) return joinFiles(flags, all, print)
    const { only } = flags
    const exact = all.filter(({ name }) => name === only)
    const chosen = exact.length > 0 ? exact : all.filter(({ name }) => name.startsWith(only ?? ''))
    if (flags.list || chosen.length === 0) {
      for (const { name, fault, promise } of all) print(`${name}\n    ${fault}\n    ${promise}`)
      return flags.list ? 0 : 1
    }
    const startMs = performance.now()
    const results = await runAll(chosen, flags, all, print)
    const minutes = ((performance.now() - startMs) / 60_000).toFixed(1)
    return finish(results, `, seed ${flags.seed}, ${minutes} min`, print)
  } catch (error) {
    if (!(error instanceof FlagError || error instanceof ResultsError)) throw error
    print(error.message)
    return 2
  }
}

/** Runs each of the scenarios, whatever is broken. What is to be written is written after each run, as a later one may be interrupted. */
async function runAll(
  chosen: readonly Scenario[],
  flags: Flags,
  all: readonly Scenario[],
  print: (text: string) => void,
): Promise<Results> {
  const { seed, runs: runsCount, rate, seconds } = flags
  const results: Results = { format: 1, seconds, ratePerSec: rate, runs: [] }
  const runnable = chosen.filter(({ skipReason }) => (skipReason?.() ?? null) === null)
  const decisionsEach = Math.ceil(flags.decisions / Math.max(runnable.length, 1) / runsCount)
  for (const [i, scenario] of chosen.entries()) {
    const { name } = scenario
    print(`${name} (${i + 1} of ${chosen.length}), seed ${seed}: ${scenario.fault}`)
    const skipReason = scenario.skipReason?.() ?? null
    if (skipReason !== null) {
      print(`    skipped: ${skipReason}`)
      continue
    }
    for (let k = 0; k < runsCount; k++) {
      const options: LabOptions = {
        decisions: decisionsEach,
        seed: seed + k,
        faultMs: 1_000 * seconds,
        ratePerSec: rate,
        isTimed: true,
        log: (text) => print(`    ${text}`),
      }
      const run = await runOnce(scenario, options)
      results.runs.push(run)
      if (flags.json !== undefined) writeResults(flags.json, results)
      if (isSound(run)) continue
      for (const line of describeFailure(run)) print(line)
      print(formatAgain(run, results, decisionsEach))
    }
    if (flags.write !== undefined) writeRows(flags.write, results, all)
  }
  return results
}

function formatAgain({ scenario, seed }: Run, { seconds, ratePerSec }: Results, decisions: number): string {
  const flags = `--only ${scenario} --seed ${seed} --decisions ${decisions} --seconds ${seconds} --rate ${ratePerSec}`
  return `    again: npm run test:faults -- ${flags}`
}

function writeRows(path: string, { runs }: Results, all: readonly Scenario[]): void {
  const measured = [...getSoundOutcomes(runs)].filter(([, outcomes]) => outcomes.length >= RUNS_MIN)
  if (measured.length > 0)
    writeFileSync(path, updateTable(readFileSync(path, 'utf8'), all, new Map(measured)))
}

/** Prints and writes what the files have together. Throws ResultsError. */
function joinFiles(flags: Flags, all: readonly Scenario[], print: (text: string) => void): number {
  const paths = [...flags.join!, ...flags.files]
  const results = joinResults(paths.map(readResults), (former) => {
    print(`${former.scenario}, seed ${former.seed}: a later file has it, too, and replaces it`)
    for (const line of describeFailure(former)) print(`    it said: ${line}`)
  })
  if (flags.json !== undefined) writeResults(flags.json, results)
  if (flags.write !== undefined) writeRows(flags.write, results, all)
  return finish(results, '', print)
}

/** Prints the table, the totals and what was broken. Returns the exit code. */
function finish(results: Results, ending: string, print: (text: string) => void): number {
  const { runs } = results
  const columns = [...DECISIONS_COLUMNS, ...OTHER_COLUMNS]
  const rows = runs.flatMap(({ scenario, outcome }) => (outcome === null ? [] : formatRow(scenario, outcome)))
  print(`\n| ${columns.join(' | ')} |\n|${columns.map(() => '---').join('|')}|\n${rows.join('\n')}`)
  const [done, broken] = describeTotals(runs).split('\n')
  print(`\n${done}${ending}\n${broken}`)
  const unsound = runs.filter((run) => !isSound(run))
  for (const run of unsound) for (const line of describeFailure(run)) print(line)
  return unsound.length === 0 ? 0 : 1
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exitCode = await runLab(process.argv.slice(2), await loadScenarios(), console.log)
