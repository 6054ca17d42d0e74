/**
 * The memory store: counters in one table that all threads of the process share (table-layout.ts).
 *
 *     key ──► fingerprint ──► bucket ──► slot with A, B ──► Atomics.add(COUNT) ──► count after      no lock, no wait
 *                                           │ none, or a big number
 *                                           └──► under the bucket's lock: look again, else claim a slot
 *
 * Why the count is exact. COUNT, while 0 or more, is the whole count: `Atomics.add` hands every adder its own place
 * in one order. At 2^30, or for more than 2^20 hits at once, a thread under the lock swaps COUNT for MARK = -2^31 and
 * carries what it got into BIG, which only lock holders touch. One exchange, so each lock-free add fell on one side: its
 * adder saw a COUNT of 0 or more and is in what was carried, or saw a negative one and knows its add was void; it then
 * adds under the lock. Void adds are wiped by the next holder. A thread whose add crossed 2^30 or was void goes for the
 * lock before it adds again, so 1,023 threads cannot lift COUNT from 2^30 to 2^31, where it would turn, nor MARK to 0.
 *
 * Why slots can be reused. A slot goes to another key when its window has ended GRACE_SEC ago; an add that found the
 * slot before comes nanoseconds later, and its batch read the clock when the window still ran. Only a thread that
 * stands still for 2 s between two machine instructions, or a clock that jumps ahead, can leave one addition in the
 * slot's next counter: too many there by that, never too few.
 *
 * Gives up: when all slots of a bucket are live the counter that ends first is dropped (`evictionsOf`) and its hits are
 * forgotten; an add in flight to it may land in its successor. Memory stays what it was, and no caller ever fails.
 * Counts end at 2^53-1, which stands for "over any limit".
 *
 * Counters of PUBLIC_DOMAIN have buckets of their own. The domain decides (`Counter.isPublic`), not the key: that of another
 * domain, such as "relay_monitor_private", can begin with the same text.
 */
import type { Batch } from '../batch.ts'
import type { Counter } from '../counter.ts'
import type { CounterStore } from '../counter-store.ts'
import { LockOwnerIds, lock, unlock } from './bucket-lock.ts'
import { A, B, BUCKET, fingerprint } from './fingerprint.ts'
import {
  BIG_HIGH,
  BIG_LOW,
  BUCKET_SLOTS,
  BUCKET_WORDS,
  COUNT,
  EPOCH_SEC,
  FINGERPRINT_A,
  FINGERPRINT_B,
  FIRST_SLOT,
  getBucketsCount,
  getPublicBucketsCount,
  HEADER_WORDS,
  LIVE_EVICTIONS,
  LOCK,
  PUBLIC_EVICTIONS,
  SEEDS,
  SLOT_WORDS,
  THREADS_COUNT,
  WINDOW_END,
} from './table-layout.ts'

export { createMemoryTable } from './table-layout.ts'

const COUNT_MAX = 2 ** 30 // from here on the count is kept in BIG
const HITS_MAX = 2 ** 20 // in one lock-free add
const MARK = -(2 ** 31) // in COUNT: the count is in BIG
const GRACE_SEC = 2 // from a window's end to the reuse of its slot
const BUCKET_SHARE = 2 ** -32 // turns a 32-bit hash into 0..1

export class MemoryStore implements CounterStore {
  readonly isSynchronous = true
  readonly hasCapacity = true

  private readonly words: Int32Array
  private readonly bucketsCount: number
  private readonly publicCount: number // 0 = all counters share the other buckets
  private readonly publicStart: number // word of the first public bucket
  private readonly seeds: Int32Array
  private readonly mark = new Int32Array(3) // the fingerprint being looked for, and the first word of its bucket
  private readonly ownerIds: LockOwnerIds

  /** `table` comes from `createMemoryTable`, the same one for every thread. */
  constructor(table: SharedArrayBuffer) {
    this.words = new Int32Array(table)
    this.bucketsCount = getBucketsCount(table)
    this.publicCount = getPublicBucketsCount(table)
    this.publicStart = HEADER_WORDS + this.bucketsCount * BUCKET_WORDS
    this.seeds = this.words.slice(SEEDS, SEEDS + 4) // written before the table was handed out, never again
    this.ownerIds = new LockOwnerIds(Atomics.add(this.words, THREADS_COUNT, 1))
  }

