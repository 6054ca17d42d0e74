/**
 * Rules that count under one key although they are two (spec 3.1, Q20): keys are texts joined by `_`, unescaped.
 *
 *     domain shop   a: b_c_d                 the entry  a=b_c_d        counts under  shop_a_b_c_d_<window start>
 *                   a > c                    entries    a=b · c=d      count under   shop_a_b_c_d_<window start>
 *     domain shop_a   b: c_d                 the entry  b=c_d          counts under  shop_a_b_c_d_<window start>
 *
 * A rule whose entries are all written out (values without a star, or shared patterns) has one key. A rule that leaves a value
 * to callers has a key per value; it is asked with an ordinary one, SAMPLE. Either text is read back: which other rules does
 * a request reach whose key text is the same? All ways of splitting are tried, one look-up per level as a request would
 * make it, so a rule named here does share, with the entries named.
 *
 *                   user          user=7_plan_free   counts under  shop_user_7_plan_free_<window start>, as
 *                   user > plan   user=7 · plan=free  does: who chooses the value of `user` reaches the counter of others
 *
 * Not told: rules that meet only when callers choose odd values for both. Nor stars in a key, since such a text begins with
 * any key.
 */
import { UNIT_NAMES, type Unit } from '../../proto/ratelimit.ts'
import { unitSec } from '../decision/window.ts'
import { bytesOfText } from '../match/utf8.ts'
import { fits, type Pattern, toCompositeKey, toPatterns } from './patterns.ts'
import type { RuleDomain, RuleNode } from './rules.ts'

type Entries = readonly { key: string; value: string }[]

/** Two rules with one key: `rule` when asked with `ruleEntries`, `other` when asked with `entries`. */
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

const SAMPLE = '7' // for a value, or a star, that callers choose; without an underscore

/** A rule, and how it is asked. */
interface Asked {
  rule: RuleNode
  path: string
  text: string // of its counter key, up to the window
  ruleEntries: Entries
  isOpen: boolean
  isMet: boolean // a request with these entries finds the rule
}

/** Each pair once. `steps.left` counts down per look-up and comparison; at 0 the rest is not looked at. */
export function* findSharedCounters(
  domains: readonly RuleDomain[],
  steps: { left: number },
): Generator<Shared> {
  const readers = new Readers(domains, steps)
  const told = new Map<RuleNode, Set<RuleNode>>() // two rules written out name each other
  for (const asked of askedRules(domains, readers, steps)) {
    for (const shared of readers.of(asked)) {
      const { rule, other } = shared
      if (told.get(other)?.has(rule)) continue
      told.set(rule, (told.get(rule) ?? new Set()).add(other))
      yield shared
    }
  }
}

function* askedRules(
  domains: readonly RuleDomain[],
  readers: Readers,
  steps: { left: number },
): Generator<Asked> {
  function* below(siblings: readonly RuleNode[], above: Omit<Asked, 'rule'>): Generator<Asked> {
    for (const rule of siblings) {
      if (steps.left <= 0) return
      if (rule.key.includes('*')) continue
      const isOpen = !isWrittenOut(rule)
      const value = rule.value === '' ? SAMPLE : rule.value.replaceAll('*', SAMPLE)
      const isMet = above.isMet && readers.meets(siblings, rule.key, value) === rule
      const asked: Asked = {
        rule,
        path: `${above.path}.${toCompositeKey(rule)}`,
        text: `${above.text}${isOpen ? `${rule.key}_${value}` : toCompositeKey(rule)}_`,
        ruleEntries: [...above.ruleEntries, { key: rule.key, value }],
        isOpen: above.isOpen || isOpen,
        isMet,
      }
      if (asked.isOpen && !isMet) continue
      if (isCounted(rule)) yield asked
      yield* below(rule.children, asked)
    }
  }
  for (const { name, nodes } of domains)
    yield* below(nodes, { path: name, text: `${name}_`, ruleEntries: [], isOpen: false, isMet: true })
}

/** Whether all requests that meet a node as it is meant put the same text into the key. The key has no star. */
function isWrittenOut({ value, hasShareThreshold }: RuleNode): boolean {
  return value !== '' && (hasShareThreshold || !value.includes('*'))
}

function isCounted({ limit }: RuleNode): boolean {
  return limit !== null && !limit.isUnlimited
}

interface Level {
  byText: Map<string, RuleNode>
  patterns: Pattern[]
  readFrom: Set<number> // places in the text at hand that were read from this level
}

interface Found {
  node: RuleNode
  key: string
  value: string
}

/** Reads key texts back: who else counts under them? */
class Readers {
  private readonly domains: Map<string, RuleDomain>
  private readonly steps: { left: number }
  private readonly levels = new Map<readonly RuleNode[], Level>()
  private touched: Level[] = []
  private asked: Asked | null = null // the one whose text is at hand
  private text = ''
  private found: Shared[] = []

  constructor(domains: readonly RuleDomain[], steps: { left: number }) {
    this.domains = new Map(domains.map((domain) => [domain.name, domain]))
    this.steps = steps
  }

  of(asked: Asked): Shared[] {
    const { text } = asked
    this.asked = asked
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

  /** The node that a request finds at this level (spec 2.2). */
  meets(siblings: readonly RuleNode[], key: string, value: string): RuleNode | undefined {
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

  /** Takes one entry after the other off the text from `from` on, in every way. */
  private read(siblings: readonly RuleNode[], from: number, path: string, entries: Entries): void {
    const { asked, text, steps } = this
    const level = this.level(siblings)
    if (level.readFrom.has(from)) return
    level.readFrom.add(from)
    this.touched.push(level)
    let end = text.indexOf('_', text.indexOf('_', from) + 1) // an entry holds an underscore and is followed by one
    for (; end > 0 && steps.left > 0; end = text.indexOf('_', end + 1)) {
      for (const { node, key, value } of this.lookUp(level, text.slice(from, end))) {
        if (asked!.isOpen && key !== node.key) continue // callers choose values, not keys
        const nodePath = `${path}.${toCompositeKey(node)}`
        const nodeEntries = [...entries, { key, value }]
        if (end < text.length - 1) this.read(node.children, end + 1, nodePath, nodeEntries)
        else if (node !== this.asked!.rule && isCounted(node)) this.tell(node, nodePath, nodeEntries)
      }
    }
  }

  /** All nodes that requests with this text find, and how the text is split for that (spec 2.2). */
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
      // A shared pattern stands for its values in the key, so another text is read. Except that nothing is left of it
      // where the caller's key spells all of it; then the value stands for itself (spec 2.3).
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

  private tell(other: RuleNode, otherPath: string, entries: Entries): void {
    const { rule, path, ruleEntries, isOpen } = this.asked!
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

/** A text as key and value: as the node has it where that is possible. */
function split(node: RuleNode, text: string): Found {
  const at = text.startsWith(`${node.key}_`) ? node.key.length : text.indexOf('_')
  return { node, key: text.slice(0, at), value: text.slice(at + 1) }
}

/** When two windows begin at the same second; the rest of the key is the same anyway. */
function whenWindowsMeet(a: Unit, b: Unit): string {
  const [short, long] = unitSec(a) <= unitSec(b) ? [a, b] : [b, a]
  const names = [UNIT_NAMES[short].toLowerCase(), UNIT_NAMES[long].toLowerCase()]
  if (short === long) return 'always'
  if (unitSec(long) % unitSec(short) === 0) return `in the first ${names[0]} of each ${names[1]}`
  return `whenever a ${names[0]} and a ${names[1]} begin together`
}
