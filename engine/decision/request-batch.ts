/**
 * The requests whose hits travel together in one batch, in columns, so that a request on its way is no object.
 *
 *     request   ends   caller       item   target          hits   counter                 member of the batch
 *        0       2     stream 5       0    user=7            1    shop_user_7_1790000040     0
 *        1       3     stream 7       1    path=/            1    none: no limit applies     NOT_COUNTED
 *                                     2    user=7            1    shop_user_7_1790000040     1
 *
 * Items from `open` on belong to the request that is being taken in; it is none yet, and `reopen` drops them.
 * A wave is used again after `clear`. Columns may be longer than what they hold; what stands behind it means nothing.
 */
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { Batch } from '../stores/batch.ts'
import type { Counter } from '../stores/counter.ts'
import type { DecisionCallback } from './rate-limiter.ts'
import type { ResolvedDescriptor } from './resolved-descriptor.ts'

/** In `members`, for items that are not in the batch. */
export const NOT_COUNTED = -1
export const OVER_LOCALLY = -2
export const TO_COUNT = -3 // until it is

export class RequestBatch {
  readonly batch: Batch
  /** For the store: everything in the batch has its answer. */
  readonly done: () => void
  requestsCount = 0
  /** First item of the request that is being taken in. */
  open = 0
  itemsCount = 0

  /** Per request. */
  readonly callbacks: (DecisionCallback | null)[] = [] // null = answered
  readonly requests: (RateLimitRequest | null)[] = [] // null = only its bytes were seen
  readonly ends: number[] = [] // the item after its last one
  readonly isReadOnly: boolean[] = [] // stopping, and a counter is over locally: no hits for the others (spec 4.2)

  /** Per item. */
  readonly descriptors: ResolvedDescriptor[] = []
  readonly hits: (number | bigint)[] = []
  readonly counters: (Counter | null)[] = [] // null = nothing is counted
  readonly members: number[] = []

  constructor(isStopping: boolean, done: (wave: RequestBatch) => void) {
    this.batch = new Batch(isStopping)
    this.done = () => done(this)
  }

  add(target: ResolvedDescriptor, hits: number | bigint): void {
    const item = this.itemsCount++
    this.descriptors[item] = target
    this.hits[item] = hits
    this.counters[item] = null
    this.members[item] = NOT_COUNTED
  }

  /** The items since `open` are a request. */
  close(caller: DecisionCallback, request: RateLimitRequest | null, isOnlyLooking: boolean): void {
    const i = this.requestsCount++
    this.callbacks[i] = caller
    this.requests[i] = request
    this.ends[i] = this.itemsCount
    this.isReadOnly[i] = isOnlyLooking
    this.open = this.itemsCount
  }

  /** Drops the items of a request that is none. */
  reopen(): void {
    this.itemsCount = this.open
  }

  /** Drops the last request, which was answered without the batch. */
  dropLast(): void {
    this.callbacks[--this.requestsCount] = null
    this.open = this.getFirstItem(this.requestsCount)
    this.itemsCount = this.open
  }

  /** First item of a request. */
  getFirstItem(request: number): number {
    return request === 0 ? 0 : this.ends[request - 1]
  }

  /** Takes over a request of another wave, with its hits still to be counted. Returns its number here. */
  copy(from: RequestBatch, request: number): number {
    const end = from.ends[request]
    for (let item = from.getFirstItem(request); item < end; item++) {
      const to = this.itemsCount
      this.add(from.descriptors[item], from.hits[item])
      this.counters[to] = from.counters[item]
      this.members[to] = from.members[item] >= 0 ? TO_COUNT : from.members[item]
    }
    this.close(from.callbacks[request]!, from.requests[request], from.isReadOnly[request])
    return this.requestsCount - 1
  }

  clear(): void {
    this.batch.clear()
    this.callbacks.fill(null, 0, this.requestsCount)
    this.requests.fill(null, 0, this.requestsCount)
    this.requestsCount = 0
    this.open = 0
    this.itemsCount = 0
  }
}
