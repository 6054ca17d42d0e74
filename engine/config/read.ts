/**
 * Reads a checked file as a draft: each field gets its type, or an error says which value has the wrong one (spec 1.2,
 * second pass).
 *
 *     requests_per_unit: '5'   ──►  line 4: cannot unmarshal !!str `5` into uint32
 *     value: 0x1F              ──►  '0x1F', the source text
 *     rate_limit: ~            ──►  as if absent
 *
 * Known keys in the wrong place are skipped with a lint warning. Of a repeated key the last counts, except that maps are
 * merged: `rate_limit: {unit: day}` and then `rate_limit: {requests_per_unit: 5}` is 5 a day, also if a merge key brought
 * the first. All errors of a file are reported at once, with the type names of envoyproxy/ratelimit.
 */
import { isAlias, isMap, isScalar, isSeq } from 'yaml'
import { emptyNode, type LimitDraft, type NodeDraft, type RuleDraft } from './draft.ts'
import { checkKeys } from './keys.ts'
import type { LintWarnings } from './lint-warnings.ts'
import { binaryText, parseBoolean, parseFloatText, parseInteger, scalarKind, scalarText } from './scalar.ts'
import { invalidShare } from './validate.ts'
import type { AnyNode } from './yaml.ts'
import { YamlFile } from './yaml.ts'

const UINT32_MAX = 2n ** 32n - 1n
const ERRORS_MAX = 10 // reported per file; the rest is dropped
const SHOWN_LENGTH_MAX = 10 // characters of a value in an error text; a longer one is cut to 7 and `...`

/** Where a known word has an effect; for the warning about one elsewhere. */
const PLACES: Record<string, string> = {
  domain: 'the top of the file',
  descriptors: 'the top of the file or a descriptor',
  unit: 'rate_limit',
  requests_per_unit: 'rate_limit',
  unlimited: 'rate_limit',
  replaces: 'rate_limit',
  name: 'rate_limit, or an entry of its replaces',
}

/** Both passes over one file (spec 1.2). Throws a ConfigError. */
export function readDraft(name: string, bytes: Uint8Array, warnings: LintWarnings | null = null): RuleDraft {
  const file = new YamlFile(name, bytes)
  return new Reader(file, warnings).read()
}

class Reader {
  private readonly file: YamlFile
  private readonly warnings: LintWarnings | null
  private readonly errors: string[] = []
  private readonly withRequests = new Set<LimitDraft>() // limits with requests_per_unit

  constructor(file: YamlFile, warnings: LintWarnings | null) {
    this.file = file
    this.warnings = warnings
  }

  read(): RuleDraft {
    const { file } = this
    const draft: RuleDraft = { file: file.name, domain: '', nodes: [] }
    if (!this.isMapFor(file.root, 'map[interface {}]interface {}')) {
      this.throwErrors()
      return draft // an empty file; validate.ts reports the missing domain
    }
    checkKeys(file, file.root, (word, line) => this.warnings?.addOwnKey({ file: file.name, line }, word))
    this.eachPair(file.root, 'config.YamlRoot', (word, value, key) => {
      if (word === 'domain') draft.domain = this.text(value)
      else if (word === 'descriptors') draft.nodes = this.nodes(value)
      else this.misplaced(word, value, key)
    })
    this.throwErrors()
    return draft
  }

  private nodes(list: AnyNode): NodeDraft[] {
    return this.items(list, '[]config.YamlDescriptor').map((item) => this.node(item))
  }

  private node(item: AnyNode): NodeDraft {
    const draft = emptyNode(this.file.getLine(item))
    this.eachPair(item, 'config.YamlDescriptor', (word, value, key) => {
      this.nodeField(draft, word, value, key)
    })
    const { limit } = draft
    if (limit && !limit.isUnlimited && !this.withRequests.has(limit)) {
      this.warn(item, 'requests_per_unit is missing, which means 0: every request is over the limit')
    }
    return draft
  }

