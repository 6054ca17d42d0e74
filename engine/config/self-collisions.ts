/**
 * Finds rules for which two different requests use the same counter key (spec 3.1: keys are texts joined by `_` without escaping).
 *
 *     user*        user=7_7             counts under  shop_user_7_7_<window start>, as
 *                  user_7=7             does: both texts match the pattern
 *     tag > tag    tag=7_tag_7, tag=7   counts under  shop_tag_7_tag_7_tag_7_<window start>, as
 *                  tag=7, tag=7_tag_7   does: the key does not show where the first value ends
 *
 * Reported: a wildcard in a key, and a key that is repeated below itself, both with unconstrained values. Not reported: two such values
 * below different keys (`user > plan`), since the same is true of nearly every nested rule, and only for values that contain
 * the key of the lower level. Each reported pair matches its rule: it is looked up as a request.
 */
import { toCompositeKey } from './patterns.ts'
import type { RuleDomain, RuleNode } from './rules.ts'
import { type Entries, isCounted, KeyTextParser } from './shared-counters.ts'

/** A rule, and two requests for it with one counter key. */
export interface SelfCollision {
  rule: RuleNode
  path: string
  requests: readonly [Entries, Entries]
}

interface Level {
  siblings: readonly RuleNode[]
  rule: RuleNode
  value: string // of a request that matches the rule
}

const SAMPLE = '7' // for an open value or a star; without an underscore
const STAR_SAMPLES = ['7', '7_7', '_7_7', '7_7_7'] // for the star of a key; the first that allows two keys is used

/** `steps.left` counts down per comparison; at 0 the rest is skipped. */
export function* findSelfCollisions(
  domains: readonly RuleDomain[],
  steps: { left: number },
): Generator<SelfCollision> {
  const parser = new KeyTextParser(domains, steps)

  function* below(siblings: readonly RuleNode[], path: string, above: Level[]): Generator<SelfCollision> {
    for (const rule of siblings) {
      if (steps.left-- <= 0) return
      const isPattern = rule.key.includes('*')
      const value = rule.value === '' ? SAMPLE : rule.value.replaceAll('*', SAMPLE)
      const levels = [...above, { siblings, rule, value }]
      const requests = isPattern ? splitKey(levels) : moveText(levels)
      const rulePath = `${path}.${toCompositeKey(rule)}`
      if (requests?.every((entries) => isMatched(levels, entries))) yield { rule, path: rulePath, requests }
      else if (!isPattern) yield* below(rule.children, rulePath, levels)
    }
  }

  function isMatched(levels: Level[], entries: Entries): boolean {
    return levels.every(({ siblings, rule }, i) => {
      return parser.match(siblings, entries[i].key, entries[i].value) === rule
    })
  }

  for (const { name, nodes } of domains) yield* below(nodes, name, [])
}

/** Two keys and values that form one text of a pattern. */
function splitKey(levels: Level[]): [Entries, Entries] | null {
  const { rule } = levels[levels.length - 1]
  if (rule.hasShareThreshold || !isAnyCounted(rule)) return null
  for (const sample of STAR_SAMPLES) {
    const text = toCompositeKey(rule).replace('*', sample).replaceAll('*', SAMPLE)
    const [first, second] = toEntries(text)
    if (second) return [withLast(levels, first), withLast(levels, second)]
  }
  return null
}

/** The pairs of key and value that form a text; neither is empty. */
function toEntries(text: string): Entries {
  const ends = [...text.matchAll(/_/g)].map(({ index }) => index)
  const entries = ends.map((end) => ({ key: text.slice(0, end), value: text.slice(end + 1) }))
  return entries.filter(({ key, value }) => key !== '' && value !== '')
}

/** The values of a repeated key, with a text that belongs to the upper or to the lower one. */
function moveText(levels: Level[]): [Entries, Entries] | null {
  const last = levels[levels.length - 1]
  const at = levels.findLastIndex((level) => level !== last && isOpen(level.rule))
  if (at < 0 || levels[at].rule.key !== last.rule.key || !isOpen(last.rule) || !isCounted(last.rule))
    return null
  const between = levels.slice(at + 1, -1).map(({ rule, value }) => `${rule.key}_${value}_`)
  const long = `${SAMPLE}_${between.join('')}${last.rule.key}_${SAMPLE}`
  const upper = levels.map((level, i) => (i === at ? { ...level, value: long } : level))
  return [withLast(upper, toEntry(last)), withLast(levels, { key: last.rule.key, value: long })]
}

function withLast(levels: Level[], last: Entries[number]): Entries {
  return [...levels.slice(0, -1).map(toEntry), last]
}

function toEntry({ rule, value }: Level): Entries[number] {
  return { key: rule.key, value }
}

/** Whether any value matches and becomes a part of the counter key. */
function isOpen({ value, hasShareThreshold }: RuleNode): boolean {
  return value === '' || (value === '*' && !hasShareThreshold)
}

function isAnyCounted(rule: RuleNode): boolean {
  return isCounted(rule) || rule.children.some(isAnyCounted)
}
