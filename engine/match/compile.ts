/**
 * Compiles rules into an image (layout: image.ts), in two steps, because shared memory cannot grow:
 *
 *     domains ── lay out, depth first ──► rows, texts, sizes known ── write ──► one SharedArrayBuffer
 *
 * Depth first, so parents come before their children and siblings stay in load order. About 1 µs per rule, in a job.
 */
import { type RuleDomain, type RuleNode, type RulesImage, STORE_ERROR_POLICIES } from '../config/rules.ts'
import * as I from './image.ts'
import { bytesOfText, sizeOfText } from './utf8.ts'

interface Row {
  parent: number
  depth: number
  text: string // composite, or the name of a domain
  node: RuleNode | null // null for a domain and the root
  hasChildren: boolean
}

/** Compiles validated domains: their names are unique, and so are composites among siblings. */
export function compile(domains: readonly RuleDomain[]): RulesImage {
  const rows: Row[] = [{ parent: 0, depth: -1, text: '', node: null, hasChildren: domains.length > 0 }]
  for (const domain of domains) {
    const hasChildren = domain.nodes.length > 0
    const id = rows.push({ parent: 0, depth: 0, text: domain.name, node: null, hasChildren }) - 1
    for (const node of domain.nodes) layOut(rows, node, id, 1)
  }
  const wilds = wildcardsByParent(rows)
  const pool = new Pool()
  for (const { text, node } of rows) {
    pool.add(text)
    if (node) pool.add(node.file)
    if (node?.limit) for (const part of ruleTexts(node)) pool.add(part)
  }
  return new Writer(rows, wilds, pool).write(domains.length)
}

function layOut(rows: Row[], node: RuleNode, parent: number, depth: number): void {
  const text = node.value === '' ? node.key : `${node.key}_${node.value}`
  const id = rows.push({ parent, depth, text, node, hasChildren: node.children.length > 0 }) - 1
  for (const child of node.children) layOut(rows, child, id, depth + 1)
}

function wildcardsByParent(rows: Row[]): Map<number, number[]> {
  const wilds = new Map<number, number[]>()
  for (let id = 0; id < rows.length; id++) {
    const { node, text, parent } = rows[id]
    if (!node || !text.includes('*')) continue // a star in a domain's name is literal
    const siblings = wilds.get(parent)
    if (siblings) siblings.push(id)
    else wilds.set(parent, [id])
  }
  return wilds
}

/** Texts of a rule in the order of their columns. */
function ruleTexts({ limit, metadata }: RuleNode): string[] {
  const replaces = limit!.replaces.length > 0 ? JSON.stringify(limit!.replaces) : ''
  return [limit!.name, replaces, metadata ? JSON.stringify(metadata) : '']
}

/** All texts, equal ones once: levels repeat under thousands of parents. */
class Pool {
  readonly starts = new Map<string, number>()
  size = 0

  add(text: string): void {
    if (this.starts.has(text)) return
    this.starts.set(text, this.size)
    this.size += sizeOfText(text)
  }
}

class Writer {
  private readonly rows: Row[]
  private readonly wildcards: Map<number, number[]>
  private readonly pool: Pool
  private readonly memory: SharedArrayBuffer
  private readonly ints: Int32Array
  private readonly bytes: Buffer
  private wildcardsCount = 0
  private rulesCount = 0

  constructor(rows: Row[], wildcards: Map<number, number[]>, pool: Pool) {
    this.rows = rows
    this.wildcards = wildcards
    this.pool = pool
    let slotsCount = 2
    while (slotsCount < rows.length * 2) slotsCount *= 2
    let wildcardsCount = 0
    for (const siblings of wildcards.values()) wildcardsCount += siblings.length
    let rulesCount = 0
    let depthMax = 0
    for (const { node, depth } of rows) {
      if (node?.limit) rulesCount++
      depthMax = Math.max(depthMax, depth)
    }
    const nodesAt = I.HEADER + slotsCount * I.SLOT
    const wildsAt = nodesAt + rows.length * I.NODE
    const rulesAt = wildsAt + wildcardsCount * I.WILDCARD
    const originsAt = rulesAt + rulesCount * I.RULE
    const poolAt = (originsAt + rows.length * I.ORIGIN) * 4
    this.memory = new SharedArrayBuffer(poolAt + Math.ceil(pool.size / 4) * 4) // a view of ints must fit
    this.ints = new Int32Array(this.memory)
    this.bytes = Buffer.from(this.memory, poolAt, pool.size)
    const { ints } = this
    ints[I.H_MAGIC] = I.MAGIC
    ints[I.H_SLOTS_AT] = I.HEADER
    ints[I.H_SLOTS_COUNT] = slotsCount
    ints[I.H_NODES_AT] = nodesAt
    ints[I.H_NODES_COUNT] = rows.length
    ints[I.H_WILDCARDS_AT] = wildsAt
    ints[I.H_WILDCARDS_COUNT] = wildcardsCount
    ints[I.H_RULES_AT] = rulesAt
    ints[I.H_RULES_COUNT] = rulesCount
    ints[I.H_POOL_AT] = poolAt
    ints[I.H_POOL_SIZE] = pool.size
    ints[I.H_DEPTH_MAX] = depthMax
    ints[I.H_ORIGINS_AT] = originsAt
  }

