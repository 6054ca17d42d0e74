/**
 * What runs of the fault lab found, as a file: so that a run may be made in parts, or a part of it repeated, and joined into one table.
 *
 *     {"format":1,"seconds":1,"ratePerSec":3000,"runs":[{"scenario":"redis-killed","seed":7,"outcome":{…},"error":null}]}
 *
 * A run is known by its scenario and its seed. Runs in one file had faults of the same length and the same rate of calls.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { Outcome } from './scenario.ts'

export interface Run {
  scenario: string // its name
  seed: number
  outcome: Outcome | null // null = it could not be made, because of `error`
  error: string | null
}

export interface Results {
  format: 1
  seconds: number // length of each fault
  ratePerSec: number // of calls
  runs: Run[]
}

/** A file that has no results, or results that do not fit. */
export class ResultsError extends Error {}

/** Throws ResultsError. */
export function readResults(path: string): Results {
  let results: Partial<Results>
  try {
    results = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new ResultsError(`${path}: ${(error as Error).message}`)
  }
  if (results?.format !== 1 || !Array.isArray(results.runs))
    throw new ResultsError(`${path} has no results of the fault lab; --json writes such a file`)
  return results as Results
}

/** Replaces the file at once: a run that is interrupted leaves the results before. */
export function writeResults(path: string, results: Results): void {
  writeFileSync(`${path}.part`, `${JSON.stringify(results)}\n`)
  renameSync(`${path}.part`, path)
}

/**
 * All runs of the files; of two with the same scenario and seed the one of the later file. `onReplaced` gets the other one. Throws
 * ResultsError if they were not measured alike.
 */
export function joinResults(parts: readonly Results[], onReplaced: (run: Run) => void): Results {
  const [{ seconds, ratePerSec }] = parts
  const runs = new Map<string, Run>()
  for (const part of parts) {
    if (part.seconds !== seconds || part.ratePerSec !== ratePerSec)
      throw new ResultsError(
        `results of faults of ${seconds} s at ${ratePerSec} calls/s and of ${part.seconds} s at ${part.ratePerSec} calls/s do not join; repeat one with the --seconds and --rate of the other`,
      )
    for (const run of part.runs) {
      const key = `${run.scenario} ${run.seed}`
      const former = runs.get(key)
      if (former !== undefined) onReplaced(former)
      runs.set(key, run)
    }
  }
  return { format: 1, seconds, ratePerSec, runs: [...runs.values()] }
}

/** Whether every invariant held. */
export function isSound({ outcome }: Run): boolean {
  return outcome !== null && outcome.violations.length === 0
}

/** By scenario, the outcomes of those of which every run was sound. */
export function getSoundOutcomes(runs: readonly Run[]): Map<string, Outcome[]> {
  const outcomes = new Map<string, Outcome[]>()
  for (const [scenario, own] of Map.groupBy(runs, (run) => run.scenario))
    if (own.every(isSound))
      outcomes.set(
        scenario,
        own.map(({ outcome }) => outcome!),
      )
  return outcomes
}

/** Lines that name what was broken, with examples; none if the run was sound. */
export function describeFailure({ scenario, outcome, error }: Run): string[] {
  if (outcome === null) return [`${scenario} could not be run:`, `    ${error}`]
  return outcome.violations.flatMap(({ invariant, count, examples }) => [
    `${scenario}: ${invariant} was broken ${count} times, for example:`,
    ...examples.map((example) => `    ${example}`),
  ])
}

/** Two lines: what was done, and what was broken. */
export function describeTotals(runs: readonly Run[]): string {
  const total = (get: (outcome: Outcome) => number) =>
    runs.reduce((sum, { outcome }) => sum + (outcome === null ? 0 : get(outcome)), 0)
  const scenarios = new Set(runs.map(({ scenario }) => scenario)).size
  const calls = total(({ counts }) => counts.calls)
  const decisions = total(({ counts }) => counts.decisions)
  const broken = total(({ violations }) => violations.reduce((sum, { count }) => sum + count, 0))
  const unsound = runs.filter((run) => run.outcome !== null && !isSound(run)).length
  const failed = runs.filter(({ outcome }) => outcome === null).length
  return (
    `${calls} calls, ${decisions} decisions in ${scenarios} scenarios\n` +
    `${runs.length} runs, ${total(({ faults }) => faults)} faults; ${broken} violations in ${unsound} runs; ` +
    `${failed} runs could not be made; ${total(({ counts }) => counts.untimedRounds)} rounds say nothing about the time`
  )
}
