/**
 * A plug-in of Stryker that runs a random sample of each file's mutants: it calls itself a checker, which may refuse mutants before
 * any test runs. Stryker loads it in a process of its own, so its options come by the environment.
 */
import { createHash } from 'node:crypto'
import type { Mutant } from './mutant.ts'
import { mutantKey } from './mutant.ts'

/** The reason of a mutant that was left out; Stryker's status for it is CompileError. */
export const NOT_SAMPLED = 'not in the sample'

/** `<mutants per file> <seed>`; unset: all. */
export const SAMPLE_VARIABLE = 'SLUICE_MUTATION_SAMPLE'

type Identified = Mutant & { id: string }

class SampleChecker {
  async init(): Promise<void> {}

  /** All in one group, so that `check` sees every mutant of a file. */
  async group(mutants: Identified[]): Promise<string[][]> {
    return [mutants.map(({ id }) => id)]
  }

  async check(mutants: Identified[]): Promise<Record<string, { status: string; reason?: string }>> {
    const [perFile, seed] = (process.env[SAMPLE_VARIABLE] ?? 'Infinity 0').split(' ').map(Number)
    const chosen = chooseSample(mutants, perFile, seed)
    return Object.fromEntries(
      mutants.map((mutant) => [
        mutant.id,
        chosen.has(mutant) ? { status: 'passed' } : { status: 'compileError', reason: NOT_SAMPLED },
      ]),
    )
  }
}

/** At most `perFile` mutants of each file, the same for the same seed and sources. */
export function chooseSample<T extends Mutant>(mutants: readonly T[], perFile: number, seed: number): Set<T> {
  const files = Map.groupBy(mutants, ({ fileName }) => fileName)
  return new Set(
    [...files.values()].flatMap((all) => {
      const ranked = all.map((mutant) => ({ mutant, rank: hash(`${seed} ${mutantKey(mutant)}`) }))
      ranked.sort((a, b) => (a.rank < b.rank ? -1 : 1))
      return ranked.slice(0, perFile).map(({ mutant }) => mutant)
    }),
  )
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

export const strykerPlugins = [{ kind: 'Checker', name: 'sample', injectableClass: SampleChecker }]
