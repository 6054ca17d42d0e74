/**
 * When calls were answered, and whether they were counted when they must be: `deadline` and `normal` of history.ts, and what faults did.
 *
 * A machine whose cores are taken delays each part of a call: this process (`lagMs`, lag.ts), and the service (`waitedMs`, run-delay.ts).
 *
 *     late            an answer after its deadline by more than SLACK_MS + LAG_FACTOR x lag, or given up by the service
 *     never           by more than LATE_MS_MAX + LATE_LAG_FACTOR x lag + what the service waited for a core
 *     in all          LATE_SHARE_MAX of the calls may be late without a lag of BUSY_LAG_MS
 *     not counted     NOT_COUNTED_SHARE_MAX of a round's normal calls; on a busy machine NOT_COUNTED_SHARE_BUSY; where the machine was
 *                     stuck, the round says nothing about the time. With `isNeverDegraded` none, on any machine.
 *     busy, stuck     a lag of BUSY_LAG_MS, STUCK_LAG_MS; or the service waited for BUSY_SHARE, STUCK_SHARE of the time for a core
 */
import type { Answer } from './answer.ts'
import { isGivenUp } from './answer.ts'
import type { Call, Counts, HistoryOptions } from './history.ts'
import type { Invariant } from './violations.ts'

const SLACK_MS = 250 // for waking this process, the service and the store on a machine whose cores are taken, beside the measured lag
const LAG_BEFORE_MS = 200 // a machine that was busy then may still be catching up
const LAG_FACTOR = 3 // the service has as many threads waiting for a core as the generator has

const BUSY_LAG_MS = 20 // the machine has more to do than cores
const STUCK_LAG_MS = 100 // this process itself hardly ran
const BUSY_SHARE = 0.3 // of the thread that waited most in each 100 ms: 0.15 to 0.3 on two free cores
const STUCK_SHARE = 0.6
const LATE_MS_MAX = 500 // beyond the deadline, without any delay of the machine
const LATE_LAG_FACTOR = 3
const LATE_SHARE_MAX = 0.01 // of all calls, without those excused by a lag
const NOT_COUNTED_SHARE_MAX = 0.02 // of the calls of a round's normal time
const NOT_COUNTED_SHARE_BUSY = 0.2
const FEW = 20 // calls that say nothing: one pause of a thread

/** What the fault of a round did to calls. */
export interface Effect {
  notCounted: number // calls
  slowestMs: number
}

export type ReportCall = (invariant: Invariant, call: Call | null, text: string) => void

export class Timing {
  private readonly options: HistoryOptions
  private readonly counts: Counts
  private readonly report: ReportCall
  private isFaulty = false
  private faultEndMs = Number.NEGATIVE_INFINITY
  private unexcusedLate = 0
  private readonly normal = { calls: 0, notCounted: 0, sinceMs: 0, first: '' } // of this round
  private effect: Effect = { notCounted: 0, slowestMs: 0 } // of this round

  constructor(options: HistoryOptions, counts: Counts, report: ReportCall) {
    this.options = options
    this.counts = counts
    this.report = report
  }

  beginFault(): void {
    this.isFaulty = true
  }

  endFault(nowMs: number): void {
    this.isFaulty = false
    this.faultEndMs = nowMs
  }

  /** Since the last call of it. */
  takeEffect(): Effect {
    const { effect } = this
    this.effect = { notCounted: 0, slowestMs: 0 }
    return effect
  }

  /** A call has got its answer, if any. */
  onEnd(call: Call, answer: Answer, isCounted: boolean, nowMs: number): void {
    if (answer.kind !== 'unanswered') this.checkDeadline(call, isGivenUp(answer), nowMs)
    this.countNormal(call, answer, isCounted)
  }

