/**
 * Reads a YAML file of sites as RawSite, bounded (spec 8.1). JSON is YAML, so it is read here, too.
 *
 *     version: 1
 *     sites: [ {slug: …}, … ]        an import may also be the list alone
 *
 * YAML 1.2: `no` and `2026-03-01` are strings. Aliases may expand to 10,000 nodes in all; tags other than YAML's own are
 * refused.
 */
import {
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import type { Diagnostics, RawSite, RawValue } from './entry.ts'

export const FILE_BYTES_MAX = 4 * 1024 * 1024 // of all files together
export const EXPANDED_NODES_MAX = 10_000
const DEPTH_MAX = 50
const VERSION = 1

export interface YamlFile {
  name: string
  document: Document
  sites: RawSite[]
  nodes: YAMLMap[] // of the sites, in their order
}

/** Adds errors to `diagnostics` and returns what could be read. `mayBeList`: for an import. */
export function readYaml(name: string, text: string, diagnostics: Diagnostics, mayBeList = false): YamlFile {
  return new YamlReader(name, text, diagnostics).read(mayBeList)
}

class YamlReader {
  private readonly name: string
  private readonly diagnostics: Diagnostics
  private readonly lines = new LineCounter()
  private readonly document: Document
  private readonly targets = new Map<Node, Node>() // of aliases; the library's own lookup walks the whole file for each
  private expandedNodesCount = 0

  constructor(name: string, text: string, diagnostics: Diagnostics) {
    this.name = name
    this.diagnostics = diagnostics
    this.document = parse(text, this.lines)
    const anchors = new Map<string, Node>()
    visit(this.document, {
      Node: (_, node) => {
        if (isAlias(node)) {
          const target = anchors.get(node.source)
          if (target) this.targets.set(node, target)
        } else if ((node as { anchor?: string }).anchor) {
          anchors.set((node as { anchor: string }).anchor, node as Node)
        }
      },
    })
  }

  read(mayBeList: boolean): YamlFile {
    const { name, document } = this
    for (const { message, pos } of [...document.errors, ...document.warnings]) {
      const line = this.lines.linePos(pos[0]).line
      this.addDiagnostic(
        line,
        'YAML_INVALID',
        `the YAML is not valid: ${message}.`,
        'Correct it; a YAML validator shows where.',
      )
    }
    const list = document.errors.length > 0 ? null : this.readList(this.follow(document.contents), mayBeList)
    const nodes: YAMLMap[] = []
    for (const item of list?.items ?? []) {
      const node = this.follow(item as Node)
      if (isMap(node)) nodes.push(node)
      else
        this.addDiagnostic(
          this.getLine(item as Node),
          'SITE_INVALID',
          'is not a site.',
          'Write slug:, name: and url: for each.',
        )
    }
    return { name, document, nodes, sites: nodes.map((node) => this.readSite(node)) }
  }

  private readList(root: Node | null, mayBeList: boolean): YAMLSeq | null {
    if (mayBeList && isSeq(root)) return root
    if (!isMap(root)) {
      this.addDiagnostic(
        this.getLine(root) || 1,
        'SHAPE_INVALID',
        'is not a catalogue.',
        'Begin with `version: 1` and `sites:`.',
      )
      return null
    }
    let list: YAMLSeq | null = null
    let version: unknown
    for (const { key, value } of root.items as Pair<Node, Node | null>[]) {
      const name = isScalar(key) ? key.value : null
      const node = this.follow(value)
      if (name === 'version') version = isScalar(node) ? node.value : null
      else if (name === 'sites' && isSeq(node)) list = node
      else if (name === 'sites')
        this.addDiagnostic(
          this.getLine(key),
          'SHAPE_INVALID',
          'sites is not a list.',
          'Begin each site with `- slug:`; write [] for none.',
        )
      else
        this.addDiagnostic(
          this.getLine(key),
          'KEY_UNKNOWN',
          `there is no key ${JSON.stringify(name)} here.`,
          'Use version and sites.',
        )
    }
    if (version !== VERSION) {
      this.addDiagnostic(
        this.getLine(root),
        'VERSION_INVALID',
        `version is not ${VERSION}.`,
        `Write \`version: ${VERSION}\` at the top.`,
      )
    }
    if (!root.has('sites'))
      this.addDiagnostic(
        this.getLine(root),
        'KEY_MISSING',
        'sites is missing.',
        'Write `sites:` and the list.',
      )
    return list
  }

  private readSite(node: YAMLMap): RawSite {
    const fields: RawSite['fields'] = new Map()
    for (const { key, value } of node.items as Pair<Node, Node | null>[]) {
      const name = isScalar(key) ? String(key.value) : ''
      fields.set(name, { value: this.readValue(value), line: this.getLine(key) })
    }
    return { file: this.name, line: this.getLine(node), fields }
  }

  /** At most a list of scalars: no value of an entry is deeper. */
  private readValue(node: Node | null): RawValue {
    const target = this.follow(node)
    if (isSeq(target)) return target.items.map((item) => this.readScalar(this.follow(item as Node)))
    return this.readScalar(target)
  }

  private readScalar(node: Node | null): RawValue {
    if (!isScalar(node)) return node ? { nested: true } : null
    return node.value as RawValue
  }

  private follow(node: Node | null): Node | null {
    if (!isAlias(node)) return node
    const target = this.targets.get(node)
    if (!target) {
      const what = `there is no anchor &${node.source.slice(0, 64)} before this alias.`
      this.addDiagnostic(
        this.getLine(node),
        'ALIAS_UNKNOWN',
        what,
        'Write the value out, or put it in quotes.',
      )
    }
    this.expandedNodesCount += this.countNodes(target, 0, 0)
    if (this.expandedNodesCount <= EXPANDED_NODES_MAX) return target ?? null
    this.addDiagnostic(
      this.getLine(node),
      'ALIASES_TOO_MANY',
      `aliases stand for more than ${EXPANDED_NODES_MAX} nodes.`,
      'Write the values out instead of using & and *.',
    )
    return null
  }

  /** The nodes after expansion of aliases; above the bound the count is not exact. */
  private countNodes(node: Node | undefined, before: number, depth: number): number {
    if (depth > DEPTH_MAX) return EXPANDED_NODES_MAX + 1 // an anchor inside itself, or nesting beyond use
    if (!isSeq(node) && !isMap(node)) return 1
    let count = 1
    for (const item of node.items as (Node | Pair<Node, Node>)[]) {
      const inner = isPair(item) ? ((item.value ?? item.key) as Node) : item
      count += this.countNodes(isAlias(inner) ? this.targets.get(inner) : inner, before + count, depth + 1)
      if (before + count > EXPANDED_NODES_MAX) break
    }
    return count
  }

  private getLine(node: Node | null): number {
    return node?.range ? this.lines.linePos(node.range[0]).line : 0
  }

  private addDiagnostic(line: number, code: string, what: string, fix: string): void {
    this.diagnostics.add({ file: this.name, line, site: null, code, what, fix })
  }
}

/** A file nested thousands of levels deep overflows the parser's stack; it becomes a document with that error. */
function parse(text: string, lineCounter: LineCounter): Document {
  const options = { version: '1.2', schema: 'core', prettyErrors: false, uniqueKeys: true } as const
  try {
    return parseDocument(text, { ...options, lineCounter, logLevel: 'silent' })
  } catch (error) {
    return parseDocument(`"${(error as Error).message.replace(/\W/g, ' ')}": [`, { ...options, lineCounter })
  }
}
