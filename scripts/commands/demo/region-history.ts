/**
 * What the demo's history keeps of one site in one region: the newest results and the buckets of the last hours. Both are
 * bounded by time, since the caller stores them and drops them as the history is filled.
 */
import type { Probe, RegionState } from '../../../monitor/facts.ts'
import { addProbe, type Bucket, bucketStartSec, DAY_SEC, HOUR_SEC } from '../../../monitor/scoring/bucket.ts'
import { emptyHistogram } from '../../../monitor/scoring/histogram.ts'
import { NEWEST } from '../../../monitor/scoring/regions.ts'
import type { SimulatedRegion } from './simulation.ts'

export const RESULTS_KEPT_SEC = 7 * DAY_SEC // as long as raw rows (spec 8.2)
const HOURS_KEPT = (RESULTS_KEPT_SEC + 2 * DAY_SEC) / HOUR_SEC // more than results, which are dropped once a day
const NEWEST_KEPT = 50 // more than a pass stores
const FORGET_AT = 300 // results of a region: now and then, because it copies
const HISTOGRAM_LENGTH = emptyHistogram().length

export interface StoredResult {
  probe: Probe
  isStored: boolean
}

export class RegionHistory {
  results: StoredResult[] = [] // the newest ones and those of the last 7 days before now, oldest first
  pass: { state: RegionState['state']; isPending: boolean } | null = null // the latest one's result
  readonly simulated: SimulatedRegion
  private readonly hours: (Bucket | undefined)[] = new Array(HOURS_KEPT).fill(undefined) // a ring
  private readonly histograms = new Uint32Array(HOURS_KEPT * HISTOGRAM_LENGTH) // of these hours, since 24,000 arrays cost seconds

  constructor(simulated: SimulatedRegion) {
    this.simulated = simulated
  }

  /** False = there is a result of this second already, and only the first one is stored. */
  add(probe: Probe): boolean {
    if (this.results.at(-1)?.probe.atSec === probe.atSec) return false
    this.results.push({ probe, isStored: false })
    const atSec = bucketStartSec(probe.atSec, HOUR_SEC)
    return addProbe(this.hourAt(atSec) ?? this.createHour(atSec), probe)
  }

  /** Whether a pass now would have another result than the last one, as far as the state is concerned: the vote of getVote. */
  get needsPass(): boolean {
    let upCount = 0
    const count = Math.min(NEWEST, this.results.length)
    for (let i = 1; i <= count; i++)
      if (this.results[this.results.length - i].probe.outcome !== 'down') upCount++
    const isUp = upCount >= Math.ceil(count / 2)
    const state = isUp ? 'reachable' : 'unreachable'
    return count > 0 && (this.pass?.isPending !== false || this.pass.state !== state)
  }

  hourAt(atSec: number): Bucket | null {
    const bucket = this.hours[(atSec / HOUR_SEC) % HOURS_KEPT]
    return bucket?.atSec === atSec ? bucket : null
  }

  listHours(daySec: number): Bucket[] {
    const starts = Array.from({ length: DAY_SEC / HOUR_SEC }, (_, i) => daySec + i * HOUR_SEC)
    return starts.flatMap((atSec) => this.hourAt(atSec) ?? [])
  }

  /** Drops results that neither a later pass nor the end will store: those before `keptFromSec`, except the newest. */
  forget(keptFromSec: number): void {
    const { results } = this
    if (results.length < FORGET_AT || results[results.length - NEWEST_KEPT].probe.atSec >= keptFromSec) return
    this.results = results.slice(-NEWEST_KEPT)
  }

  private createHour(atSec: number): Bucket {
    const slot = (atSec / HOUR_SEC) % HOURS_KEPT
    const histogram = this.histograms.subarray(slot * HISTOGRAM_LENGTH, (slot + 1) * HISTOGRAM_LENGTH).fill(0)
    const bucket: Bucket = {
      ...{ atSec, windowSec: HOUR_SEC, up: 0, degraded: 0, down: 0, statuses: {}, errors: {} },
      histogram,
    }
    this.hours[slot] = bucket
    return bucket
  }
}
