/**
 * Finds pairs of rules that share a counter key (spec 3.1, Q20): keys are texts joined by `_` without escaping.
 *
 *     domain shop   a: b_c_d                 the entry  a=b_c_d        counts under  shop_a_b_c_d_<window start>
 *                   a > c                    entries    a=b · c=d      count under   shop_a_b_c_d_<window start>
 *     domain shop_a   b: c_d                 the entry  b=c_d          counts under  shop_a_b_c_d_<window start>
 *
 * A rule whose values are all fixed (without a star, or shared patterns) has one key. A rule with open values has a key per
 * value and is tried with an ordinary one, SAMPLE. Each key text is parsed back: which other rules does a request with the
 * same key text match? All ways of splitting it are tried, with one look-up per level as for a request, so every reported
 * pair does share its counter for the reported entries.
 *
 *                   user          user=7_plan_free   counts under  shop_user_7_plan_free_<window start>, as
 *                   user > plan   user=7 · plan=free  does: the value of `user` reaches the counter of other users
 *
 * Not reported: pairs that share a key only for unusual values of both, and pairs with a rule that has a star in its key, since
 * such a text can start with any key. One rule with itself: self-collisions.ts.
 */
import { UNIT_NAMES, type Unit } from '../../proto/ratelimit.ts'
import { unitSec } from '../decision/window.ts'
import { bytesOfText } from '../match/utf8.ts'
import { fits, type Pattern, toCompositeKey, toPatterns } from './patterns.ts'
import type { RuleDomain, RuleNode } from './rules.ts'

export type Entries = readonly { key: string; value: string }[]

/** Two rules with one key: `rule` for the request `ruleEntries`, `other` for the request `entries`. */
export interface Shared {
  rule: RuleNode
  path: string
  ruleEntries: Entries
  isOpen: boolean // `rule` has other keys for other values
  other: RuleNode
  otherPath: string
  entries: Entries
  when: string // 'always', or in which windows
}

const SAMPLE = '7' // for an open value or a star; without an underscore

/** A rule with the entries of a request for it. */
interface SampledRule {
  rule: RuleNode
  path: string
  text: string // of its counter key, up to the window
  ruleEntries: Entries
  isOpen: boolean
  isReached: boolean // a request with these entries matches the rule
}

/** Each pair once. `steps.left` counts down per look-up and comparison; at 0 the rest is skipped. */
export function* findSharedCounters(
  domains: readonly RuleDomain[],
  steps: { left: number },
): Generator<Shared> {
  const parser = new KeyTextParser(domains, steps)
  const reported = new Map<RuleNode, Set<RuleNode>>() // two rules with fixed values find each other
  for (const sampled of sampleRules(domains, parser, steps)) {
    for (const shared of parser.findSharing(sampled)) {
      const { rule, other } = shared
      if (reported.get(other)?.has(rule)) continue
      reported.set(rule, (reported.get(rule) ?? new Set()).add(other))
      yield shared
    }
  }
}

function* sampleRules(
  domains: readonly RuleDomain[],
  parser: KeyTextParser,
  steps: { left: number },
): Generator<SampledRule> {
  function* below(siblings: readonly RuleNode[], above: Omit<SampledRule, 'rule'>): Generator<SampledRule> {
    for (const rule of siblings) {
      if (steps.left <= 0) return
      if (rule.key.includes('*')) continue
      const isOpen = !hasFixedText(rule)
      const value = rule.value === '' ? SAMPLE : rule.value.replaceAll('*', SAMPLE)
      const isReached = above.isReached && parser.match(siblings, rule.key, value) === rule
      const sampled: SampledRule = {
        rule,
        path: `${above.path}.${toCompositeKey(rule)}`,
        text: `${above.text}${isOpen ? `${rule.key}_${value}` : toCompositeKey(rule)}_`,
        ruleEntries: [...above.ruleEntries, { key: rule.key, value }],
        isOpen: above.isOpen || isOpen,
        isReached,
      }
      if (sampled.isOpen && !isReached) continue
      if (isCounted(rule)) yield sampled
      yield* below(rule.children, sampled)
    }
  }
  for (const { name, nodes } of domains)
    yield* below(nodes, { path: name, text: `${name}_`, ruleEntries: [], isOpen: false, isReached: true })
}

/** Whether all requests that match the node by its text add the same text to the counter key. Its key has no star. */
function hasFixedText({ value, hasShareThreshold }: RuleNode): boolean {
  return value !== '' && (hasShareThreshold || !value.includes('*'))
}

export function isCounted({ limit }: RuleNode): boolean {
  return limit !== null && !limit.isUnlimited
}

interface Level {
  byText: Map<string, RuleNode>
  patterns: Pattern[]
  readFrom: Set<number> // positions in the current text from which this level was read
}

interface Found {
  node: RuleNode
  key: string
  value: string
}

/** Parses key texts back into the rules that count under them. */
export class KeyTextParser {
  private readonly domains: Map<string, RuleDomain>
  private readonly steps: { left: number }
  private readonly levels = new Map<readonly RuleNode[], Level>()
  private touched: Level[] = []
  private sampled: SampledRule | null = null // the rule of the current text
  private text = ''
  private found: Shared[] = []