  private nodeField(draft: NodeDraft, word: string, value: AnyNode, key: AnyNode): void {
    // biome-ignore format: one line per field
    switch (word) {
      case 'key': draft.key = this.text(value); break
      case 'value': draft.value = this.text(value); break
      case 'rate_limit': draft.limit = this.limit(value, draft.limit); break
      case 'descriptors': draft.nodes = this.nodes(value); break
      case 'shadow_mode': draft.isShadow = this.flag(value); break
      case 'quota_mode': draft.isQuota = this.flag(value); break
      case 'on_store_error': draft.onStoreError = this.policy(value, key); break
      case 'local_share': draft.localShare = this.share(value); break
      case 'detailed_metric': draft.hasDetailedMetric = this.flag(value); break
      case 'value_to_metric': draft.hasValueToMetric = this.flag(value); break
      case 'share_threshold': draft.hasShareThreshold = this.flag(value); break
      case 'metadata': draft.metadata = this.metadata(value, draft.metadata); break
      default: this.misplaced(word, value, key)
    }
  }

  private limit(node: AnyNode, before: LimitDraft | null): LimitDraft | null {
    if (!this.isMapFor(node, 'config.YamlRateLimit')) return null
    const none: LimitDraft = { unit: '', requestsPerUnit: 0, isUnlimited: false, name: '', replaces: [] }
    const draft = before ?? none
    this.eachPair(node, 'config.YamlRateLimit', (word, value, key) => {
      // biome-ignore format: one line per field
      switch (word) {
        case 'unit': draft.unit = this.text(value); break
        case 'requests_per_unit': this.requests(draft, value); break
        case 'unlimited': draft.isUnlimited = this.flag(value); break
        case 'name': draft.name = this.text(value); break
        case 'replaces': draft.replaces = this.replaces(value); break
        default: this.misplaced(word, value, key)
      }
    })
    return draft
  }

  private requests(draft: LimitDraft, value: AnyNode): void {
    const scalar = this.file.follow(value)
    draft.requestsPerUnit = this.uint32(value)
    if (isScalar(scalar) && scalarKind(scalar) !== 'null') this.withRequests.add(draft)
    else this.withRequests.delete(draft)
  }

  private replaces(list: AnyNode): string[] {
    return this.items(list, '[]config.yamlReplaces').map((item) => {
      let name = ''
      this.eachPair(item, 'config.yamlReplaces', (word, value, key) => {
        if (word === 'name') name = this.text(value)
        else this.misplaced(word, value, key)
      })
      return name
    })
  }

  private text(node: AnyNode): string {
    const scalar = this.file.follow(node)
    if (!isScalar(scalar)) {
      if (scalar) this.refuse(scalar, 'string')
      return ''
    }
    const kind = scalarKind(scalar)
    if (kind === 'binary') return binaryText(scalar)
    return kind === 'null' ? '' : scalarText(scalar)
  }

  private flag(node: AnyNode): boolean {
    const scalar = this.file.follow(node)
    const kind = isScalar(scalar) ? scalarKind(scalar) : null
    if (kind === 'bool') return parseBoolean(scalarText(scalar as never))
    if (scalar && kind !== 'null') this.refuse(scalar, 'bool')
    return false
  }

  private uint32(node: AnyNode): number {
    const scalar = this.file.follow(node)
    const kind = isScalar(scalar) ? scalarKind(scalar) : null
    if (kind === 'int') {
      const int = parseInteger(scalarText(scalar as never)) ?? -1n
      if (int >= 0n && int <= UINT32_MAX) return Number(int)
    }
    if (scalar && kind !== 'null') this.refuse(scalar, 'uint32')
    return 0
  }

  private policy(node: AnyNode, key: AnyNode): string {
    const text = this.text(node)
    if (text === '') this.warn(key, 'on_store_error is empty: STORE_ERROR_POLICY decides')
    return text
  }

  /** Null stands for an absent value. validate.ts checks the range. */
  private share(node: AnyNode): number | null {
    const scalar = this.file.follow(node)
    const kind = isScalar(scalar) ? scalarKind(scalar) : null
    if (scalar === null || kind === 'null') return null
    const share = kind === 'int' ? Number(parseInteger(scalarText(scalar as never))) : -1
    if (share >= 0) return share
    const text = isScalar(scalar) ? cut(scalarText(scalar)) : tagAndText(scalar)
    const shown = kind === 'str' ? `'${text}'` : text
    this.addError(node, invalidShare(shown))
    return null
  }

