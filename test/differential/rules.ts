/**
 * Random rules, small alphabets: keys and values collide, prefixes overlap, `a_b` and `a` with value `b` meet.
 *
 *     domain L03R0012_a            one lane's domains begin with the lane's tag, so lanes never share a counter
 *       a=b*   10 per day          values end in `*` at most: inner wildcards are younger than the reference at hand
 *         b    3 per hour, shadow
 *
 * Left out, because the reference at hand is of January 2026: `metadata`, `quota_mode`, a `*` before the end.
 * Wildcards of a merged domain stand in one file only: the reference reads files in random order (Q27).
 */
import type { Random } from './random.ts'

/** A descriptor as the YAML has it. */
export interface RuleYaml {
  key: string
  value?: string
  rate_limit?: LimitYaml
  shadow_mode?: boolean
  detailed_metric?: boolean
  value_to_metric?: boolean
  share_threshold?: boolean
  descriptors?: RuleYaml[]
}

export interface LimitYaml {
  unit?: string
  requests_per_unit?: number
  unlimited?: boolean
  name?: string
  replaces?: { name: string }[]
}

export interface DomainYaml {
  domain: string
  descriptors: RuleYaml[]
}

/** Two descriptors that would have one composite key are not made; nothing else here is ever invalid. */
export interface RulesStyle {
  isMerging: boolean
  isPlain: boolean // no `_` inside keys or values, so that one counter has one limit
}

// Long windows mostly: short ones end while the test runs.
const UNITS = [
  'hour',
  'day',
  'week',
  'month',
  'year',
  'HOUR',
  'Day',
  'hour',
  'day',
  'year',
  'minute',
  'second',
]
const COUNTS = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 10, 20, 100, 4_294_967_295]
const NAMES = ['one', 'two', 'three']
const SUFFIXES = ['', '_a', '.b', ':c|d', '-é']

export const PLAIN_KEYS = ['a', 'b', 'c', 'é']
export const PLAIN_VALUES = ['b', 'c', 'bc', 'x/y', 'B', '日本', '10.0.0.1']
export const KEYS = [...PLAIN_KEYS, 'a_b', 'a_b_c', '_', 'a_']
export const VALUES = [...PLAIN_VALUES, 'b_c', '_', 'c_', 'b:c|d', ' ', '%s "q"\\']
const STARS = ['*', 'b*', 'c*', 'bc*', 'x/*', '日*']
const NODES_MAX = 5 // siblings
const DEPTH_MAX = 3

/** The domains of one lane, each in one file or, when merging, perhaps in two. */
export function randomRules(random: Random, tag: string, style: RulesStyle): DomainYaml[] {
  const files: DomainYaml[] = []
  for (const suffix of SUFFIXES.slice(0, 1 + random.below(SUFFIXES.length))) {
    const domain = tag + suffix
    const taken = new Set<string>()
    files.push({ domain, descriptors: randomNodes(random, style, 1, taken) })
    if (style.isMerging && random.chance(0.6)) {
      const more = randomNodes(random, style, 1, taken).filter(
        (node) => !`${node.key}${node.value}`.includes('*'),
      )
      files.push({ domain, descriptors: more })
    }
  }
  return files
}

function randomNodes(random: Random, style: RulesStyle, depth: number, taken: Set<string>): RuleYaml[] {
  const nodes: RuleYaml[] = []
  for (let left = 1 + random.below(NODES_MAX); left > 0; left--) {
    const node = randomNode(random, style)
    const composite = node.value ? `${node.key}_${node.value}` : node.key
    if (taken.has(composite)) continue
    taken.add(composite)
    if (random.chance(0.8)) node.rate_limit = randomLimit(random)
    for (const flag of ['shadow_mode', 'detailed_metric', 'value_to_metric'] as const) {
      if (random.chance(0.2)) node[flag] = random.chance(0.9)
    }
    if (composite.includes('*') && random.chance(0.4)) node.share_threshold = true
    if (depth < DEPTH_MAX && random.chance(0.45))
      node.descriptors = randomNodes(random, style, depth + 1, new Set())
    nodes.push(node)
  }
  return nodes
}

function randomNode(random: Random, { isPlain }: RulesStyle): RuleYaml {
  if (!isPlain && random.chance(0.04)) return { key: random.pick(['a*', 'b*', 'a_*', '*']) }
  const key = random.pick(isPlain ? PLAIN_KEYS : KEYS)
  const kind = random.below(10)
  if (kind < 3) return random.chance(0.5) ? { key } : { key, value: '' }
  if (kind < 6) return { key, value: random.pick(STARS) }
  return { key, value: random.pick(isPlain ? PLAIN_VALUES : VALUES) }
}

function randomLimit(random: Random): LimitYaml {
  const limit: LimitYaml = random.chance(0.08)
    ? { unlimited: true }
    : { unit: random.pick(UNITS), requests_per_unit: random.pick(COUNTS) }
  if (random.chance(0.3)) limit.name = random.pick(NAMES)
  if (random.chance(0.15)) {
    const names = NAMES.filter((name) => name !== limit.name && random.chance(0.5))
    limit.replaces = names.map((name) => ({ name }))
  }
  return limit
}
