/**
 * The path of every request: match, count, status.
 *
 *     decide(request) ── resolve its descriptors ──► hits join the open batch ─┐
 *     decide(request) ── resolve its descriptors ──► hits join the open batch ─┤ end of the event loop's turn
 *                                                                              ▼
 *     callback.onDecision ◄── statuses, statistics ◄── previous counts ◄── store.add(batch)
 *
 * One Engine per worker thread and one batch per turn, so an idle service adds no delay and a busy one shares round trips.
 * A synchronous store is called immediately. The engine knows no sockets; the clock is injected.
 */
import { decodeRequest } from '../../proto/codec.ts'
import {
  Code,
  type Descriptor,
  type DescriptorStatus,
  type HeaderValue,
  type RateLimit,
  type RateLimitRequest,
  type RateLimitResponse,
} from '../../proto/ratelimit.ts'
import { RequestParts } from '../../proto/request-parts.ts'
import type { RulesImage, StoreErrorPolicy } from '../config/rules.ts'
import { ServiceError, StoreError } from '../runtime/errors.ts'
import { type Stats, TOTAL_HITS } from '../stats/stats.ts'
import { BATCH_SLOTS_MAX } from '../stores/batch.ts'
import type { CounterStore } from '../stores/counter-store.ts'
import type { OverLimitCache } from '../stores/over-limit-cache.ts'
import { Deadlines } from './deadlines.ts'
import { DescriptorResolver } from './descriptor-resolver.ts'
import { evaluateLimit, evaluateLocalHit } from './evaluate-limit.ts'
import type { DecisionCallback, RateLimiter } from './rate-limiter.ts'
import { OVER_LOCALLY, RequestBatch, TO_COUNT } from './request-batch.ts'
import { getDefaultHits, type ResolvedDescriptor } from './resolved-descriptor.ts'
import { dynamicMetadata, type HeaderNames, REMAINING_MAX, responseHeaders } from './response-metadata.ts'
import { ALL_COUNTED, type Counted, LATE, markDegraded, SOME_FAILED, StoreErrors } from './store-errors.ts'

const SPARE_BATCHES_MAX = 8 // kept for reuse; more are in flight only when the store is slow

const CANCELLED = new StoreError('the call was cancelled') // never sent

const NO_LIMIT: DescriptorStatus = { code: Code.Ok, currentLimit: null, limitRemaining: 0, resetSec: 0 }
const NO_HEADERS: HeaderValue[] = []
const UNLIMITED: DescriptorStatus = { ...NO_LIMIT, limitRemaining: REMAINING_MAX }

export interface EngineOptions {
  store: CounterStore
  stats: Stats
  decisionsStat: string // name of the counter of decisions
  nowSec: () => number // epoch seconds, whole
  random: () => number // 0 to below 1; spreads expiries
  nearLimitRatio: number // 0 to 1, taken as a 32-bit float (spec 4.4)
  keyPrefix: string // CACHE_KEY_PREFIX
  jitterMaxSec: number // EXPIRATION_JITTER_MAX_SECONDS; 0 = none
  isShadow: boolean // SHADOW_MODE
  isQuota: boolean // QUOTA_MODE
  stopIncrementWhenOverLimit: boolean // STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT
  hasMetadata: boolean // RESPONSE_DYNAMIC_METADATA
  headerNames: HeaderNames | null // null = no headers
  localCache: OverLimitCache | null // null = none
  storeErrorPolicy: StoreErrorPolicy // STORE_ERROR_POLICY, of rules without one of their own
  localStore: CounterStore | null // for the policy local; null = that fails as `error`
  decisionTimeoutMs: number // DECISION_TIMEOUT; 0 = none
  hasDegradedHeader: boolean // responses whose hits a policy answered have DEGRADED_HEADER
}

export class Engine implements RateLimiter {
  private readonly options: EngineOptions
  private readonly store: CounterStore
  private readonly stats: Stats
  private readonly resolver: DescriptorResolver
  private readonly storeErrors: StoreErrors
  private readonly deadlines: Deadlines
  private readonly parts = new RequestParts()
  private readonly decisions: number
  private readonly serviceErrors: number
  private readonly failedCalls: number
  private readonly shadowed: number
  private openBatch: RequestBatch // receives requests
  private readonly spareBatches: RequestBatch[] = [] // cleared
  private isFlushScheduled = false
  private hasWaited = false // the store had no capacity for the open batch at the end of a turn

