/**
 * The memory store: counters in one table that all threads of the process share (table-layout.ts).
 *
 *     key ──► fingerprint ──► bucket ──► slot with A, B ──► Atomics.add(COUNT) ──► count after      no lock, no wait
 *                                           │ none, or a big number
 *                                           └──► under the bucket's lock: search again, else claim a slot
 *
 * Why the count is exact. While COUNT is 0 or more it is the whole count, and `Atomics.add` orders all adds. At 2^30, or for
 * more than 2^20 hits at once, a thread under the lock exchanges COUNT for MARK = -2^31 and carries the old value into BIG,
 * which only lock holders access. As this is one exchange, each lock-free add is on one side of it: its thread saw a COUNT of
 * 0 or more and the add was carried, or it saw a negative one, knows that the add had no effect and adds again under the lock.
 * The next lock holder discards adds without effect. A thread takes the lock after an add without effect or one that reached
 * 2^30 before it adds again, so 1,023 threads cannot raise COUNT from 2^30 to 2^31, where it would wrap, nor MARK to 0.
 *
 * Why slots can be reused. A slot goes to another key when its window ended GRACE_SEC ago. An add that found the slot before
 * follows nanoseconds later, and its batch read the clock while the window ran. Only a thread that pauses for 2 s between two
 * machine instructions, or a clock that jumps ahead, can leave an addition in the slot's next counter, which is then too high
 * by it, never too low.
 *
 * Limits: when all slots of a bucket are live, the counter that ends first is dropped (`getLiveEvictions`) with its hits; an
 * add in flight to it may be added to its successor. Memory does not grow and no call fails. Counts end at 2^53-1, which stands
 * for "over any limit".
 *
 * Counters of PUBLIC_DOMAIN have their own buckets. The domain decides (`Counter.isPublic`), not the key: the key of another domain,
 * such as "relay_monitor_private", can begin with the same text.
 */
import type { Batch } from '../batch.ts'
import type { Counter } from '../counter.ts'
import type { CounterStore } from '../counter-store.ts'
import { LockOwnerIds, lock, unlock } from './bucket-lock.ts'
import { A, B, BUCKET, computeFingerprint } from './fingerprint.ts'
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

const COUNT_MAX = 2 ** 30 // from here on the count is stored in BIG
const LOCK_FREE_HITS_MAX = 2 ** 20 // of one add; more are added under the lock
const MARK = -(2 ** 31) // in COUNT: the count is in BIG
const GRACE_SEC = 2 // from a window's end to the reuse of its slot
const BUCKET_SHARE = 2 ** -32 // maps a 32-bit hash to 0..1

export class MemoryStore implements CounterStore {
  readonly isSynchronous = true
  readonly hasCapacity = true

  private readonly words: Int32Array
  private readonly bucketsCount: number
  private readonly publicBucketsCount: number // 0 = all counters share the other buckets
  private readonly publicStart: number // word of the first public bucket
  private readonly seeds: Int32Array
  private readonly fingerprint = new Int32Array(3) // of the current counter; BUCKET holds the first word of its bucket
  private readonly ownerIds: LockOwnerIds

  /** `table` comes from `createMemoryTable`, one for all threads. */
  constructor(table: SharedArrayBuffer) {
    this.words = new Int32Array(table)
    this.bucketsCount = getBucketsCount(table)
    this.publicBucketsCount = getPublicBucketsCount(table)
    this.publicStart = HEADER_WORDS + this.bucketsCount * BUCKET_WORDS
    this.seeds = this.words.slice(SEEDS, SEEDS + 4) // written once before the table is shared
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
    batch.setPreviousCount(slot, Math.max(0, after - hits)) // below 0 only at the maximum count
  }

  /** Spec 4.2: where a request would take counters over their limit, only those get its hits. */
  private addRequests(batch: Batch, nowSec: number): void {
    const { counters, hits, limits, windowEndSec, requestEnds } = batch
    let first = 0
    for (const end of requestEnds) {
      const counts: number[] = []
      let isOverLimit = false
      for (let slot = first; slot < end; slot++) {
        const count = this.addTo(counters[slot], 0, windowEndSec[slot], nowSec)
        counts.push(count)
        if (count + hits[slot] > limits[slot]) isOverLimit = true
      }
      for (let slot = first; slot < end; slot++) {
        const isSkipped = isOverLimit && counts[slot - first] + hits[slot] <= limits[slot]
        if (isSkipped)
          batch.setPreviousCount(slot, this.addTo(counters[slot], 0, windowEndSec[slot], nowSec) - hits[slot])
        else this.addSlot(batch, slot, nowSec)
      }
      first = end
    }
  }

  // hot: no allocation below

  /** Adds `hits`, 0 to 2^53-1, and returns the count after them, 0 to 2^53-1. */
  addOne(key: string, hits: number, windowEndSec: number, nowSec: number, isPublic = false): number {
    this.setFingerprint(key, isPublic)
    return this.addToCurrent(hits, windowEndSec, nowSec)
  }

