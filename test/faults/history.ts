/**
 * Checks each answer of a service against a model of one integer per key and window (model.ts), while the load runs.
 *
 *     const call = history.begin(round, items, deadlineMs, now)      the call is sent
 *     history.end(call, answer, now)                                 its answer has arrived, or never will
 *     history.beginFault(), endFault(now)                            between them, and for a while after, calls may be degraded
 *     history.beginLoss(), endLoss()                                 in between, the store loses all counts (or some: `losesSome`)
 *     await history.closeRound(round, read, now)                     compares the store's counters; the keys of the round are forgotten
 *     history.violations                                             what was broken, each with its first examples
 *
 * Memory is bounded by the calls in flight and the keys of the rounds that are open; time is O(1) per descriptor. What is checked:
 *
 *     admitted    hits let through in a window never exceed the limit (with `local`: the share of the process)
 *     room        no call is over its limit while the hits that may have been counted leave room, unless its policy says deny
 *     remaining   it is 0 to the limit, and a count that calls in flight can explain
 *     once        no two calls get the same count; the store has all sure hits, and not more than the possible ones
 *     flagged     hits counted beyond the sure ones are at most those the service calls unknown (closeRound)
 *     version     all limits of an answer are of one version of the rules
 *     policy      a degraded answer is what the rules' policies say
 *     deadline    each call is answered by its deadline
 *     normal      outside faults, and from `backMs` after one, calls are counted; always those that `isSpared` names
 *     effect      a fault does something
 *     format      the answer has one status per descriptor, with limit and reset; the overall code follows from them
 *
 * Allowances for a busy machine are in timing.ts.
 */

import { Code, type DescriptorStatus } from '../../proto/ratelimit.ts'
import {
  type Answer,
  classifyItems,
  type ItemKind,
  isGivenUp,
  mayBeEvicted,
  type StoreTraits,
} from './answer.ts'
import { checkCount, checkStatus, checkVersion, type Report } from './checks.ts'
import { type CallItem, describeItem, type FaultRule, type HistoryItem, Key, type Window } from './model.ts'
import { type Effect, Timing } from './timing.ts'
import { type Invariant, type Violation, Violations } from './violations.ts'

export interface Now {
  ms: number // performance.now()
  wallMs: number // Date.now(): the windows' clock
}

export interface HistoryOptions extends StoreTraits {
  backMs?: number // from the end of a fault until all calls must be counted; Infinity = not checked
  isNeverDegraded?: boolean // each call that begins outside a fault must be counted, however busy the machine is
  deadlineMs?: number // of calls without one; Infinity = not checked
  slackMs?: number // stated allowance for late answers
  lagMs?: (fromMs: number, toMs: number) => number // how late the generator itself was in that time
  waitedMs?: (fromMs: number, toMs: number) => number // how long the service waited for a core in that time
  losesSome?: boolean // in a loss, any part of the counts may be lost, instead of all
  isSpared?: (rule: FaultRule) => boolean // calls of such rules alone are counted during a fault, too; default none
  isLost?: (rule: FaultRule) => boolean // whether a loss concerns counters of the rule; default all
  namePrefix?: string // of counter keys: `<domain>_`
}

export interface Call {
  readonly round: number
  readonly items: readonly CallItem[]
  readonly startMs: number
  readonly startWallMs: number
  readonly deadlineMs: number // from its start
  readonly lossCount: number
  readonly beganInLoss: boolean
  readonly isWarm: boolean // it did not begin in the warm-up
}

export interface Counts {
  calls: number // that have ended
  decisions: number // descriptors that got a status
  counted: number // calls
  degraded: Record<string, number> // calls by header
  failed: number
  givenUp: number // of these: with DEADLINE_EXCEEDED, because the service came too late to apply the policies
  late: number // answered after their deadline and the allowance, or given up
  unanswered: number
  over: number // descriptors over their limit
  compared: number // counters compared with the store
  slowestMs: number
  latestMs: number // after its deadline, without what the lag of the machine explains; 0 = none was late
  untimedRounds: number // of which the machine was too busy to say whether service was normal
  slowestBackMs: number // from the end of a fault to the last call that was not counted
}

export class History {
  readonly counts: Counts = {
    calls: 0,
    decisions: 0,
    counted: 0,
    degraded: {},
    failed: 0,
    givenUp: 0,
    late: 0,
    unanswered: 0,
    over: 0,
    compared: 0,
    slowestMs: 0,
    latestMs: 0,
    untimedRounds: 0,
    slowestBackMs: 0,
  }
  inFlight = 0
  private readonly broken = new Violations()
  private readonly options: HistoryOptions
  private readonly rounds = new Map<number, Map<string, Key>>()
  private lossCount = 0
  private isLosing = false
  private isWarmingUp = false
  private readonly timing: Timing
  private givenUpHits = 0 // their outcome is unknown by their answer
  private unflaggedHits = 0 // counted beyond the sure ones, in closed rounds

