/**
 * Counts durations per whole millisecond (truncated, spec 7.1), so that sinks can report every value, however many there
 * are.
 *
 *     0 … 999 ms   one by one        1,000 … 59,990 ms   by tens        longer   as 60 s
 */
const EXACT_MS = 1_000
const STEP_MS = 10
const MS_MAX = 60_000
const PLACES = EXACT_MS + (MS_MAX - EXACT_MS) / STEP_MS + 1

/** Durations since the last call: `ms[i]`, `counts[i]` times. */
export interface TimerDeltas {
  name: string
  ms: number[]
  counts: number[]
  sumMs: number // of the durations, not truncated
}

export class Timer {
  private readonly counts = new Uint32Array(PLACES) // since the last call
  private readonly used: number[] = [] // places that are not 0
  private sumMs = 0

  add(ms: number): void {
    const place =
      ms < EXACT_MS ? Math.trunc(ms) : EXACT_MS + Math.trunc((Math.min(ms, MS_MAX) - EXACT_MS) / STEP_MS)
    if (this.counts[place]++ === 0) this.used.push(place)
    this.sumMs += ms
  }

  /** Null: there were none. */
  take(name: string): TimerDeltas | null {
    if (this.used.length === 0) return null
    const places = this.used.splice(0).sort((a, b) => a - b)
    const deltas = {
      ...{ name, ms: places.map(bucketToMs), sumMs: this.sumMs },
      counts: places.map((place) => this.counts[place]),
    }
    for (const place of places) this.counts[place] = 0
    this.sumMs = 0
    return deltas
  }
}

function bucketToMs(place: number): number {
  return place < EXACT_MS ? place : EXACT_MS + (place - EXACT_MS) * STEP_MS
}
