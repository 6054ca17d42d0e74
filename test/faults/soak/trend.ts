/**
 * Is a series flat? Faults disturb it, so only the medians of the quiet spans between faults are compared, and neither a single bad
 * span nor the way up at the start may decide.
 *
 *     samples    ╱╲___╱╲____╱╲____╱╲____          faults move it for seconds
 *     medians      1    2     3     4             of each span between two faults
 *                  └────┘     └─────┘             the first are the warm-up, not compared
 *     slope      median of the slopes of all pairs of medians (Theil 1950, Sen 1968): right with up to 29 % of them wrong
 *     interval   of the slope, 95 %, from the ranks of those slopes (Sen 1968)
 *
 * A series grows if its slope is above the bound and the whole interval is above 0: then it is neither small nor chance.
 */

export interface Window {
  fromSec: number
  toSec: number
}

export interface Trend {
  windows: number // medians compared
  median: number // of them
  slopePerHour: number
  lowPerHour: number // the interval
  highPerHour: number
}

/** Fewer medians have no interval of 95 % that says anything. */
export const WINDOWS_MIN = 6

const Z_95 = 1.96 // of the normal distribution, two-sided
const SEC_PER_HOUR = 3_600

/** `values`: [second, value]; null = unknown. Null if there are fewer than WINDOWS_MIN medians. */
export function computeTrend(
  values: readonly (readonly [sec: number, value: number | null])[],
  windows: readonly Window[],
): Trend | null {
  const medians: [sec: number, value: number][] = windows.flatMap(({ fromSec, toSec }) => {
    const known = values.flatMap(([sec, value]) => (sec >= fromSec && sec < toSec ? (value ?? []) : []))
    return known.length === 0 ? [] : [[(fromSec + toSec) / 2, median(known)] as [number, number]]
  })
  const count = medians.length
  if (count < WINDOWS_MIN) return null
  const slopes: number[] = []
  for (let i = 0; i < count; i++) {
    for (let j = i + 1; j < count; j++) {
      slopes.push((medians[j][1] - medians[i][1]) / (medians[j][0] - medians[i][0]))
    }
  }
  slopes.sort((a, b) => a - b)
  // Half the width of the interval, in ranks, from the variance of Kendall's score without a trend.
  const halfRanks = (Z_95 * Math.sqrt((count * (count - 1) * (2 * count + 5)) / 18)) / 2
  const middle = (slopes.length - 1) / 2
  const at = (rank: number) => slopes[Math.max(0, Math.min(slopes.length - 1, Math.round(rank)))]
  return {
    windows: count,
    median: median(medians.map(([, value]) => value)),
    slopePerHour: median(slopes) * SEC_PER_HOUR,
    lowPerHour: at(middle - halfRanks) * SEC_PER_HOUR,
    highPerHour: at(middle + halfRanks) * SEC_PER_HOUR,
  }
}

export function isGrowing({ slopePerHour, lowPerHour }: Trend, boundPerHour: number): boolean {
  return slopePerHour > boundPerHour && lowPerHour > 0
}

/**
 * The spans between faults: each begins `settleSec` after a fault and ends with the next one. The first `warmUp` of them are left out,
 * at most half.
 */
export function findQuietWindows(
  faults: readonly Window[],
  endSec: number,
  settleSec: number,
  warmUp: number,
): Window[] {
  const all = faults
    .map(({ toSec }, i) => ({ fromSec: toSec + settleSec, toSec: faults[i + 1]?.fromSec ?? endSec }))
    .filter(({ fromSec, toSec }) => toSec > fromSec)
  return all.slice(Math.min(warmUp, Math.floor(all.length / 2)))
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