  write(domainsCount: number): RulesImage {
    for (const [text, start] of this.pool.starts) {
      if (text.isWellFormed()) this.bytes.write(text, start)
      else this.bytes.set(bytesOfText(text), start)
    }
    for (let id = 0; id < this.rows.length; id++) {
      const row = this.rows[id]
      this.writeNode(id, row)
      if (row.node) this.writeOrigin(id, row.node)
    }
    return { memory: this.memory, rulesCount: this.rulesCount, domainsCount }
  }

  private writeNode(id: number, { parent, depth, text, node, hasChildren }: Row): void {
    const { ints } = this
    const at = ints[I.H_NODES_AT] + id * I.NODE
    ints[at + I.NODE_PARENT] = parent
    ints[at + I.NODE_DEPTH] = depth
    this.writeText(at + I.NODE_START, text)
    if (id > 0) this.writeSlot(id, parent, ints[at + I.NODE_START], ints[at + I.NODE_SIZE])
    this.writeWildcards(at, this.wildcards.get(id) ?? [])
    ints[at + I.NODE_RULE] = node?.limit ? this.writeRule(id, node) : -1
    ints[at + I.NODE_FLAGS] =
      (hasChildren ? I.HAS_CHILDREN : 0) |
      (node?.hasShareThreshold ? I.HAS_SHARE_THRESHOLD : 0) |
      (node?.hasValueToMetric ? I.HAS_VALUE_TO_METRIC : 0) |
      (node?.hasDetailedMetric ? I.HAS_DETAILED_METRIC : 0)
  }

  private writeOrigin(id: number, { key, file, line }: RuleNode): void {
    const { ints } = this
    const at = ints[I.H_ORIGINS_AT] + id * I.ORIGIN
    ints[at + I.ORIGIN_KEY_SIZE] = sizeOfText(key)
    ints[at + I.ORIGIN_LINE] = line
    this.writeText(at + I.ORIGIN_FILE, file)
  }

  private writeSlot(id: number, parent: number, start: number, size: number): void {
    const { ints } = this
    let hash = I.HASH_START
    for (let i = start; i < start + size; i++) hash = I.hashByte(hash, this.bytes[i])
    hash = I.hashBelow(parent, hash)
    const mask = ints[I.H_SLOTS_COUNT] - 1
    let slot = hash & mask
    while (ints[I.HEADER + slot * I.SLOT + I.SLOT_NODE] !== 0) slot = (slot + 1) & mask
    ints[I.HEADER + slot * I.SLOT + I.SLOT_HASH] = hash
    ints[I.HEADER + slot * I.SLOT + I.SLOT_NODE] = id
  }

  private writeWildcards(nodeAt: number, siblings: number[]): void {
    const { ints, rows } = this
    ints[nodeAt + I.NODE_WILDCARDS] = this.wildcardsCount
    ints[nodeAt + I.NODE_WILDCARDS_COUNT] = siblings.length
    for (const id of siblings) {
      const at = ints[I.H_WILDCARDS_AT] + this.wildcardsCount++ * I.WILDCARD
      const { text } = rows[id]
      ints[at + I.WILDCARD_NODE] = id
      this.writeText(at + I.WILDCARD_START, text)
      ints[at + I.WILDCARD_PREFIX] = sizeOfText(text.slice(0, text.indexOf('*')))
    }
  }

  private writeRule(id: number, node: RuleNode): number {
    const { ints } = this
    const at = ints[I.H_RULES_AT] + this.rulesCount * I.RULE
    const limit = node.limit!
    const [name, replaces, metadata] = ruleTexts(node)
    ints[at + I.RULE_NODE] = id
    ints[at + I.RULE_REQUESTS] = limit.requestsPerUnit
    ints[at + I.RULE_UNIT] = limit.unit
    ints[at + I.RULE_FLAGS] =
      (limit.isUnlimited ? I.IS_UNLIMITED : 0) |
      (node.isShadow ? I.IS_SHADOW : 0) |
      (node.isQuota ? I.IS_QUOTA : 0) |
      (node.onStoreError === null
        ? 0
        : (1 + STORE_ERROR_POLICIES.indexOf(node.onStoreError)) << I.POLICY_SHIFT) |
      ((node.localShare ?? 0) << I.LOCAL_SHARE_SHIFT)
    this.writeText(at + I.RULE_NAME, name)
    this.writeText(at + I.RULE_REPLACES, replaces)
    this.writeText(at + I.RULE_METADATA, metadata)
    return this.rulesCount++
  }

  /** Start and size of a text of the pool. */
  private writeText(at: number, text: string): void {
    this.ints[at] = this.pool.starts.get(text)!
    this.ints[at + 1] = sizeOfText(text)
  }
}