  /** Any JSON value; null when absent or empty (spec 1.4). */
  private metadata(node: AnyNode, before: Record<string, unknown> | null): Record<string, unknown> | null {
    const map = this.file.follow(node)
    if (!this.isMapFor(node, 'map[string]interface {}') || !isMap(map)) return null
    const fields = this.file
      .pairs(map)
      .map((pair) => [this.text(pair.key), this.anything(pair.value)] as const)
    // fromEntries creates own properties, also for `__proto__`.
    const all = [...Object.entries(before ?? {}), ...fields]
    return all.length > 0 ? Object.fromEntries(all) : null
  }

  private anything(node: AnyNode): unknown {
    const found = this.file.follow(node)
    if (isSeq(found)) return found.items.map((item) => this.anything(item as AnyNode))
    if (isMap(found)) {
      const pairs = this.file.pairs(found)
      return Object.fromEntries(pairs.map((pair) => [this.keyText(pair.key), this.anything(pair.value)]))
    }
    if (!isScalar(found)) return null
    const text = scalarText(found)
    // biome-ignore format: one line is the table
    switch (scalarKind(found)) {
      case 'null': return null
      case 'bool': return parseBoolean(text)
      case 'int': case 'uint': return Number(parseInteger(text))
      case 'float': return parseFloatText(text)
      case 'binary': return binaryText(found)
      case 'str': return text
    }
  }

  /** A key inside metadata: its value printed, so `0x1F` is `31` and `yes` is `true` (spec 1.4). */
  private keyText(node: AnyNode): string {
    const value = this.anything(node)
    return value === null ? '<nil>' : String(value)
  }

  /** True for a map. Null is not a map and not an error; anything else is an error. */
  private isMapFor(node: AnyNode, type: string): boolean {
    const found = this.file.follow(node)
    if (isMap(found)) return true
    if (found && !(isScalar(found) && scalarKind(found) === 'null')) this.refuse(found, type)
    return false
  }

  private items(node: AnyNode, type: string): AnyNode[] {
    const found = this.file.follow(node)
    if (isSeq(found)) return found.items as AnyNode[]
    if (found && !(isScalar(found) && scalarKind(found) === 'null')) this.refuse(found, type)
    return []
  }

  private eachPair(
    node: AnyNode,
    type: string,
    visit: (word: string, value: AnyNode, key: AnyNode) => void,
  ): void {
    const map = this.file.follow(node)
    if (!this.isMapFor(node, type) || !isMap(map)) return
    for (const pair of this.file.pairs(map)) {
      visit(scalarText(this.file.follow(pair.key) as never), pair.value, pair.key)
    }
  }

  /** A known word in a place where it has no effect (spec 1.3). A value with an anchor may be there for its aliases. */
  private misplaced(word: string, value: AnyNode, key: AnyNode): void {
    if (this.warnings === null || hasAnchor(value)) return
    this.warn(key, `${word} has no effect here; it belongs in ${PLACES[word] ?? 'a descriptor'}`)
  }

  private warn(node: AnyNode, text: string): void {
    this.warnings?.add({ file: this.file.name, line: this.file.getLine(node) }, text)
  }

  private refuse(node: AnyNode, type: string): void {
    this.addError(node, `cannot unmarshal ${tagAndText(node)} into ${type}`)
  }

  private addError(node: AnyNode, text: string): void {
    if (this.errors.length < ERRORS_MAX) this.errors.push(`line ${this.file.getLine(node)}: ${text}`)
  }

  private throwErrors(): void {
    if (this.errors.length === 0) return
    throw this.file.problem(`unmarshal errors:\n  ${this.errors.join('\n  ')}`, null)
  }
}

/** Whether the node holds an anchor; aliases are not followed. */
function hasAnchor(node: AnyNode): boolean {
  if (!node || isAlias(node)) return false
  if ('anchor' in node && node.anchor) return true
  if (isSeq(node)) return node.items.some((item) => hasAnchor(item as AnyNode))
  if (!isMap(node)) return false
  return node.items.some((pair) => hasAnchor(pair.key as AnyNode) || hasAnchor(pair.value as AnyNode))
}

function tagAndText(node: AnyNode): string {
  if (isMap(node)) return '!!map'
  if (!isScalar(node)) return '!!seq'
  const kind = scalarKind(node)
  const text = scalarText(node)
  return `!!${kind === 'uint' ? 'int' : kind} \`${cut(text)}\``
}

function cut(text: string): string {
  return text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX - 3)}...` : text
}
