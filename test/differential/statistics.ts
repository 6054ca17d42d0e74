/** Compares the counters of decisions (spec 7.1), the only place where stats keys and near limits (2.3, 4.4) are visible. */
import type { Pair } from './pair.ts'
import { TAG } from './round.ts'
import { countersFailure, type Tally } from './tally.ts'
import type { Variant } from './variants.ts'

const COMPARED = 'ratelimit.service.'

/** Several changes of rules may be one load, and the marker domains are requested until they exist. */
const NOT_COMPARED = /^ratelimit\.service\.(config_load_|rate_limit\.marker-)/

/** Skips the statistics of the lanes in `setAsideTags` and, if there are any, those that all lanes share. */
export async function compareStatistics(
  pair: Pair,
  { settings }: Variant,
  setAsideTags: Set<string>,
  tally: Tally,
) {
  const [sluice, referenceStats] = await Promise.all([pair.sluice.stats(), pair.reference.stats()])
  const reference = toSluiceNames(referenceStats)
  const wrong: string[] = []
  for (const name of new Set([...Object.keys(sluice), ...Object.keys(reference)])) {
    if (!name.startsWith(COMPARED) || NOT_COMPARED.test(name)) continue
    const tag = TAG.exec(name)?.[0]
    if (tag === undefined ? setAsideTags.size > 0 : setAsideTags.has(tag)) continue
    tally.statistics++
    if (sluice[name] !== reference[name] && !hasWrapped(sluice[name] ?? 0, reference[name]))
      wrong.push(`${name}: Sluice ${sluice[name]}, reference ${reference[name]}`)
  }
  if (wrong.length > 0) tally.failures.push(countersFailure('statistics', wrong, settings, []))
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g
const TAG_OPENING = /\._{2,}/g

/** Sluice replaces characters of clients that would form lines or tags (docs/differences.md). Names that become equal are summed. */
function toSluiceNames(stats: Record<string, number>): Record<string, number> {
  const renamed: Record<string, number> = {}
  for (const [name, value] of Object.entries(stats)) {
    const sluiceName = name.replaceAll(CONTROLS, '_').replaceAll(TAG_OPENING, '._')
    renamed[sluiceName] = (renamed[sluiceName] ?? 0) + value
  }
  return renamed
}

/**
 * With a ratio near 1, 32-bit rounding puts the near threshold of a large limit above the limit itself: the reference
 * subtracts below 0 and adds 2^64-1. Sluice's count must not be negative.
 */
function hasWrapped(sluice: number, reference: number): boolean {
  return reference >= 2 ** 63 && sluice >= 0
}
