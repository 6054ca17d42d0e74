/**
 * Batch: many hits on many counters, one trip to the store.
 *
 *     member   key   hits    slot   before it in the slot
 *       0      a      1       0       0            a request's hit is a member;
 *       1      b      2       1       0            equal keys share a slot and are added once,
 *       2      a      3       0       1            then split back in arrival order
 *
 * Slot 0 adds 4 to `a`. The store says that 10 were there before: member 0 comes at 10, member 2 at 11.
 * So each caller gets the count it would have got alone.
 *
 * A stopping batch (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, spec 4.2) merges nothing: the store walks its requests in
 * order, and where one of a request's counters would pass its limit, only such counters get their hits.
 *
 * A batch is used again after `clear`: its columns keep their memory, some 2 MB at most, so a turn of the loop allocates
 * no arrays (bench/batch.ts).
 * Columns may be longer than `slotsCount`; what stands behind it is of an earlier turn.
 */

import type { Counter } from './counter.ts'

/** Slots in one batch at most; the batch is then full and `add` must not be called. So many commands take
 * some 10 ms of Redis, the longest we let other callers wait for ours. */
export const BATCH_SLOTS_MAX = 4_096

const FEW_SLOTS = 4

/** Members in one batch at most: bounds memory when everybody asks for the same key. */
export const BATCH_MEMBERS_MAX = 65_536

/**
 * Hits in one slot at most, unless one member alone brings more. Beyond, the key gets a further slot, which the store
 * adds after the first; so sums stay exact numbers, however big the hits.
 */
const SLOT_HITS_MAX = 2 ** 32

let generationsCount = 0 // of all batches of this thread: each filling has a number

export class Batch {
  readonly stopIncrementWhenOverLimit: boolean
  slotsCount = 0
  membersCount = 0
  hasErrors = false // in any slot

  /** Per slot. `hits` is the sum over its members; above 2^53-1 it is rounded and `hitsText` has the exact number. */
  readonly counters: Counter[] = []
  readonly hits: number[] = []
  readonly limits: number[] = [] // of its first member; a stopping store needs it
  readonly isPerSecond: boolean[] = [] // belongs to the store for limits per second, where there is one (spec 3.2)
  readonly windowEndSec: number[] = [] // epoch second; the count means nothing from then on
  readonly expirySec: number[] = [] // how long the store keeps it, from now: window length plus jitter
  private readonly previousCounts: number[] = []
  private readonly errors: (Error | null)[] = []

  /** Per member. */
  private readonly getSlot: number[] = []
  private readonly earlierHits: number[] = [] // in its slot, of the members before it

  /** Per request. */
  private readonly ends: number[] = []
  requestsCount = 0

  private generation = ++generationsCount
  private index: SlotIndex | null = null // the last slot of each key; made when first needed
  private hasSplitKeys = false // a key has several slots, and a counter may know an earlier one
  private readonly bigHits = new Map<number, bigint>() // exact hits above 2^53-1, by slot

  constructor(stopIncrementWhenOverLimit = false) {
    this.stopIncrementWhenOverLimit = stopIncrementWhenOverLimit
  }

  /** Of each request the member after its last one; in a stopping batch that is the slot after its last one, too. */
  get requestEnds(): readonly number[] {
    return this.ends.slice(0, this.requestsCount)
  }

  /** Whether `count` more members might not fit. */
  isFullFor(count: number): boolean {
    return this.slotsCount + count > BATCH_SLOTS_MAX || this.membersCount + count > BATCH_MEMBERS_MAX
  }

  /**
   * Adds one member and returns its number. `hits` is a number from 0 to 2^53-1 or a bigint from there to 2^63-1;
   * 0 only looks, but still makes the counter. `expirySec` counts from now.
   */
  add(
    counter: Counter,
    hits: number | bigint,
    limit: number,
    windowEndSec: number,
    expirySec: number,
    isPerSecond: boolean,
  ): number {
    const count = Number(hits)
    let slot = this.slotOfCounter(counter)
    if (slot === -1 || this.hits[slot] + count > SLOT_HITS_MAX || this.isPerSecond[slot] !== isPerSecond) {
      if (slot !== -1) this.hasSplitKeys = true
      slot = this.addSlot(counter, limit, windowEndSec, expirySec)
      this.isPerSecond[slot] = isPerSecond
      if (typeof hits === 'bigint') this.bigHits.set(slot, hits)
    } else {
      // limits of different units share a key when their windows start together (spec Q20); the longer one must last
      if (this.windowEndSec[slot] < windowEndSec) this.windowEndSec[slot] = windowEndSec
      if (this.expirySec[slot] < expirySec) this.expirySec[slot] = expirySec
    }
    const member = this.membersCount++
    this.getSlot[member] = slot
    this.earlierHits[member] = this.hits[slot]
    this.hits[slot] += count
    return member
  }

  /** All members of one request have been added. */
  endRequest(): void {
    this.ends[this.requestsCount++] = this.membersCount
  }