  private checkDeadline(call: Call, isGivenUp: boolean, nowMs: number): void {
    if (!call.isWarm) return
    const { slackMs = SLACK_MS, lagMs, waitedMs } = this.options
    const { counts, effect } = this
    const tookMs = nowMs - call.startMs
    const overMs = tookMs - call.deadlineMs
    counts.slowestMs = Math.max(counts.slowestMs, tookMs)
    effect.slowestMs = Math.max(effect.slowestMs, tookMs)
    if (!isGivenUp && overMs <= slackMs) return
    const sinceMs = call.startMs - LAG_BEFORE_MS
    const lag = lagMs?.(sinceMs, nowMs) ?? 0
    const waited = waitedMs?.(sinceMs, nowMs) ?? 0
    const unexplainedMs = overMs - LATE_LAG_FACTOR * lag - waited
    counts.latestMs = Math.max(counts.latestMs, unexplainedMs)
    if (!isGivenUp && overMs <= slackMs + LAG_FACTOR * lag) return
    counts.late++
    if (lag < BUSY_LAG_MS) this.unexcusedLate++
    if (unexplainedMs <= LATE_MS_MAX) return
    const [took, deadline] = [Math.round(tookMs), Math.round(call.deadlineMs)]
    const delays = `own lag ${Math.round(lag)} ms, the service waited ${Math.round(waited)} ms for a core`
    this.report('deadline', call, `answered after ${took} ms, due after ${deadline}; ${delays}`)
  }

  /** Counts the calls that must be counted, because no fault is near. */
  private countNormal(call: Call, answer: Answer, isCounted: boolean): void {
    const { backMs = 2_000 } = this.options
    const { normal, counts } = this
    const lateMs = call.startMs - this.faultEndMs
    const isSpared = call.isWarm && call.items.every(({ rule }) => this.options.isSpared?.(rule))
    if (this.isFaulty || lateMs <= 0) {
      // it began in the fault
      if (!isCounted && call.isWarm) this.effect.notCounted++
      if (!isSpared) return
    }
    if (!isCounted && !isSpared && this.faultEndMs !== Number.NEGATIVE_INFINITY)
      counts.slowestBackMs = Math.max(counts.slowestBackMs, lateMs)
    if (lateMs <= backMs && !(isSpared && backMs < Number.POSITIVE_INFINITY)) return
    if (normal.calls++ === 0) normal.sinceMs = call.startMs
    if (isCounted) return
    normal.notCounted++
    const what =
      answer.kind === 'answered' ? `degraded by ${answer.degraded}` : `${answer.kind}: ${answer.reason}`
    if (normal.first === '') normal.first = `${what} ${Math.round(lateMs)} ms after the fault`
  }

  /** At the end of a round: whether the calls of its normal time were counted. */
  closeRound(nowMs: number): void {
    const { calls, notCounted, sinceMs, first } = this.normal
    Object.assign(this.normal, { calls: 0, notCounted: 0, first: '' })
    const { lagMs, waitedMs } = this.options
    const fromMs = sinceMs - LAG_BEFORE_MS
    const lag = lagMs?.(fromMs, nowMs) ?? 0
    const waited = (waitedMs?.(fromMs, nowMs) ?? 0) / (nowMs - fromMs)
    const isStuck = lag >= STUCK_LAG_MS || waited >= STUCK_SHARE
    const isBusy = lag >= BUSY_LAG_MS || waited >= BUSY_SHARE
    if (isStuck) this.counts.untimedRounds++
    const share = isStuck ? 1 : isBusy ? NOT_COUNTED_SHARE_BUSY : NOT_COUNTED_SHARE_MAX
    const isExcused =
      this.options.isNeverDegraded !== true && (notCounted <= FEW || notCounted <= share * calls)
    if (notCounted > 0 && !isExcused) {
      const delays = `own lag ${Math.round(lag)} ms, the service waited ${Math.round(100 * waited)} % of the time for a core`
      const text = `${notCounted} of ${calls} calls were not counted; ${delays}; the first: ${first}`
      this.report('normal', null, text)
    }
  }

  /** At the end: late answers that no lag excuses. */
  checkLate(): void {
    const { unexcusedLate, counts } = this
    if (unexcusedLate > FEW && unexcusedLate > LATE_SHARE_MAX * counts.calls)
      this.report(
        'deadline',
        null,
        `${unexcusedLate} of ${counts.calls} calls were late or given up, on a machine that was not busy`,
      )
  }
}
