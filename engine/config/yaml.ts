/**
 * One YAML file as a graph: parsed, with aliases resolved, and of bounded size and depth.
 *
 *     bytes ── UTF-8, no control characters ──► text ──┬── yaml-fast-path.ts, line by line ──────────────────┬──► nodes
 *                                                      └── or else the parser, first document only ──┘      │
 *          unknown anchor, anchor inside itself, list as a key, too many nodes ◄── survey, once, in order ──┘
 *
 * Scalars stay texts (the parser's failsafe schema): envoyproxy/ratelimit does not type them exactly as YAML 1.1 does, see
 * scalar.ts. After the survey no walk over the file can fail or exceed the bounds.
 * The parser takes 85 bytes of heap per byte of text and 0.5 s per MB, the fast path half the heap and 0.1 s, so both run in
 * a job only.
 */
import type { Alias, Document, Node, Pair, Scalar, YAMLMap } from 'yaml'
import { Composer, isAlias, isMap, isScalar, isSeq, LineCounter, Parser } from 'yaml'
import { EXPANDED_NODES_MAX, FILE_BYTES_MAX, NODE_DEPTH_MAX } from './bounds.ts'
import { ConfigError } from './error.ts'
import { scalarKind, scalarText, tagProblem } from './scalar.ts'
import { readYamlFast } from './yaml-fast-path.ts'

export type AnyNode = Node | null | undefined

/** Everything but tab, line ends, printable characters and what lies beyond ASCII's and Latin-1's control blocks. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]/

const SURROGATE = /[\ud800-\udfff]/
const ESCAPED_SURROGATE = /(?<!\\)(?:\\\\)*\\(?:u|U0000)[dD][89a-fA-F]/

const TOO_DEEP = `exceeded max depth of ${NODE_DEPTH_MAX}`

interface Anchor {
  node: Node
  isOpen: boolean // while its own content is surveyed
  nodesCount: number
  height: number
}

export class YamlFile {
  readonly name: string
  readonly root: AnyNode = null
  private readonly lines = new LineCounter()
  private readonly targets = new Map<Alias, Node>()
  private readonly anchors = new Map<string, Anchor>()
  private readonly text: string
  private nodesCount = 0 // surveyed so far, aliases expanded

  /** Throws a ConfigError `<name>: error loading config file: yaml: …`. */
  constructor(name: string, bytes: Uint8Array) {
    this.name = name
    this.text = this.decode(bytes)
    for (let at = 0; at > 0 || this.lines.lineStarts.length === 0; at = this.text.indexOf('\n', at) + 1) {
      this.lines.addNewLine(at)
    }
    this.root = readYamlFast(this.text) ?? this.compose(this.text)
    this.survey(this.root, 0)
  }

  /** The node that an alias refers to; any other node itself. */
  follow(node: AnyNode): AnyNode {
    return isAlias(node) ? this.targets.get(node) : node
  }

  /** The pairs of a map with merge keys (`<<`) expanded; later pairs take precedence. */
  pairs(map: YAMLMap): Pair<AnyNode, AnyNode>[] {
    const items = map.items as Pair<AnyNode, AnyNode>[]
    if (!items.some(isMerge)) return items
    return items.flatMap((pair) => {
      if (!isMerge(pair)) return [pair]
      return this.mergedMaps(pair.value).flatMap((merged) => this.pairs(merged))
    })
  }

  /** 1 for the first line; 0 if unknown. */
  getLine(node: AnyNode): number {
    const range = node?.range
    return range ? this.lines.linePos(range[0]).line : 0
  }

  /** A parse error (spec 1.2). */
  problem(text: string, node: AnyNode): ConfigError {
    const line = this.getLine(node)
    return new ConfigError(
      this.name,
      `error loading config file: yaml: ${line > 0 ? `line ${line}: ` : ''}${text}`,
    )
  }

  private decode(bytes: Uint8Array): string {
    if (bytes.length > FILE_BYTES_MAX) {
      throw this.problem(`file has ${bytes.length} bytes, at most ${FILE_BYTES_MAX} are read`, null)
    }
    const isLittle = bytes[0] === 0xff && bytes[1] === 0xfe
    const isBig = bytes[0] === 0xfe && bytes[1] === 0xff
    let text: string
    try {
      // The decoder drops a byte order mark at the start.
      text = new TextDecoder(isLittle ? 'utf-16le' : isBig ? 'utf-16be' : 'utf-8', { fatal: true }).decode(
        bytes,
      )
    } catch {
      throw this.problem('invalid leading UTF-8 octet', null)
    }
    if (CONTROL.test(text)) throw this.problem('control characters are not allowed', null)
    return text
  }

  private compose(text: string): AnyNode {
    const document = parse(text)
    const error = document?.errors[0]
    if (error) {
      const { line } = this.lines.linePos(error.pos[0])
      // The parser recurses, catches its own stack overflow and reports V8's message.
      const isTooDeep = error.message.includes('call stack')
      throw this.problem(isTooDeep ? TOO_DEEP : `line ${line}: ${error.message}`, null)
    }
    return document?.contents as AnyNode
  }

  /** Visits every node once, resolves aliases and adds up their expanded size. Returns the height. */
  private survey(node: AnyNode, depth: number): number {
    this.nodesCount++
    this.checkBounds(depth, node)
    if (isAlias(node)) return this.resolve(node, depth)
    if (!node) return 1
    const name = (node as { anchor?: string }).anchor
    const anchor = { node, isOpen: true, nodesCount: -this.nodesCount + 1, height: 0 }
    if (name) this.anchors.set(name, anchor)
    anchor.height = 1 + this.surveyInside(node, depth + 1)
    anchor.nodesCount += this.nodesCount
    anchor.isOpen = false
    return anchor.height
  }

  private surveyInside(node: Node, depth: number): number {
    let height = 0
    if (isSeq(node)) {
      for (const item of node.items) height = Math.max(height, this.survey(item as AnyNode, depth))
    } else if (isMap(node)) {
      for (const pair of node.items as Pair<AnyNode, AnyNode>[]) {
        height = Math.max(height, this.survey(pair.key, depth), this.survey(pair.value, depth))
        const key = this.follow(pair.key)
        if (isMap(key) || isSeq(key)) throw this.problem(`invalid map key: ${printed(this, key)}`, null)
        if (isMerge(pair)) this.mergedMaps(pair.value)
      }
    } else if (isScalar(node)) {
      const problem = (node.tag && tagProblem(node)) || escapeProblem(this.text, node)
      if (problem) throw this.problem(problem, null)
      if (node.range?.[1] === this.text.length && isOpenQuote(this.text, node)) {
        throw this.problem('found unexpected end of stream', node)
      }
    }
    return height
  }

  private resolve(alias: Alias, depth: number): number {
    const anchor = this.anchors.get(alias.source)
    if (!anchor) throw this.problem(`unknown anchor '${alias.source}' referenced`, null)
    if (anchor.isOpen) throw this.problem(`anchor '${alias.source}' value contains itself`, null)
    this.targets.set(alias, anchor.node)
    this.nodesCount += anchor.nodesCount
    this.checkBounds(depth + anchor.height, alias)
    return anchor.height
  }

  private checkBounds(depth: number, node: AnyNode): void {
    if (depth > NODE_DEPTH_MAX) throw this.problem(TOO_DEEP, node)
    if (this.nodesCount > EXPANDED_NODES_MAX) {
      throw this.problem(
        `document contains excessive aliasing: written out it has more than ${EXPANDED_NODES_MAX} nodes`,
        node,
      )
    }
  }

  /** The maps of a merge key; a list is reversed, because its first map takes precedence. */
  private mergedMaps(value: AnyNode): YAMLMap[] {
    const source = this.follow(value)
    const list = isSeq(source) ? source.items.map((item) => this.follow(item as AnyNode)).reverse() : [source]
    return list.map((map) => {
      if (!isMap(map)) throw this.problem('map merge requires map or sequence of maps as the value', value)
      return map
    })
  }
}

