/**
 * Batch: hits on many counters for one store call.
 *
 *     member   key   hits    slot   earlier hits in the slot
 *       0      a      1       0       0            each hit of a request is a member;
 *       1      b      2       1       0            equal keys share a slot and are added once,
 *       2      a      3       0       1            then split back in arrival order
 *
 * Slot 0 adds 4 to `a`. If the store returns a previous count of 10, member 0 gets 10 and member 2 gets 11: the counts they
 * would have got alone.
 *
 * With STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT (spec 4.2) nothing is merged: the store takes the requests in order, and where
 * one would take counters over their limit, only those get its hits.
 *
 * A batch is reused after `clear`. Its columns keep their memory, some 2 MB at most, so no arrays are allocated per turn
 * (bench/batch.ts); entries from `slotsCount` on are of earlier uses.
 */

import type { Counter } from './counter.ts'

/** Slots in a batch; `add` must not be called on a full one. This many commands take Redis some 10 ms, during which
 * other clients wait. */
export const BATCH_SLOTS_MAX = 4_096

const UNINDEXED_SLOTS_MAX = 4 // in a batch of few slots an index costs more than it saves

/** Members in a batch: bounds memory when many requests hit one key. */
export const BATCH_MEMBERS_MAX = 65_536

/**
 * Hits in a slot, unless a single member has more. Beyond, the key gets a further slot, which the store adds after the
 * first, so sums stay exact however many hits there are.
 */
const SLOT_HITS_MAX = 2 ** 32

const PENDING = -(2 ** 30) // a small integer, and no count: see isPending

let generationsCount = 0 // of this thread; each use of a batch has a number of its own

export class Batch {
  readonly stopIncrementWhenOverLimit: boolean
  slotsCount = 0
  membersCount = 0
  hasErrors = false // in any slot

  /** Per slot. `hits` is the sum over its members; above 2^53-1 it is rounded and `hitsText` has the exact number. */
  readonly counters: Counter[] = []
  readonly hits: number[] = []
  readonly limits: number[] = [] // of its first member; read if stopIncrementWhenOverLimit
  readonly isPerSecond: boolean[] = [] // counted by the instance for limits per second, if there is one (spec 3.2)
  readonly windowEndSec: number[] = [] // epoch second; the count is void from then on
  readonly expirySec: number[] = [] // how long the store keeps it from now on: window length plus jitter
  readonly isTolerated: boolean[] = [] // if it cannot be read, the rest of its request counts nevertheless. Read if stopIncrementWhenOverLimit
  private readonly previousCounts: number[] = []
  private readonly errors: (Error | null)[] = []

  /** Per member. */
  private readonly slots: number[] = []
  private readonly earlierHits: number[] = [] // of the members before it in its slot

  /** Per request. */
  private readonly ends: number[] = [] // the member after its last one
  requestsCount = 0

  private generation = ++generationsCount
  private index: SlotIndex | null = null // the last slot of each key; created on first use
  private hasSplitKeys = false // a key has several slots, so `counter.slot` may be an earlier one
  private readonly bigHits = new Map<number, bigint>() // exact hits above 2^53-1, by slot

  constructor(stopIncrementWhenOverLimit = false) {
    this.stopIncrementWhenOverLimit = stopIncrementWhenOverLimit
  }

  /** For each request the member after its last one; with stopIncrementWhenOverLimit also the slot after its last one. */
  get requestEnds(): readonly number[] {
    return this.ends.slice(0, this.requestsCount)
  }

  /** Whether `count` more members may exceed a maximum. */
  isFullFor(count: number): boolean {
    return this.slotsCount + count > BATCH_SLOTS_MAX || this.membersCount + count > BATCH_MEMBERS_MAX
  }

  /**
   * Adds one member and returns its number. `hits` is a number from 0 to 2^53-1 or a bigint from there to 2^63-1;
   * 0 reads the count, but still creates the counter. `expirySec` counts from now.
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
    let slot = this.findSlot(counter)
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
    this.slots[member] = slot
    this.earlierHits[member] = this.hits[slot]
    this.hits[slot] += count
    return member
  }

  /** Call after adding all members of a request. */
  endRequest(): void {
    this.ends[this.requestsCount++] = this.membersCount
  }

  /**
   * For stores that read first and add later (memcached, spec 4.3): all members of a request with one key get the same count.
   * Requests still follow one another. Call once, before the first result is set.
   */
  countRequestsAtOnce(): void {
    const firstMembers = new Int32Array(this.slotsCount).fill(-1) // by slot: the first member of the current request
    let start = 0
    for (const end of this.requestEnds) {
      for (let member = start; member < end; member++) {
        const slot = this.slots[member]
        if (firstMembers[slot] < start) firstMembers[slot] = member
        else this.earlierHits[member] = this.earlierHits[firstMembers[slot]]
      }
      start = end
    }
  }

