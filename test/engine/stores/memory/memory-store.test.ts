/** The memory store by itself: fingerprints, big counts, full buckets, reuse. Threads: threads.test.ts. */
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { A, B, BUCKET, computeFingerprint } from '../../../../engine/stores/memory/fingerprint.ts'
import { createMemoryTable, MemoryStore } from '../../../../engine/stores/memory/memory-store.ts'
import {
  BUCKET_SLOTS,
  BUCKET_WORDS,
  FIRST_SLOT,
  getBucketsCount,
  getLiveEvictions,
  getPublicLiveEvictions,
  HEADER_WORDS,
  LOCK,
  PUBLIC_DOMAIN,
  SLOT_WORDS,
} from '../../../../engine/stores/memory/table-layout.ts'
import { anyCharacter } from '../../../helpers/any-character.ts'
import { size } from '../../../helpers/size.ts'

const NOW_SEC = 1_790_000_000
const END_SEC = NOW_SEC + 60
const ONE_BUCKET_BYTES = (HEADER_WORDS + BUCKET_WORDS) * 4
const COUNT_MAX = Number.MAX_SAFE_INTEGER

test('slots fill their bucket', () => expect(FIRST_SLOT + BUCKET_SLOTS * SLOT_WORDS).toBe(BUCKET_WORDS))

// biome-ignore format: the columns are the specification
const sizes = [
  // requested,  buckets, bytes
  [          0,       1,      512],
  [        512,       1,      512],
  [        767,       1,      512], // rounded down to whole buckets
  [        768,       2,      768],
  [  1_000_000,   3_905,  999_936],
] as const
for (const [bytes, buckets, real] of sizes) {
  test(`${bytes} bytes give ${buckets} buckets`, () => {
    const table = createMemoryTable(bytes)
    expect([getBucketsCount(table), table.byteLength]).toEqual([buckets, real])
  })
}

describe('fingerprint', () => {
  const seeds = Int32Array.of(1, 2, 3, 4)
  const compute = (key: string, by = seeds) => {
    const out = new Int32Array(3)
    computeFingerprint(key, by, out)
    return out
  }

  test('similar texts differ', () => {
    const keys = [
      '',
      '\0',
      '\0\0',
      'a',
      'a\0',
      'a\0\0\0',
      'a\0\0\0\0',
      'ab',
      'ba',
      'abcd',
      'abcde',
      'ÿÿÿÿ',
      'ā',
      'ā\0',
      'aā',
    ]
    // two wide characters and the four narrow ones with the same bits
    keys.push('\u6261\u6463', 'abcd\u6261\u6463', '\u6261\u6463abcd')
    const marks = new Set(keys.map((key) => compute(key).join()))
    expect(marks.size).toBe(keys.length)
  })

  test('equal for equal texts, different for other seeds; B is odd', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), fc.string({ unit: anyCharacter }), (one, two) => {
        const mark = compute(one)
        const isEqual = mark.join() === compute(two).join()
        const isSeeded = compute(one, Int32Array.of(1, 2, 3, 5)).join() !== mark.join()
        return isEqual === (one === two) && isSeeded && (mark[B] & 1) === 1
      }),
      { numRuns: size({ small: 100, full: 20_000 }) },
    )
  })

  test('buckets are filled evenly, and A, B and BUCKET are independent', () => {
    const keysCount = 20_000
    const counts = {
      a: new Int32Array(64),
      b: new Int32Array(64),
      bucket: new Int32Array(64),
      both: new Int32Array(64),
    }
    for (let i = 0; i < keysCount; i++) {
      const mark = compute(`shop_user_${i}_1790000000`)
      counts.a[mark[A] >>> 26]++
      counts.b[mark[B] >>> 26]++
      counts.bucket[mark[BUCKET] >>> 26]++
      counts.both[(mark[A] ^ mark[B] ^ mark[BUCKET]) >>> 26]++
    }
    for (const column of Object.values(counts)) {
      // 312.5 each, deviation 18; six deviations are once in ten million runs, and the keys are always the same
      expect(Math.min(...column)).toBeGreaterThan(200)
      expect(Math.max(...column)).toBeLessThan(425)
    }
  })
})

test('counts as a Map does', () => {
  const key = fc.integer({ min: 0, max: 8 }).map((i) => `k${i}`)
  const hits = fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 5 }) },
    fc.integer({ min: 2 ** 20 - 2, max: 2 ** 20 + 2 }),
    fc.integer({ min: 2 ** 29, max: 2 ** 33 }),
    fc.maxSafeNat(),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(key, hits), { maxLength: 60 }), (adds) => {
      const table = createMemoryTable(ONE_BUCKET_BYTES)
      const store = new MemoryStore(table)
      const model = new Map<string, number>()
      for (const [name, count] of adds) {
        const after = Math.min((model.get(name) ?? 0) + count, COUNT_MAX)
        model.set(name, after)
        expect(store.addOne(name, count, END_SEC, NOW_SEC)).toBe(after)
      }
      expect(getLiveEvictions(table)).toBe(0)
    }),
    { numRuns: size({ small: 200, full: 20_000 }) },
  )
})

