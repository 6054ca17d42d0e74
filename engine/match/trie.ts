/**
 * Matches rate limit descriptors against the compiled rules: a view of an image, one per thread.
 *
 *     domain shop        entries  user=7  ·  path=/x          match:  shop.user_7.path_*
 *       user_7                                                level by level: `user_7`, else wildcards, else `user`
 *         path_*  ◄────                                       then below it: `path_/x`, `path_*` ✓
 *       user
 *         path_/x        not reached: user_7 was found first, and there is no backtracking (spec 2.2)
 *
 * A level costs one or two look-ups, with 100 rules or 100,000; a miss allocates nothing. The wildcards of one parent are
 * tried in load order, because the first must win.
 */
import type { Entry, Unit } from '../../proto/ratelimit.ts'
import { type Match, type Place, type Rule, type RulesImage, STORE_ERROR_POLICIES } from '../config/rules.ts'
import { draw } from './draw.ts'
import * as I from './image.ts'
import { MatchKind, StatsKeys } from './stats-key.ts'
import { writeUtf8 } from './utf8.ts'
import { fitsAfterPrefix } from './wildcard.ts'

/** Results of matchPlain other than a rule's id. */
export const NO_RULE = -1
export const NOT_PLAIN = -2

const NONE = 0 // the root, which is never a child
const SCRATCH_BYTES = 64 * 1024 // reused; a longer entry gets its own buffer

/** The entries of a descriptor as bytes. */
export interface Levels {
  readonly buffer: Uint8Array
  readonly levelsCount: number
  readonly starts: Int32Array
  readonly keyEnds: Int32Array
  readonly ends: Int32Array
}

export class Trie {
  readonly rulesCount: number
  private readonly image: Int32Array
  private readonly pool: Uint8Array
  private readonly poolText: Buffer // the same bytes, to decode texts
  private readonly slotsMask: number
  private readonly nodesAt: number
  private readonly wildcardsAt: number
  private readonly depthMax: number
  private readonly scratch = new Uint8Array(SCRATCH_BYTES)
  private readonly rulesById: (Rule | null)[] // by rule id
  private readonly stats: StatsKeys
  private matchKind: MatchKind = MatchKind.Exact // of the last `child`
  private domainName = '' // of the last `domain`
  private domainNode = -1

  constructor({ memory }: RulesImage) {
    const image = new Int32Array(memory)
    if (image[I.H_MAGIC] !== I.MAGIC) throw new Error('this memory holds no rules image of this layout')
    this.image = image
    this.pool = new Uint8Array(memory, image[I.H_POOL_AT], image[I.H_POOL_SIZE])
    this.poolText = Buffer.from(memory, image[I.H_POOL_AT], image[I.H_POOL_SIZE])
    this.slotsMask = image[I.H_SLOTS_COUNT] - 1
    this.nodesAt = image[I.H_NODES_AT]
    this.wildcardsAt = image[I.H_WILDCARDS_AT]
    this.depthMax = image[I.H_DEPTH_MAX]
    this.rulesCount = image[I.H_RULES_COUNT]
    // A holey array, but made in 0.3 ms; 100,000 pushes would block a serving thread for 4 ms.
    this.rulesById = new Array(this.rulesCount).fill(null)
    this.stats = new StatsKeys(this.depthMax)
  }

  /** The node of a domain, or -1. Exact and case-sensitive. */
  domain(name: string): number {
    if (name === this.domainName) return this.domainNode
    const end = name.length * 3
    const buffer = end <= SCRATCH_BYTES ? this.scratch : new Uint8Array(end)
    const size = writeUtf8(buffer, 0, name)
    let hash = I.HASH_START
    for (let i = 0; i < size; i++) hash = I.hashByte(hash, buffer[i])
    const node = this.find(NONE, hash, buffer, 0, size)
    this.domainName = name
    this.domainNode = node === NONE ? -1 : node
    return this.domainNode
  }

  /** Finds the rule of one descriptor. False: there is none, and only `out.rule` is set, to null. */
  match(domain: number, entries: readonly Entry[], out: Match): boolean {
    const { image, stats } = this
    const count = entries.length
    out.rule = null
    if (domain < 0 || count === 0 || count > this.depthMax) return false
    let node = domain
    for (let i = 0; i < count; i++) {
      node = this.findChild(node, entries[i])
      if (node === NONE) return false
      stats.node[i] = node
      stats.matchKinds[i] = this.matchKind
    }
    const rule = image[this.nodesAt + node * I.NODE + I.NODE_RULE]
    if (rule < 0) return false
    out.rule = this.rule(rule)
    stats.describe(this, entries, out.rule.path, out)
    return true
  }

