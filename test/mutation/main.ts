/**
 * `npm run mutation`: changes the sources, one small mutation at a time, and reports those that no test notices.
 *
 *     npm run mutation                                       everything in scopes.ts: hours
 *     npm run mutation -- engine/match                       a folder
 *     npm run mutation -- engine/stores/batch.ts --sample 40 --seed 7
 *     npm run mutation -- engine/match/trie.ts:120-140       some lines, after a test for them was written
 *
 *     scopes.ts ──► per run: Stryker ─► sandbox ─► tests without mutants, for coverage ─► a test run per mutant ──► table
 *                                                                                            survivors.yaml ──► what is new
 *
 * Exit code 1: a scope is below 85 %, an entry of survivors.yaml is stale, or (without --sample) a survivor is not listed.
 */
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Mutant, toChange } from './mutant.ts'
import { byScope, type FileResult, formatRun, formatScopes } from './report.ts'
import { NOT_SAMPLED, SAMPLE_VARIABLE } from './sample.ts'
import { KILLED_SHARE_MIN, type Run, selectRuns } from './scopes.ts'
import { countScore, killedShare } from './score.ts'
import { compareSurvivors, parseSurvivors } from './survivors.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PACKAGES = `${ROOT}test/.tools/stryker/node_modules/@stryker-mutator`

const USAGE = `usage: npm run mutation -- [folder, file or file:first-last ...] [--sample N] [--seed S]

  --sample   at most so many mutants of each file, chosen at random; default: all
  --seed     of the choice, 0 to 2^31-1; default 1
`

/** Beyond 1.5 times what the tests took without a mutant. */
const MUTANT_MS_MORE = 12_000

const { paths, sample, seed } = parseOptions()
process.chdir(ROOT) // Stryker reads the project from here
process.env[SAMPLE_VARIABLE] = `${sample} ${seed}`
const listed = parseSurvivors(readFileSync(new URL('survivors.yaml', import.meta.url), 'utf8'))
const results: FileResult[] = []
for (const run of selectRuns(ROOT, paths)) {
  const startMs = performance.now()
  const ofRun = await mutate(run)
  const seconds = (performance.now() - startMs) / 1000
  process.stdout.write(`\n${formatRun(ofRun, seconds)}`)
  results.push(...ofRun)
}
process.stdout.write(`\n${formatScopes(results)}`)
process.exitCode = isGood(results) ? 0 : 1

function parseOptions(): { paths: string[]; sample: number; seed: number } {
  const options = {
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    help: { type: 'boolean', short: 'h' },
  } as const
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true })
    if (values.help) {
      process.stdout.write(USAGE)
      process.exit(0)
    }
    const sample = values.sample === undefined ? Number.POSITIVE_INFINITY : Number(values.sample)
    if (!(sample >= 1)) throw new Error(`--sample ${values.sample} is not a count. Use for example 50.`)
    if (!/^\d{1,9}$/.test(values.seed))
      throw new Error(`--seed ${values.seed} is not a number. Use for example 7.`)
    selectRuns(ROOT, positionals)
    return { paths: positionals, sample, seed: Number(values.seed) }
  } catch (error) {
    process.stderr.write(`mutation: ${(error as Error).message}\n\n${USAGE}`)
    process.exit(2)
  }
}

async function mutate({ scope, files, mutate: mutated, tests }: Run): Promise<FileResult[]> {
  process.env.SLUICE_MUTATION_TESTS = JSON.stringify(tests)
  const { Stryker } = await import(`${PACKAGES}/core/dist/src/index.js`)
  const mutants: Mutant[] = await new Stryker({
    testRunner: 'vitest',
    plugins: [`${PACKAGES}/vitest-runner/dist/src/index.js`, `${ROOT}test/mutation/sample.ts`],
    checkers: ['sample'],
    mutate: mutated,
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
    coverageAnalysis: 'perTest',
    concurrency: 1, // some tests use fixed shares of the machine
    timeoutMS: MUTANT_MS_MORE,
    disableTypeChecks: false, // types are stripped, not checked
    tsconfigFile: 'none', // Stryker would rewrite it with TypeScript's former API
    ignorePatterns: ['test/.tools', '.build.*', 'dist', 'data', 'bench/results'],
    tempDirName: `.build.${process.pid}`, // not below test/, whose tests Vitest collects; a stale one is removed by helpers/build.ts
    cleanTempDir: 'always',
    reporters: process.stdout.isTTY ? ['progress'] : ['progress-append-only'],
    logLevel: 'error',
    allowConsoleColors: false,
  }).runMutationTest()
  return files.map((file) => {
    const ofFile = mutants.filter(({ fileName }) => relative(ROOT, fileName) === file)
    const source = readFileSync(ROOT + file, 'utf8')
    const judged = ofFile
      .map((mutant) => ({ change: toChange(source, mutant), status: toStatus(mutant) }))
      .sort((a, b) => a.change.lineNumber - b.change.lineNumber)
    const { unlisted, stale } = compareSurvivors(judged, listed.get(file) ?? [])
    const score = countScore(judged.map(({ status }) => status))
    return { scope, file, score, unlisted, stale: mutated.includes(file) ? stale : [] }
  })
}

function toStatus({ status, statusReason }: Mutant): string {
  return statusReason === NOT_SAMPLED ? NOT_SAMPLED : status
}

function isGood(all: readonly FileResult[]): boolean {
  const isKilling = [...byScope(all).values()].every((score) => killedShare(score) >= KILLED_SHARE_MIN)
  const isListed = sample !== Number.POSITIVE_INFINITY || all.every(({ unlisted }) => unlisted.length === 0)
  return isKilling && isListed && all.every(({ stale }) => stale.length === 0)
}
