/**
 * Which slot of a batch has a key: a table beside the batch, emptied in no time.
 *
 *     hash ──► place ──► filling number, slot      an entry of an earlier filling is a free place
 *
 * A Map gives up its memory with each `clear` and grows anew with each batch; that was a fifth of our garbage.
 * Keys are looked for in a few places only, so crafted hashes cost little; one that is not found gets a slot more, which
 * is added right after the first.
 */
import type { Counter } from './counter.ts'

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
