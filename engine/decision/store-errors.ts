/**
 * Answers for hits that the store could not count: the policy of each rule (`on_store_error`, else STORE_ERROR_POLICY).
 *
 *     descriptors       counted?   policy     answer
 *     user=7            yes                   from its count, as always
 *     path=/login       no         allow      OK, the rule's limit, all of it remaining
 *     path=/pay         no         deny       OVER_LIMIT until the window ends
 *     address=1.2.3.4   no         local      from a count of this process, with local_share percent of the limit
 *     plan=free         no         error      the call fails, whatever the others say
 *
 * Nothing here runs unless a count is missing. Hits are counted in the usual statistics of the rule and in `degraded_<policy>`.
 * The reason does not matter, so a key that the store refuses (memcached: more than 250 bytes) is answered by the policy, too.
 */
import { Code, type DescriptorStatus, type RateLimitResponse } from '../../proto/ratelimit.ts'
import { type Rule, STORE_ERROR_POLICIES, type StoreErrorPolicy } from '../config/rules.ts'
import { StoreError } from '../runtime/errors.ts'
import { type Stats, WITHIN_LIMIT } from '../stats/stats.ts'
import { Batch } from '../stores/batch.ts'
import type { CounterStore } from '../stores/counter-store.ts'
import { evaluateLimit, nearLimit, refuse } from './evaluate-limit.ts'
import type { DecisionCallback } from './rate-limiter.ts'
import { NOT_ADDED, type RequestBatch } from './request-batch.ts'
import { addDegradedMetadata, DEGRADED_HEADER } from './response-metadata.ts'
import { resetSec, unitSec } from './window.ts'

/** What is known of a request's counts when it is answered. */
export const ALL_COUNTED = 0
export const SOME_FAILED = 1
export const LATE = 2 // at its deadline, so some may not have arrived
export type Counted = typeof ALL_COUNTED | typeof SOME_FAILED | typeof LATE

const TOO_LATE = new StoreError('no count before the deadline; the hits may have been counted', true)
const OVERLOADED = new StoreError('too many hits wait for the counter store')

const SHARE_ALL = 100 // percent

/** How one request is answered of which the store could not count every hit. */
export interface Degraded {
  /** Not null: the call fails with it. */
  error: Error | null
  /** Per descriptor; null = it was counted, or there was nothing to count. */
  policies: (StoreErrorPolicy | null)[]
  statuses: (DescriptorStatus | null)[]
}

export interface StoreErrorOptions {
  policy: StoreErrorPolicy // STORE_ERROR_POLICY
  localStore: CounterStore | null // synchronous, shared by all threads; null = `local` fails as `error` does
  nearLimitRatio: number
  stopIncrementWhenOverLimit: boolean
  stats: Stats
}

export class StoreErrors {
  private readonly options: StoreErrorOptions
  private readonly batch: Batch // of one request, for the local store
  private readonly unknownHits: number

  constructor(options: StoreErrorOptions) {
    this.options = options
    this.unknownHits = options.stats.counter('sluice.store.unknown_hits')
    this.batch = new Batch(options.stopIncrementWhenOverLimit)
  }

  /** How a request is answered; null if each of its hits was counted. */
  resolve(requests: RequestBatch, request: number, counted: Counted, now: number): Degraded | null {
    const first = requests.getFirstItem(request)
    const end = requests.ends[request]
    const isReadOnly = requests.isReadOnly[request]
    const policies: (StoreErrorPolicy | null)[] = []
    let fatal: Error | null = null
    let hasFailed = false
    for (let item = first; item < end; item++) {
      const error = findError(requests, item, counted === LATE)
      const policy = error === null ? null : this.getPolicy(requests.descriptors[item].rule!)
      policies.push(policy)
      if (error === null) continue
      hasFailed = true
      if (error instanceof StoreError && error.isUnknown)
        this.options.stats.add(this.unknownHits, Number(requests.hits[item]))
      if (policy === 'error') fatal ??= error
    }
    if (!hasFailed) return null
    const statuses: (DescriptorStatus | null)[] = new Array(policies.length).fill(null)
    this.countDegraded(requests, first, policies, fatal !== null)
    if (fatal !== null) return { error: fatal, policies, statuses }
    if (policies.includes('local')) this.countLocally(requests, first, policies, statuses, isReadOnly, now)
    for (let i = 0; i < policies.length; i++) {
      if (policies[i] === 'allow') statuses[i] = this.allow(requests, first + i, now)
      else if (policies[i] === 'deny') statuses[i] = this.deny(requests, first + i, now)
    }
    return { error: null, policies, statuses }
  }

  /** Whether the other counters of a request count nevertheless if that of the rule cannot be read. */
  isTolerated(rule: Rule): boolean {
    return this.getPolicy(rule) !== 'error'
  }

