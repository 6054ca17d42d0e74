/** What `npm run mutation` prints. */
import { confidenceInterval, killedShare, type Score, sumScores } from './score.ts'
import type { Entry, Judged } from './survivors.ts'

export interface FileResult {
  scope: string
  file: string
  score: Score
  unlisted: Judged[]
  stale: Entry[]
}

const HEADER = `${'file'.padEnd(46)} mutants     ran  killed timeout survived   score\n`

/** What one run of Stryker found: survivors and stale entries, then a row per file. */
export function formatRun(ofRun: readonly FileResult[], seconds: number): string {
  const survivors = ofRun.flatMap(({ file, unlisted, stale }) => [
    ...unlisted.map(
      ({ change: { lineNumber, line, mutant }, status }) =>
        `${file}:${lineNumber} ${status === 'NoCoverage' ? 'no test calls it' : 'survived'}\n  - ${line}\n  + ${mutant}\n`,
    ),
    ...stale.map(
      ({ line }) => `survivors.yaml, ${file}: no mutant survives in this line; remove it\n    ${line}\n`,
    ),
  ])
  const rows = ofRun.map(({ file, score }) => formatRow(file, score))
  return `${survivors.join('')}${HEADER}${rows.join('')}in ${seconds.toFixed(0)} s\n`
}

function formatRow(name: string, score: Score): string {
  const { mutants, ran, killed, timeouts, survived } = score
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`
  const [low, high] = confidenceInterval(score)
  const interval = ran < mutants ? `  (${percent(low)} to ${percent(high)})` : ''
  const counts = [mutants, ran, killed, timeouts].map((count) => String(count).padStart(7)).join(' ')
  return `${name.padEnd(46)} ${counts} ${String(survived).padStart(8)} ${percent(killedShare(score)).padStart(7)}${interval}\n`
}

/** A row per scope. */
export function formatScopes(all: readonly FileResult[]): string {
  const rows = [...byScope(all)].map(([scope, score]) => formatRow(scope, score))
  const unlisted = all.reduce((sum, result) => sum + result.unlisted.length, 0)
  const stale = all.reduce((sum, result) => sum + result.stale.length, 0)
  return `${HEADER}${rows.join('')}${unlisted} survivors are not in survivors.yaml, ${stale} of its entries are stale.\n`
}

export function byScope(all: readonly FileResult[]): Map<string, Score> {
  const scopes = Map.groupBy(all, ({ scope }) => scope)
  return new Map([...scopes].map(([scope, ofScope]) => [scope, sumScores(ofScope.map(({ score }) => score))]))
}
