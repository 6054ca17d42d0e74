/** A mutant as Stryker reports it, and as people read it: the line before and after. */

/** What of Stryker's MutantResult is used. Lines and columns start at 1. */
export interface Mutant {
  fileName: string // absolute
  mutatorName: string
  replacement?: string
  location: { start: Position; end: Position }
  status: string
  statusReason?: string
}

interface Position {
  line: number
  column: number
}

/** One line each, without indentation and trailing comment; what a replacement has beyond one line is cut. */
export interface Change {
  lineNumber: number // from 1
  line: string
  mutant: string
}

const CHANGE_LENGTH_MAX = 160

/** Spaces in a line of source are kept single, so that an entry survives a change of indentation. */
export function toChange(source: string, { location: { start, end }, replacement = '' }: Mutant): Change {
  const lines = source.split('\n')
  const line = lines[start.line - 1]
  const before = line.slice(0, start.column - 1)
  const rest = lines[end.line - 1].slice(end.column - 1)
  return {
    lineNumber: start.line,
    line: shorten(line),
    mutant: shorten(before + replacement + rest),
  }
}

/** As in survivors.yaml. */
export function shorten(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  const comment = line.indexOf(' // ')
  return (comment < 0 ? line : line.slice(0, comment)).slice(0, CHANGE_LENGTH_MAX)
}

/** Identifies a mutant within its file; the same in every clone. */
export function mutantKey({ mutatorName, replacement, location: { start, end } }: Mutant): string {
  return [start.line, start.column, end.line, end.column, mutatorName, replacement].join(' ')
}
