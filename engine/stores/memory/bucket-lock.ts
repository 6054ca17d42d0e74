/**
 * The lock of one bucket: one word that holds 0 or the ticket of its holder.
 *
 *     free 0 ──compareExchange──► ticket ──compareExchange──► 0
 *                                   │ the same ticket for 10,000 naps: its holder is dead
 *                                   └──compareExchange──► ticket of the next one
 *
 * It is held for some 100 ns of straight code, so a waiter spins, then naps in slices of 0.1 ms (its timers stand still
 * meanwhile; the holder has lost its core and may need ours). A worker that dies inside, which only running out of memory
 * can do, would block the bucket for ever; so who has seen the same ticket through all its naps takes the lock over.
 * Should that holder live after all, two threads are inside one bucket: its ten counters may then be wrong until their
 * windows end, and nothing else happens. Naps are counted, not timed, so a process that was stopped and continued, or a
 * clock that jumped, takes no lock away.
 */

const SPINS_MAX = 200 // some 5 µs, many times what a holder needs
const NAP_MS = 0.1 // 0.05 more on Linux, by its timer slack
const NAPS_MAX = 10_000

const NUMBER_BITS = 20 // of a ticket: how many the thread has drawn; the rest names the thread, 1 to 2,047
const NUMBER_MASK = 2 ** NUMBER_BITS - 1

/** Draws the tickets of one thread. No two holders that a waiter could confuse have the same. */
export class LockOwnerIds {
  private readonly thread: number
  private number = 0

  /** `thread` is a count from 0. Past 2,046 replaced threads numbers repeat, which is harmless: the dead hold nothing. */
  constructor(thread: number) {
    this.thread = ((thread % (2 ** (31 - NUMBER_BITS) - 1)) + 1) << NUMBER_BITS
  }

  draw(): number {
    this.number = (this.number + 1) & NUMBER_MASK
    return this.thread | this.number
  }
}

/** Takes the lock at `words[at]`. Returns within two seconds, whatever the holder does. */
export function lock(words: Int32Array, at: number, ticket: number): void {
  for (let spin = 0; spin < SPINS_MAX; spin++) {
    if (Atomics.compareExchange(words, at, 0, ticket) === 0) return
  }
  napUntilLocked(words, at, ticket)
}

/** Gives the lock back, unless another thread has taken it over. */
export function unlock(words: Int32Array, at: number, ticket: number): void {
  Atomics.compareExchange(words, at, ticket, 0) // nobody is notified: that would cost every holder for a rare waiter
}

function napUntilLocked(words: Int32Array, at: number, ticket: number): void {
  let holder = 0
  let naps = 0
  for (;;) {
    const seen = Atomics.compareExchange(words, at, 0, ticket)
    if (seen === 0) return
    if (seen !== holder) {
      holder = seen
      naps = 0
    }
    if (naps === NAPS_MAX && Atomics.compareExchange(words, at, holder, ticket) === holder) return
    naps++
    Atomics.wait(words, at, seen, NAP_MS)
  }
}