  async connect(): Promise<void> {}

  async close(): Promise<void> {}

  add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void {
    if (batch.stopIncrementWhenOverLimit) {
      this.addRequests(batch, nowSec)
    } else {
      for (let slot = 0; slot < batch.slotsCount; slot++) this.addSlot(batch, slot, nowSec)
    }
    done(batch)
  }

  private addSlot(batch: Batch, slot: number, nowSec: number): void {
    const hits = batch.hits[slot]
    const after = this.addTo(batch.counters[slot], hits, batch.windowEndSec[slot], nowSec)
    batch.setPreviousCount(slot, Math.max(0, after - hits)) // below 0 only where the count has met its end
  }

  /** Spec 4.2: where a counter of a request would pass its limit, only such counters get their hits. */
  private addRequests(batch: Batch, nowSec: number): void {
    const { counters, hits, limits, windowEndSec, requestEnds } = batch
    let first = 0
    for (const end of requestEnds) {
      const counts: number[] = []
      let isStopped = false
      for (let slot = first; slot < end; slot++) {
        const count = this.addTo(counters[slot], 0, windowEndSec[slot], nowSec)
        counts.push(count)
        if (count + hits[slot] > limits[slot]) isStopped = true
      }
      for (let slot = first; slot < end; slot++) {
        const isLeftOut = isStopped && counts[slot - first] + hits[slot] <= limits[slot]
        if (isLeftOut)
          batch.setPreviousCount(slot, this.addTo(counters[slot], 0, windowEndSec[slot], nowSec) - hits[slot])
        else this.addSlot(batch, slot, nowSec)
      }
      first = end
    }
  }

  // hot: nothing is allocated below

  /** Adds `hits`, 0 to 2^53-1, and returns the count after them, 0 to 2^53-1. */
  addOne(key: string, hits: number, windowEndSec: number, nowSec: number, isPublic = false): number {
    this.markKey(key, isPublic)
    return this.addMarked(hits, windowEndSec, nowSec)
  }

  private addTo(counter: Counter, hits: number, windowEndSec: number, nowSec: number): number {
    const { mark } = this
    if (counter.fingerprintB === 0) {
      this.markKey(counter.key, counter.isPublic)
      counter.fingerprintA = mark[A]
      counter.fingerprintB = mark[B]
      counter.fingerprintBucket = mark[BUCKET]
    } else {
      mark[A] = counter.fingerprintA
      mark[B] = counter.fingerprintB
      mark[BUCKET] = counter.fingerprintBucket
    }
    return this.addMarked(hits, windowEndSec, nowSec)
  }

  /** Adds to the counter whose fingerprint is in `mark`. */
  private addMarked(hits: number, windowEndSec: number, nowSec: number): number {
    const words = this.words
    const bucket = this.mark[BUCKET]
    const end = windowEndSec - EPOCH_SEC
    if (hits <= HITS_MAX) {
      const slot = this.find(bucket)
      if (slot !== -1 && Atomics.load(words, slot + WINDOW_END) >= end) {
        const before = Atomics.add(words, slot + COUNT, hits)
        if (before >= 0 && before + hits < COUNT_MAX) return before + hits
        if (before >= 0) return this.crossed(bucket, slot, before + hits)
        // negative: the add was void
      }
    }
    return this.addLocked(bucket, hits, end, nowSec - EPOCH_SEC)
  }

  /**
   * Writes the key's fingerprint into `mark`, with the first word of its bucket in place of the bucket's hash. Any number of
   * buckets works, so the table uses all the memory it was given.
   */
  private markKey(key: string, isPublic: boolean): void {
    const { mark, publicCount } = this
    fingerprint(key, this.seeds, mark)
    const share = (mark[BUCKET] >>> 0) * BUCKET_SHARE
    const isApart = isPublic && publicCount > 0
    mark[BUCKET] = isApart
      ? this.publicStart + ((share * publicCount) | 0) * BUCKET_WORDS
      : HEADER_WORDS + ((share * this.bucketsCount) | 0) * BUCKET_WORDS
  }

