/**
 * Judges the answers of a schedule: the model is one integer per key and window, and what servers have really counted (executions.ts).
 *
 *     counted      OK, remaining 3 of 5 ─► this hit was the second: the server counted "1 to 2" between the call and its answer,
 *                                          and no other answer claims the same count
 *                  OVER_LIMIT           ─► the count has been above the limit
 *     not counted  by the rule's policy; `local` agrees with an integer of this process
 *     unknown      an interval: the hit may have been counted once, or not
 */

import type { StoreErrorPolicy } from '../../engine/config/rules.ts'
import { unitSec } from '../../engine/decision/window.ts'
import { StoreError } from '../../engine/runtime/errors.ts'
import { Code, type DescriptorStatus, type RateLimitResponse } from '../../proto/ratelimit.ts'
import type { Executions } from './executions.ts'
import type { Plan, PlannedCall, PlannedRule } from './plan.ts'

/** A broken promise. `invariant` is short and stable, `text` says what happened. */
export class Violation extends Error {
  readonly invariant: string

  constructor(invariant: string, text: string) {
    super(`${invariant}: ${text}`)
    this.invariant = invariant
  }
}

export interface AskedCall {
  readonly call: PlannedCall
  readonly number: number
  readonly version: number // of the rules, when it was asked
  readonly askedMs: number
  readonly dueMs: number // it must be answered before; Infinity = only by the store's own timeout
  isRefused: boolean // every circuit breaker is open at the end of its turn, so the call must not wait
  readonly keys: readonly string[] // of the counters, by descriptor
  readonly lengthsSec: readonly number[] // of their windows
  readonly windowEndsMs: readonly number[] // of VirtualTime.nowMs
  readonly isDisturbed: (answeredMs: number) => boolean // a fault may have affected it
  answersCount: number
  isCancelled: boolean
}

export interface Answer {
  atMs: number
  response: RateLimitResponse | null // null = the call failed
  error: Error | null
  degradedBy: StoreErrorPolicy | null
}

/** What is known about the hits sent for a key. */
interface Tally {
  lengthSec: number
  windowEndMs: number
  issued: number
  counted: number // certainly
  possible: number // at most; the upper end of the interval
}

interface Claim {
  key: string
  unit: number // the hit took the count from `unit` - 1 to `unit`
}

/** How one descriptor was answered. */
type Kind = 'counted' | 'degraded' | 'either'

const LATE_MS = 2.5 // timers are whole milliseconds

export class Oracle {
  unflaggedHits = 0 // may have been counted although the caller was not told so, as the whole call failed for another counter
  private readonly plan: Plan
  private readonly executions: Executions
  private readonly stalls: readonly [number, number][]
  private readonly tallies = new Map<string, Tally>()
  private readonly claims: Claim[] = []
  private readonly localCounts = new Map<string, number>()
  private readonly inexactLocal = new Set<string>() // whose local counts cannot be told from the answers

  constructor(plan: Plan, executions: Executions, stalls: readonly [number, number][]) {
    this.plan = plan
    this.executions = executions
    this.stalls = stalls
  }

  onAsked({ call, keys, lengthsSec, windowEndsMs }: AskedCall): void {
    for (let i = 0; i < keys.length; i++) {
      const tally = this.tallies.get(keys[i]) ?? {
        issued: 0,
        counted: 0,
        possible: 0,
        lengthSec: lengthsSec[i],
        windowEndMs: windowEndsMs[i],
      }
      this.tallies.set(keys[i], tally)
      tally.issued += getHits(call, i)
    }
  }

  onAnswered(asked: AskedCall, answer: Answer): void {
    if (++asked.answersCount > 1)
      throw new Violation('each call is answered once', `call ${asked.number}, again`)
    this.checkDeadline(asked, answer)
    if (asked.isCancelled) this.onCancelled(asked)
    else if (answer.response === null) this.onFailed(asked, answer.error!)
    else this.onResponse(asked, answer, answer.response)
    const isDegraded = answer.response === null || answer.degradedBy !== null
    if (isDegraded && !asked.isCancelled && !asked.isDisturbed(answer.atMs))
      throw new Violation(
        'normal service without a fault',
        `call ${asked.number} ${answer.error?.message ?? 'is degraded'}`,
      )
  }

  // deadlines

