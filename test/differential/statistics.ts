/** Compares the counters of decisions (spec 7.1), which alone show what 2.3 and 4.4 say of stats keys and near limits. */
import type { Pair } from './pair.ts'
import { TAG } from './round.ts'
import { countersFailure, type Tally } from './tally.ts'
import type { Variant } from './variants.ts'

const COMPARED = 'ratelimit.service.'

/** Several changes of rules may be one load; the marker domains are asked for until they are there. */
const NOT_COMPARED = /^ratelimit\.service\.(config_load_|rate_limit\.marker-)/

/** `aside`: tags of the lanes that do not count; with any of them, what all lanes share does not count either. */
export async function compareStatistics(pair: Pair, { settings }: Variant, aside: Set<string>, tally: Tally) {
  const [ours, theirs] = await Promise.all([pair.ours.stats(), pair.reference.stats()])
  const reference = namedAsOurs(theirs)
  const wrong: string[] = []
  for (const name of new Set([...Object.keys(ours), ...Object.keys(reference)])) {
    if (!name.startsWith(COMPARED) || NOT_COMPARED.test(name)) continue
    const tag = TAG.exec(name)?.[0]
    if (tag === undefined ? aside.size > 0 : aside.has(tag)) continue
    tally.statistics++
    if (ours[name] !== reference[name] && !hasWrapped(ours[name] ?? 0, reference[name]))
      wrong.push(`${name}: ours ${ours[name]}, reference ${reference[name]}`)
  }
  if (wrong.length > 0) tally.failures.push(countersFailure('statistics', wrong, settings, []))
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g
const TAG_OPENING = /\._{2,}/g

/** What of a caller's text would make lines or tags is replaced in ours (docs/differences.md); names may become one by that. */
function namedAsOurs(stats: Record<string, number>): Record<string, number> {
  const renamed: Record<string, number> = {}
  for (const [name, value] of Object.entries(stats)) {
    const ours = name.replaceAll(CONTROLS, '_').replaceAll(TAG_OPENING, '._')
    renamed[ours] = (renamed[ours] ?? 0) + value
  }
  return renamed
}

/**
 * With a ratio near 1, 32-bit rounding puts the near threshold of a large limit above the limit itself: the reference
 * subtracts below 0 and adds 2^64-1. Ours must not count backwards either.
 */
function hasWrapped(ours: number, reference: number): boolean {
  return reference >= 2 ** 63 && ours >= 0
}