  constructor(options: HistoryOptions = {}) {
    this.options = options
    this.timing = new Timing(options, this.counts, (invariant, call, text) =>
      this.report(invariant, call, text),
    )
  }

  /** `deadlineMs`: of the call, from now; undefined = that of the options. */
  begin(round: number, items: readonly HistoryItem[], deadlineMs: number | undefined, now: Now): Call {
    this.inFlight++
    return {
      round,
      items: items.map((item) => this.beginItem(round, item, now.wallMs)),
      startMs: now.ms,
      startWallMs: now.wallMs,
      deadlineMs: deadlineMs ?? this.options.deadlineMs ?? Number.POSITIVE_INFINITY,
      lossCount: this.lossCount,
      beganInLoss: this.isLosing,
      isWarm: !this.isWarmingUp,
    }
  }

  private beginItem(round: number, { rule, value, hits }: HistoryItem, wallMs: number): CallItem {
    const keys = this.rounds.get(round) ?? new Map<string, Key>()
    const name = `${rule.key}_${value}`
    const entry = keys.get(name) ?? new Key(rule, value)
    this.rounds.set(round, keys)
    keys.set(name, entry)
    const window = entry.getWindow(wallMs, this.lossCount)
    this.correct(rule, window)
    for (const side of [window.store, window.local]) {
      side.possible += hits
      side.inFlight += hits
    }
    return { rule, value, hits, entry, window, sure: window.store.sure, localSure: window.local.sure }
  }

  /** After a loss, what was counted before it does not count any more. */
  private correct(rule: FaultRule, window: Window): void {
    if (window.lossCount === this.lossCount) return
    window.lossCount = this.lossCount
    if (!(this.options.isLost?.(rule) ?? true)) return
    if (this.options.losesSome === true) window.store.loseSome()
    else window.store.lose()
  }

  end(call: Call, answer: Answer, now: Now): void {
    const { counts } = this
    this.inFlight--
    counts.calls++
    const isCounted = answer.kind === 'answered' && answer.degraded === ''
    this.timing.onEnd(call, answer, isCounted, now.ms)
    if (answer.kind === 'answered') {
      this.endAnswered(call, answer, now)
      return
    }
    counts[answer.kind]++
    for (const item of call.items) this.endItem(call, item, null, 'unknown', now)
    if (isGivenUp(answer)) {
      counts.givenUp++
      for (const { hits } of call.items) this.givenUpHits += hits
    } else if (answer.kind === 'failed' && !call.items.some(({ rule }) => rule.policy === 'error'))
      this.report('policy', call, `a call failed although no rule says error: ${answer.reason}`)
  }

  private endAnswered(call: Call, answer: Answer & { kind: 'answered' }, now: Now): void {
    const { items } = call
    const { statuses, degraded, overallCode } = answer
    this.counts.decisions += statuses.length
    if (degraded === '') this.counts.counted++
    else this.counts.degraded[degraded] = (this.counts.degraded[degraded] ?? 0) + 1
    const isWhole = statuses.length === items.length
    if (!isWhole) this.report('format', call, `${statuses.length} statuses for ${items.length} descriptors`)
    const isOver = statuses.some(({ code }) => code === Code.OverLimit)
    if ((overallCode === Code.OverLimit) !== isOver)
      this.report('format', call, `the overall code is ${overallCode}`)
    if (degraded !== '' && !items.some(({ rule }) => rule.policy === degraded))
      this.report('policy', call, `an answer is degraded by ${degraded}, which no rule says`)
    if (isWhole) checkVersion(items, statuses, (invariant, text) => this.report(invariant, call, text))
    const kinds = isWhole ? classifyItems(items, answer, this.options) : []
    for (let i = 0; i < items.length; i++)
      this.endItem(call, items[i], isWhole ? statuses[i] : null, kinds[i] ?? 'unknown', now)
  }

  /** The call has ended for one of its descriptors: what may have been counted changes, and its status is checked. */
  private endItem(
    call: Call,
    item: CallItem,
    status: DescriptorStatus | null,
    kind: ItemKind,
    now: Now,
  ): void {
    const { window, hits } = item
    const { store, local } = window
    this.correct(item.rule, window)
    const isStraddling = this.spread(call, item, now.wallMs)
    const sawLoss = this.isLosing || call.beganInLoss || call.lossCount !== this.lossCount
    const hasLost = sawLoss && (this.options.isLost?.(item.rule) ?? true)
    if (status !== null) {
      const report: Report = (invariant, text) => this.report(invariant, call, text)
      checkStatus(item, status, kind, report)
      const isRepeated = call.items.some((other) => other !== item && other.entry === item.entry)
      if (!isStraddling) checkCount(item, status, kind, isRepeated, hasLost, this.options, report)
    }
    store.inFlight -= hits
    local.inFlight -= hits
    const isOver = status?.code === Code.OverLimit
    if (isOver) this.counts.over++
    const isSure = !isStraddling && !hasLost && !(isOver && this.options.hasOverLimitCache === true)
    if (kind === 'skipped') store.possible -= hits
    else if (kind === 'counted' && isSure) store.sure += hits
    else if (kind === 'counted' || (kind === 'unknown' && call.items.length > 1)) store.unflagged += hits
    if (kind === 'local' && !isStraddling && !this.isSkippedLocally(status)) local.sure += hits
    else if (kind !== 'local' && kind !== 'unknown') local.possible -= hits
  }