  private checkDeadline(asked: AskedCall, { atMs }: Answer): void {
    const { operationTimeoutMs } = this.plan.settings
    const longestMs = asked.isRefused ? 0 : 2 * operationTimeoutMs
    let limitMs = Math.min(asked.dueMs, asked.askedMs + longestMs) + LATE_MS
    for (const [startMs, endMs] of this.stalls)
      if (startMs <= limitMs && endMs > asked.askedMs)
        limitMs = Math.max(limitMs + endMs - startMs, endMs + LATE_MS)
    if (atMs <= limitMs) return
    const text = `call ${asked.number}, asked at ${asked.askedMs.toFixed(2)}, answered at ${atMs.toFixed(2)}, latest ${limitMs.toFixed(2)}`
    const promise = asked.isRefused
      ? 'no call waits for an open breaker'
      : 'each call is answered by its deadline'
    throw new Violation(promise, text)
  }

  // failed calls

  private onFailed(asked: AskedCall, error: Error): void {
    if (!(error instanceof StoreError))
      throw new Violation('calls fail only by the store', String(error.stack))
    const hasPolicy = asked.call.descriptors.some((_, i) => this.getPolicy(asked, i) === 'error')
    if (!hasPolicy)
      throw new Violation('only the policy error fails a call', `call ${asked.number}: ${error.message}`)
    this.addUnknown(asked, asked.keys.length > 1)
    if (asked.keys.length === 1 && !error.isUnknown)
      this.tally(asked.keys[0]).possible -= getHits(asked.call, 0)
  }

  /** Its transport drops the answer, whatever it is. */
  private onCancelled(asked: AskedCall): void {
    this.addUnknown(asked, true)
    for (const key of asked.keys) this.inexactLocal.add(key)
  }

  private addUnknown({ call, keys }: AskedCall, isUnflagged: boolean): void {
    for (let i = 0; i < keys.length; i++) {
      this.tally(keys[i]).possible += getHits(call, i)
      if (isUnflagged) this.unflaggedHits += getHits(call, i)
    }
  }

  // responses

  private onResponse(asked: AskedCall, answer: Answer, response: RateLimitResponse): void {
    const { statuses, overallCode } = response
    if (statuses.length !== asked.keys.length)
      throw new Violation('a status per descriptor', `call ${asked.number}`)
    const isOver = statuses.some(({ code }) => code === Code.OverLimit)
    if ((overallCode === Code.OverLimit) !== isOver)
      throw new Violation('over limit if a descriptor is', `call ${asked.number}`)
    const kinds = statuses.map((status, i) => this.getKind(asked, answer, status, i))
    if (answer.degradedBy !== null && !kinds.some((kind) => kind !== 'counted'))
      throw new Violation('degraded answers name their policy', `call ${asked.number}: ${answer.degradedBy}`)
    for (let i = 0; i < statuses.length; i++) {
      this.checkStatus(asked, statuses[i], i)
      if (kinds[i] === 'degraded') this.onDegraded(asked, statuses, i)
      else if (kinds[i] === 'counted') this.onCounted(asked, answer, statuses, i)
      else {
        this.addPossible(asked, i)
        this.inexactLocal.add(asked.keys[i])
      }
    }
  }

  private getKind(
    asked: AskedCall,
    { degradedBy, response }: Answer,
    status: DescriptorStatus,
    i: number,
  ): Kind {
    const policy = this.getPolicy(asked, i)
    if (degradedBy === null) return 'counted'
    if (asked.keys.length === 1) return 'degraded'
    if (this.plan.settings.hasMetadata) {
      const shown = (response!.dynamicMetadata!.descriptors as { degraded?: string }[])[i].degraded
      if (shown === undefined) return 'counted'
      if (shown !== policy)
        throw new Violation('the policy is that of the rule', `call ${asked.number}: ${shown}`)
      return 'degraded'
    }
    if (policy === 'error') return 'counted'
    if (policy === 'deny' && status.code === Code.Ok) return 'counted'
    if (policy === 'allow' && status.code === Code.Ok) {
      if (status.limitRemaining !== this.getRule(asked, i).limit) return 'counted'
      if (!this.plan.settings.stopIncrementWhenOverLimit) return 'degraded' // else its hits may have been skipped
    }
    return 'either'
  }

