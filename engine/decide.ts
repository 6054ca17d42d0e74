/**
 * The one path every request takes: match, counters, status.
 *
 *     decide(request) ── match each descriptor ──► hits join the open batch ─┐
 *     decide(request) ── match each descriptor ──► hits join the open batch ─┤ end of the event loop's turn
 *                                                                            ▼
 *     caller.answer ◄── statuses, statistics ◄── counts of the whole batch ◄── store.add(batch)
 *
 * One Engine per worker thread; one batch per turn, so an idle service adds no delay and a busy one amortises by itself.
 * A store that answers at once is asked at once. Nothing here knows a socket or reads a clock by itself.
 */
import {
  Code,
  type Descriptor,
  type DescriptorStatus,
  type RateLimitRequest,
  type Unit,
} from '../proto/ratelimit.ts'
import { dynamicMetadata, type HeaderNames, REMAINING_MAX, responseHeaders } from './answer.ts'
import { BATCH_SLOTS_MAX, Batch, Counter } from './counters/batch.ts'
import type { OverLimitCache } from './counters/over-limit-cache.ts'
import type { CounterStore } from './counters/store.ts'
import type { Caller, Decider } from './decider.ts'
import { ServiceError, StoreError } from './errors.ts'
import { Trie } from './match/trie.ts'
import type { Match, Rule, RulesImage } from './rules.ts'
import { type Stats, TOTAL_HITS } from './stats/stats.ts'
import { localVerdict, nearLimit, verdict } from './verdict.ts'
import { unitSec, windowStartSec } from './window.ts'

const HITS_MAX = 2n ** 63n - 1n // what Redis counts to; beyond, any caller could refund itself (Q42)

/** In `Pending.members`, for descriptors that are not in the batch. */
const NOT_COUNTED = -1
const OVER_LOCALLY = -2
const TO_COUNT = -3 // until it is

export interface EngineOptions {
  store: CounterStore
  stats: Stats
  decisionsStat: string // name of the counter of requests this engine was asked to decide
  nowSec: () => number // epoch seconds, whole
  random: () => number // 0 to below 1; spreads expiries
  nearLimitRatio: number // 0 to 1, taken as a 32-bit float (spec 4.4)
  keyPrefix: string // CACHE_KEY_PREFIX
  jitterMaxSec: number // EXPIRATION_JITTER_MAX_SECONDS; 0 = none
  isShadow: boolean // SHADOW_MODE
  isQuota: boolean // QUOTA_MODE
  isStopping: boolean // STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT
  hasMetadata: boolean // RESPONSE_DYNAMIC_METADATA
  headerNames: HeaderNames | null // null = no headers
  localCache: OverLimitCache | null // null = none
}

/** A request on its way. Columns per descriptor, in request order. */
interface Pending {
  request: RateLimitRequest
  caller: Caller
  rules: (Rule | null)[] // null = no limit applies
  keys: string[] // counter keys, '' where nothing is counted; without the window until `count`
  hits: (number | bigint)[]
  statsBases: number[] // first of the rule's six counters; -1 where nothing is counted
  members: number[] // places in the batch, NOT_COUNTED or OVER_LOCALLY
  isOnlyLooking: boolean // stopping, and a counter is over locally: the others get no hits (spec 4.2)
}

export class Engine implements Decider {
  private readonly options: EngineOptions
  private readonly store: CounterStore
  private readonly stats: Stats
  private readonly found: Match = { rule: null, statsKey: '', sharedValues: [] }
  private readonly decisions: number
  private readonly serviceErrors: number
  private readonly storeErrors: number
  private readonly shadowed: number
  private trie: Trie | null = null
  private batch: Batch
  private spare: Batch | null = null // one that came back, cleared
  private waiting: Pending[] = []
  private isFlushScheduled = false

  constructor(options: EngineOptions) {
    this.options = options
    this.store = options.store
    this.stats = options.stats
    this.batch = new Batch(options.isStopping)
    this.decisions = this.stats.counter(options.decisionsStat)
    this.serviceErrors = this.stats.counter('ratelimit.service.call.should_rate_limit.service_error')
    this.storeErrors = this.stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
    this.shadowed = this.stats.counter('ratelimit.service.global_shadow_mode')
  }

  /** Requests decided from now on use these rules; those on their way keep theirs. */
  setRules(image: RulesImage): void {
    this.trie = new Trie(image)
  }

  decide(request: RateLimitRequest, caller: Caller): void {
    this.stats.add(this.decisions, 1)
    const pending = this.plan(request, caller)
    if (pending instanceof ServiceError) {
      this.stats.add(this.serviceErrors, 1)
      caller.fail(pending)
    } else {
      this.count(pending)
    }
  }

