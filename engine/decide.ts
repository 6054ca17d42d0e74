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
import type {
  Descriptor,
  DescriptorStatus,
  HeaderValue,
  RateLimitRequest,
  RateLimitResponse,
} from '../proto/ratelimit.ts'
import { Code, type Unit } from '../proto/ratelimit.ts'
import { BATCH_SLOTS_MAX, Batch } from './counters/batch.ts'
import type { CounterStore } from './counters/store.ts'
import type { Caller, Decider } from './decider.ts'
import { ServiceError, StoreError } from './errors.ts'
import { Trie } from './match/trie.ts'
import type { Match, Rule, RulesImage } from './rules.ts'
import { NEAR_LIMIT, OVER_LIMIT, SHADOW_MODE, type Stats, TOTAL_HITS, WITHIN_LIMIT } from './stats/stats.ts'
import { resetSec, unitSec, windowStartSec } from './window.ts'

/** What an unlimited rule answers as remaining; also where the search for the smallest remaining starts. */
const REMAINING_MAX = 4_294_967_295

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
  headerNames: { limit: string; remaining: string; reset: string } | null // null = no headers
}

/** A request on its way. Columns per descriptor, in request order. */
interface Pending {
  request: RateLimitRequest
  caller: Caller
  rules: (Rule | null)[] // null = no limit applies
  keys: string[] // counter keys, '' where nothing is counted
  hits: number[]
  statsBases: number[] // first of the rule's six counters; -1 where nothing is counted
  members: number[] // places in the batch; -1 where nothing is counted
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
  private batch = new Batch()
  private spare: Batch | null = null // one that came back, cleared
  private waiting: Pending[] = []
  private isFlushScheduled = false

  constructor(options: EngineOptions) {
    this.options = options
    this.store = options.store
    this.stats = options.stats
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
    const pending = this.match(request, caller)
    if (pending instanceof ServiceError) {
      this.stats.add(this.serviceErrors, 1)
      caller.fail(pending)
    } else {
      this.count(pending)
    }
  }

  /** Finds the rule of every descriptor (spec 2.1), or what is wrong with the request. */
  private match(request: RateLimitRequest, caller: Caller): Pending | ServiceError {
    if (request.domain === '') return new ServiceError('rate limit domain must not be empty')
    if (request.descriptors.length === 0) {
      return new ServiceError('rate limit descriptor list must not be empty')
    }
    if (request.descriptors.length > BATCH_SLOTS_MAX) {
      return new ServiceError(`a request must not have more than ${BATCH_SLOTS_MAX} descriptors`)
    }
    if (this.trie === null) return new ServiceError('no rate limit configuration loaded')
    const pending: Pending = { request, caller, rules: [], keys: [], hits: [], statsBases: [], members: [] }
    const domain = this.trie.domain(request.domain)
    let replaced: string[] | null = null
    for (const descriptor of request.descriptors) {
      const hits = descriptor.hitsAddend ?? (request.hitsAddend || 1)
      if (hits === Number.POSITIVE_INFINITY) {
        return new ServiceError(`hits_addend must not be above ${Number.MAX_SAFE_INTEGER}`)
      }
      if (domain >= 0 && descriptor.limit !== null && unitSec(descriptor.limit.unit) === 0) {
        return new ServiceError(`rate limit override has an unknown unit: ${descriptor.limit.unit}`)
      }
      const rule = this.ruleOf(this.trie, domain, request.domain, descriptor)
      pending.rules.push(rule)
      pending.hits.push(hits)
      if (rule !== null && rule.replaces.length > 0) replaced = [...(replaced ?? []), ...rule.replaces]
      const isCounted = rule !== null && !rule.isUnlimited
      pending.keys.push(isCounted ? this.keyOf(request.domain, descriptor) : '')
      pending.statsBases.push(isCounted ? this.stats.rule(this.found.statsKey) : -1)
    }
    if (replaced !== null) drop(pending, replaced)
    return pending
  }

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

  /** The counter's key without the window (spec 3.1), for the descriptor matched last. */
  private keyOf(domain: string, { entries }: Descriptor): string {
    let key = `${this.options.keyPrefix}${domain}_`
    for (let i = 0; i < entries.length; i++) {
      key += `${entries[i].key}_${this.found.sharedValues[i] || entries[i].value}_`
    }
    return key
  }

