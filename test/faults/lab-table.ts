/**
 * The table of scenarios in docs/reliability.md: what is promised, what was measured, the command that shows it.
 *
 *     <!-- fault lab -->
 *     | fault | promise | degraded or failed | slowest | back | `npm run test:faults -- --only` |
 *     | Redis is killed and started again | … | 31 % (35 %) | 120 ms (204 ms) | 310 ms (502 ms) | `redis-killed` |
 *     <!-- /fault lab -->
 *
 * Rows of scenarios that were not run now are kept as they are, so the table may be measured in parts. A test holds its first two columns
 * and its last one against the scenarios.
 */
import type { Outcome, Scenario } from './scenario.ts'

export const RUNS_MIN = 5 // of a row

const BEGIN = '<!-- fault lab -->\n'
const END = '<!-- /fault lab -->'
const HEAD =
  '| fault | promise | degraded or failed | slowest | back | `npm run test:faults -- --only` |\n|---|---|---|---|---|---|'
const NOT_MEASURED = '| not measured | | '

/** The text of a document with the rows of `measured`. `all`: every scenario, in the order of the table. Throws if the markers are missing. */
export function updateTable(
  document: string,
  all: readonly Scenario[],
  measured: ReadonlyMap<string, readonly Outcome[]>,
): string {
  const begin = document.indexOf(BEGIN)
  const end = document.indexOf(END)
  if (begin < 0 || end < begin)
    throw new Error(`the document lacks the lines ${BEGIN.trim()} and ${END}, in this order`)
  const former = readRows(document.slice(begin + BEGIN.length, end))
  const rows = all.map((scenario) => {
    const outcomes = measured.get(scenario.name)
    const figures = outcomes ? formatFigures(outcomes) : former.get(scenario.name)
    return `| ${scenario.fault} | ${scenario.promise} ${figures ?? NOT_MEASURED}| \`${scenario.name}\` |`
  })
  return `${document.slice(0, begin)}${BEGIN}${HEAD}\n${rows.join('\n')}\n${document.slice(end)}`
}

/** Of each row of a table the cells with figures, by the name of the scenario. */
function readRows(table: string): Map<string, string> {
  const figures = new Map<string, string>()
  for (const line of table.split('\n')) {
    const cells = line.split(' | ')
    const name = /^`([\w-]+)` \|$/.exec(cells.at(-1)!)
    if (name !== null && cells.length === 6) figures.set(name[1], `| ${cells.slice(2, 5).join(' | ')} `)
  }
  return figures
}

function formatFigures(outcomes: readonly Outcome[]): string {
  const share = ({ counts: { calls, degraded, failed } }: Outcome) =>
    (100 * (Object.values(degraded).reduce((sum, each) => sum + each, 0) + failed)) / Math.max(calls, 1)
  const cells = [
    format(outcomes.map(share), '%'),
    format(
      outcomes.map(({ counts }) => counts.slowestMs),
      'ms',
    ),
    format(
      outcomes.map(({ counts }) => counts.slowestBackMs),
      'ms',
    ),
  ]
  return `| ${cells.join(' | ')} `
}

/** `median (worst)`. */
function format(values: readonly number[], unit: string): string {
  const sorted = values.toSorted((a, b) => a - b)
  return `${Math.round(sorted[Math.floor(sorted.length / 2)])} ${unit} (${Math.round(sorted.at(-1)!)} ${unit})`
}