  /** The slot whose fingerprint is `mark`, or -1. B is written last and wiped first, so it is read first. */
  private find(bucket: number): number {
    const words = this.words
    const a = this.mark[A]
    const b = this.mark[B]
    const end = bucket + FIRST_SLOT + BUCKET_SLOTS * SLOT_WORDS
    for (let slot = bucket + FIRST_SLOT; slot < end; slot += SLOT_WORDS) {
      if (
        Atomics.load(words, slot + FINGERPRINT_B) === b &&
        Atomics.load(words, slot + FINGERPRINT_A) === a
      ) {
        return slot
      }
    }
    return -1
  }

  /** This thread's add was good and took the count past COUNT_MAX: carries it, then answers. */
  private crossed(bucket: number, slot: number, after: number): number {
    const ticket = this.ownerIds.draw()
    lock(this.words, bucket + LOCK, ticket)
    if (Atomics.load(this.words, slot + COUNT) >= COUNT_MAX) this.addBig(slot, 0)
    unlock(this.words, bucket + LOCK, ticket)
    return after
  }

  private addLocked(bucket: number, hits: number, end: number, now: number): number {
    const words = this.words
    const ticket = this.ownerIds.draw()
    lock(words, bucket + LOCK, ticket)
    let slot = this.find(bucket) // another thread may have claimed it meanwhile
    if (slot === -1) slot = this.claim(bucket, end, now)
    else if (Atomics.load(words, slot + WINDOW_END) < end) Atomics.store(words, slot + WINDOW_END, end)
    let after = -1
    if (hits <= HITS_MAX) {
      const before = Atomics.add(words, slot + COUNT, hits)
      if (before >= 0) after = before + hits
    }
    if (after === -1) after = this.addBig(slot, hits)
    else if (after >= COUNT_MAX) this.addBig(slot, 0)
    unlock(words, bucket + LOCK, ticket)
    return after
  }

  /** Under the lock: takes the slot that is free or long ended, else the one that ends first. */
  private claim(bucket: number, end: number, now: number): number {
    const words = this.words
    const slotsEnd = bucket + FIRST_SLOT + BUCKET_SLOTS * SLOT_WORDS
    let chosen = -1
    let chosenEnd = 0
    for (let slot = bucket + FIRST_SLOT; slot < slotsEnd; slot += SLOT_WORDS) {
      const slotEnd = Atomics.load(words, slot + WINDOW_END)
      if (Atomics.load(words, slot + FINGERPRINT_B) === 0 || slotEnd + GRACE_SEC <= now) {
        chosen = slot
        chosenEnd = now // nobody's loss
        break
      }
      if (chosen === -1 || slotEnd < chosenEnd) {
        chosen = slot
        chosenEnd = slotEnd
      }
    }
    if (chosenEnd > now) Atomics.add(words, bucket < this.publicStart ? LIVE_EVICTIONS : PUBLIC_EVICTIONS, 1)
    Atomics.store(words, chosen + FINGERPRINT_B, 0)
    Atomics.store(words, chosen + FINGERPRINT_A, this.mark[A])
    Atomics.store(words, chosen + WINDOW_END, end)
    Atomics.store(words, chosen + COUNT, 0)
    Atomics.store(words, chosen + FINGERPRINT_B, this.mark[B])
    return chosen
  }

  /** Under the lock: adds to BIG, carrying COUNT into it first where that still holds the count. */
  private addBig(slot: number, hits: number): number {
    const words = this.words
    const count = Atomics.exchange(words, slot + COUNT, MARK) // wipes void adds too
    let before = count
    if (count < 0) {
      const low = Atomics.load(words, slot + BIG_LOW) >>> 0
      before = Atomics.load(words, slot + BIG_HIGH) * 2 ** 32 + low
    }
    const after = Math.min(before + hits, Number.MAX_SAFE_INTEGER)
    Atomics.store(words, slot + BIG_LOW, after | 0)
    Atomics.store(words, slot + BIG_HIGH, Math.floor(after / 2 ** 32))
    return after
  }
}