  /**
   * The same for levels of bytes: level i is `key_value` in `buffer`, as for `child`. Returns the rule's id, NO_RULE, or
   * NOT_PLAIN if the match is counted under another name or value than requested; then use `match`.
   */
  matchPlain(domain: number, levels: Levels): number {
    const { image, stats } = this
    const { buffer, starts, keyEnds, ends, levelsCount } = levels
    if (domain < 0 || levelsCount === 0 || levelsCount > this.depthMax) return NO_RULE
    let node = domain
    for (let i = 0; i < levelsCount; i++) {
      node = this.child(node, buffer, starts[i], keyEnds[i], ends[i])
      if (node === NONE) return NO_RULE
      if (this.matchKind === MatchKind.Exact && ends[i] === keyEnds[i] + 1) return NOT_PLAIN // `key_` is configured, `key` is counted
      stats.node[i] = node
      stats.matchKinds[i] = this.matchKind
    }
    const rule = image[this.nodesAt + node * I.NODE + I.NODE_RULE]
    if (rule < 0) return NO_RULE
    return stats.isPlain(this, levelsCount) ? rule : NOT_PLAIN
  }

  /** One level: the child that matches an entry, or 0. */
  private findChild(parent: number, { key, value }: Entry): number {
    const sizeMax = (key.length + 1 + value.length) * 3
    const buffer = sizeMax <= SCRATCH_BYTES ? this.scratch : new Uint8Array(sizeMax)
    const keyEnd = writeUtf8(buffer, 0, key)
    buffer[keyEnd] = I.UNDERSCORE
    return this.child(parent, buffer, 0, keyEnd, writeUtf8(buffer, keyEnd + 1, value))
  }

  // hot: no allocation below, down to `matchesText`

  /**
   * One level, on bytes: `buffer` holds `key_value` from `start` to `end`, the underscore at `keyEnd`.
   * Returns the child, or 0; `matchKind` is the kind of match until the next call.
   */
  child(parent: number, buffer: Uint8Array, start: number, keyEnd: number, end: number): number {
    const at = this.nodesAt + parent * I.NODE
    if ((this.image[at + I.NODE_FLAGS] & I.HAS_CHILDREN) === 0) return NONE
    let hash = I.HASH_START
    for (let i = start; i < keyEnd; i++) hash = I.hashByte(hash, buffer[i])
    const keyHash = hash
    for (let i = keyEnd; i < end; i++) hash = I.hashByte(hash, buffer[i])

    const exact = this.find(parent, hash, buffer, start, end)
    if (exact !== NONE) {
      this.matchKind = MatchKind.Exact
      return exact
    }
    const wildsCount = this.image[at + I.NODE_WILDCARDS_COUNT]
    if (wildsCount > 0) {
      const wild = this.findWildcard(
        this.image[at + I.NODE_WILDCARDS],
        wildsCount,
        buffer,
        start,
        keyEnd,
        end,
      )
      if (wild !== NONE) return wild
    }
    this.matchKind = MatchKind.Default
    return this.find(parent, keyHash, buffer, start, keyEnd)
  }

  private find(parent: number, textHash: number, buffer: Uint8Array, start: number, end: number): number {
    const { image, slotsMask } = this
    const hash = I.hashBelow(parent, textHash)
    let slot = hash & slotsMask
    for (;;) {
      const at = I.HEADER + slot * I.SLOT
      const node = image[at + I.SLOT_NODE]
      if (node === NONE) return NONE // at least half of the slots are free, so the loop ends
      if (image[at + I.SLOT_HASH] === hash && this.matchesText(node, parent, buffer, start, end)) return node
      slot = (slot + 1) & slotsMask
    }
  }

  private findWildcard(
    first: number,
    count: number,
    buffer: Uint8Array,
    start: number,
    keyEnd: number,
    end: number,
  ): number {
    const { image, pool } = this
    const textSize = end - start
    for (let i = 0; i < count; i++) {
      const at = this.wildcardsAt + (first + i) * I.WILDCARD
      const prefixSize = image[at + I.WILDCARD_PREFIX]
      if (prefixSize > textSize) continue
      const pattern = image[at + I.WILDCARD_START]
      // Backwards: siblings mostly share their first bytes and differ in the last.
      let p = prefixSize - 1
      while (p >= 0 && pool[pattern + p] === buffer[start + p]) p--
      if (p >= 0) continue
      if (
        fitsAfterPrefix(pool, pattern, pattern + image[at + I.WILDCARD_SIZE], prefixSize, buffer, start, end)
      ) {
        this.matchKind = prefixSize > keyEnd - start ? MatchKind.Wild : MatchKind.WildKey
        return image[at + I.WILDCARD_NODE]
      }
    }
    return NONE
  }

