/**
 * Quantiles over a sliding window: values are counted in slices of time, and the oldest slice is dropped.
 *
 *     max age 10 minutes, 5 slices    [ 0-2 ][ 2-4 ][ 4-6 ][ 6-8 ][ 8-10 now ]
 *
 * Exact, since values are whole milliseconds and few are distinct. Keeps at most VALUES_MAX distinct values per slice;
 * beyond, a new value counts as the largest known.
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

  /** For each share, the smallest value that this share of values does not exceed; NaN if the window is empty. */
  quantiles(shares: readonly number[], nowMs: number): number[] {
    this.dropOldSlices(nowMs)
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
    this.dropOldSlices(nowMs)
    const number = Math.floor(nowMs / this.sliceMs)
    const last = this.slices.at(-1)
    if (last?.number === number) return last
    const created = { number, counts: new Map(), largest: Number.NEGATIVE_INFINITY }
    this.slices.push(created)
    return created
  }

  private dropOldSlices(nowMs: number): void {
    const oldest = Math.floor(nowMs / this.sliceMs) - this.slicesCount + 1
    this.slices = this.slices.filter(({ number }) => number >= oldest)
  }
}
