/**
 * The lock of one bucket: one word that holds 0 or the owner ID of its holder.
 *
 *     free 0 ──compareExchange──► owner ID ──compareExchange──► 0
 *                                   │ the same ID for 10,000 sleeps: its holder is dead
 *                                   └──compareExchange──► ID of the next holder
 *
 * It is held for some 100 ns of straight-line code, so a waiter spins, then sleeps 0.1 ms at a time (its event loop is blocked
 * meanwhile; the holder may need the core). A worker that dies while holding it, which only running out of memory can cause,
 * would block the bucket forever; so a waiter that has seen the same ID through all its sleeps takes the lock over. If that
 * holder lives after all, two threads are inside one bucket: its ten counters may be wrong until their windows end, and nothing
 * else happens. Sleeps are counted, not timed, so neither a stopped and continued process nor a clock jump takes a lock away.
 */

const SPINS_MAX = 200 // some 5 µs, many times what a holder needs
const SLEEP_MS = 0.1 // 0.05 more on Linux, by its timer slack
const SLEEPS_MAX = 10_000 // then the holder is considered dead

const NUMBER_BITS = 20 // low bits of an ID: how many the thread has drawn; the rest is the thread, 1 to 2,047
const NUMBER_MASK = 2 ** NUMBER_BITS - 1

/** Draws the owner IDs of one thread. Holders that a waiter could confuse have different ones. */
export class LockOwnerIds {
  private readonly thread: number
  private number = 0

  /** `thread` is a count from 0. After 2,046 replaced threads the numbers repeat, which is harmless: ended threads hold no lock. */
  constructor(thread: number) {
    this.thread = ((thread % (2 ** (31 - NUMBER_BITS) - 1)) + 1) << NUMBER_BITS
  }

  draw(): number {
    this.number = (this.number + 1) & NUMBER_MASK
    return this.thread | this.number
  }
}

/** Takes the lock at `words[at]`. Returns within two seconds, whatever the holder does. */
export function lock(words: Int32Array, at: number, ownerId: number): void {
  for (let spin = 0; spin < SPINS_MAX; spin++) {
    if (Atomics.compareExchange(words, at, 0, ownerId) === 0) return
  }
  sleepUntilLocked(words, at, ownerId)
}

/** Releases the lock, unless another thread has taken it over. */
export function unlock(words: Int32Array, at: number, ownerId: number): void {
  Atomics.compareExchange(words, at, ownerId, 0) // no Atomics.notify: every holder would pay for rare waiters
}

function sleepUntilLocked(words: Int32Array, at: number, ownerId: number): void {
  let holder = 0
  let sleeps = 0
  for (;;) {
    const seen = Atomics.compareExchange(words, at, 0, ownerId)
    if (seen === 0) return
    if (seen !== holder) {
      holder = seen
      sleeps = 0
    }
    if (sleeps === SLEEPS_MAX && Atomics.compareExchange(words, at, holder, ownerId) === holder) return
    sleeps++
    Atomics.wait(words, at, seen, SLEEP_MS)
  }
}
