/**
 * Layout of the shared counter table: who writes which word, and in which order. Every thread that counts imports this file.
 *
 *     header │ bucket 0                                  │ bucket 1 … │ public buckets      all words are Int32
 *            │ LOCK · · · │ slot 0 │ slot 1 │ … │ slot 9 │
 *                         A B END COUNT BIG_LOW BIG_HIGH                a slot is one counter in one window
 *
 * A counter is in any slot of the one bucket that its fingerprint selects. So a full bucket can lose a counter while others
 * have room: with 40 % of the slots in use that happens to 3 buckets in 1,000, with 50 % to 14. A bucket of 256 bytes is four
 * cache lines; its first slots, which fill first, share a line with the lock.
 *
 * The public buckets hold the counters of PUBLIC_DOMAIN only. Anyone on the internet can create such counters; there they evict
 * only each other. All access to the words is atomic.
 */

/** The domain of the monitor's quotas. */
export const PUBLIC_DOMAIN = 'relay_monitor'

/** Size of the public buckets. 65,000 clients fill 40 % of the slots; beyond, the counters that end first are dropped. */
export const PUBLIC_BYTES = 4 * 2 ** 20

/** Header. Its size keeps buckets on cache lines. */
export const HEADER_WORDS = 64
export const THREADS_COUNT = 0 //   Atomics.add by each store when it opens the table; the result is its thread number
export const LIVE_EVICTIONS = 1 //  Atomics.add by a thread that drops a counter whose window has not ended; wraps at 2^32.
//                                  Excludes public buckets
export const PUBLIC_BUCKETS = 2 //  their number; written once before the table is shared
export const PUBLIC_EVICTIONS = 3 // as LIVE_EVICTIONS, for public buckets
export const SEEDS = 4 //           four random words, written once before the table is shared

/** Bucket. */
export const BUCKET_WORDS = 64
export const BUCKET_SLOTS = 10
export const LOCK = 0 //            0 = free, else the owner ID of the holder (bucket-lock.ts)
export const FIRST_SLOT = 4

/** Slot. Words 0 to 2 change only under the bucket's lock, in the order FINGERPRINT_B = 0, A, END, COUNT, B. */
export const SLOT_WORDS = 6
export const FINGERPRINT_A = 0
export const FINGERPRINT_B = 1 //   0 = free; odd otherwise. Written last, so a reader of it finds the others in place
export const WINDOW_END = 2 //      seconds since EPOCH_SEC; may increase while the slot is in use, never decreases
export const COUNT = 3 //           Atomics.add by any thread, without the lock. Negative: the count is in the words below
export const BIG_LOW = 4 //         under the lock only, and only while COUNT is negative: count modulo 2^32
export const BIG_HIGH = 5 //        the same, count / 2^32

/** 2026-01-01. Times are relative to it, so they are 32-bit integers until the year 2094. */
export const EPOCH_SEC = 1_767_225_600

const BUCKET_BYTES = BUCKET_WORDS * Int32Array.BYTES_PER_ELEMENT
const HEADER_BYTES = HEADER_WORDS * Int32Array.BYTES_PER_ELEMENT
const BUCKETS_MAX = 2 ** 23 // 2 GiB, so that word indices stay small integers

/**
 * Creates the table, in the main thread: a header of 256 bytes, then as many buckets of 256 bytes and 10 counters as fit in
 * `bytes`; at least one, at most 2 GiB. `publicBytes` are added to that; without them the counters of PUBLIC_DOMAIN share
 * the other buckets.
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

/** Number of buckets without the public ones. */
export function getBucketsCount(table: SharedArrayBuffer): number {
  return (table.byteLength - HEADER_BYTES) / BUCKET_BYTES - getPublicBucketsCount(table)
}

export function getPublicBucketsCount(table: SharedArrayBuffer): number {
  return new Int32Array(table, 0, HEADER_WORDS)[PUBLIC_BUCKETS]
}

/** Counters dropped before their window ended, by all threads since the table was created; wraps at 2^32. */
export function getLiveEvictions(table: SharedArrayBuffer): number {
  return Atomics.load(new Int32Array(table, 0, HEADER_WORDS), LIVE_EVICTIONS) >>> 0
}

/** The same for public buckets. */
export function getPublicLiveEvictions(table: SharedArrayBuffer): number {
  return Atomics.load(new Int32Array(table, 0, HEADER_WORDS), PUBLIC_EVICTIONS) >>> 0
}