/** The first document; anything after it is not parsed. undefined: there is none. */
export function parse(text: string): Document.Parsed | undefined {
  const composer = new Composer({
    version: '1.1',
    schema: 'failsafe',
    merge: false,
    resolveKnownTags: false,
    uniqueKeys: false,
    prettyErrors: false,
  })
  return composer.compose(new Parser().parse(text), true, text.length).next().value ?? undefined
}

/** Whether the quote at the end of the file is escaped, so that the text never ends; the parser accepts that. */
function isOpenQuote(text: string, { type, range }: Scalar): boolean {
  const start = range![0] + 1
  if (type === 'QUOTE_SINGLE') return countBefore(text, text.length, start, "'") % 2 === 0 // two are one, escaped
  return type === 'QUOTE_DOUBLE' && countBefore(text, text.length - 1, start, '\\') % 2 === 1
}

/** Escapes of surrogates are refused, even in pairs, as in envoyproxy/ratelimit. */
function escapeProblem(text: string, { type, range, value }: Scalar): string {
  if (type !== 'QUOTE_DOUBLE' || typeof value !== 'string' || !SURROGATE.test(value)) return ''
  const isEscaped = ESCAPED_SURROGATE.test(text.slice(range![0], range![1]))
  return isEscaped ? 'found invalid Unicode character escape code' : ''
}

/** How often a character is repeated right before `end`. */
function countBefore(text: string, end: number, start: number, character: string): number {
  let at = end
  while (at > start && text[at - 1] === character) at--
  return end - at
}

function isMerge(pair: Pair<AnyNode, AnyNode>): boolean {
  const key = pair.key
  return isScalar(key) && key.type === 'PLAIN' && !key.tag && key.value === '<<'
}

const PRINTED_LENGTH_MAX = 80 // characters of a value inside an error text

/** A node for an error text, in Go's format (`map[k:v]`, `[a b]`, `<nil>`), truncated. */
export function printed(file: YamlFile, node: AnyNode): string {
  const text = printedWhole(file, node, PRINTED_LENGTH_MAX)
  return text.length > PRINTED_LENGTH_MAX ? `${text.slice(0, PRINTED_LENGTH_MAX)}…` : text
}

function printedWhole(file: YamlFile, node: AnyNode, lengthLeft: number): string {
  const found = file.follow(node)
  if (lengthLeft <= 0) return ''
  if (isScalar(found)) return scalarKind(found) === 'null' ? '<nil>' : scalarText(found)
  if (!isMap(found) && !isSeq(found)) return '<nil>'
  let text = ''
  for (const item of found.items as (Pair<AnyNode, AnyNode> | AnyNode)[]) {
    if (text.length > lengthLeft) break
    const left = lengthLeft - text.length
    const next =
      item && 'key' in item
        ? `${printedWhole(file, item.key as AnyNode, left)}:${printedWhole(file, item.value as AnyNode, left)}`
        : printedWhole(file, item as AnyNode, left)
    text += text ? ` ${next}` : next
  }
  return isMap(found) ? `map[${text}]` : `[${text}]`
}