  /** Finds the rule of every descriptor (spec 2.1), or what is wrong with the request. */
  private plan(request: RateLimitRequest, caller: Caller): Pending | ServiceError {
    if (request.domain === '') return new ServiceError('rate limit domain must not be empty')
    if (request.descriptors.length === 0) {
      return new ServiceError('rate limit descriptor list must not be empty')
    }
    if (request.descriptors.length > BATCH_SLOTS_MAX) {
      return new ServiceError(`a request must not have more than ${BATCH_SLOTS_MAX} descriptors`)
    }
    if (this.trie === null) return new ServiceError('no rate limit configuration loaded')
    const pending: Pending = {
      request,
      caller,
      rules: [],
      keys: [],
      hits: [],
      statsBases: [],
      members: [],
      isOnlyLooking: false,
    }
    const domain = this.trie.domain(request.domain)
    let replaced: Set<string> | null = null
    for (const descriptor of request.descriptors) {
      const hits = descriptor.hitsAddend ?? (request.hitsAddend || 1)
      if (typeof hits === 'bigint' && hits > HITS_MAX) {
        return new ServiceError(`hits_addend must not be above ${HITS_MAX}`)
      }
      if (domain >= 0 && descriptor.limit !== null && unitSec(descriptor.limit.unit) === 0) {
        return new ServiceError(`rate limit override has an unknown unit: ${descriptor.limit.unit}`)
      }
      const rule = this.ruleOf(this.trie, domain, request.domain, descriptor)
      pending.rules.push(rule)
      pending.hits.push(hits)
      if (rule !== null && rule.replaces.length > 0) {
        replaced ??= new Set()
        for (const name of rule.replaces) replaced.add(name)
      }
      const isCounted = rule !== null && !rule.isUnlimited
      pending.keys.push(isCounted ? this.keyOf(request.domain, descriptor, this.found.sharedValues) : '')
      pending.statsBases.push(isCounted ? this.stats.rule(this.found.statsKey) : -1)
    }
    if (replaced !== null) drop(pending, replaced)
    return pending
  }

  /** The rule for one descriptor, or null; how it is counted is in `found` until the next call. */
  private ruleOf(trie: Trie, domain: number, domainName: string, descriptor: Descriptor): Rule | null {
    if (domain < 0) {
      this.stats.add(this.stats.domainNotFound(domainName), 1)
      return null
    }
    if (descriptor.limit === null) {
      return trie.match(domain, descriptor.entries, this.found) ? this.found.rule : null
    }
    this.found.sharedValues.length = 0
    this.found.statsKey = overrideStatsKey(domainName, descriptor)
    return {
      id: -1,
      path: this.found.statsKey,
      limit: {
        name: '',
        requestsPerUnit: descriptor.limit.requestsPerUnit,
        unit: descriptor.limit.unit as Unit,
      },
      isUnlimited: false,
      isShadow: false,
      isQuota: false,
      replaces: [],
      metadata: null,
    }
  }

  /** The counter's key without the window (spec 3.1). */
  private keyOf(domain: string, { entries }: Descriptor, sharedValues: readonly string[]): string {
    let key = `${this.options.keyPrefix}${domain}_`
    for (let i = 0; i < entries.length; i++) {
      key += `${entries[i].key}_${sharedValues[i] || entries[i].value}_`
    }
    return key
  }

  /** Puts the request's hits into the open batch; without any, answers now. */
  private count(pending: Pending): void {
    const now = this.options.nowSec()
    const tripsCount = this.addWindows(pending, now)
    if (tripsCount === 0) {
      this.answer(pending, this.batch, now)
      return
    }
    if (this.batch.isFullFor(tripsCount)) this.flush()
    if (this.batch.isFullFor(tripsCount)) {
      this.failFromStore(pending.caller, new StoreError('too many hits wait for the counter store'))
      return
    }
    this.addToBatch(pending, now)
    if (this.store.answersAtOnce) this.flush()
    else this.flushSoon()
  }

  private addToBatch(pending: Pending, now: number): void {
    const { random, jitterMaxSec } = this.options
    for (let i = 0; i < pending.rules.length; i++) {
      const rule = pending.rules[i]
      if (rule === null || pending.members[i] !== TO_COUNT) continue
      const lengthSec = unitSec(rule.limit.unit)
      pending.members[i] = this.batch.add(
        new Counter(pending.keys[i]),
        pending.isOnlyLooking ? 0 : pending.hits[i],
        rule.limit.requestsPerUnit,
        windowStartSec(now, lengthSec) + lengthSec,
        lengthSec + Math.floor(random() * jitterMaxSec), // jitterMaxSec 0: none
        lengthSec === 1,
      )
    }
    this.batch.endRequest()
    this.waiting.push(pending)
  }

  /**
   * Completes the keys, and returns how many need a trip to the store. The others have no rule, are unlimited, or are
   * over by the local cache.
   */
  private addWindows(pending: Pending, now: number): number {
    const { localCache, isStopping } = this.options
    let tripsCount = 0
    for (let i = 0; i < pending.rules.length; i++) {
      const rule = pending.rules[i]
      if (rule === null || rule.isUnlimited) {
        pending.members.push(NOT_COUNTED)
        continue
      }
      this.stats.add(pending.statsBases[i] + TOTAL_HITS, Number(pending.hits[i]))
      pending.keys[i] += windowStartSec(now, unitSec(rule.limit.unit))
      const isOver = localCache?.isOver(pending.keys[i], rule.limit.requestsPerUnit) === true
      if (isOver && isStopping) pending.isOnlyLooking = true
      pending.members.push(isOver ? OVER_LOCALLY : TO_COUNT)
      if (!isOver) tripsCount++
    }
    return tripsCount
  }

