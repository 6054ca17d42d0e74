/**
 * Quantiles of what was measured lately: values are counted in slices of time, and the oldest slice is forgotten.
 *
 *     max age 10 minutes, 5 slices    [ 0-2 ][ 2-4 ][ 4-6 ][ 6-8 ][ 8-10 now ]
 *
 * Exact, since our values are whole milliseconds and few. Keeps at most VALUES_MAX distinct ones a slice; beyond, a new
 * one counts as the largest there is.
 */
const VALUES_MAX = 10_000

interface Slice {
  number: number
  counts: Map<number, number>
  largest: number
}

export class QuantileWindow {
  private readonly sliceMs: number
  private readonly slicesCount: number
  private slices: Slice[] = []

  constructor(maxAgeMs: number, slicesCount: number) {
    this.sliceMs = maxAgeMs / slicesCount
    this.slicesCount = slicesCount
  }

  add(value: number, times: number, nowMs: number): void {
    const slice = this.sliceAt(nowMs)
    const isKnown = slice.counts.has(value) || slice.counts.size < VALUES_MAX
    if (isKnown) slice.largest = Math.max(slice.largest, value)
    const counted = isKnown ? value : slice.largest
    slice.counts.set(counted, (slice.counts.get(counted) ?? 0) + times)
  }

  /** For each share, the smallest value that so many do not exceed; NaN when nothing was measured lately. */
  quantiles(shares: readonly number[], nowMs: number): number[] {
    this.forget(nowMs)
    const merged = new Map<number, number>()
    let total = 0
    for (const { counts } of this.slices) {
      for (const [value, times] of counts) {
        merged.set(value, (merged.get(value) ?? 0) + times)
        total += times
      }
    }
    const sorted = [...merged].sort(([a], [b]) => a - b)
    return shares.map((share) => {
      let below = 0
      for (const [value, times] of sorted) {
        below += times
        if (below >= share * total) return value
      }
      return Number.NaN
    })
  }

  private sliceAt(nowMs: number): Slice {
    this.forget(nowMs)
    const number = Math.floor(nowMs / this.sliceMs)
    const last = this.slices.at(-1)
    if (last?.number === number) return last
    const made = { number, counts: new Map(), largest: Number.NEGATIVE_INFINITY }
    this.slices.push(made)
    return made
  }

  private forget(nowMs: number): void {
    const oldest = Math.floor(nowMs / this.sliceMs) - this.slicesCount + 1
    this.slices = this.slices.filter(({ number }) => number >= oldest)
  }
}