  /**
   * For stores that read first and add later (memcached, spec 4.3): members of one request come at the same count,
   * however often it names a key. Requests still come one after the other. Once, before the batch is answered.
   */
  countRequestsAtOnce(): void {
    const firstOf = new Int32Array(this.slotsCount).fill(-1) // in each slot, the first member of the request at hand
    let start = 0
    for (const end of this.requestEnds) {
      for (let member = start; member < end; member++) {
        const slot = this.getSlot[member]
        if (firstOf[slot] < start) firstOf[slot] = member
        else this.earlierHits[member] = this.earlierHits[firstOf[slot]]
      }
      start = end
    }
  }

  /** The last slot of the counter, or of another one with its key. */
  private slotOfCounter(counter: Counter): number {
    if (this.stopIncrementWhenOverLimit) return -1
    if (counter.generation === this.generation && !this.hasSplitKeys) return counter.slot
    if (this.slotsCount > FEW_SLOTS) return this.index!.find(counter, this.counters)
    for (let slot = this.slotsCount - 1; slot >= 0; slot--) {
      if (this.counters[slot].key === counter.key) return slot
    }
    return -1
  }

  /** In a batch of few slots an index costs more than it saves, so it is filled when there are more. */
  private indexSlot(slot: number): void {
    if (slot < FEW_SLOTS) return
    this.index ??= new SlotIndex(BATCH_SLOTS_MAX)
    const first = slot === FEW_SLOTS ? 0 : slot
    for (let i = first; i <= slot; i++) this.index.set(this.counters[i], i, this.counters)
  }

  private addSlot(counter: Counter, limit: number, windowEndSec: number, expirySec: number): number {
    const slot = this.slotsCount++
    counter.generation = this.generation
    counter.slot = slot
    this.counters[slot] = counter
    if (!this.stopIncrementWhenOverLimit) this.indexSlot(slot)
    this.hits[slot] = 0
    this.limits[slot] = limit
    this.windowEndSec[slot] = windowEndSec
    this.expirySec[slot] = expirySec
    this.previousCounts[slot] = 0
    this.errors[slot] = null
    return slot
  }

  /** The slot's hits in decimal, exact up to 2^63-1. */
  hitsText(slot: number): string {
    const big = this.bigHits.size > 0 ? this.bigHits.get(slot) : undefined
    return String(big ?? this.hits[slot])
  }

  /** Makes it an empty batch. Only after `done`, and once every member has been read. */
  clear(): void {
    if (this.slotsCount > FEW_SLOTS) this.index?.clear()
    this.generation = ++generationsCount
    this.slotsCount = 0
    this.membersCount = 0
    this.hasErrors = false
    this.hasSplitKeys = false
    if (this.bigHits.size > 0) this.bigHits.clear()
    this.requestsCount = 0
  }

  /**
   * For stores: the count without the slot's hits, 0 to 2^53-1 (beyond: 2^53-1). A stopping store that left the hits out
   * says count - hits, which may be negative.
   */
  setPreviousCount(slot: number, count: number): void {
    this.previousCounts[slot] = count
  }

  /** For stores: the slot was not counted, or nobody knows. */
  setError(slot: number, error: Error): void {
    this.errors[slot] = error
    this.hasErrors = true
  }

  /** For stores: no slot was answered. */
  failAll(error: Error): void {
    this.errors.fill(error, 0, this.slotsCount)
    this.hasErrors = true
  }

  /** The count right before this member's hits, as if it had come alone. */
  getPreviousCount(member: number): number {
    return this.previousCounts[this.getSlot[member]] + this.earlierHits[member]
  }

  getSlotError(slot: number): Error | null {
    return this.errors[slot]
  }

  getError(member: number): Error | null {
    return this.errors[this.getSlot[member]]
  }
}

const PROBES_MAX = 16

export class SlotIndex {
  private readonly entries: Int32Array // filling number above, slot in the low bits
  private readonly slotBits: number
  private readonly generationsMax: number
  private generation = 1

  /** `slotsMax` is a power of two. */
  constructor(slotsMax: number) {
    this.entries = new Int32Array(2 * slotsMax)
    this.slotBits = Math.log2(slotsMax)
    this.generationsMax = 2 ** (31 - this.slotBits)
  }

  /** The slot of a counter with this key among `counters`, or -1. */
  find(counter: Counter, counters: readonly Counter[]): number {
    const { entries, slotBits, generation: filling } = this
    const mask = entries.length - 1
    const { hash, key } = counter
    for (let i = 0; i < PROBES_MAX; i++) {
      const entry = entries[(hash + i) & mask]
      if (entry >>> slotBits !== filling) return -1
      const slot = entry & ((1 << slotBits) - 1)
      const there = counters[slot]
      if (there.hash === hash && there.key === key) return slot
    }
    return -1
  }

  /** The slot becomes the one of its key. */
  set(counter: Counter, slot: number, counters: readonly Counter[]): void {
    const { entries, slotBits, generation: filling } = this
    const mask = entries.length - 1
    const { hash, key } = counter
    for (let i = 0; i < PROBES_MAX; i++) {
      const place = (hash + i) & mask
      const entry = entries[place]
      const there = counters[entry & ((1 << slotBits) - 1)]
      const isFree = entry >>> slotBits !== filling
      if (!isFree && (there.hash !== hash || there.key !== key)) continue
      entries[place] = (filling << slotBits) | slot
      return
    }
  }

  clear(): void {
    if (++this.generation < this.generationsMax) return
    this.generation = 1
    this.entries.fill(0)
  }
}