  private getPolicy({ onStoreError }: Rule): StoreErrorPolicy {
    const policy = onStoreError ?? this.options.policy
    return policy === 'local' && this.options.localStore === null ? 'error' : policy
  }

  /** Of a call that fails, only what made it fail is counted. */
  private countDegraded(
    { descriptors, hits }: RequestBatch,
    first: number,
    policies: Degraded['policies'],
    isFatal: boolean,
  ): void {
    for (let i = 0; i < policies.length; i++) {
      const policy = policies[i]
      if (policy === null || (isFatal && policy !== 'error')) continue
      const { statsBase } = descriptors[first + i]
      this.options.stats.addDegraded(statsBase, STORE_ERROR_POLICIES.indexOf(policy), Number(hits[first + i]))
    }
  }

  /** Hits that alone exceed the limit are over it whatever the count is; so a limit of 0 stays closed. */
  private allow(requests: RequestBatch, item: number, now: number): DescriptorStatus {
    const { rule, statsBase } = requests.descriptors[item]
    const { limit } = rule!
    const hits = Number(requests.hits[item])
    if (hits > limit.requestsPerUnit) return this.deny(requests, item, now)
    this.options.stats.add(statsBase + WITHIN_LIMIT, hits)
    return {
      code: Code.Ok,
      currentLimit: limit,
      limitRemaining: limit.requestsPerUnit,
      resetSec: resetSec(now, unitSec(limit.unit)),
    }
  }

  private deny(requests: RequestBatch, item: number, now: number): DescriptorStatus {
    const { rule, statsBase } = requests.descriptors[item]
    return refuse(rule!, Number(requests.hits[item]), this.options.stats, statsBase, now)
  }

  private countLocally(
    requests: RequestBatch,
    first: number,
    policies: Degraded['policies'],
    statuses: Degraded['statuses'],
    isReadOnly: boolean,
    now: number,
  ): void {
    const { batch } = this
    const { localStore, nearLimitRatio, stats } = this.options
    const members: number[] = []
    for (let i = 0; i < policies.length; i++) {
      if (policies[i] !== 'local') continue
      const { rule, lengthSec, expirySec } = requests.descriptors[first + i]
      const hits = isReadOnly ? 0 : requests.hits[first + i]
      const windowEndSec = now - (now % lengthSec) + lengthSec
      const counter = requests.counters[first + i]!
      members[i] = batch.add(counter, hits, localLimit(rule!), windowEndSec, expirySec, false)
    }
    batch.endRequest()
    localStore!.add(batch, now, () => {})
    for (let i = 0; i < policies.length; i++) {
      if (policies[i] !== 'local') continue
      const { rule, near, statsBase } = requests.descriptors[first + i]
      const hits = Number(requests.hits[first + i])
      const counted = batch.getPreviousCount(members[i])
      const before = isReadOnly ? counted - hits : counted
      const after = isReadOnly ? counted : counted + hits
      const local = localRule(rule!)
      const localNear = local === rule ? near : nearLimit(local.limit.requestsPerUnit, nearLimitRatio)
      const status = evaluateLimit(local, before, after, hits, localNear, stats, statsBase, now)
      statuses[i] = { ...status, currentLimit: rule!.limit }
    }
    batch.clear()
  }
}

function findError({ members, batch }: RequestBatch, item: number, isLate: boolean): Error | null {
  const member = members[item]
  if (member === NOT_ADDED) return OVERLOADED
  if (member < 0) return null
  return isLate && batch.isPending(member) ? TOO_LATE : batch.getError(member)
}

/** The rule as this process counts it; the rule itself if its share is everything. */
function localRule(rule: Rule): Rule {
  if ((rule.localShare ?? SHARE_ALL) === SHARE_ALL) return rule
  return { ...rule, limit: { ...rule.limit, requestsPerUnit: localLimit(rule) } }
}

/** Rounded up, so at least 1 unless the limit is 0. */
function localLimit({ limit, localShare }: Rule): number {
  return Math.ceil((limit.requestsPerUnit * (localShare ?? SHARE_ALL)) / SHARE_ALL)
}

/** Shows in a response that policies answered. Of several, its header names the one that admits least. */
export function markDegraded(
  response: RateLimitResponse,
  { policies }: Degraded,
  hasHeader: boolean,
  callback: DecisionCallback,
): void {
  const policy = policies.includes('deny') ? 'deny' : policies.includes('local') ? 'local' : 'allow'
  const { responseHeadersToAdd: headers, dynamicMetadata: metadata } = response
  if (hasHeader) response.responseHeadersToAdd = [...headers, { key: DEGRADED_HEADER, value: policy }]
  if (metadata !== null) addDegradedMetadata(metadata, policy, policies)
  callback.onDegraded?.(policy)
}
