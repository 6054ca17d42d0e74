/**
 * The name under which a match is counted, and the levels that share a counter (spec 2.3).
 *
 *     matched   shop . path_/a* . user          entries  path=/a7 · user=7
 *     plain            path_/a* . user          the rule's path, the same string: the common case allocates nothing
 *     value_to_metric  path_/a7 . user_7        the requested value instead of the configured one
 *     detailed_metric  path_/a7 . user_7        the same for all levels, set by a flag of the last one
 *     share_threshold  path_/a* . user          the pattern replaces the value, also in the counter key
 */
import type { Entry } from '../../proto/ratelimit.ts'
import type { Match } from '../config/rules.ts'
import { HAS_DETAILED_METRIC, HAS_SHARE_THRESHOLD, HAS_VALUE_TO_METRIC } from './image.ts'

/** The nodes of a trie by id. */
interface NodeTexts {
  getText(node: number): string
  getFlags(node: number): number
  getDomainName(node: number): string // of a node of the top level
}

/** How an entry matched its node. WildKey: the pattern's first star is within the entry's key or its underscore. */
export const MatchKind = { Exact: 0, Wild: 1, WildKey: 2, Default: 3 } as const
export type MatchKind = (typeof MatchKind)[keyof typeof MatchKind]

/** The part of a pattern after `key_`, for the last key; a node is rarely matched with several keys. */
interface Cut {
  key: string
  rest: string
}

export class StatsKeys {
  /** Per level of the last match. */
  readonly node: Int32Array
  readonly matchKinds: Uint8Array
  private readonly cuts = new Map<number, Cut>() // by node; at most one per node with share_threshold

  constructor(depthMax: number) {
    this.node = new Int32Array(depthMax)
    this.matchKinds = new Uint8Array(depthMax)
  }

  /** Sets `sharedValues` and `statsKey` of `out` for the rule matched by the levels in `node` and `matchKinds`. */
  describe(trie: NodeTexts, entries: readonly Entry[], path: string, out: Match): void {
    const count = entries.length
    let isConfigured = true // the effective key equals the rule's path
    let isExact = true
    let isShared = false
    for (let i = 0; i < count; i++) {
      const matchKind = this.matchKinds[i]
      const flags = trie.getFlags(this.node[i])
      let shared = ''
      if (matchKind === MatchKind.Exact) {
        if (entries[i].value === '') isConfigured = false // `key_` is configured, `key` is counted
      } else {
        isExact = false
        if (matchKind !== MatchKind.Default && (flags & HAS_SHARE_THRESHOLD) !== 0) {
          shared = this.stripKey(trie, this.node[i], entries[i].key)
          isShared = true
        }
        if (matchKind === MatchKind.WildKey || ((flags & HAS_VALUE_TO_METRIC) !== 0 && shared === ''))
          isConfigured = false
      }
      if (i < out.sharedValues.length) out.sharedValues[i] = shared
      else out.sharedValues.push(shared)
    }
    const isDetailed = (trie.getFlags(this.node[count - 1]) & HAS_DETAILED_METRIC) !== 0
    if (isDetailed ? isExact : isConfigured) out.statsKey = path
    else out.statsKey = this.build(trie, entries, path, isDetailed, isShared, out.sharedValues)
  }

  /** Whether the rule matched last is counted under its path, and each value as it was sent. */
  isPlain(trie: NodeTexts, count: number): boolean {
    for (let i = 0; i < count; i++) {
      if (this.matchKinds[i] === MatchKind.Exact) continue
      const renames = HAS_SHARE_THRESHOLD | HAS_VALUE_TO_METRIC
      if (this.matchKinds[i] === MatchKind.WildKey || (trie.getFlags(this.node[i]) & renames) !== 0)
        return false
    }
    return (trie.getFlags(this.node[count - 1]) & HAS_DETAILED_METRIC) === 0
  }

  private build(
    trie: NodeTexts,
    entries: readonly Entry[],
    path: string,
    isDetailed: boolean,
    isShared: boolean,
    sharedValues: readonly string[],
  ): string {
    let key = trie.getDomainName(this.node[0])
    for (let i = 0; i < entries.length; i++) {
      const { value } = entries[i]
      const text = sharedValues[i] || (isDetailed ? value : this.metricValue(trie, i, entries[i]))
      key += `.${entries[i].key}${text !== '' || (isDetailed && !isShared) ? `_${text}` : ''}`
    }
    return key === path ? path : key
  }

  /** The value of a level without share pattern: as requested, as configured, or none. */
  private metricValue(trie: NodeTexts, level: number, { key, value }: Entry): string {
    const matchKind = this.matchKinds[level]
    const node = this.node[level]
    if (matchKind === MatchKind.Exact || (trie.getFlags(node) & HAS_VALUE_TO_METRIC) !== 0) return value
    return matchKind === MatchKind.Default ? '' : this.stripKey(trie, node, key)
  }

  /** The pattern without `key_`; unchanged if it does not start with that. */
  private stripKey(trie: NodeTexts, node: number, key: string): string {
    const cut = this.cuts.get(node)
    if (cut !== undefined && cut.key === key) return cut.rest
    const pattern = trie.getText(node)
    const prefix = `${key.toWellFormed()}_` // the pool holds U+FFFD for a lone surrogate
    const rest = pattern.startsWith(prefix) ? pattern.slice(prefix.length) : pattern
    this.cuts.set(node, { key, rest })
    return rest
  }
}
