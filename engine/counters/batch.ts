/**
 * Batch: many hits on many counters, one trip to the store.
 *
 *     member   key   hits    slot   before it in the slot
 *       0      a      1       0       0            a request's hit is a member;
 *       1      b      2       1       0            equal keys share a slot and are added once,
 *       2      a      3       0       1            then split back in arrival order
 *
 * Slot 0 adds 4 to `a`. Answer 14 means 10 were there: member 0 sees 11 after its hit, member 2 sees 14.
 * So each caller gets the before and after it would have got alone.
 */

/** Slots in one batch at most; the batch is then full and `add` must not be called. A script of this size takes
 * about 10 ms of Redis, the longest we let other callers wait for ours. */
export const BATCH_SLOTS_MAX = 4_096

/** Members in one batch at most: bounds memory when everybody asks for the same key. */
export const BATCH_MEMBERS_MAX = 65_536

export class Batch {
  /** Per slot. `hits` is the sum over its members, 0 to 2^53-1. */
  readonly keys: string[] = []
  readonly hits: number[] = []
  readonly windowEndSec: number[] = [] // epoch second; the count means nothing from then on
  readonly expirySec: number[] = [] // how long the store keeps it, from now: window length plus jitter
  private readonly after: number[] = []
  private readonly errors: (Error | null)[] = []

  /** Per member. */
  private readonly slotOf: number[] = []
  private readonly hitsUpTo: number[] = [] // in its slot, this member included

  private readonly slotByKey = new Map<string, number>()

  get slotsCount(): number {
    return this.keys.length
  }

  get membersCount(): number {
    return this.slotOf.length
  }

  /** Whether `count` more members might not fit. */
  isFullFor(count: number): boolean {
    return this.slotsCount + count > BATCH_SLOTS_MAX || this.membersCount + count > BATCH_MEMBERS_MAX
  }

  /** Adds one member and returns its number. `hits` 0 only looks, but still makes the counter. */
  add(key: string, hits: number, windowEndSec: number, expirySec: number): number {
    let slot = this.slotByKey.get(key)
    if (slot === undefined) {
      slot = this.keys.length
      this.slotByKey.set(key, slot)
      this.keys.push(key)
      this.hits.push(0)
      this.windowEndSec.push(windowEndSec)
      this.expirySec.push(expirySec)
      this.after.push(0)
      this.errors.push(null)
    }
    this.hits[slot] += hits
    this.slotOf.push(slot)
    return this.hitsUpTo.push(this.hits[slot]) - 1
  }

  /** For stores: the slot's count after all of its hits, 0 to 2^53-1. */
  setAfter(slot: number, count: number): void {
    this.after[slot] = count
  }

  /** For stores: the slot was not counted, or nobody knows. */
  setError(slot: number, error: Error): void {
    this.errors[slot] = error
  }

  /** For stores: no slot was answered. */
  failAll(error: Error): void {
    this.errors.fill(error)
  }

  /** The count right after this member's hits, as if it had come alone. */
  afterOf(member: number): number {
    const slot = this.slotOf[member]
    return this.after[slot] - this.hits[slot] + this.hitsUpTo[member]
  }

  errorOf(member: number): Error | null {
    return this.errors[this.slotOf[member]]
  }
}