  constructor(options: EngineOptions) {
    this.options = options
    this.store = options.store
    this.stats = options.stats
    const policyOnError = options.store.isSynchronous ? null : options.storeErrorPolicy
    this.resolver = new DescriptorResolver({ ...options, policyOnError })
    this.storeErrors = new StoreErrors({ ...options, policy: options.storeErrorPolicy })
    this.deadlines = new Deadlines(
      options.decisionTimeoutMs,
      (requests, i) => this.answerLate(requests, i),
      () => this.store.onLate?.(),
    )
    this.openBatch = this.createRequestBatch()
    this.decisions = this.stats.counter(options.decisionsStat)
    this.serviceErrors = this.stats.counter('ratelimit.service.call.should_rate_limit.service_error')
    this.failedCalls = this.stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
    this.shadowed = this.stats.counter('ratelimit.service.global_shadow_mode')
  }

  /** Applies to later requests; requests in flight keep the rules they were matched with. */
  setRules(image: RulesImage): void {
    this.resolver.setRules(image)
  }

  decide(request: RateLimitRequest, callback: DecisionCallback): void {
    const now = this.options.nowSec()
    try {
      this.accept(request, now)
    } catch (error) {
      this.refuse(callback, error)
      return
    }
    this.count(callback, request, now)
  }

  decideBytes(bytes: Uint8Array, callback: DecisionCallback): void {
    const { parts } = this
    if (this.options.hasMetadata || !this.resolver.hasRules || !parts.find(bytes)) {
      this.decide(decodeRequest(bytes), callback) // metadata repeats the whole request
      return
    }
    const now = this.options.nowSec()
    try {
      this.acceptParts(bytes, now)
    } catch {
      this.openBatch.reopen()
      this.decide(decodeRequest(bytes), callback) // throws the error; malformed bytes are reported first
      return
    }
    this.count(callback, null, now)
  }

  /** The limit that applies to the descriptor; null = none. Counts nothing and does not use the store. */
  findLimit(domain: string, descriptor: Descriptor): RateLimit | null {
    this.resolver.setDomain(domain, this.options.nowSec())
    const { rule } = this.resolver.resolveDescriptor(descriptor)
    return rule === null || rule.isUnlimited ? null : rule.limit
  }

  /** Adds the descriptors of a request to the open batch. Throws a ServiceError. */
  private accept(request: RateLimitRequest, nowSec: number): void {
    const { descriptors, domain } = request
    if (domain === '') throw new ServiceError('rate limit domain must not be empty')
    if (descriptors.length === 0) throw new ServiceError('rate limit descriptor list must not be empty')
    if (descriptors.length > BATCH_SLOTS_MAX) {
      throw new ServiceError(`a request must not have more than ${BATCH_SLOTS_MAX} descriptors`)
    }
    this.makeRoom(descriptors.length)
    const hits = getDefaultHits(request)
    this.resolver.setDomain(domain, nowSec)
    for (const descriptor of descriptors) {
      const resolved = this.resolver.resolveDescriptor(descriptor)
      this.openBatch.add(resolved, resolved.hits ?? hits)
    }
  }

  /** The same for a request in bytes. Throws if it is invalid in any way. */
  private acceptParts(bytes: Uint8Array, nowSec: number): void {
    const { parts, resolver } = this
    this.makeRoom(parts.count)
    const hits = getDefaultHits(parts)
    resolver.setRequest(bytes, parts, nowSec)
    for (let i = 0; i < parts.count; i++) {
      const descriptor = resolver.resolvePart(parts, i)
      this.openBatch.add(descriptor, descriptor.hits ?? hits)
    }
  }

  private refuse(callback: DecisionCallback, error: unknown): void {
    this.countMisses()
    this.openBatch.reopen()
    if (!(error instanceof ServiceError)) throw error
    this.stats.add(this.decisions, 1)
    this.stats.add(this.serviceErrors, 1)
    callback.onError(error)
  }

  private makeRoom(count: number): void {
    if (this.openBatch.batch.isFullFor(count)) this.flush()
  }

  /** Adds the hits of the accepted request to the batch; without any, responds now. */
  private count(callback: DecisionCallback, request: RateLimitRequest | null, now: number): void {
    const { openBatch: requests, store } = this
    this.stats.add(this.decisions, 1)
    this.countMisses()
    const first = requests.open
    requests.dropReplaced()
    requests.close(callback, request, false)
    const pendingCount = this.addWindows(requests, first, now)
    if (pendingCount === 0) {
      this.respond(requests, requests.requestsCount - 1, ALL_COUNTED, now)
      requests.dropLast()
      return
    }
    if (requests.batch.isFullFor(pendingCount)) {
      requests.giveUp(first)
      this.respond(requests, requests.requestsCount - 1, SOME_FAILED, now)
      requests.dropLast()
      return
    }
    this.addToBatch(requests, requests.requestsCount - 1, now)
    if (store.isSynchronous) {
      this.flush()
      return
    }
    this.deadlines.add(requests, requests.requestsCount - 1, callback)
    this.flushSoon()
  }

