/**
 * The requests whose hits are sent in one batch, in columns: a request in flight is not an object.
 *
 *     request   ends   callback     item   descriptor      hits   counter                 member of the batch
 *        0       2     stream 5       0    user=7            1    shop_user_7_1790000040     0
 *        1       3     stream 7       1    path=/            1    none: no limit applies     NOT_COUNTED
 *                                     2    user=7            1    shop_user_7_1790000040     1
 *
 * Items from `open` on belong to a request that is still being added; `reopen` drops them. Batches are reused after `clear`.
 * Columns may be longer than their content; entries beyond it are meaningless.
 */
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { Batch } from '../stores/batch.ts'
import type { Counter } from '../stores/counter.ts'
import type { DecisionCallback } from './rate-limiter.ts'
import { NO_RULE_DESCRIPTOR, type ResolvedDescriptor } from './resolved-descriptor.ts'

/** In `members`, for items that are not in the batch. */
export const NOT_COUNTED = -1
export const OVER_LOCALLY = -2
export const TO_COUNT = -3 // not added to the batch yet
export const NOT_ADDED = -4 // the batch was full

export class RequestBatch {
  readonly batch: Batch
  /** Called by the store when every member of the batch has its count or error. */
  readonly done: () => void
  requestsCount = 0
  /** First item of the request that is being added. */
  open = 0
  itemsCount = 0

  /** Per request. */
  readonly callbacks: (DecisionCallback | null)[] = [] // null = answered
  readonly requests: (RateLimitRequest | null)[] = [] // null = only its bytes are known
  readonly ends: number[] = [] // the item after its last one
  readonly isReadOnly: boolean[] = [] // a counter is over by the local cache, so the others get no hits (spec 4.2)

  readonly deadlinesMs: number[] = [] // of performance.now; Infinity = none. Not set for synchronous stores
  nextDeadlineMs = Number.POSITIVE_INFINITY // the earliest of those that are not answered

  /** Per item. */
  readonly descriptors: ResolvedDescriptor[] = []
  readonly hits: (number | bigint)[] = []
  readonly counters: (Counter | null)[] = [] // null = nothing is counted
  readonly members: number[] = []

  constructor(stopIncrementWhenOverLimit: boolean, done: (requests: RequestBatch) => void) {
    this.batch = new Batch(stopIncrementWhenOverLimit)
    this.done = () => done(this)
  }

  add(descriptor: ResolvedDescriptor, hits: number | bigint): void {
    const item = this.itemsCount++
    this.descriptors[item] = descriptor
    this.hits[item] = hits
    this.counters[item] = null
    this.members[item] = NOT_COUNTED
  }

  /** Spec 2.6: rules whose name another rule of the open request replaces do not count. Unlimited ones stay. */
  dropReplaced(): void {
    const { descriptors, open, itemsCount } = this
    let replaced: Set<string> | null = null
    for (let item = open; item < itemsCount; item++) {
      const { rule } = descriptors[item]
      if (rule === null || rule.replaces.length === 0) continue
      replaced ??= new Set()
      for (const name of rule.replaces) replaced.add(name)
    }
    if (replaced === null) return
    for (let item = open; item < itemsCount; item++) {
      const { rule } = descriptors[item]
      if (rule === null || rule.isUnlimited || rule.limit.name === '') continue
      if (replaced.has(rule.limit.name)) descriptors[item] = NO_RULE_DESCRIPTOR
    }
  }

  /** The last request, whose items begin at `first`, does not fit. */
  giveUp(first: number): void {
    for (let item = first; item < this.itemsCount; item++)
      if (this.members[item] === TO_COUNT) this.members[item] = NOT_ADDED
  }

  /** Completes the request made of the items from `open`. */
  close(callback: DecisionCallback, request: RateLimitRequest | null, isReadOnly: boolean): void {
    const i = this.requestsCount++
    this.callbacks[i] = callback
    this.requests[i] = request
    this.ends[i] = this.itemsCount
    this.isReadOnly[i] = isReadOnly
    this.open = this.itemsCount
  }

  /** Drops the items of an incomplete request. */
  reopen(): void {
    this.itemsCount = this.open
  }

  /** Drops the last request, which completed without the store. */
  dropLast(): void {
    this.callbacks[--this.requestsCount] = null
    this.open = this.getFirstItem(this.requestsCount)
    this.itemsCount = this.open
  }

  /** First item of a request. */
  getFirstItem(request: number): number {
    return request === 0 ? 0 : this.ends[request - 1]
  }

  /** Copies a request of another batch, with its hits still to be counted. Returns its index here. */
  copy(from: RequestBatch, request: number): number {
    const end = from.ends[request]
    for (let item = from.getFirstItem(request); item < end; item++) {
      const to = this.itemsCount
      this.add(from.descriptors[item], from.hits[item])
      this.counters[to] = from.counters[item]
      this.members[to] = from.members[item] >= 0 ? TO_COUNT : from.members[item]
    }
    this.close(from.callbacks[request]!, from.requests[request], from.isReadOnly[request])
    const deadlineMs = from.deadlinesMs[request]
    this.deadlinesMs[this.requestsCount - 1] = deadlineMs
    this.nextDeadlineMs = Math.min(this.nextDeadlineMs, deadlineMs)
    return this.requestsCount - 1
  }

  clear(): void {
    this.batch.clear()
    this.callbacks.fill(null, 0, this.requestsCount)
    this.requests.fill(null, 0, this.requestsCount)
    this.requestsCount = 0
    this.nextDeadlineMs = Number.POSITIVE_INFINITY
    this.open = 0
    this.itemsCount = 0
  }
}
