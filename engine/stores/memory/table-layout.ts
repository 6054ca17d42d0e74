/**
 * The shared counter table: who writes which word, and after what. Every thread that counts imports this file.
 *
 *     header │ bucket 0                                  │ bucket 1 … │ public buckets      all words are Int32
 *            │ LOCK · · · │ slot 0 │ slot 1 │ … │ slot 9 │
 *                         A B END COUNT BIG_LOW BIG_HIGH                a slot is one counter in one window
 *
 * A counter lives in one bucket, which its fingerprint names, in any slot of it. So a full bucket can lose a counter
 * while others have room: at 40 % of the slots taken that happens to 3 in 1,000 buckets, at 50 % to 14.
 * A bucket of 256 bytes is four cache lines; its first slots, which fill first, share the line of the lock.
 *
 * The public buckets hold the counters of PUBLIC_DOMAIN and nothing else. Anyone on the internet can create such counters;
 * in buckets of their own they evict only each other. All access to the words is atomic.
 */

/** The domain of the monitor's quotas. */
export const PUBLIC_DOMAIN = 'relay_monitor'

/** Size of the public buckets. 65,000 clients fill 40 % of the slots; beyond, the counters that end first are dropped. */
export const PUBLIC_BYTES = 4 * 2 ** 20

/** Header. Its size keeps buckets on cache lines. */
export const HEADER_WORDS = 64
export const THREADS_COUNT = 0 //   Atomics.add by each store as it opens the table; its number there
export const LIVE_EVICTIONS = 1 //  Atomics.add by the thread that drops a counter whose window has not ended; wraps at 2^32.
//                                  Without those in public buckets
export const PUBLIC_BUCKETS = 2 //  how many; written once before the table is handed out
export const PUBLIC_EVICTIONS = 3 // as LIVE_EVICTIONS, of counters in public buckets
export const SEEDS = 4 //           four words of randomness, written once before the table is handed out

/** Bucket. */
export const BUCKET_WORDS = 64
export const BUCKET_SLOTS = 10
export const LOCK = 0 //            0 = free, else the ticket of the holder (bucket-lock.ts)
export const FIRST_SLOT = 4

/** Slot. Words 0 to 2 change only under the bucket's lock, in the order FINGERPRINT_B = 0, A, END, COUNT, B. */
export const SLOT_WORDS = 6
export const FINGERPRINT_A = 0
export const FINGERPRINT_B = 1 //   0 = free; odd otherwise. Written last, so who reads it finds the others in place
export const WINDOW_END = 2 //      seconds since EPOCH_SEC; may grow while the slot is held, never shrinks
export const COUNT = 3 //           Atomics.add by any thread, without the lock. Negative: the count is in the words below
export const BIG_LOW = 4 //         under the lock only, and only while COUNT is negative: count modulo 2^32
export const BIG_HIGH = 5 //        the same, count / 2^32

/** 2026-01-01. Times are kept relative to it, so they are small integers until the year 2094. */
export const EPOCH_SEC = 1_767_225_600

const BUCKET_BYTES = BUCKET_WORDS * Int32Array.BYTES_PER_ELEMENT
const HEADER_BYTES = HEADER_WORDS * Int32Array.BYTES_PER_ELEMENT
const BUCKETS_MAX = 2 ** 23 // 2 GiB, so that word numbers stay small integers

/**
 * Makes the table, in the main thread. Uses `bytes` rounded down to whole buckets of 256 bytes and 10 counters, after
 * a header of 256 bytes; at least one bucket and at most 2 GiB. `publicBytes` come on top; without them the counters of
 * PUBLIC_DOMAIN are kept among the others.
 */
export function createMemoryTable(bytes: number, publicBytes = 0): SharedArrayBuffer {
  const fitting = Math.floor((bytes - HEADER_BYTES) / BUCKET_BYTES)
  const bucketsCount = Math.min(Math.max(fitting, 1), BUCKETS_MAX)
  const publicCount = Math.floor(publicBytes / BUCKET_BYTES)
  const table = new SharedArrayBuffer(HEADER_BYTES + (bucketsCount + publicCount) * BUCKET_BYTES)
  const words = new Int32Array(table)
  words[PUBLIC_BUCKETS] = publicCount
  words.set(crypto.getRandomValues(new Int32Array(4)), SEEDS)
  return table
}

/** How many buckets a table has, without the public ones. */
export function getBucketsCount(table: SharedArrayBuffer): number {
  return (table.byteLength - HEADER_BYTES) / BUCKET_BYTES - getPublicBucketsCount(table)
}

export function getPublicBucketsCount(table: SharedArrayBuffer): number {
  return new Int32Array(table, 0, HEADER_WORDS)[PUBLIC_BUCKETS]
}

/** Counters dropped although their window still ran, by all threads since the table was made; wraps at 2^32. */
export function getLiveEvictions(table: SharedArrayBuffer): number {
  return Atomics.load(new Int32Array(table, 0, HEADER_WORDS), LIVE_EVICTIONS) >>> 0
}

/** The same, of counters in public buckets. */
export function getPublicLiveEvictions(table: SharedArrayBuffer): number {
  return Atomics.load(new Int32Array(table, 0, HEADER_WORDS), PUBLIC_EVICTIONS) >>> 0
}