  /** Counts descriptors of domains without rules (spec 7.1). */
  private countMisses(): void {
    const { descriptors, open, itemsCount } = this.openBatch
    for (let item = open; item < itemsCount; item++) {
      if (descriptors[item].missStat >= 0) this.stats.add(descriptors[item].missStat, 1)
    }
  }

  /**
   * Finds the counters of the last request. Returns how many items the store must count; the others have no rule, are
   * unlimited, or are over the limit by the local cache.
   */
  private addWindows(requests: RequestBatch, first: number, now: number): number {
    const { localCache, stopIncrementWhenOverLimit } = this.options
    let pendingCount = 0
    for (let item = first; item < requests.itemsCount; item++) {
      const descriptor = requests.descriptors[item]
      if (descriptor.lengthSec === 0) continue
      const counter = descriptor.counterAt(now)
      requests.counters[item] = counter
      this.stats.add(descriptor.statsBase + TOTAL_HITS, Number(requests.hits[item]))
      const isOver = localCache?.isOver(counter.key, descriptor.rule!.limit.requestsPerUnit) === true
      if (isOver && stopIncrementWhenOverLimit) requests.isReadOnly[requests.requestsCount - 1] = true
      requests.members[item] = isOver ? OVER_LOCALLY : TO_COUNT
      if (!isOver) pendingCount++
    }
    return pendingCount
  }

  private addToBatch(requests: RequestBatch, request: number, now: number): void {
    const { random, jitterMaxSec, stopIncrementWhenOverLimit } = this.options
    const isReadOnly = requests.isReadOnly[request]
    const end = requests.ends[request]
    for (let item = requests.getFirstItem(request); item < end; item++) {
      if (requests.members[item] !== TO_COUNT) continue
      const { lengthSec, expirySec, rule } = requests.descriptors[item]
      const member = requests.batch.add(
        requests.counters[item]!,
        isReadOnly ? 0 : requests.hits[item],
        rule!.limit.requestsPerUnit,
        now - (now % lengthSec) + lengthSec,
        jitterMaxSec === 0 ? expirySec : expirySec + Math.floor(random() * jitterMaxSec),
        lengthSec === 1,
      )
      if (stopIncrementWhenOverLimit) requests.batch.isTolerated[member] = this.storeErrors.isTolerated(rule!)
      requests.members[item] = member
    }
    requests.batch.endRequest()
  }

  private flushSoon(): void {
    if (this.isFlushScheduled) return
    this.isFlushScheduled = true
    setImmediate(this.flushNow)
  }

  private readonly flushNow = () => {
    this.isFlushScheduled = false
    this.flush()
  }

  /** Sends the open batch and opens a new one. Without capacity in the store, requests keep joining this one. */
  private flush(): void {
    const requests = this.openBatch
    if (requests.requestsCount === 0) return
    if (!this.store.hasCapacity) {
      this.hasWaited = true
      return
    }
    this.openBatch = this.takeSpareBatch()
    if (this.hasWaited) {
      this.hasWaited = false
      this.sendWithoutCancelled(requests)
      return
    }
    this.store.add(requests.batch, this.options.nowSec(), requests.done)
  }

  /** Sends a batch that had to wait, without the hits of calls that were cancelled or answered meanwhile. */
  private sendWithoutCancelled(waited: RequestBatch): void {
    let requests = waited
    const callbacks = waited.callbacks.slice(0, waited.requestsCount)
    if (callbacks.some((callback) => callback === null || callback.isCancelled)) {
      requests = this.createRequestBatch()
      for (const [request, callback] of callbacks.entries()) {
        if (callback?.isCancelled === false)
          this.addToBatch(requests, requests.copy(waited, request), this.options.nowSec())
        else callback?.onError(CANCELLED)
      }
      this.deadlines.replace(waited, requests)
      waited.clear()
    }
    if (requests.requestsCount > 0) this.store.add(requests.batch, this.options.nowSec(), requests.done)
  }

  private takeSpareBatch(): RequestBatch {
    return this.spareBatches.pop() ?? this.createRequestBatch()
  }