  constructor(domains: readonly RuleDomain[], steps: { left: number }) {
    this.domains = new Map(domains.map((domain) => [domain.name, domain]))
    this.steps = steps
  }

  findSharing(sampled: SampledRule): Shared[] {
    const { text } = sampled
    this.sampled = sampled
    this.text = text
    this.found = []
    for (const level of this.touched) level.readFrom.clear()
    this.touched = []
    for (let at = text.indexOf('_'); at >= 0; at = text.indexOf('_', at + 1)) {
      const domain = this.domains.get(text.slice(0, at))
      if (domain) this.read(domain.nodes, at + 1, domain.name, [])
    }
    return this.found
  }

  /** The node that a request matches at this level (spec 2.2). */
  match(siblings: readonly RuleNode[], key: string, value: string): RuleNode | undefined {
    const { byText, patterns } = this.level(siblings)
    const text = `${key}_${value}`
    const exact = byText.get(text)
    if (exact) return exact
    const bytes = patterns.length > 0 ? bytesOfText(text) : null
    for (const pattern of patterns) {
      this.steps.left--
      if (fits(pattern, bytes!)) return pattern.node
    }
    return byText.get(key)
  }

  /** Splits the text from `from` on into entries, in every way. */
  private read(siblings: readonly RuleNode[], from: number, path: string, entries: Entries): void {
    const { sampled, text, steps } = this
    const level = this.level(siblings)
    if (level.readFrom.has(from)) return
    level.readFrom.add(from)
    this.touched.push(level)
    let end = text.indexOf('_', text.indexOf('_', from) + 1) // an entry contains an underscore and is followed by one
    for (; end > 0 && steps.left > 0; end = text.indexOf('_', end + 1)) {
      for (const { node, key, value } of this.lookUp(level, text.slice(from, end))) {
        if (sampled!.isOpen && key !== node.key) continue // clients choose values, not keys
        const nodePath = `${path}.${toCompositeKey(node)}`
        const nodeEntries = [...entries, { key, value }]
        if (end < text.length - 1) this.read(node.children, end + 1, nodePath, nodeEntries)
        else if (node !== this.sampled!.rule && isCounted(node)) this.add(node, nodePath, nodeEntries)
      }
    }
  }

  /** All nodes that requests with this text match, with the key and value of each (spec 2.2). */
  private lookUp({ byText, patterns }: Level, text: string): Found[] {
    const { steps } = this
    steps.left--
    const exact = byText.get(text)
    if (exact) return [split(exact, text)]
    const bytes = patterns.length > 0 ? bytesOfText(text) : null
    for (const pattern of patterns) {
      steps.left--
      if (!fits(pattern, bytes!)) continue
      const { node, composite } = pattern
      if (!node.hasShareThreshold) return [split(node, text)]
      // A shared pattern replaces its values in the key, so the text would differ. The exception is a request whose key
      // is the whole pattern: then the value itself is used (spec 2.3).
      const isSpelled = composite.endsWith('_') && text.startsWith(composite)
      return isSpelled ? [{ node, key: composite.slice(0, -1), value: text.slice(composite.length) }] : []
    }
    const found: Found[] = []
    for (let at = text.indexOf('_'); at >= 0; at = text.indexOf('_', at + 1)) {
      steps.left--
      const key = text.slice(0, at)
      const node = byText.get(key)
      if (node) found.push({ node, key, value: text.slice(at + 1) })
    }
    return found
  }

  private add(other: RuleNode, otherPath: string, entries: Entries): void {
    const { rule, path, ruleEntries, isOpen } = this.sampled!
    if (this.found.some((shared) => shared.other === other)) return
    const when = whenWindowsMeet(rule.limit!.unit, other.limit!.unit)
    this.found.push({ rule, path, ruleEntries, isOpen, other, otherPath, entries, when })
  }

  private level(siblings: readonly RuleNode[]): Level {
    const known = this.levels.get(siblings)
    if (known) return known
    const byText = new Map(siblings.map((node) => [toCompositeKey(node), node]))
    const level = { byText, patterns: toPatterns(siblings), readFrom: new Set<number>() }
    this.levels.set(siblings, level)
    return level
  }
}

/** Splits a text into key and value, as the node does if possible. */
function split(node: RuleNode, text: string): Found {
  const at = text.startsWith(`${node.key}_`) ? node.key.length : text.indexOf('_')
  return { node, key: text.slice(0, at), value: text.slice(at + 1) }
}

/** When two windows begin in the same second; the rest of the key is equal. */
function whenWindowsMeet(a: Unit, b: Unit): string {
  const [short, long] = unitSec(a) <= unitSec(b) ? [a, b] : [b, a]
  const names = [UNIT_NAMES[short].toLowerCase(), UNIT_NAMES[long].toLowerCase()]
  if (short === long) return 'always'
  if (unitSec(long) % unitSec(short) === 0) return `in the first ${names[0]} of each ${names[1]}`
  return `whenever a ${names[0]} and a ${names[1]} begin together`
}