  /** The last slot of the counter's key, or -1. */
  private findSlot(counter: Counter): number {
    if (this.stopIncrementWhenOverLimit) return -1
    if (counter.generation === this.generation && !this.hasSplitKeys) return counter.slot
    if (this.slotsCount > UNINDEXED_SLOTS_MAX) return this.index!.find(counter, this.counters)
    for (let slot = this.slotsCount - 1; slot >= 0; slot--) {
      if (this.counters[slot].key === counter.key) return slot
    }
    return -1
  }

  private indexSlot(slot: number): void {
    if (slot < UNINDEXED_SLOTS_MAX) return
    this.index ??= new SlotIndex(BATCH_SLOTS_MAX)
    const first = slot === UNINDEXED_SLOTS_MAX ? 0 : slot
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
    this.previousCounts[slot] = PENDING
    this.errors[slot] = null
    return slot
  }

  /** The slot's hits in decimal, exact up to 2^63-1. */
  hitsText(slot: number): string {
    const big = this.bigHits.size > 0 ? this.bigHits.get(slot) : undefined
    return String(big ?? this.hits[slot])
  }

  /** Empties the batch for reuse. Only after `done`, when every member has been read. */
  clear(): void {
    if (this.slotsCount > UNINDEXED_SLOTS_MAX) this.index?.clear()
    this.generation = ++generationsCount
    this.slotsCount = 0
    this.membersCount = 0
    this.hasErrors = false
    this.hasSplitKeys = false
    if (this.bigHits.size > 0) this.bigHits.clear()
    this.requestsCount = 0
  }

  /**
   * For stores: the count without the slot's hits, 0 to 2^53-1, which also stands for more. If the hits were skipped
   * (stopIncrementWhenOverLimit), count - hits, which may be negative.
   */
  setPreviousCount(slot: number, count: number): void {
    this.previousCounts[slot] = count
  }

  /** For stores: the hits were not counted, or it is unknown whether they were. */
  setError(slot: number, error: Error): void {
    this.errors[slot] = error
    this.hasErrors = true
  }

  /** For stores: no slot has a result. */
  failAll(error: Error): void {
    this.errors.fill(error, 0, this.slotsCount)
    this.hasErrors = true
  }

  /** The count before this member's hits, as if it had been added alone. */
  getPreviousCount(member: number): number {
    return this.previousCounts[this.slots[member]] + this.earlierHits[member]
  }

  /** Whether the store has not set a count or an error for the member yet. */
  isPending(member: number): boolean {
    const slot = this.slots[member]
    return this.previousCounts[slot] === PENDING && this.errors[slot] === null
  }

  getSlotError(slot: number): Error | null {
    return this.errors[slot]
  }

  getError(member: number): Error | null {
    return this.errors[this.slots[member]]
  }
}

const PROBES_MAX = 16

/**
 * Hash table from key to slot. Entries of an earlier generation are free, so `clear` costs nothing; a Map releases its memory
 * with each `clear` and grows again, which was a fifth of all garbage. At most PROBES_MAX entries are probed, so crafted hashes
 * cost little: a key that is not found gets a further slot, which is added right after the first.
 */
export class SlotIndex {
  private readonly entries: Int32Array // generation in the high bits, slot in the low bits
  private readonly slotBits: number
  private readonly generationsMax: number
  private generation = 1

  /** `slotsMax` is a power of two. */
  constructor(slotsMax: number) {
    this.entries = new Int32Array(2 * slotsMax)
    this.slotBits = Math.log2(slotsMax)
    this.generationsMax = 2 ** (31 - this.slotBits)
  }

  /** The slot of the counter's key among `counters`, or -1. */
  find(counter: Counter, counters: readonly Counter[]): number {
    const { entries, slotBits, generation } = this
    const mask = entries.length - 1
    const { hash, key } = counter
    for (let i = 0; i < PROBES_MAX; i++) {
      const entry = entries[(hash + i) & mask]
      if (entry >>> slotBits !== generation) return -1
      const slot = entry & ((1 << slotBits) - 1)
      const found = counters[slot]
      if (found.hash === hash && found.key === key) return slot
    }
    return -1
  }

  /** Sets the slot of the counter's key. */
  set(counter: Counter, slot: number, counters: readonly Counter[]): void {
    const { entries, slotBits, generation } = this
    const mask = entries.length - 1
    const { hash, key } = counter
    for (let i = 0; i < PROBES_MAX; i++) {
      const position = (hash + i) & mask
      const entry = entries[position]
      const present = counters[entry & ((1 << slotBits) - 1)]
      const isFree = entry >>> slotBits !== generation
      if (!isFree && (present.hash !== hash || present.key !== key)) continue
      entries[position] = (generation << slotBits) | slot
      return
    }
  }

  clear(): void {
    if (++this.generation < this.generationsMax) return
    this.generation = 1
    this.entries.fill(0)
  }
}