  private addTo(counter: Counter, hits: number, windowEndSec: number, nowSec: number): number {
    const { fingerprint } = this
    if (counter.fingerprintB === 0) {
      this.setFingerprint(counter.key, counter.isPublic)
      counter.fingerprintA = fingerprint[A]
      counter.fingerprintB = fingerprint[B]
      counter.fingerprintBucket = fingerprint[BUCKET]
    } else {
      fingerprint[A] = counter.fingerprintA
      fingerprint[B] = counter.fingerprintB
      fingerprint[BUCKET] = counter.fingerprintBucket
    }
    return this.addToCurrent(hits, windowEndSec, nowSec)
  }

  /** Adds to the counter whose fingerprint is set. */
  private addToCurrent(hits: number, windowEndSec: number, nowSec: number): number {
    const words = this.words
    const bucket = this.fingerprint[BUCKET]
    const end = windowEndSec - EPOCH_SEC
    if (hits <= LOCK_FREE_HITS_MAX) {
      const slot = this.find(bucket)
      if (slot !== -1 && Atomics.load(words, slot + WINDOW_END) >= end) {
        const before = Atomics.add(words, slot + COUNT, hits)
        if (before >= 0 && before + hits < COUNT_MAX) return before + hits
        if (before >= 0) return this.moveToBig(bucket, slot, before + hits)
        // negative: this add had no effect
      }
    }
    return this.addLocked(bucket, hits, end, nowSec - EPOCH_SEC)
  }

  /**
   * Sets the fingerprint of a key, with the first word of its bucket instead of the bucket's hash. The number of buckets is
   * arbitrary, so the table uses all the memory it was given.
   */
  private setFingerprint(key: string, isPublic: boolean): void {
    const { fingerprint, publicBucketsCount } = this
    computeFingerprint(key, this.seeds, fingerprint)
    const share = (fingerprint[BUCKET] >>> 0) * BUCKET_SHARE
    const isSeparate = isPublic && publicBucketsCount > 0
    fingerprint[BUCKET] = isSeparate
      ? this.publicStart + ((share * publicBucketsCount) | 0) * BUCKET_WORDS
      : HEADER_WORDS + ((share * this.bucketsCount) | 0) * BUCKET_WORDS
  }

  /** The slot of the current fingerprint, or -1. B is written last and cleared first, so it is read first. */
  private find(bucket: number): number {
    const words = this.words
    const a = this.fingerprint[A]
    const b = this.fingerprint[B]
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

  /** This thread's add took the count to COUNT_MAX or above: moves it to BIG. */
  private moveToBig(bucket: number, slot: number, after: number): number {
    const ownerId = this.ownerIds.draw()
    lock(this.words, bucket + LOCK, ownerId)
    if (Atomics.load(this.words, slot + COUNT) >= COUNT_MAX) this.addBig(slot, 0)
    unlock(this.words, bucket + LOCK, ownerId)
    return after
  }

  private addLocked(bucket: number, hits: number, end: number, now: number): number {
    const words = this.words
    const ownerId = this.ownerIds.draw()
    lock(words, bucket + LOCK, ownerId)
    let slot = this.find(bucket) // another thread may have claimed it since
    if (slot === -1) slot = this.claim(bucket, end, now)
    else if (Atomics.load(words, slot + WINDOW_END) < end) Atomics.store(words, slot + WINDOW_END, end)
    let after = -1
    if (hits <= LOCK_FREE_HITS_MAX) {
      const before = Atomics.add(words, slot + COUNT, hits)
      if (before >= 0) after = before + hits
    }
    if (after === -1) after = this.addBig(slot, hits)
    else if (after >= COUNT_MAX) this.addBig(slot, 0)
    unlock(words, bucket + LOCK, ownerId)
    return after
  }

  /** Under the lock: takes a slot that is free or expired, else the one whose window ends first. */
  private claim(bucket: number, end: number, now: number): number {
    const words = this.words
    const slotsEnd = bucket + FIRST_SLOT + BUCKET_SLOTS * SLOT_WORDS
    let chosen = -1
    let chosenEnd = 0
    for (let slot = bucket + FIRST_SLOT; slot < slotsEnd; slot += SLOT_WORDS) {
      const slotEnd = Atomics.load(words, slot + WINDOW_END)
      if (Atomics.load(words, slot + FINGERPRINT_B) === 0 || slotEnd + GRACE_SEC <= now) {
        chosen = slot
        chosenEnd = now // not an eviction
        break
      }
      if (chosen === -1 || slotEnd < chosenEnd) {
        chosen = slot
        chosenEnd = slotEnd
      }
    }
    if (chosenEnd > now) Atomics.add(words, bucket < this.publicStart ? LIVE_EVICTIONS : PUBLIC_EVICTIONS, 1)
    Atomics.store(words, chosen + FINGERPRINT_B, 0)
    Atomics.store(words, chosen + FINGERPRINT_A, this.fingerprint[A])
    Atomics.store(words, chosen + WINDOW_END, end)
    Atomics.store(words, chosen + COUNT, 0)
    Atomics.store(words, chosen + FINGERPRINT_B, this.fingerprint[B])
    return chosen
  }

  /** Under the lock: adds to BIG, after moving COUNT there if it still holds the count. */
  private addBig(slot: number, hits: number): number {
    const words = this.words
    const count = Atomics.exchange(words, slot + COUNT, MARK) // also discards adds without effect
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
