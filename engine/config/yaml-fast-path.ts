/**
 * Reads the plain style of YAML that most rule files use line by line, much faster than the parser.
 *
 * The whole load of 100,000 rules (9.6 MB, one process each, median of 3) takes 3.1 s and 448 MiB at its peak with this file, 9.4 s
 * and 860 MiB with the parser alone; processor time 2.8 and 9.3 s. Remove this file if the ratio falls below 1.5.
 *
 *     descriptors:               a key and a colon; its content follows, deeper (a list: or as deep)
 *       - key: user              every item of a list is a map
 *         value: 'u 1'  # one    a value on one line: quoted without escapes, or unquoted without indicators
 *
 * Returns the nodes that the parser would make (a test compares both), or null for any other file, valid or not, which the
 * parser then reads. One unusual line is enough for that. No errors are reported here.
 */
import { Pair, Scalar, YAMLMap, YAMLSeq } from 'yaml'
import { NODE_DEPTH_MAX } from './bounds.ts'

// Unquoted: no indicator in front, no `: ` and no ` #` inside.
const UNQUOTED = String.raw`[\w/.](?:[\w/.,*@=+-]| (?=[\w/])|:(?=[\w/]))*`
const VALUE = String.raw`"[^"\\\r\n]*"|'[^'\r\n]*'|${UNQUOTED}`
const LINE = String.raw`( *)(?:(- +)?([a-z_]{1,40}):(?:( +)(${VALUE}))?(?: +#.*)? *|#.*)?(?:\n|$)`
const HEAD = /(?: *(?:#.*)?\n)*---\n/y // allowed before the first line

type Text = Scalar<string>

/** A map or list that is still open. */
interface Level {
  column: number // of its keys or its dashes
  node: { items: unknown[] }
  isList: boolean
  open: Pair<Text, unknown> | null // of a map: a key without its value yet
}

/** The root of a file in plain style; null for any other file, and for one without a key. */
export function readYamlFast(text: string): YAMLMap | null {
  const line = new RegExp(LINE, 'y')
  HEAD.lastIndex = 0
  if (HEAD.test(text)) line.lastIndex = HEAD.lastIndex
  const reader = new PlainReader()
  while (line.lastIndex < text.length) {
    const start = line.lastIndex
    const found = line.exec(text)
    if (!found || (found[3] !== undefined && !reader.readLine(found, start))) return null
  }
  return reader.end()
}

class PlainReader {
  private readonly levels: Level[] = [] // from the outermost to that of the last line
  private root: YAMLMap | null = null

  /** False: not plain style after the lines before it. */
  readLine([, indent, dash, key, gap, value]: RegExpExecArray, start: number): boolean {
    const isItem = dash !== undefined
    const column = indent.length + (isItem ? dash.length : 0)
    const at = start + column
    if (!this.close(indent.length, isItem)) return false
    if (isItem && !this.beginItem(indent.length, start + indent.length)) return false
    const top = this.levels.at(-1)
    if (top?.isList && !isItem) return false // neither in the list nor after it
    const isNew = isItem || top?.column !== column
    if (isNew && !this.begin(new YAMLMap(), column, at)) return false
    const level = this.levels[this.levels.length - 1]
    if (level.open) return false // the key before it has no value, which is null
    const pair = new Pair<Text, unknown>(scalar(key, at, at + key.length))
    level.node.items.push(pair)
    if (value === undefined) {
      level.open = pair
    } else {
      const from = at + key.length + 1 + gap.length
      pair.value = scalar(value, from, from + value.length)
    }
    return true
  }

  end(): YAMLMap | null {
    return this.levels.some(({ open }) => open) ? null : this.root
  }

  /** Closes the levels that a line with this indent ends. */
  private close(indent: number, isItem: boolean): boolean {
    for (let top = this.levels.at(-1); top; top = this.levels.at(-1)) {
      if (top.column < indent || (top.column === indent && (isItem || !top.isList))) break
      if (top.open) return false
      this.levels.pop()
    }
    return true
  }

  /** Opens a list, unless this is another item of the current one. */
  private beginItem(indent: number, at: number): boolean {
    const top = this.levels.at(-1)
    if (top?.isList) return top.column === indent
    return this.begin(new YAMLSeq(), indent, at)
  }

  /** Opens a map or list as the root, an item of the list or the value of the last key; false elsewhere. */
  private begin(node: YAMLMap | YAMLSeq, column: number, at: number): boolean {
    const top = this.levels.at(-1)
    const isList = node instanceof YAMLSeq
    if (top?.isList) {
      top.node.items.push(node)
    } else if (top?.open) {
      top.open.value = node
      top.open = null
    } else if (!this.root && !isList) {
      this.root = node
    } else {
      return false
    }
    node.range = [at, at, at] // the end is not used
    return this.levels.push({ column, node, isList, open: null }) <= NODE_DEPTH_MAX
  }
}

function scalar(source: string, from: number, to: number): Text {
  const quote = source[0]
  const isQuoted = quote === '"' || quote === "'"
  const node: Text = new Scalar(isQuoted ? source.slice(1, -1) : source)
  node.type = isQuoted ? (quote === '"' ? 'QUOTE_DOUBLE' : 'QUOTE_SINGLE') : 'PLAIN'
  node.range = [from, to, to]
  return node
}
