/** The list of survivors that were read, with the reason why no test kills them (survivors.yaml). */
import { parse } from 'yaml'
import type { Change } from './mutant.ts'

/** `line` and `mutant` as `toChange` writes them. Without `mutant`: every mutant of the line. */
export interface Entry {
  line: string
  mutant?: string
  why: string
}

export interface Judged {
  change: Change
  status: string // of Stryker; a survivor is Survived or NoCoverage
}

export const SURVIVED = new Set(['Survived', 'NoCoverage'])
export const KILLED = new Set(['Killed', 'Timeout'])

/** By file. An entry without line or reason, or with another field, is an error. */
export function parseSurvivors(text: string): Map<string, Entry[]> {
  const files = Object.entries((parse(text) ?? {}) as Record<string, Entry[]>)
  for (const [file, entries] of files) {
    for (const { line, mutant, why, ...others } of entries) {
      const isValid = [line, mutant ?? '', why].every((value) => typeof value === 'string') && why !== ''
      if (isValid && Object.keys(others).length === 0) continue
      throw new Error(`survivors.yaml, ${file}: an entry needs line and why, and may have mutant, all texts.`)
    }
  }
  return new Map(files)
}

/** The survivors that no entry names, and the entries that name none: their line is gone, or tests kill it now. */
export function compareSurvivors(
  mutants: readonly Judged[],
  entries: readonly Entry[],
): { unlisted: Judged[]; stale: Entry[] } {
  const survivors = mutants.filter(({ status }) => SURVIVED.has(status))
  return {
    unlisted: survivors.filter(({ change }) => !entries.some((entry) => isNamed(entry, change))),
    stale: entries.filter((entry) => {
      const named = mutants.filter(({ change }) => isNamed(entry, change))
      return named.every(({ status }) => KILLED.has(status)) // one that did not run may still survive
    }),
  }
}

function isNamed(entry: Entry, change: Change): boolean {
  return entry.line === change.line && (entry.mutant === undefined || entry.mutant === change.mutant)
}
