/**
 * The size of a benchmark, and the same random numbers in every run.
 *
 *     const hits = size({ small: 1_000, full: 10_000_000 })     small in tests, full with --full or SLUICE_SIZE=full
 *     const random = seeded(7)                                  random() is 0 to 1, 1 excluded
 */

export function size<T>(sizes: { small: T; full: T }): T {
  const isFull = process.argv.includes('--full') || process.env.SLUICE_SIZE === 'full'
  return isFull ? sizes.full : sizes.small
}

/** mulberry32: 32 bits of state, good enough to choose keys. */
export function seeded(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
