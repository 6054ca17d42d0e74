/**
 * Random requests for random rules: most walk down a path of the tree, many of these go a little astray.
 *
 *     rule a=b*  > c        a=bx, c=…   hits        a=bx          too short      a=cx, c=…    nearly
 *     rule a_b=c            a=b_c       the same text, split elsewhere
 *
 * Left out: an override with an unknown unit in a known domain (it ends the reference's process, Q1).
 */
import type { Descriptor, Entry, LimitOverride, RateLimitRequest } from '../../proto/ratelimit.ts'
import type { Dice } from './dice.ts'
import { type DomainYaml, KEYS, PLAIN_KEYS, PLAIN_VALUES, type RuleYaml, VALUES } from './rules.ts'

export interface RequestStyle {
  isPlain: boolean // as in RulesStyle; and no overrides
  hasGiants: boolean // hits around 2^53, 2^63, 2^64
}

const TAILS = ['', '', 'x', '_c', '/z', 'é', '*', ' ']
const UNITS = [3, 4, 5, 6, 7, 3, 4, 6, 2, 1] // protocol numbers; mostly long
const COUNTS = [0, 1, 2, 3, 5, 10, 1_000, 4_294_967_295]
const HITS = [0, 0, 1, 2, 3, 5, 7, 11, 100, 4_294_967_295, 4_294_967_296]
const GIANTS = [
  // the last two end a lane (Q42), so they are rare
  2 ** 53 - 1,
  2n ** 53n,
  2n ** 53n + 1n,
  2n ** 62n,
  2n ** 63n - 2n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
]

export function randomRequest(
  dice: Dice,
  tag: string,
  files: DomainYaml[],
  style: RequestStyle,
): RateLimitRequest {
  const file = dice.pick(files)
  const isUnknown = dice.chance(0.04)
  const domain = isUnknown ? `${tag}${dice.pick(['zz', '_', '_A'])}` : dice.chance(0.01) ? '' : file.domain
  const nodes = files.filter((each) => each.domain === file.domain).flatMap((each) => each.descriptors)
  const descriptors: Descriptor[] = []
  const count = dice.chance(0.01) ? 0 : dice.chance(0.02) ? 20 : 1 + dice.below(4)
  while (descriptors.length < count) {
    if (descriptors.length > 0 && dice.chance(0.12)) descriptors.push(structuredClone(dice.pick(descriptors)))
    else descriptors.push(randomDescriptor(dice, nodes, style, isUnknown))
  }
  return {
    domain,
    descriptors,
    hitsAddend: dice.chance(0.7) ? 0 : dice.pick([1, 1, 2, 3, 10, 4_294_967_295]),
  }
}

function randomDescriptor(
  dice: Dice,
  nodes: RuleYaml[],
  style: RequestStyle,
  isUnknown: boolean,
): Descriptor {
  const entries = dice.chance(0.85) ? entriesAlong(dice, nodes, style) : []
  if (dice.chance(0.2)) goAstray(dice, entries, style)
  const hasHits = dice.chance(0.3)
  const hasLimit = !style.isPlain && dice.chance(0.08)
  const hasGiants = style.hasGiants && dice.chance(0.15)
  return {
    entries,
    limit: hasLimit ? randomOverride(dice, isUnknown) : null,
    hitsAddend: hasGiants
      ? GIANTS[dice.below(dice.chance(0.05) ? GIANTS.length : GIANTS.length - 2)]
      : hasHits
        ? dice.pick(HITS)
        : null,
  }
}

function randomOverride(dice: Dice, isUnknownDomain: boolean): LimitOverride {
  const unit = isUnknownDomain && dice.chance(0.3) ? dice.pick([0, 8, -1]) : dice.pick(UNITS)
  return { requestsPerUnit: dice.pick(COUNTS), unit }
}

/** Entries that lead to some node of the tree. */
function entriesAlong(dice: Dice, nodes: RuleYaml[], style: RequestStyle): Entry[] {
  const entries: Entry[] = []
  let level: RuleYaml[] | undefined = nodes
  while (level && level.length > 0) {
    const node: RuleYaml = dice.pick(level)
    entries.push(entryOf(dice, node, style))
    if (node.rate_limit && dice.chance(0.4)) break
    level = node.descriptors
  }
  return entries
}

function entryOf(dice: Dice, node: RuleYaml, style: RequestStyle): Entry {
  const key = node.key.endsWith('*') ? node.key.slice(0, -1) + dice.pick(TAILS) : node.key
  if (!node.value) return { key, value: dice.chance(0.15) ? '' : randomValue(dice, style) }
  if (node.value.endsWith('*')) return { key, value: node.value.slice(0, -1) + randomTail(dice, style) }
  if (!style.isPlain && dice.chance(0.15)) return splitElsewhere(dice, `${key}_${node.value}`)
  return { key, value: node.value }
}

/** The same composite text, cut at another `_`. */
function splitElsewhere(dice: Dice, composite: string): Entry {
  const cuts = [...composite].flatMap((letter, i) => (letter === '_' ? [i] : []))
  const cut = dice.chance(0.2) ? composite.length : dice.pick(cuts)
  return { key: composite.slice(0, cut), value: composite.slice(cut + 1) }
}

function goAstray(dice: Dice, entries: Entry[], style: RequestStyle): void {
  const way = dice.below(6)
  const keys = style.isPlain ? PLAIN_KEYS : KEYS
  if (way === 0 || entries.length === 0)
    entries.push({ key: dice.pick(keys), value: randomValue(dice, style) })
  else if (way === 1) entries.pop()
  else if (way === 2) entries.shift()
  else if (way === 3) dice.pick(entries).value = dice.chance(0.3) ? '' : randomValue(dice, style)
  else if (way === 4) dice.pick(entries).key = dice.chance(0.2) ? '' : dice.pick(keys)
  else entries.push({ ...dice.pick(entries) })
}

function randomValue(dice: Dice, { isPlain }: RequestStyle): string {
  return dice.pick(isPlain ? PLAIN_VALUES : VALUES)
}

function randomTail(dice: Dice, { isPlain }: RequestStyle): string {
  const tail = dice.pick(TAILS)
  return isPlain ? tail.replaceAll('_', '') : tail
}
