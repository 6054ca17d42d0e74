/**
 * The one path every request takes: match, counters, status.
 *
 *     decide(request) ── targets of its descriptors ──► hits join the open wave ─┐
 *     decide(request) ── targets of its descriptors ──► hits join the open wave ─┤ end of the event loop's turn
 *                                                                                ▼
 *     caller.answer ◄── statuses, statistics ◄── counts of the wave's batch ◄── store.add(batch)
 *
 * One Engine per worker thread; one batch per turn, so an idle service adds no delay and a busy one amortises by itself.
 * A store that answers at once is asked at once. Nothing here knows a socket or reads a clock by itself.
 */
import { decodeRequest } from '../../proto/codec.ts'
import {
  Code,
  type Descriptor,
  type DescriptorStatus,
  type HeaderValue,
  type JsonObject,
  type RateLimit,
  type RateLimitRequest,
} from '../../proto/ratelimit.ts'
import { RequestParts } from '../../proto/request-parts.ts'
import type { RulesImage } from '../config/rules.ts'
import { ServiceError, StoreError } from '../runtime/errors.ts'
import { type Stats, TOTAL_HITS } from '../stats/stats.ts'
import { BATCH_SLOTS_MAX } from '../stores/batch.ts'
import type { CounterStore } from '../stores/counter-store.ts'
import type { OverLimitCache } from '../stores/over-limit-cache.ts'
import { DescriptorResolver } from './descriptor-resolver.ts'
import { evaluateLimit, evaluateLocalHit } from './evaluate-limit.ts'
import type { DecisionCallback, RateLimiter } from './rate-limiter.ts'
import { OVER_LOCALLY, RequestBatch, TO_COUNT } from './request-batch.ts'
import { getDefaultHits, NO_RULE_DESCRIPTOR, type ResolvedDescriptor } from './resolved-descriptor.ts'
import { dynamicMetadata, type HeaderNames, REMAINING_MAX, responseHeaders } from './response-metadata.ts'

/** Waves kept for later: as many as are on their way at a time, unless the store is slow. */
const SPARES_MAX = 8

const CANCELLED = new StoreError('the caller has gone') // nobody hears it

const NO_LIMIT: DescriptorStatus = { code: Code.Ok, currentLimit: null, limitRemaining: 0, resetSec: 0 }
const NO_HEADERS: HeaderValue[] = []
const UNLIMITED: DescriptorStatus = { ...NO_LIMIT, limitRemaining: REMAINING_MAX }

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
  stopIncrementWhenOverLimit: boolean // STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT
  hasMetadata: boolean // RESPONSE_DYNAMIC_METADATA
  headerNames: HeaderNames | null // null = no headers
  localCache: OverLimitCache | null // null = none
}

export class Engine implements RateLimiter {
  private readonly options: EngineOptions
  private readonly store: CounterStore
  private readonly stats: Stats
  private readonly resolver: DescriptorResolver
  private readonly parts = new RequestParts()
  private readonly decisions: number
  private readonly serviceErrors: number
  private readonly storeErrors: number
  private readonly shadowed: number
  private openBatch: RequestBatch // takes requests in
  private readonly spareBatches: RequestBatch[] = [] // that came back, cleared
  private isFlushScheduled = false
  private hasWaited = false // the store could not take the open wave at the end of a turn

  constructor(options: EngineOptions) {
    this.options = options
    this.store = options.store
    this.stats = options.stats
    this.resolver = new DescriptorResolver(options)
    this.openBatch = this.createRequestBatch()
    this.decisions = this.stats.counter(options.decisionsStat)
    this.serviceErrors = this.stats.counter('ratelimit.service.call.should_rate_limit.service_error')
    this.storeErrors = this.stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
    this.shadowed = this.stats.counter('ratelimit.service.global_shadow_mode')
  }

  /** Requests decided from now on use these rules; those on their way keep theirs. */
  setRules(image: RulesImage): void {
    this.resolver.setRules(image)
  }

