/**
 * Under which name a match is counted, and which levels share one counter (spec 2.3).
 *
 *     matched   shop . path_/a* . user          entries  path=/a7 · user=7
 *     plain            path_/a* . user          the rule's path, the very string: the common case makes nothing
 *     value_to_metric  path_/a7 . user_7        what was asked instead of what is written
 *     detailed_metric  path_/a7 . user_7        the same for all levels, by one flag on the last
 *     share_threshold  path_/a* . user          the pattern stands for the value, in the counter key too
 */
import type { Entry } from '../../proto/ratelimit.ts'
import type { Match } from '../config/rules.ts'
import { HAS_DETAILED_METRIC, HAS_SHARE_THRESHOLD, HAS_VALUE_TO_METRIC } from './image.ts'
import type { Trie } from './trie.ts'

/** How an entry met its node. WildKey: the pattern's first star stands within the entry's key or its underscore. */
export const MatchKind = { Exact: 0, Wild: 1, WildKey: 2, Default: 3 } as const
export type MatchKind = (typeof MatchKind)[keyof typeof MatchKind]

/** What is left of a pattern behind `key_`, kept for the key seen last; other keys reach a node only oddly. */
interface Cut {
  key: string
  rest: string
}

export class StatsKeys {
  /** Per level of the walk that just ended. */
  readonly node: Int32Array
  readonly how: Uint8Array
  private readonly cuts = new Map<number, Cut>() // by node; at most one per node with share_threshold

  constructor(depthMax: number) {
    this.node = new Int32Array(depthMax)
    this.how = new Uint8Array(depthMax)
  }

  /** Fills `sharedValues` and `statsKey` of `out` for a rule found by the walk in `node` and `how`. */
  describe(trie: Trie, entries: readonly Entry[], path: string, out: Match): void {
    const count = entries.length
    let isConfigured = true // the effective key says what the rule's path says
    let isExact = true
    let isShared = false
    for (let i = 0; i < count; i++) {
      const how = this.how[i]
      const flags = trie.getFlags(this.node[i])
      let shared = ''
      if (how === MatchKind.Exact) {
        if (entries[i].value === '') isConfigured = false // `key_` is written, `key` is counted
      } else {
        isExact = false
        if (how !== MatchKind.Default && (flags & HAS_SHARE_THRESHOLD) !== 0) {
          shared = this.behindKey(trie, this.node[i], entries[i].key)
          isShared ||= shared !== ''
        }
        if (how === MatchKind.WildKey || ((flags & HAS_VALUE_TO_METRIC) !== 0 && shared === ''))
          isConfigured = false
      }
      if (i < out.sharedValues.length) out.sharedValues[i] = shared
      else out.sharedValues.push(shared)
    }
    const isDetailed = (trie.getFlags(this.node[count - 1]) & HAS_DETAILED_METRIC) !== 0
    if (isDetailed ? isExact : isConfigured) out.statsKey = path
    else out.statsKey = this.build(trie, entries, path, isDetailed, isShared, out.sharedValues)
  }

  /** Whether a rule found by the walk is counted under its path, and each value as it was sent. */
  isPlain(trie: Trie, count: number): boolean {
    for (let i = 0; i < count; i++) {
      if (this.how[i] === MatchKind.Exact) continue
      const renames = HAS_SHARE_THRESHOLD | HAS_VALUE_TO_METRIC
      if (this.how[i] === MatchKind.WildKey || (trie.getFlags(this.node[i]) & renames) !== 0) return false
    }
    return (trie.getFlags(this.node[count - 1]) & HAS_DETAILED_METRIC) === 0
  }

  private build(
    trie: Trie,
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

  /** The value of a level without share pattern: as asked, as written, or none. */
  private metricValue(trie: Trie, level: number, { key, value }: Entry): string {
    const how = this.how[level]
    const node = this.node[level]
    if (how === MatchKind.Exact || (trie.getFlags(node) & HAS_VALUE_TO_METRIC) !== 0) return value
    return how === MatchKind.Default ? '' : this.behindKey(trie, node, key)
  }

  /** A pattern without `key_`; whole when it does not open with that. */
  private behindKey(trie: Trie, node: number, key: string): string {
    const cut = this.cuts.get(node)
    if (cut !== undefined && cut.key === key) return cut.rest
    const pattern = trie.getText(node)
    const prefix = `${key.toWellFormed()}_` // the pool holds U+FFFD for half a pair
    const rest = pattern.startsWith(prefix) ? pattern.slice(prefix.length) : pattern
    this.cuts.set(node, { key, rest })
    return rest
  }
}