  private matchesText(node: number, parent: number, buffer: Uint8Array, start: number, end: number): boolean {
    const { image, pool } = this
    const at = this.nodesAt + node * I.NODE
    const size = end - start
    if (image[at + I.NODE_PARENT] !== parent || image[at + I.NODE_SIZE] !== size) return false
    const text = image[at + I.NODE_START]
    for (let i = 0; i < size; i++) if (pool[text + i] !== buffer[start + i]) return false
    return true
  }

  /** A rule by id, created on first use and cached. */
  rule(id: number): Rule {
    const known = this.rulesById[id]
    if (known) return known
    const rule = this.createRule(id)
    this.rulesById[id] = rule
    return rule
  }

  /** All rules, parents before children, domains and siblings in load order. */
  *rules(): IterableIterator<Rule> {
    for (let id = 0; id < this.rulesCount; id++) yield this.rule(id)
  }

  private createRule(id: number): Rule {
    const { image } = this
    const at = image[I.H_RULES_AT] + id * I.RULE
    const flags = image[at + I.RULE_FLAGS]
    const replaces = this.text(at + I.RULE_REPLACES)
    const metadata = this.text(at + I.RULE_METADATA)
    const policy = (flags >> I.POLICY_SHIFT) & I.POLICY_MASK
    return {
      id,
      path: this.path(image[at + I.RULE_NODE]),
      limit: {
        name: this.text(at + I.RULE_NAME),
        requestsPerUnit: image[at + I.RULE_REQUESTS] >>> 0,
        unit: image[at + I.RULE_UNIT] as Unit,
      },
      isUnlimited: (flags & I.IS_UNLIMITED) !== 0,
      isShadow: (flags & I.IS_SHADOW) !== 0,
      isQuota: (flags & I.IS_QUOTA) !== 0,
      onStoreError: policy === 0 ? null : STORE_ERROR_POLICIES[policy - 1],
      localShare: (flags >> I.LOCAL_SHARE_SHIFT) & I.LOCAL_SHARE_MASK || null,
      replaces: replaces ? JSON.parse(replaces) : [],
      metadata: metadata ? JSON.parse(metadata) : null,
    }
  }

  private text(at: number): string {
    return this.poolText.toString('utf8', this.image[at], this.image[at] + this.image[at + 1])
  }

  /** `domain.key_value.key` of a node. */
  private path(node: number): string {
    const parent = this.getParent(node)
    return parent === NONE ? this.getText(node) : `${this.path(parent)}.${this.getText(node)}`
  }

  /** An indented tree, for tests and debugging. */
  toString(): string {
    return draw(this)
  }

  // Nodes by id, 1 to nodesCount - 1, parents before children: for draw.ts and stats-key.ts.

  get nodesCount(): number {
    return this.image[I.H_NODES_COUNT]
  }

  getText(node: number): string {
    return this.text(this.nodesAt + node * I.NODE + I.NODE_START)
  }

  /** The key and the value of a node's text; '' for a node without a value, and for a domain. */
  getKeyAndValue(node: number): { key: string; value: string } {
    const at = this.nodesAt + node * I.NODE + I.NODE_START
    const start = this.image[at]
    const end = start + this.image[at + 1]
    const keyEnd = start + this.image[this.originAt(node) + I.ORIGIN_KEY_SIZE]
    return {
      key: this.poolText.toString('utf8', start, keyEnd),
      value: keyEnd < end ? this.poolText.toString('utf8', keyEnd + 1, end) : '',
    }
  }

  /** Where a node was configured. */
  getPlace(node: number): Place {
    const at = this.originAt(node)
    return { file: this.text(at + I.ORIGIN_FILE), line: this.image[at + I.ORIGIN_LINE] }
  }

  private originAt(node: number): number {
    return this.image[I.H_ORIGINS_AT] + node * I.ORIGIN
  }

  getFlags(node: number): number {
    return this.image[this.nodesAt + node * I.NODE + I.NODE_FLAGS]
  }

  getDepth(node: number): number {
    return this.image[this.nodesAt + node * I.NODE + I.NODE_DEPTH]
  }

  getRule(node: number): Rule | null {
    const id = this.image[this.nodesAt + node * I.NODE + I.NODE_RULE]
    return id < 0 ? null : this.rule(id)
  }

  /** The name of a rule's domain. */
  domainOfRule(rule: Rule): string {
    return this.getText(this.getRuleNodes(rule)[0])
  }

  /** The nodes from the domain down to the rule's own. */
  getRuleNodes({ id }: Rule): number[] {
    const nodes: number[] = []
    let node = this.image[this.image[I.H_RULES_AT] + id * I.RULE + I.RULE_NODE]
    for (; node !== NONE; node = this.getParent(node)) nodes.push(node)
    return nodes.reverse()
  }

  /** The domain's name of a node of the top level. */
  getDomainName(node: number): string {
    return this.getText(this.getParent(node))
  }

  private getParent(node: number): number {
    return this.image[this.nodesAt + node * I.NODE + I.NODE_PARENT]
  }
}