  decide(request: RateLimitRequest, caller: DecisionCallback): void {
    const now = this.options.nowSec()
    try {
      this.accept(request, now)
    } catch (error) {
      this.refuse(caller, error)
      return
    }
    this.count(caller, request, now)
  }

  decideBytes(bytes: Uint8Array, caller: DecisionCallback): void {
    const { parts } = this
    if (this.options.hasMetadata || !this.resolver.hasRules || !parts.find(bytes)) {
      this.decide(decodeRequest(bytes), caller) // metadata tells the whole request back
      return
    }
    const now = this.options.nowSec()
    try {
      this.acceptParts(bytes, now)
    } catch {
      this.openBatch.reopen()
      this.decide(decodeRequest(bytes), caller) // says what is wrong, malformed bytes before all else
      return
    }
    this.count(caller, null, now)
  }

  /** The limit that such a descriptor is counted against; null = none. Counts nothing, so a store that fails has a limit. */
  findLimit(domain: string, descriptor: Descriptor): RateLimit | null {
    this.resolver.setDomain(domain, this.options.nowSec())
    const { rule } = this.resolver.resolveDescriptor(descriptor)
    return rule === null || rule.isUnlimited ? null : rule.limit
  }

  /** Puts the descriptors of a request into the open wave. Throws a ServiceError. */
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
      const target = this.resolver.resolveDescriptor(descriptor)
      this.openBatch.add(target, target.hits ?? hits)
    }
  }

  /** The same for a request of which only the bytes are known. Throws when they are wrong in any way. */
  private acceptParts(bytes: Uint8Array, nowSec: number): void {
    const { parts, resolver: targets } = this
    this.makeRoom(parts.count)
    const hits = getDefaultHits(parts)
    targets.setRequest(bytes, parts, nowSec)
    for (let i = 0; i < parts.count; i++) {
      const target = targets.resolvePart(parts, i)
      this.openBatch.add(target, target.hits ?? hits)
    }
  }

  private refuse(caller: DecisionCallback, error: unknown): void {
    this.countMisses()
    this.openBatch.reopen()
    if (!(error instanceof ServiceError)) throw error
    this.stats.add(this.decisions, 1)
    this.stats.add(this.serviceErrors, 1)
    caller.onError(error)
  }

  private makeRoom(count: number): void {
    if (this.openBatch.batch.isFullFor(count)) this.flush()
  }

  /** Puts the hits of the request that was taken in into the batch; without any, answers now. */
  private count(caller: DecisionCallback, request: RateLimitRequest | null, now: number): void {
    const { openBatch: wave, store } = this
    this.stats.add(this.decisions, 1)
    this.countMisses()
    this.dropReplaced()
    const first = wave.open
    wave.close(caller, request, false)
    const tripsCount = this.addWindows(wave, first, now)
    if (tripsCount === 0) {
      this.answer(wave, wave.requestsCount - 1, now)
      wave.dropLast()
      return
    }
    if (wave.batch.isFullFor(tripsCount)) {
      wave.dropLast()
      this.failFromStore(caller, new StoreError('too many hits wait for the counter store'))
      return
    }
    this.addToBatch(wave, wave.requestsCount - 1, now)
    if (store.isSynchronous) this.flush()
    else this.flushSoon()
  }

  /** Descriptors of domains without rules (spec 7.1). */
  private countMisses(): void {
    const { descriptors: targets, open, itemsCount } = this.openBatch
    for (let item = open; item < itemsCount; item++) {
      if (targets[item].missStat >= 0) this.stats.add(targets[item].missStat, 1)
    }
  }

  /** Spec 2.6: rules whose name another rule of the request replaces do not count. Unlimited ones stay. */
  private dropReplaced(): void {
    const { descriptors: targets, open, itemsCount } = this.openBatch
    let replaced: Set<string> | null = null
    for (let item = open; item < itemsCount; item++) {
      const { rule } = targets[item]
      if (rule === null || rule.replaces.length === 0) continue
      replaced ??= new Set()
      for (const name of rule.replaces) replaced.add(name)
    }
    if (replaced === null) return
    for (let item = open; item < itemsCount; item++) {
      const { rule } = targets[item]
      if (rule === null || rule.isUnlimited || rule.limit.name === '') continue
      if (replaced.has(rule.limit.name)) targets[item] = NO_RULE_DESCRIPTOR
    }
  }

  /**
   * Finds the counters of the last request, and returns how many need a trip to the store. The other items have no
   * rule, are unlimited, or are over by the local cache.
   */
  private addWindows(wave: RequestBatch, first: number, now: number): number {
    const { localCache, stopIncrementWhenOverLimit: isStopping } = this.options
    let tripsCount = 0
    for (let item = first; item < wave.itemsCount; item++) {
      const target = wave.descriptors[item]
      if (target.lengthSec === 0) continue
      const counter = target.counterAt(now)
      wave.counters[item] = counter
      this.stats.add(target.statsBase + TOTAL_HITS, Number(wave.hits[item]))
      const isOver = localCache?.isOver(counter.key, target.rule!.limit.requestsPerUnit) === true
      if (isOver && isStopping) wave.isReadOnly[wave.requestsCount - 1] = true
      wave.members[item] = isOver ? OVER_LOCALLY : TO_COUNT
      if (!isOver) tripsCount++
    }
    return tripsCount
  }

  private addToBatch(wave: RequestBatch, request: number, now: number): void {
    const { random, jitterMaxSec } = this.options
    const isOnlyLooking = wave.isReadOnly[request]
    const end = wave.ends[request]
    for (let item = wave.getFirstItem(request); item < end; item++) {
      if (wave.members[item] !== TO_COUNT) continue
      const { lengthSec, expirySec, rule } = wave.descriptors[item]
      wave.members[item] = wave.batch.add(
        wave.counters[item]!,
        isOnlyLooking ? 0 : wave.hits[item],
        rule!.limit.requestsPerUnit,
        now - (now % lengthSec) + lengthSec,
        jitterMaxSec === 0 ? expirySec : expirySec + Math.floor(random() * jitterMaxSec),
        lengthSec === 1,
      )
    }
    wave.batch.endRequest()
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

  /** Sends the open wave and opens a new one; while the store can take none, requests go on joining this one. */
  private flush(): void {
    const { openBatch: wave } = this
    if (wave.requestsCount === 0) return
    if (!this.store.hasCapacity) {
      this.hasWaited = true
      return
    }
    this.openBatch = this.takeSpareBatch()
    if (this.hasWaited) {
      this.hasWaited = false
      this.sendWithoutCancelled(wave)
      return
    }
    this.store.add(wave.batch, this.options.nowSec(), wave.done)
  }

  /** A wave that had to wait: callers that have gone meanwhile take their hits with them. */
  private sendWithoutCancelled(waited: RequestBatch): void {
    const now = this.options.nowSec()
    let wave = waited
    if (waited.callbacks.some((caller, i) => i < waited.requestsCount && caller!.isCancelled)) {
      wave = this.createRequestBatch()
      for (let request = 0; request < waited.requestsCount; request++) {
        const caller = waited.callbacks[request]!
        if (caller.isCancelled) caller.onError(CANCELLED)
        else this.addToBatch(wave, wave.copy(waited, request), now)
      }
      waited.clear()
    }
    if (wave.requestsCount > 0) this.store.add(wave.batch, now, wave.done)
  }

  private takeSpareBatch(): RequestBatch {
    return this.spareBatches.pop() ?? this.createRequestBatch()
  }

  private createRequestBatch(): RequestBatch {
    return new RequestBatch(this.options.stopIncrementWhenOverLimit, (wave) => this.answered(wave))
  }

  private answered(wave: RequestBatch): void {
    const now = this.options.nowSec()
    for (let request = 0; request < wave.requestsCount; request++) this.answer(wave, request, now)
    wave.clear()
    if (this.spareBatches.length < SPARES_MAX) this.spareBatches.push(wave)
    if (this.openBatch.requestsCount > 0) this.flushSoon() // it may have waited for this one to come back
  }

  /** Spec 4.7: a status per descriptor, and the code over all of them. */
  private answer(wave: RequestBatch, request: number, nowSec: number): void {
    const caller = wave.callbacks[request]!
    const first = wave.getFirstItem(request)
    const end = wave.ends[request]
    const error = firstError(wave, first, end)
    if (error !== null) {
      this.failFromStore(caller, error)
      return
    }
    const { isShadow, hasMetadata, headerNames } = this.options
    const isOnlyLooking = wave.isReadOnly[request]
    const statuses: DescriptorStatus[] = new Array(end - first)
    let rateFailed = 0
    let quotaFailed = 0
    let quotaTotal = 0
    for (let item = first; item < end; item++) {
      const target = wave.descriptors[item]
      const status = this.status(wave, item, isOnlyLooking, nowSec)
      const isQuota = this.isQuota(target)
      statuses[item - first] = status
      if (isQuota) quotaTotal++
      if (status.code === Code.OverLimit) isQuota ? quotaFailed++ : rateFailed++
    }
    const isOver = rateFailed > 0 || (quotaTotal > 0 && quotaFailed === quotaTotal)
    if (isOver && isShadow) this.stats.add(this.shadowed, 1)
    caller.onDecision({
      overallCode: isOver && !isShadow ? Code.OverLimit : Code.Ok,
      statuses,
      responseHeadersToAdd: headerNames === null ? NO_HEADERS : this.headers(wave, first, end, statuses),
      dynamicMetadata: hasMetadata ? this.metadata(wave, request, statuses) : null,
    })
  }

  private headers(
    wave: RequestBatch,
    first: number,
    end: number,
    statuses: DescriptorStatus[],
  ): HeaderValue[] {
    const isQuota = wave.descriptors.slice(first, end).map((target) => this.isQuota(target))
    return responseHeaders(statuses, isQuota, this.options.headerNames!)
  }

  private metadata(wave: RequestBatch, request: number, statuses: DescriptorStatus[]): JsonObject {
    const targets = wave.descriptors.slice(wave.getFirstItem(request), wave.ends[request])
    return dynamicMetadata(
      wave.requests[request]!,
      targets.map(({ rule }) => rule),
      statuses,
    )
  }

  private isQuota({ rule }: ResolvedDescriptor): boolean {
    return !rule?.isUnlimited && (this.options.isQuota || rule?.isQuota === true)
  }

  private status(wave: RequestBatch, item: number, isOnlyLooking: boolean, nowSec: number): DescriptorStatus {
    const { rule, lengthSec, near, statsBase } = wave.descriptors[item]
    if (rule === null) return NO_LIMIT
    if (lengthSec === 0) return UNLIMITED
    const hits = Number(wave.hits[item])
    const member = wave.members[item]
    if (member === OVER_LOCALLY) return evaluateLocalHit(rule, hits, this.stats, statsBase, nowSec)
    const counted = wave.batch.getPreviousCount(member)
    const before = isOnlyLooking ? counted - hits : counted
    const after = isOnlyLooking ? counted : counted + hits // not before + hits: big hits round
    if (after > rule.limit.requestsPerUnit) this.options.localCache?.add(wave.counters[item]!.key, after)
    return evaluateLimit(rule, before, after, hits, near, this.stats, statsBase, nowSec)
  }

  private failFromStore(caller: DecisionCallback, error: Error): void {
    this.stats.add(this.storeErrors, 1)
    caller.onError(error)
  }
}

function firstError({ members, batch }: RequestBatch, first: number, end: number): Error | null {
  for (let item = first; item < end; item++) {
    const error = members[item] < 0 ? null : batch.getError(members[item])
    if (error !== null) return error
  }
  return null
}
