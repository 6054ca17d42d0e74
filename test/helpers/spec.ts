/** Rows of the specifications' tables, for tests that take their cases from there. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseNotBuilt, parseRows, SPECS } from '../../scripts/dev/spec-rows.ts'

const ROOT = join(import.meta.dirname, '../..')

export interface SpecRow {
  id: string
  cells: string[] // without backquotes
}

/** The rows of one section, such as `M1.2`, without those that are not built (docs/not-built.md). */
export function specRows(section: string): SpecRow[] {
  const spec = SPECS.find(({ prefix }) => (prefix === 'M') === section.startsWith('M'))!
  const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
  const skipped = new Set(parseNotBuilt(read('docs/not-built.md')).flatMap(({ ids }) => [...ids]))
  const rows = parseRows(read(spec.path), spec).filter(
    (row) => row.section === section && !skipped.has(row.id),
  )
  if (rows.length === 0) throw new Error(`${spec.path} has no rows in section ${section}`)
  return rows.map(({ id, text }) => ({ id, cells: parseCells(text) }))
}

/** `\|` is a bar within a cell. */
function parseCells(line: string): string[] {
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim().replaceAll('`', '').replaceAll('\\|', '|'))
}
