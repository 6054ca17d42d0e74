/**
 * Which keys the requests of a run ask about. Seeded: two runs with the same seed ask the same questions.
 *
 *     hot         descriptor i of every request always asks for key i
 *     zipf:N      key k (0 to N-1) is asked for 1/(k+1) as often as key 0 (exponent 1), as callers are in real life
 *     uniform:N   all N equally often
 *
 * Zipf draws come from a table made at the start and used over and over, since drawing costs a search; with 2^20
 * draws a run sees each cycle after some seconds, and the 100,000 keys of the usual run all the same.
 */
import { seeded } from '../size.ts'

const ZIPF_KEYS_MAX = 1_000_000
const UNIFORM_KEYS_MAX = 1_000_000_000
const DRAWS = 1 << 20 // a power of two: the place in the table wraps by a mask

/** The number of the next key; `place` is that of the descriptor in its request. */
export type NextKey = (place: number) => number

export interface Keys {
  name: string // as given
  count: number // of different ones; hot: one per descriptor
  start(seed: number): NextKey
}

/** null: not understood. */
export function parseKeys(text: string): Keys | null {
  const [, kind, digits] = /^(hot|zipf|uniform)(?::(\d+))?$/.exec(text) ?? []
  if (kind === 'hot' && digits === undefined) return { name: text, count: 1, start: () => (place) => place }
  const count = Number(digits)
  if (kind === 'zipf' && count >= 1 && count <= ZIPF_KEYS_MAX) {
    return { name: text, count, start: (seed) => zipf(count, seed) }
  }
  if (kind === 'uniform' && count >= 1 && count <= UNIFORM_KEYS_MAX) {
    return { name: text, count, start: (seed) => uniform(count, seed) }
  }
  return null
}

function uniform(count: number, seed: number): NextKey {
  const random = seeded(seed)
  return () => Math.floor(random() * count)
}

function zipf(count: number, seed: number): NextKey {
  const random = seeded(seed)
  const sums = new Float64Array(count) // sums[k]: of the weights of keys 0 to k
  let sum = 0
  for (let key = 0; key < count; key++) {
    sum += 1 / (key + 1)
    sums[key] = sum
  }
  const draws = new Int32Array(DRAWS)
  for (let i = 0; i < DRAWS; i++) draws[i] = firstAbove(sums, random() * sum)
  let at = 0
  return () => draws[at++ & (DRAWS - 1)]
}

function firstAbove(sums: Float64Array, value: number): number {
  let low = 0
  let high = sums.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (sums[middle] > value) high = middle
    else low = middle + 1
  }
  return low
}