  private checkStatus(asked: AskedCall, status: DescriptorStatus, i: number): void {
    const { limit } = this.getRule(asked, i)
    const { currentLimit, limitRemaining, resetSec, code } = status
    const where = `call ${asked.number}, descriptor ${i}: ${JSON.stringify(status)}`
    if (currentLimit?.name !== `v${asked.version}` || currentLimit.requestsPerUnit !== limit)
      throw new Violation('one version of the rules', `${where}, version ${asked.version}, limit ${limit}`)
    if (limitRemaining < 0 || limitRemaining > limit)
      throw new Violation('remaining is 0 to the limit', where)
    if (code === Code.OverLimit && limitRemaining !== 0)
      throw new Violation('nothing remains over the limit', where)
    if (resetSec < 1 || resetSec > unitSec(currentLimit.unit))
      throw new Violation('reset is within the window', where)
  }

  private onDegraded(asked: AskedCall, statuses: readonly DescriptorStatus[], i: number): void {
    const policy = this.getPolicy(asked, i)
    const { limit } = this.getRule(asked, i)
    const { code, limitRemaining } = statuses[i]
    const where = `call ${asked.number}, descriptor ${i}, policy ${policy}: ${JSON.stringify(statuses[i])}`
    this.addPossible(asked, i, false)
    if (policy === 'local') {
      this.onLocal(asked, statuses, i, where)
      return
    }
    const isOk = policy === 'allow' && getHits(asked.call, i) <= limit
    if (policy === 'error') throw new Violation('the policy error fails the call', where)
    if ((code === Code.Ok) !== isOk || (isOk && limitRemaining !== limit))
      throw new Violation('the policy answers', where)
  }

  /** The integer of this process. With STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT other descriptors decide whether hits are added. */
  private onLocal(asked: AskedCall, statuses: readonly DescriptorStatus[], i: number, where: string): void {
    const key = asked.keys[i]
    const { limit, share } = this.getRule(asked, i)
    const localLimit = Math.ceil((limit * (share ?? 100)) / 100)
    const { code, limitRemaining } = statuses[i]
    const before = this.localCounts.get(key) ?? 0
    const after = before + getHits(asked.call, i)
    const isAlone = asked.keys.length === 1
    const isStop = this.plan.settings.stopIncrementWhenOverLimit
    if (isStop && !isAlone) this.inexactLocal.add(key)
    if (code === Code.Ok && limitRemaining > localLimit) throw new Violation('the local share', where)
    if (this.inexactLocal.has(key)) return
    this.localCounts.set(key, after)
    const isOk = after <= localLimit
    if ((code === Code.Ok) !== isOk || (isOk && limitRemaining !== localLimit - after))
      throw new Violation('the local count is exact', `${where}, ${before} before, at most ${localLimit}`)
  }

  private onCounted(
    asked: AskedCall,
    answer: Answer,
    statuses: readonly DescriptorStatus[],
    i: number,
  ): void {
    const key = asked.keys[i]
    const { limit } = this.getRule(asked, i)
    const { code, limitRemaining } = statuses[i]
    const { stopIncrementWhenOverLimit: isStop, hasLocalCache } = this.plan.settings
    if (code === Code.OverLimit) this.checkDenied(asked, key, limit)
    const isSkippable =
      isStop &&
      asked.keys.length > 1 &&
      (answer.degradedBy !== null || statuses.some((status) => status.code === Code.OverLimit))
    const isRacing = isStop && asked.keys.length > 1 && this.plan.serversCount > 1
    if (isSkippable || isRacing || (code === Code.OverLimit && hasLocalCache)) {
      this.addPossible(asked, i)
      return
    }
    const hits = getHits(asked.call, i)
    const tally = this.tally(key)
    tally.counted += hits
    tally.possible += hits
    if (code === Code.Ok) this.claim(asked, answer, key, limit - limitRemaining, hits)
  }

  private checkDenied(asked: AskedCall, key: string, limit: number): void {
    const highest = this.plan.store === 'redis' ? this.executions.getHighest(key) : this.tally(key).issued
    if (highest > limit) return
    throw new Violation(
      'not denied while there is room',
      `call ${asked.number}: ${key} had at most ${highest} of ${limit}`,
    )
  }

