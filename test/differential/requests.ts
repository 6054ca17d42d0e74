/**
 * Random requests for random rules: most follow a path of the tree, and some of these deviate from it.
 *
 *     rule a=b*  > c        a=bx, c=…   hits        a=bx          too short      a=cx, c=…    nearly
 *     rule a_b=c            a=b_c       the same text, split elsewhere
 *
 * Left out: an override with an unknown unit in a known domain (it ends the reference's process, Q1).
 */
import type { Descriptor, Entry, LimitOverride, RateLimitRequest } from '../../proto/ratelimit.ts'
import type { Random } from './random.ts'
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
  random: Random,
  tag: string,
  files: DomainYaml[],
  style: RequestStyle,
): RateLimitRequest {
  const file = random.pick(files)
  const isUnknown = random.chance(0.04)
  const domain = isUnknown
    ? `${tag}${random.pick(['zz', '_', '_A'])}`
    : random.chance(0.01)
      ? ''
      : file.domain
  const nodes = files.filter((each) => each.domain === file.domain).flatMap((each) => each.descriptors)
  const descriptors: Descriptor[] = []
  const count = random.chance(0.01) ? 0 : random.chance(0.02) ? 20 : 1 + random.below(4)
  while (descriptors.length < count) {
    if (descriptors.length > 0 && random.chance(0.12))
      descriptors.push(structuredClone(random.pick(descriptors)))
    else descriptors.push(randomDescriptor(random, nodes, style, isUnknown))
  }
  return {
    domain,
    descriptors,
    hitsAddend: random.chance(0.7) ? 0 : random.pick([1, 1, 2, 3, 10, 4_294_967_295]),
  }
}

function randomDescriptor(
  random: Random,
  nodes: RuleYaml[],
  style: RequestStyle,
  isUnknown: boolean,
): Descriptor {
  const entries = random.chance(0.85) ? entriesAlong(random, nodes, style) : []
  if (random.chance(0.2)) deviate(random, entries, style)
  const hasHits = random.chance(0.3)
  const hasLimit = !style.isPlain && random.chance(0.08)
  const hasGiants = style.hasGiants && random.chance(0.15)
  return {
    entries,
    limit: hasLimit ? randomOverride(random, isUnknown) : null,
    hitsAddend: hasGiants
      ? GIANTS[random.below(random.chance(0.05) ? GIANTS.length : GIANTS.length - 2)]
      : hasHits
        ? random.pick(HITS)
        : null,
  }
}

function randomOverride(random: Random, isUnknownDomain: boolean): LimitOverride {
  const unit = isUnknownDomain && random.chance(0.3) ? random.pick([0, 8, -1]) : random.pick(UNITS)
  return { requestsPerUnit: random.pick(COUNTS), unit }
}

/** Entries that lead to some node of the tree. */
function entriesAlong(random: Random, nodes: RuleYaml[], style: RequestStyle): Entry[] {
  const entries: Entry[] = []
  let level: RuleYaml[] | undefined = nodes
  while (level && level.length > 0) {
    const node: RuleYaml = random.pick(level)
    entries.push(randomEntry(random, node, style))
    if (node.rate_limit && random.chance(0.4)) break
    level = node.descriptors
  }
  return entries
}

function randomEntry(random: Random, node: RuleYaml, style: RequestStyle): Entry {
  const key = node.key.endsWith('*') ? node.key.slice(0, -1) + random.pick(TAILS) : node.key
  if (!node.value) return { key, value: random.chance(0.15) ? '' : randomValue(random, style) }
  if (node.value.endsWith('*')) return { key, value: node.value.slice(0, -1) + randomTail(random, style) }
  if (!style.isPlain && random.chance(0.15)) return splitElsewhere(random, `${key}_${node.value}`)
  return { key, value: node.value }
}

/** The same composite text, split at another `_`. */
function splitElsewhere(random: Random, composite: string): Entry {
  const cuts = [...composite].flatMap((letter, i) => (letter === '_' ? [i] : []))
  const cut = random.chance(0.2) ? composite.length : random.pick(cuts)
  return { key: composite.slice(0, cut), value: composite.slice(cut + 1) }
}

function deviate(random: Random, entries: Entry[], style: RequestStyle): void {
  const way = random.below(6)
  const keys = style.isPlain ? PLAIN_KEYS : KEYS
  if (way === 0 || entries.length === 0)
    entries.push({ key: random.pick(keys), value: randomValue(random, style) })
  else if (way === 1) entries.pop()
  else if (way === 2) entries.shift()
  else if (way === 3) random.pick(entries).value = random.chance(0.3) ? '' : randomValue(random, style)
  else if (way === 4) random.pick(entries).key = random.chance(0.2) ? '' : random.pick(keys)
  else entries.push({ ...random.pick(entries) })
}

function randomValue(random: Random, { isPlain }: RequestStyle): string {
  return random.pick(isPlain ? PLAIN_VALUES : VALUES)
}

function randomTail(random: Random, { isPlain }: RequestStyle): string {
  const tail = random.pick(TAILS)
  return isPlain ? tail.replaceAll('_', '') : tail
}