  private flushSoon(): void {
    if (this.isFlushScheduled) return
    this.isFlushScheduled = true
    setImmediate(() => {
      this.isFlushScheduled = false
      this.flush()
    })
  }

  /** Sends the open batch and opens a new one; while the store can take none, hits go on joining this one. */
  private flush(): void {
    const { batch, waiting } = this
    if (waiting.length === 0 || !this.store.canAdd) return
    this.batch = this.spare ?? new Batch(this.options.isStopping)
    this.spare = null
    this.waiting = []
    this.store.add(batch, this.options.nowSec(), () => {
      const now = this.options.nowSec()
      for (let i = 0; i < waiting.length; i++) this.answer(waiting[i], batch, now)
      batch.clear()
      this.spare = batch
      if (this.waiting.length > 0) this.flushSoon() // it may have waited for this one to come back
    })
  }

  /** Spec 4.7: a status per descriptor, and the code over all of them. */
  private answer(pending: Pending, batch: Batch, nowSec: number): void {
    const error = firstError(pending, batch)
    if (error !== null) {
      this.failFromStore(pending.caller, error)
      return
    }
    const { request, rules } = pending
    const { isShadow, hasMetadata, headerNames } = this.options
    const statuses: DescriptorStatus[] = []
    const isQuota: boolean[] = []
    let rateFailed = 0
    let quotaFailed = 0
    let quotaTotal = 0
    for (let i = 0; i < rules.length; i++) {
      const rule = rules[i]
      const status = this.status(pending, i, batch, nowSec)
      const countsAsQuota = !rule?.isUnlimited && (this.options.isQuota || rule?.isQuota === true)
      statuses.push(status)
      isQuota.push(countsAsQuota)
      if (countsAsQuota) quotaTotal++
      if (status.code === Code.OverLimit) countsAsQuota ? quotaFailed++ : rateFailed++
    }
    const isOver = rateFailed > 0 || (quotaTotal > 0 && quotaFailed === quotaTotal)
    if (isOver && isShadow) this.stats.add(this.shadowed, 1)
    pending.caller.answer({
      overallCode: isOver && !isShadow ? Code.OverLimit : Code.Ok,
      statuses,
      responseHeadersToAdd: headerNames === null ? [] : responseHeaders(statuses, isQuota, headerNames),
      dynamicMetadata: hasMetadata ? dynamicMetadata(request, rules, statuses) : null,
    })
  }

  private status(pending: Pending, i: number, batch: Batch, nowSec: number): DescriptorStatus {
    const rule = pending.rules[i]
    if (rule === null) return { code: Code.Ok, currentLimit: null, limitRemaining: 0, resetSec: 0 }
    if (rule.isUnlimited) {
      return { code: Code.Ok, currentLimit: null, limitRemaining: REMAINING_MAX, resetSec: 0 }
    }
    const hits = Number(pending.hits[i])
    const statsBase = pending.statsBases[i]
    if (pending.members[i] === OVER_LOCALLY) return localVerdict(rule, hits, this.stats, statsBase, nowSec)
    const counted = batch.beforeOf(pending.members[i])
    const before = pending.isOnlyLooking ? counted - hits : counted
    const after = pending.isOnlyLooking ? counted : counted + hits // not before + hits: big hits round
    const limit = rule.limit.requestsPerUnit
    const near = nearLimit(limit, this.options.nearLimitRatio)
    if (after > limit) this.options.localCache?.add(pending.keys[i], after)
    return verdict(rule, before, after, hits, near, this.stats, statsBase, nowSec)
  }

  private failFromStore(caller: Caller, error: Error): void {
    this.stats.add(this.storeErrors, 1)
    caller.fail(error)
  }
}

function firstError({ members }: Pending, batch: Batch): Error | null {
  for (const member of members) {
    const error = member < 0 ? null : batch.errorOf(member)
    if (error !== null) return error
  }
  return null
}

/** Spec 2.6: rules whose name another rule of this request replaces do not count. Unlimited ones stay. */
function drop(pending: Pending, replaced: ReadonlySet<string>): void {
  for (let i = 0; i < pending.rules.length; i++) {
    const rule = pending.rules[i]
    if (rule === null || rule.isUnlimited || rule.limit.name === '') continue
    if (replaced.has(rule.limit.name)) pending.rules[i] = null
  }
}

/** Spec 2.2, step 2: a dot before each entry, but not while everything so far is empty. */
function overrideStatsKey(domain: string, { entries }: Descriptor): string {
  let path = ''
  for (const { key, value } of entries) {
    if (path !== '') path += '.'
    path += value === '' ? key : `${key}_${value}`
  }
  return `${domain}.${path}`
}