  /** The caller was told that its hits took the count to `after`. */
  private claim(asked: AskedCall, answer: Answer, key: string, after: number, hits: number): void {
    for (let unit = after - hits + 1; unit <= after; unit++) {
      this.claims.push({ key, unit })
      if (this.plan.store === 'memcached') continue // which counts after the answer
      const isTrue = this.executions
        .of(key)
        .some(
          (done) =>
            done.before < unit &&
            done.before + done.hits >= unit &&
            done.atMs >= asked.askedMs &&
            done.atMs <= answer.atMs,
        )
      if (!isTrue)
        throw new Violation(
          'an answer is the count of its own hits',
          `call ${asked.number}: ${key} was not counted to ${unit} for it`,
        )
    }
  }

  /** The hits may have been counted. */
  private addPossible(asked: AskedCall, i: number, isUnflagged = true): void {
    this.tally(asked.keys[i]).possible += getHits(asked.call, i)
    if (isUnflagged) this.unflaggedHits += getHits(asked.call, i)
  }

  // the end

  /** When everything is quiet. `hasLoss`: counts may have been lost. `resetsCount`: how often servers forgot keys. */
  finish({ unknownHits, lostHits }: Flagged, hasLoss: boolean, resetsCount: number): void {
    let executed = 0
    let missing = 0
    let expected = unknownHits + this.unflaggedHits
    for (const [key, tally] of this.tallies) {
      const { issued, counted, possible } = tally
      this.checkExpiry(key, tally, resetsCount)
      const total = this.executions.getTotal(key)
      executed += total
      expected += counted
      if (total > issued || total > possible)
        throw new Violation(
          'a hit is counted once',
          `${key}: ${total} of at most ${Math.min(issued, possible)}`,
        )
      if (this.plan.store === 'memcached' && hasLoss) continue
      missing += Math.max(0, counted - total)
      if (missing > lostHits)
        throw new Violation('an accepted hit is counted', `${key}: ${total} of at least ${counted}`)
    }
    if (executed > expected)
      throw new Violation('unknown outcomes are flagged', `${executed} counted, ${expected} known or flagged`)
    this.checkClaims(hasLoss || lostHits > 0)
  }

  /** A counter that ends before its window would be filled twice. */
  private checkExpiry(key: string, { lengthSec, windowEndMs }: Tally, resetsCount: number): void {
    const { settings, faults } = this.plan
    const { executions } = this
    for (const sec of executions.getExpiries(key)) {
      if (sec < lengthSec || sec > lengthSec + settings.jitterMaxSec)
        throw new Violation(
          'counters expire after their window',
          `${key} is kept ${sec} s, its window takes ${lengthSec} s`,
        )
    }
    if (faults.some(({ kind }) => kind === 'step clock')) return // windows are longer or shorter
    const lives = executions.getLives(key, windowEndMs)
    if (lives > 1 + resetsCount)
      throw new Violation(
        'a counter lives until its window ends',
        `${key} began ${lives} times, ${resetsCount} resets`,
      )
  }

  private checkClaims(hasLoss: boolean): void {
    if (this.plan.store === 'memcached' && hasLoss) return // lost hits are told again
    const counts = new Map<string, number>()
    for (const { key, unit } of this.claims) {
      if (this.plan.store === 'memcached' && this.executions.getLives(key) > 1) continue // added to the next life
      const count = (counts.get(`${key} ${unit}`) ?? 0) + 1
      counts.set(`${key} ${unit}`, count)
      if (count > this.executions.getTimesCounted(key, unit))
        throw new Violation(
          'no two answers have the same count',
          `${key}: ${count} callers were told ${unit}`,
        )
    }
  }

  private tally(key: string): Tally {
    return this.tallies.get(key)!
  }

  private getRule({ call, version }: AskedCall, i: number): PlannedRule {
    return this.plan.versions[version][call.descriptors[i].rule]
  }

  private getPolicy(asked: AskedCall, i: number): StoreErrorPolicy {
    return this.getRule(asked, i).policy ?? this.plan.settings.defaultPolicy
  }
}

/** Hits that the product has reported. */
export interface Flagged {
  unknownHits: number // may have been counted, but their calls were answered without a count
  lostHits: number // may not have been counted, but their calls were answered as if they had; memcached only
}

export function getHits({ descriptors, hits }: PlannedCall, i: number): number {
  return descriptors[i].hits ?? hits
}