  /** A call that saw the end of a window may have been counted in each that it saw. */
  private spread(call: Call, { entry, hits }: CallItem, wallMs: number): boolean {
    const { unitSec } = entry.rule
    const first = Math.floor(call.startWallMs / 1_000 / unitSec)
    const last = Math.floor(wallMs / 1_000 / unitSec)
    if (last === first) return false
    for (let i = first + 1; i <= last; i++) {
      const later = entry.getWindow(i * unitSec * 1_000, this.lossCount)
      this.correct(entry.rule, later)
      later.store.possible += hits
      later.local.possible += hits
      later.store.unflagged += hits
    }
    return true
  }

  private isSkippedLocally(status: DescriptorStatus | null): boolean {
    return this.options.stopsIncrement === true && status?.code === Code.Ok
  }

  /** In the warm-up the service compiles its code: no call is late. It counts as a fault. */
  beginWarmUp(): void {
    this.isWarmingUp = true
    this.beginFault()
  }

  endWarmUp(now: Now): void {
    this.isWarmingUp = false
    this.endFault(now)
  }

  beginFault(): void {
    this.timing.beginFault()
  }

  endFault({ ms }: Now): void {
    this.timing.endFault(ms)
  }

  /** What faults did to calls since the last call of it. */
  takeEffect(): Effect {
    return this.timing.takeEffect()
  }

  /** From here on the store may lose its counts. */
  beginLoss(): void {
    this.lossCount++
    this.isLosing = true
  }

  endLoss(): void {
    this.isLosing = false
  }

  /** At this moment the store may have lost counts. */
  loseNow(): void {
    this.lossCount++
  }

  /**
   * Compares the counters of a round with the store's and forgets them. No call of the round may be in flight. `read` gets counter keys
   * and whether their limit is per second, and returns their values, null where there is none.
   */
  async closeRound(
    round: number,
    read: (keys: readonly string[], isPerSecond: boolean) => Promise<readonly (number | null)[]>,
    getNow: () => Now,
  ): Promise<void> {
    const keys = this.rounds.get(round)
    this.rounds.delete(round)
    this.timing.closeRound(getNow().ms)
    if (keys === undefined) return
    for (const isPerSecond of [false, true]) {
      const windows = [...keys.values()]
        .filter(({ rule }) => (rule.unitSec === 1) === isPerSecond)
        .flatMap((entry) => entry.windows.map((window) => ({ entry, window })))
      if (windows.length === 0) continue
      const prefix = this.options.namePrefix ?? ''
      const names = windows.map(
        ({ entry, window }) => `${prefix}${entry.rule.key}_${entry.value}_${window.startSec}`,
      )
      const values = await read(names, isPerSecond)
      const { wallMs } = getNow()
      for (const [i, { entry, window }] of windows.entries())
        this.compare(names[i], entry, window, values[i], wallMs)
    }
  }

  private compare(
    counter: string,
    { rule }: Key,
    window: Window,
    value: number | null,
    wallMs: number,
  ): void {
    const isOver = wallMs >= (window.startSec + rule.unitSec) * 1_000
    if (value === null && isOver) return // it may have expired, or expired and been created again by a late hit
    this.correct(rule, window)
    this.counts.compared++
    const { sure, possible, inFlight, unflagged } = window.store
    const count = value ?? 0
    if (inFlight > 0) this.report('once', null, `${counter}: ${inFlight} hits are still in flight`)
    const isKept = this.options.isExact !== false && !mayBeEvicted(this.options, rule)
    if (isKept && !isOver && count < sure)
      this.report('once', null, `${counter}: the store has ${count} hits, ${sure} were answered as counted`)
    if (count > possible)
      this.report('once', null, `${counter}: the store has ${count} hits, at most ${possible} were sent`)
    this.unflaggedHits += Math.max(0, count - sure - unflagged)
  }

  /** At the end: late answers that no lag excuses. */
  checkLate(): void {
    this.timing.checkLate()
  }

  /**
   * `unknownHits`: what the service says may have been counted without an answer, over all its life. Only sensible if no counter was lost
   * and no hits are skipped.
   */
  checkFlagged(unknownHits: number): void {
    if (this.unflaggedHits > unknownHits + this.givenUpHits)
      this.report(
        'flagged',
        null,
        `the store has ${this.unflaggedHits} hits more than were answered as counted; ${unknownHits} were flagged, ${this.givenUpHits} given up`,
      )
  }

  report(invariant: Invariant, call: Call | null, text: string): void {
    const of = call === null ? '' : ` (round ${call.round}, ${call.items.map(describeItem).join(' ')})`
    this.broken.report(invariant, text + of)
  }

  get violations(): readonly Violation[] {
    return this.broken.list
  }
}
