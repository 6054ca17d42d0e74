/**
 * CSV as spreadsheets write it (RFC 4180): a line of keys, then a site per line; quotes around what has commas.
 *
 *     slug,name,url,models_claimed,hidden
 *     one,"Relay, One",https://one.example,gpt-5.4;claude-sonnet-4-6,false
 *
 * Lists are `a;b` (`\;` is a semicolon in an item, `\\` a backslash). An empty cell is an absent key.
 *
 * Text that a spreadsheet would run as a formula is written with a ' before it (`'=1+1`), which reading removes: names and
 * notes may come from third parties. Also after ; and line ends, since a spreadsheet that separates by ; may cut there,
 * and behind quotes and characters that readers remove.
 */
import type { CatalogueEntry, Diagnostics, RawSite, RawValue } from './entry.ts'
import { FIELDS, type FieldKind, toRaw } from './fields.ts'

const ROWS_MAX = 10_000
const CELL_CHARS_MAX = 1_048_576 // the longest text that the expressions below are tested with
// Starts of formulas, full width in Asian locales. Quotes, blanks, controls and invisible characters may come first: readers
// remove them. None of them is a separator, so both patterns are linear.
const LIVE = /(^|[;\t\r\n])((?:["'\p{Z}\p{Cf}\p{DI}]|[^\P{Cc}\t\r\n])*)(?=[=+\-@＝＋－＠])/gu
const QUIET = /(^|[;\t\r\n])((?:["'\p{Z}\p{Cf}\p{DI}]|[^\P{Cc}\t\r\n])*)'(?=[=+\-@＝＋－＠])/gu // the same with a ' more
const LINE_END = /\r?\n|$/y
const PLAIN_CELL_END = /[,\r\n]|$/g

interface CsvRow {
  line: number // where it begins, from 1
  cells: string[]
}

export function readCsv(name: string, text: string, diagnostics: Diagnostics): RawSite[] {
  const addDiagnostic = (line: number, what: string, fix: string) =>
    diagnostics.add({ file: name, line, site: null, code: 'CSV_INVALID', what, fix })
  const rows = parseRows(text.replace(/^\ufeff/, ''))
  if (!rows) {
    addDiagnostic(0, 'a quote is not closed.', 'Write "…" around the cell and "" for a quote inside.')
    return []
  }
  const [header, ...body] = rows
  if (!header)
    addDiagnostic(1, 'is empty.', `Begin with a line of keys: ${FIELDS.map(({ key }) => key).join(',')}.`)
  if (body.length > ROWS_MAX) addDiagnostic(ROWS_MAX, `has ${body.length} rows.`, `Keep at most ${ROWS_MAX}.`)
  const keys = header?.cells.map((cell) => cell.trim()) ?? []
  return body.slice(0, ROWS_MAX).flatMap(({ line, cells }) => {
    if (cells.length === 1 && cells[0] === '') return []
    if (cells.length !== keys.length) {
      addDiagnostic(
        line,
        `has ${cells.length} cells instead of ${keys.length}.`,
        'Put quotes around cells with commas.',
      )
    }
    const longest = Math.max(...cells.map((cell) => cell.length))
    if (longest > CELL_CHARS_MAX) {
      addDiagnostic(line, `has a cell of ${longest} characters.`, `Keep at most ${CELL_CHARS_MAX}.`)
      return []
    }
    const fields: RawSite['fields'] = new Map()
    keys.forEach((key, index) => {
      const cell = (cells[index] ?? '').replace(QUIET, '$1$2')
      if (cell !== '') fields.set(key, { value: parseCell(cell, getFieldKind(key)), line })
    })
    return [{ file: name, line, fields }]
  })
}

export function writeCsv(entries: readonly CatalogueEntry[]): string {
  const keys = FIELDS.map(({ key }) => key)
  const lines = entries.map((entry) => {
    const raw = toRaw(entry)
    return keys.map((key) => toCell(raw[key])).join(',')
  })
  return `${[keys.join(','), ...lines].join('\r\n')}\r\n`
}

function getFieldKind(key: string): FieldKind {
  return FIELDS.find((field) => field.key === key)?.kind ?? 'text'
}

/** A value that cannot be converted stays text; validation of its field reports the error. */
function parseCell(cell: string, kind: FieldKind): RawValue {
  if (kind === 'list') return splitItems(cell)
  if (kind === 'number' && /^\d{1,9}$/.test(cell)) return Number(cell)
  if (kind === 'flag' && /^(true|false)$/i.test(cell)) return cell.toLowerCase() === 'true'
  return cell
}

function splitItems(cell: string): string[] {
  const items = cell.match(/(?:\\.|[^;\\])+/gs) ?? [] // an empty item is none
  return items.map((item) => item.replace(/\\(.)/gs, '$1').trim())
}

function toCell(value: unknown): string {
  const text = Array.isArray(value)
    ? value.map((item) => String(item).replace(/[;\\]/g, '\\$&')).join(';')
    : String(value ?? '')
  const quiet = text.replace(LIVE, "$1$2'")
  return /[",\r\n]/.test(quiet) ? `"${quiet.replaceAll('"', '""')}"` : quiet
}

/** null: a quote is not closed. */
function parseRows(text: string): CsvRow[] | null {
  const rows: CsvRow[] = []
  let line = 1
  let row: CsvRow = { line, cells: [] }
  let index = 0
  while (index < text.length || row.cells.length > 0) {
    const isQuoted = text[index] === '"'
    const contentEnd = isQuoted ? findClosingQuote(text, index + 1) : findPlainEnd(text, index)
    if (contentEnd === -1) return null
    row.cells.push(
      isQuoted ? text.slice(index + 1, contentEnd).replaceAll('""', '"') : text.slice(index, contentEnd),
    )
    const cellEnd = isQuoted ? contentEnd + 1 : contentEnd
    line += countLineFeeds(text, index, cellEnd)
    index = cellEnd + 1
    if (text[cellEnd] === ',') continue
    LINE_END.lastIndex = cellEnd
    if (!LINE_END.test(text)) return null
    index = LINE_END.lastIndex
    if (index > cellEnd) line++
    rows.push(row)
    row = { line, cells: [] }
  }
  return rows
}

/** -1 if there is none. Two quotes stand for one. */
function findClosingQuote(text: string, from: number): number {
  let index = text.indexOf('"', from)
  while (index !== -1 && text[index + 1] === '"') index = text.indexOf('"', index + 2)
  return index
}

function findPlainEnd(text: string, from: number): number {
  PLAIN_CELL_END.lastIndex = from
  return PLAIN_CELL_END.exec(text)!.index
}

function countLineFeeds(text: string, from: number, to: number): number {
  let count = 0
  for (let i = text.indexOf('\n', from); i !== -1 && i < to; i = text.indexOf('\n', i + 1)) count++
  return count
}