test('a full bucket drops the live counter that ends first and counts the eviction', () => {
  const table = createMemoryTable(ONE_BUCKET_BYTES)
  const store = new MemoryStore(table)
  for (let i = 0; i < BUCKET_SLOTS; i++) store.addOne(`k${i}`, 7, END_SEC + ((i + 5) % BUCKET_SLOTS), NOW_SEC)
  expect(getLiveEvictions(table)).toBe(0)
  expect(store.addOne('new', 1, END_SEC + 100, NOW_SEC)).toBe(1)
  expect(getLiveEvictions(table)).toBe(1)
  for (const i of [0, 1, 2, 3, 4, 6, 7, 8, 9]) expect(store.addOne(`k${i}`, 0, END_SEC, NOW_SEC)).toBe(7)
  expect(store.addOne('k5', 0, END_SEC + 200, NOW_SEC)).toBe(0) // its window ended first, so it was evicted
})

describe('counters of the public domain', () => {
  const flood = (store: MemoryStore) => {
    for (let i = 0; i < 1_000; i++)
      store.addOne(`${PUBLIC_DOMAIN}_class_read_ip_${i}_`, 1, END_SEC + 60, NOW_SEC, true)
  }

  test.each(['shop_user_7_', `${PUBLIC_DOMAIN}_private_user_7_`])(
    'have buckets of their own and evict only each other, not %s',
    (key) => {
      const table = createMemoryTable(ONE_BUCKET_BYTES, BUCKET_WORDS * 4)
      const store = new MemoryStore(table)
      store.addOne(key, 3, END_SEC, NOW_SEC)
      flood(store)
      expect(store.addOne(key, 1, END_SEC, NOW_SEC)).toBe(4)
      expect(getLiveEvictions(table)).toBe(0)
      expect(getPublicLiveEvictions(table)).toBe(990)
    },
  )

  test('are evicted by no others', () => {
    const table = createMemoryTable(ONE_BUCKET_BYTES, BUCKET_WORDS * 4)
    const store = new MemoryStore(table)
    store.addOne(`${PUBLIC_DOMAIN}_class_read_`, 3, END_SEC, NOW_SEC, true)
    for (let i = 0; i < 1_000; i++) store.addOne(`shop_user_${i}_`, 1, END_SEC + 60, NOW_SEC)
    expect(store.addOne(`${PUBLIC_DOMAIN}_class_read_`, 1, END_SEC, NOW_SEC, true)).toBe(4)
    expect(getPublicLiveEvictions(table)).toBe(0)
  })

  test('are evenly spread over the public buckets only', () => {
    const table = createMemoryTable(ONE_BUCKET_BYTES, 64 * BUCKET_WORDS * 4)
    flood(new MemoryStore(table))
    const words = new Int32Array(table)
    const taken = (bucket: number) => words[HEADER_WORDS + bucket * BUCKET_WORDS + FIRST_SLOT + 1] !== 0
    expect(Array.from({ length: 65 }, (_, bucket) => taken(bucket)).indexOf(true)).toBe(1)
    expect(Array.from({ length: 65 }, (_, bucket) => taken(bucket)).lastIndexOf(false)).toBe(0)
    expect(table.byteLength).toBe((HEADER_WORDS + 65 * BUCKET_WORDS) * 4)
  })

  test('share all buckets if there are no public ones', () => {
    const table = createMemoryTable(ONE_BUCKET_BYTES)
    flood(new MemoryStore(table))
    expect([getLiveEvictions(table), getPublicLiveEvictions(table)]).toEqual([990, 0])
  })
})

test('a slot is reused 2 s after its window, without an eviction', () => {
  const table = createMemoryTable(ONE_BUCKET_BYTES)
  const store = new MemoryStore(table)
  for (let i = 0; i < BUCKET_SLOTS; i++) store.addOne(`k${i}`, 7, i === 3 ? NOW_SEC + 1 : END_SEC, NOW_SEC)
  expect(store.addOne('new', 1, END_SEC, NOW_SEC + 3)).toBe(1)
  expect(getLiveEvictions(table)).toBe(0)
  expect(store.addOne('k2', 1, END_SEC, NOW_SEC + 3)).toBe(8)
})

test('a longer window of a key extends its counter', () => {
  const table = createMemoryTable(ONE_BUCKET_BYTES)
  const store = new MemoryStore(table)
  store.addOne('a', 1, NOW_SEC + 1, NOW_SEC)
  store.addOne('a', 1, END_SEC, NOW_SEC)
  for (let i = 1; i < BUCKET_SLOTS; i++) store.addOne(`k${i}`, 1, END_SEC + 1, NOW_SEC)
  store.addOne('new', 1, END_SEC, NOW_SEC + 10) // nothing has ended yet
  expect(getLiveEvictions(table)).toBe(1)
})

test('a lock whose holder died is taken over', () => {
  const table = createMemoryTable(ONE_BUCKET_BYTES)
  const store = new MemoryStore(table)
  store.addOne('a', 1, END_SEC, NOW_SEC)
  new Int32Array(table)[HEADER_WORDS + LOCK] = 12_345
  expect(store.addOne('a', 1, END_SEC, NOW_SEC)).toBe(2) // known counters need no lock
  const sleep = vi.spyOn(Atomics, 'wait').mockReturnValue('timed-out')
  onTestFinished(() => sleep.mockRestore())
  expect(store.addOne('b', 1, END_SEC, NOW_SEC)).toBe(1)
  expect(sleep).toHaveBeenCalledTimes(10_000) // of 0.1 ms
  expect(new Int32Array(table)[HEADER_WORDS + LOCK]).toBe(0)
})