  /** Puts the request's hits into the open batch; without any, answers now. */
  private count(pending: Pending): void {
    const { nowSec, random, jitterMaxSec } = this.options
    if (this.batch.isFullFor(pending.rules.length)) this.flush()
    if (this.batch.isFullFor(pending.rules.length)) {
      this.failFromStore(pending.caller, new StoreError('too many hits wait for the counter store'))
      return
    }
    const now = nowSec()
    let isCounted = false
    for (let i = 0; i < pending.rules.length; i++) {
      const rule = pending.rules[i]
      if (rule === null || rule.isUnlimited) {
        pending.members.push(-1)
        continue
      }
      isCounted = true
      this.stats.add(pending.statsBases[i] + TOTAL_HITS, pending.hits[i])
      const lengthSec = unitSec(rule.limit.unit)
      const startSec = windowStartSec(now, lengthSec)
      const jitterSec = Math.floor(random() * jitterMaxSec) // 0 with jitterMaxSec 0
      const key = pending.keys[i] + startSec
      pending.members.push(this.batch.add(key, pending.hits[i], startSec + lengthSec, lengthSec + jitterSec))
    }
    if (!isCounted) {
      this.answer(pending, this.batch, now)
    } else {
      this.waiting.push(pending)
      if (this.store.answersAtOnce) this.flush()
      else this.flushSoon()
    }
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
    this.batch = this.spare ?? new Batch()
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
    const statuses: DescriptorStatus[] = []
    let rateFailed = 0
    let quotaFailed = 0
    let quotaTotal = 0
    for (let i = 0; i < pending.rules.length; i++) {
      const rule = pending.rules[i]
      if (rule?.isUnlimited) {
        statuses.push({ code: Code.Ok, currentLimit: null, limitRemaining: REMAINING_MAX, resetSec: 0 })
        continue
      }
      const isQuota = this.options.isQuota || rule?.isQuota === true
      if (isQuota) quotaTotal++
      if (rule === null) {
        statuses.push({ code: Code.Ok, currentLimit: null, limitRemaining: 0, resetSec: 0 })
        continue
      }
      const status = this.verdict(
        rule,
        pending.hits[i],
        batch.afterOf(pending.members[i]),
        pending.statsBases[i],
        nowSec,
      )
      statuses.push(status)
      if (status.code === Code.OverLimit) isQuota ? quotaFailed++ : rateFailed++
    }
    const isOver = rateFailed > 0 || (quotaTotal > 0 && quotaFailed === quotaTotal)
    pending.caller.answer(this.response(pending, statuses, isOver))
  }

  /** Spec 4.4: code, remaining and statistics of one counter, given its count after our hits. */
  private verdict(
    rule: Rule,
    hits: number,
    after: number,
    statsBase: number,
    nowSec: number,
  ): DescriptorStatus {
    const { stats } = this
    const limit = rule.limit.requestsPerUnit
    const before = after - hits
    // 32-bit floats, as the service we replace computes it: visible for large limits and some ratios
    const near = Math.floor(Math.fround(Math.fround(limit) * Math.fround(this.options.nearLimitRatio)))
    const reset = resetSec(nowSec, unitSec(rule.limit.unit))
    if (after <= limit) {
      if (after > near) stats.add(statsBase + NEAR_LIMIT, before >= near ? hits : after - near)
      stats.add(statsBase + WITHIN_LIMIT, hits)
      return { code: Code.Ok, currentLimit: rule.limit, limitRemaining: limit - after, resetSec: reset }
    }
    const over = before >= limit ? hits : after - limit
    stats.add(statsBase + OVER_LIMIT, over)
    if (before < limit) stats.add(statsBase + NEAR_LIMIT, limit - Math.max(near, before))
    if (rule.isShadow) stats.add(statsBase + SHADOW_MODE, over)
    const code = rule.isShadow ? Code.Ok : Code.OverLimit
    return { code, currentLimit: rule.limit, limitRemaining: 0, resetSec: reset }
  }

  private failFromStore(caller: Caller, error: Error): void {
    this.stats.add(this.storeErrors, 1)
    caller.fail(error)
  }

  private response(pending: Pending, statuses: DescriptorStatus[], isOver: boolean): RateLimitResponse {
    const { headerNames, isShadow } = this.options
    const headers = headerNames === null ? [] : this.headers(pending, statuses, headerNames)
    if (isOver && isShadow) this.stats.add(this.shadowed, 1)
    const overallCode = isOver && !isShadow ? Code.OverLimit : Code.Ok
    return { overallCode, statuses, responseHeadersToAdd: headers }
  }

  /** Spec 4.8: the headers tell of the descriptor with the smallest remaining; the last that is over wins. */
  private headers(
    { rules }: Pending,
    statuses: DescriptorStatus[],
    names: { limit: string; remaining: string; reset: string },
  ): HeaderValue[] {
    let selected: DescriptorStatus | null = null
    let smallest = REMAINING_MAX
    for (let i = 0; i < statuses.length; i++) {
      const status = statuses[i]
      if (status.currentLimit === null) continue
      const isQuota = this.options.isQuota || rules[i]?.isQuota === true
      if (status.code === Code.OverLimit && !isQuota) {
        selected = status
        smallest = 0
      } else if (status.limitRemaining < smallest) {
        selected = status
        smallest = status.limitRemaining
      }
    }
    if (selected === null) return []
    return [
      { key: names.limit, value: String(selected.currentLimit!.requestsPerUnit) },
      { key: names.remaining, value: String(selected.limitRemaining) },
      { key: names.reset, value: String(selected.resetSec) },
    ]
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
function drop(pending: Pending, replaced: string[]): void {
  for (let i = 0; i < pending.rules.length; i++) {
    const rule = pending.rules[i]
    if (rule === null || rule.isUnlimited || rule.limit.name === '') continue
    if (replaced.includes(rule.limit.name)) pending.rules[i] = null
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
