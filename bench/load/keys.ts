/**
 * The keys of the requests of a run. Two runs with the same seed send the same requests.
 *
 *     hot         descriptor i of every request has key i
 *     zipf:N      key k (0 to N-1) is 1/(k+1) as frequent as key 0 (exponent 1), like real clients
 *     uniform:N   all N with the same frequency
 *
 * Zipf keys come from a table of 2^20 draws that is filled at the start and repeated, since each draw costs a search.
 */
import { seeded } from '../size.ts'

const ZIPF_KEYS_MAX = 1_000_000
const UNIFORM_KEYS_MAX = 1_000_000_000
const DRAWS = 1 << 20 // a power of two: the place in the table wraps by a mask

/** The number of the next key; `place` is the index of the descriptor in its request. */
export type NextKey = (place: number) => number

export interface Keys {
  name: string // as given
  count: number // of different keys; hot: one per descriptor
  start(seed: number): NextKey
}

/** Null if the text is not valid. */
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
