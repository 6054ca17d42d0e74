/**
 * Counts and latencies of a run, in total and over time.
 *
 *     warm-up                    from ──── window ──── to      after
 *     everything, discarded      everything                    open loop: responses to calls that were due in the window
 *     except errors
 *
 * The warm-up runs the same code as the window, so that V8 has compiled it before the window begins; else it starts 20 ms late.
 *
 * In a closed loop a decision belongs to the window in which its response arrives, in an open loop to the window in which the
 * call was due. Errors count from the first call on.
 */
import { Code } from '../../proto/ratelimit.ts'
import { CODE_MASK, LIMITED } from './classify-response.ts'
import { normalizeReason, readable } from './errors.ts'
import { Histogram } from './histogram.ts'

const CAUSES_MAX = 20 // of errors; further ones count under OTHERS
const OTHERS = 'other errors'

export interface Point {
  sec: number // since the window began, at the end of this interval
  ratePerSec: number
  p50Ms: number
  p99Ms: number
  maxMs: number
  errors: number // so far, warm-up included
}

interface Cause {
  first: string // its first reason
  isMixed: boolean // other texts have the same cause
  count: number
}

export class Recorder {
  readonly latency = new Histogram()
  readonly lag = new Histogram() // open loop: of the generator itself
  series: Point[] = []
  ok = 0
  overLimit = 0
  limited = 0 // of both: those with a status that named its limit
  errorCount = 0
  refused = 0
  reconnects = 0
  held = 0 // open loop: calls that waited because all streams were taken
  dropped = 0 // open loop: calls never made, the backlog being full or the run over
  unconnected = 0 // of those dropped: no connection was open
  fromMs = 0 // during the warm-up every response counts
  toMs = Number.POSITIVE_INFINITY
  private readonly causes = new Map<string, Cause>()
  private readonly isOpenLoop: boolean
  private readonly interval = new Interval() // of the series
  private readonly progress = new Interval() // since the last progress line

  constructor(isOpenLoop: boolean) {
    this.isOpenLoop = isOpenLoop
  }

  get decisions(): number {
    return this.ok + this.overLimit
  }

  /** By the first reason of each cause. */
  get errors(): Record<string, number> {
    const all = [...this.causes.values()]
    return Object.fromEntries(
      all.map(({ first, isMixed, count }) => [isMixed ? `${first} (and the like)` : first, count]),
    )
  }

  /** Starts the window: earlier figures are discarded. */
  begin(nowMs: number): void {
    this.fromMs = nowMs
    this.ok = 0
    this.overLimit = 0
    this.limited = 0
    this.held = 0
    this.dropped = 0
    this.unconnected = 0
    this.series = []
    this.latency.clear()
    this.lag.clear()
    this.interval.begin(nowMs)
    this.progress.begin(nowMs)
  }

  /** Whether a call belongs to the window: by when it was due, or by when its response arrived. */
  isCounted(dueMs: number, nowMs: number): boolean {
    const atMs = this.isOpenLoop ? dueMs : nowMs
    return atMs >= this.fromMs && atMs < this.toMs
  }

  addResponse(dueMs: number, nowMs: number, code: number): void {
    if (!this.isCounted(dueMs, nowMs)) return
    if (code & LIMITED) this.limited++
    if ((code & CODE_MASK) === Code.Ok) this.ok++
    else this.overLimit++
    this.interval.latency.add(nowMs - dueMs)
  }

  addFailure(reason: string): void {
    this.errorCount++
    const text = readable(reason)
    const name = normalizeReason(text)
    const key = this.causes.has(name) || this.causes.size < CAUSES_MAX ? name : OTHERS
    const cause = this.causes.get(key)
    if (cause === undefined)
      this.causes.set(key, { first: key === name ? text : OTHERS, isMixed: false, count: 1 })
    else {
      cause.count++
      if (key === name && text !== cause.first) cause.isMixed = true
    }
  }

  /** Ends an interval of the series. */
  tick(nowMs: number): void {
    const { latency } = this.interval
    this.series.push(this.interval.point(nowMs, this.fromMs, this.errorCount))
    this.latency.merge(latency)
    this.progress.latency.merge(latency)
    this.interval.begin(nowMs)
  }

  /** The figures since the last call of this method, up to the end of the last interval. */
  takeProgress(nowMs: number): Point {
    const point = this.progress.point(nowMs, this.fromMs, this.errorCount)
    this.progress.begin(nowMs)
    return point
  }

  /** The window is over and no response is outstanding. */
  end(): void {
    this.latency.merge(this.interval.latency)
    this.interval.latency.clear()
  }
}

class Interval {
  readonly latency = new Histogram()
  private sinceMs = 0

  begin(nowMs: number): void {
    this.sinceMs = nowMs
    this.latency.clear()
  }

  point(nowMs: number, fromMs: number, errors: number): Point {
    const { latency } = this
    return {
      sec: (nowMs - fromMs) / 1_000,
      ratePerSec: latency.count / ((nowMs - this.sinceMs) / 1_000),
      p50Ms: latency.quantileMs(0.5),
      p99Ms: latency.quantileMs(0.99),
      maxMs: latency.maxMs,
      errors,
    }
  }
}