  private createRequestBatch(): RequestBatch {
    const { stopIncrementWhenOverLimit } = this.options
    return new RequestBatch(stopIncrementWhenOverLimit, (counted) => this.onCounted(counted))
  }

  private onCounted(requests: RequestBatch): void {
    const now = this.options.nowSec()
    const counted = requests.batch.hasErrors ? SOME_FAILED : ALL_COUNTED
    this.deadlines.remove(requests)
    for (let request = 0; request < requests.requestsCount; request++)
      if (requests.callbacks[request] !== null) this.respond(requests, request, counted, now)
    requests.clear()
    if (this.spareBatches.length < SPARE_BATCHES_MAX) this.spareBatches.push(requests)
    if (this.openBatch.requestsCount > 0) this.flushSoon() // it may have waited for capacity
  }

  /** At the deadline of a request: the counts that have not arrived are dropped when they do. */
  private answerLate(requests: RequestBatch, request: number): void {
    this.respond(requests, request, LATE, this.options.nowSec())
    requests.callbacks[request] = null
  }

  /** Spec 4.7: a status per descriptor, and the overall code. */
  private respond(requests: RequestBatch, request: number, counted: Counted, nowSec: number): void {
    const callback = requests.callbacks[request]!
    const first = requests.getFirstItem(request)
    const end = requests.ends[request]
    const isReadOnly = requests.isReadOnly[request]
    const degraded =
      counted === ALL_COUNTED ? null : this.storeErrors.resolve(requests, request, counted, nowSec)
    if (degraded !== null && degraded.error !== null) {
      this.failFromStore(callback, degraded.error)
      return
    }
    const { isShadow, hasMetadata, headerNames } = this.options
    const statuses: DescriptorStatus[] = new Array(end - first)
    let rateFailed = 0
    let quotaFailed = 0
    let quotaTotal = 0
    for (let item = first; item < end; item++) {
      const descriptor = requests.descriptors[item]
      const status = degraded?.statuses[item - first] ?? this.status(requests, item, isReadOnly, nowSec)
      const isQuota = this.isQuota(descriptor)
      statuses[item - first] = status
      if (isQuota) quotaTotal++
      if (status.code === Code.OverLimit) isQuota ? quotaFailed++ : rateFailed++
    }
    const isOver = rateFailed > 0 || (quotaTotal > 0 && quotaFailed === quotaTotal)
    if (isOver && isShadow) this.stats.add(this.shadowed, 1)
    const response: RateLimitResponse = {
      overallCode: isOver && !isShadow ? Code.OverLimit : Code.Ok,
      statuses,
      responseHeadersToAdd: headerNames === null ? NO_HEADERS : this.headers(requests, first, end, statuses),
      dynamicMetadata: hasMetadata
        ? dynamicMetadata(requests.requests[request]!, requests.descriptors.slice(first, end), statuses)
        : null,
    }
    if (degraded !== null) markDegraded(response, degraded, this.options.hasDegradedHeader, callback)
    callback.onDecision(response)
  }

  private headers(requests: RequestBatch, first: number, end: number, statuses: DescriptorStatus[]) {
    const isQuota = requests.descriptors.slice(first, end).map(this.isQuota)
    return responseHeaders(statuses, isQuota, this.options.headerNames!)
  }

  private readonly isQuota = ({ rule }: ResolvedDescriptor): boolean =>
    !rule?.isUnlimited && (this.options.isQuota || rule?.isQuota === true)

  private status(
    requests: RequestBatch,
    item: number,
    isReadOnly: boolean,
    nowSec: number,
  ): DescriptorStatus {
    const { rule, lengthSec, near, statsBase } = requests.descriptors[item]
    if (rule === null) return NO_LIMIT
    if (lengthSec === 0) return UNLIMITED
    const hits = Number(requests.hits[item])
    const member = requests.members[item]
    if (member === OVER_LOCALLY) return evaluateLocalHit(rule, hits, this.stats, statsBase, nowSec)
    const counted = requests.batch.getPreviousCount(member)
    const before = isReadOnly ? counted - hits : counted
    const after = isReadOnly ? counted : counted + hits // not before + hits: big hits round
    if (after > rule.limit.requestsPerUnit) this.options.localCache?.add(requests.counters[item]!.key, after)
    return evaluateLimit(rule, before, after, hits, near, this.stats, statsBase, nowSec)
  }

  private failFromStore(callback: DecisionCallback, error: Error): void {
    this.stats.add(this.failedCalls, 1)
    callback.onError(error)
  }
}
