/**
 * Counts latencies in buckets that grow with the latency, so that microseconds and minutes fit in one small array and every
 * quantile is correct to 0.4 %.
 *
 *     ticks of 0.1 us   0 1 2 ... 255 | 256-257 258-259 ... 510-511 | 512-515 ... | ...
 *                       one each      | 128 buckets of 2            | 128 of 4    | and so on to 214 s
 *
 * The width of a bucket is at most 1/128 of its values and it reports its middle, hence 1/256 = 0.4 %. Minimum, maximum and mean
 * are exact to a tick.
 */

const TICKS_PER_MS = 10_000
const SUB_BITS = 7
const TICKS_MAX = 2 ** 31 - 1 // 214 s; longer latencies count as this
const BUCKETS = toBucketIndex(TICKS_MAX) + 1

export interface Bucket {
  fromMs: number
  toMs: number
  count: number
}

export class Histogram {
  private readonly counts = new Float64Array(BUCKETS) // more than 2^32 are possible
  count = 0
  private ticks = 0 // sum
  private least = TICKS_MAX
  private most = 0

  /** Negative times count as 0. */
  add(ms: number): void {
    const ticks = Math.max(0, Math.min(TICKS_MAX, Math.round(ms * TICKS_PER_MS))) | 0
    this.counts[toBucketIndex(ticks)]++
    this.count++
    this.ticks += ticks
    if (ticks < this.least) this.least = ticks
    if (ticks > this.most) this.most = ticks
  }

  merge(other: Histogram): void {
    for (let i = 0; i < BUCKETS; i++) this.counts[i] += other.counts[i]
    this.count += other.count
    this.ticks += other.ticks
    this.least = Math.min(this.least, other.least)
    this.most = Math.max(this.most, other.most)
  }

  clear(): void {
    this.counts.fill(0)
    this.count = 0
    this.ticks = 0
    this.least = TICKS_MAX
    this.most = 0
  }

  /** The latency that `share` (0 to 1) of all calls did not exceed; 0 if there are none. */
  quantileMs(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.count))
    if (this.count === 0) return 0
    if (rank >= this.count) return this.maxMs
    let seen = 0
    let index = 0
    while (index < BUCKETS - 1) {
      seen += this.counts[index]
      if (seen >= rank) break
      index++
    }
    const middle = (bucketStart(index) + bucketStart(index + 1) - 1) / 2
    return Math.min(this.most, Math.max(this.least, middle)) / TICKS_PER_MS
  }

  get minMs(): number {
    return this.count === 0 ? 0 : this.least / TICKS_PER_MS
  }

  get maxMs(): number {
    return this.most / TICKS_PER_MS
  }

  get meanMs(): number {
    return this.count === 0 ? 0 : this.ticks / this.count / TICKS_PER_MS
  }

  /** The buckets that are not empty, in order. */
  buckets(): Bucket[] {
    const found: Bucket[] = []
    this.counts.forEach((count, i) => {
      const [fromMs, toMs] = [bucketStart(i) / TICKS_PER_MS, bucketStart(i + 1) / TICKS_PER_MS]
      if (count > 0) found.push({ fromMs, toMs, count })
    })
    return found
  }
}

/** Octave 0 holds 2 * 2^SUB_BITS ticks one by one; each later one 2^SUB_BITS buckets, twice as wide as before. */
function toBucketIndex(ticks: number): number {
  const shift = Math.max(0, 31 - Math.clz32(ticks) - SUB_BITS)
  return (shift << SUB_BITS) + (ticks >>> shift)
}

function bucketStart(index: number): number {
  const shift = Math.max(0, (index >>> SUB_BITS) - 1)
  return (index - (shift << SUB_BITS)) * 2 ** shift
}
