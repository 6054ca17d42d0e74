/**
 * The memory store under threads that add at the same time, in windows that end, in a table so small that every slot is
 * reused many times: all counts together must be those of some sequential order.
 *
 *     hits of key in window   3 1 2        sorted counts   1 3 6 │ each is the one before it plus the hits of its add,
 *                                                                │ and the last is the sum
 */
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import {
  BUCKET_WORDS,
  createMemoryTable,
  getLiveEvictions,
  HEADER_WORDS,
} from '../../../../engine/stores/memory/table-layout.ts'
import { seed, seeded, size } from '../../../helpers/size.ts'
import type { CountingPlan } from '../counting-thread.ts'

const WINDOW_SEC = 10 // between windows; each lasts 1 s, so the grace is over when the next begins
const START_SEC = 1_790_000_000
const COUNT_MAX = Number.MAX_SAFE_INTEGER

interface Shape {
  threadsCount: number
  bucketsCount: number
  keysCount: number
  windowsCount: number
  addsCount: number // per thread and window
  hits: (random: () => number) => number
}

// biome-ignore format: the columns are the specification
const shapes: [string, Shape][] = [
  ['single hits, each count once',
    { threadsCount: 2, bucketsCount: 2,  keysCount: 3,   windowsCount: 50, addsCount: size({ small: 1_500, full: 100_000 }), hits: () => 1 }],
  ['many keys in contended buckets',
    { threadsCount: 2, bucketsCount: 100, keysCount: 100, windowsCount: 50, addsCount: size({ small: 1_500, full: 100_000 }), hits: () => 1 }],
  ['one key that is new in every window',
    { threadsCount: 3, bucketsCount: 1,  keysCount: 1,   windowsCount: size({ small: 300, full: 20_000 }), addsCount: 20, hits: () => 1 }],
  ['counts that cross 2^30 and 2^32 by steps of 2^20',
    { threadsCount: 2, bucketsCount: 1,  keysCount: 2,   windowsCount: 5, addsCount: 6_000, hits: () => 2 ** 20 }],
  ['small, medium and large hits, mixed',
    { threadsCount: 3, bucketsCount: 1,  keysCount: 5,   windowsCount: 20, addsCount: size({ small: 1_000, full: 50_000 }),
      hits: (random) => Math.floor(2 ** (random() * 34)) }],
  ['counts that end at 2^53-1',
    { threadsCount: 2, bucketsCount: 1,  keysCount: 2,   windowsCount: 10, addsCount: 500, hits: (random) => Math.floor(random() * 2 ** 46) + 2 ** 44 }],
]

for (const [what, shape] of shapes) {
  const from = seed()
  test(`${what} (seed ${from})`, async () => {
    const { plans, table } = plan(shape, from)
    const counts = await Promise.all(plans.map(run))
    expect(getLiveEvictions(table)).toBe(0)
    for (let window = 0; window < shape.windowsCount; window++) {
      const byKey = new Map<number, { hits: number; after: number }[]>()
      plans.forEach(({ windows }, thread) => {
        windows[window].keys.forEach((key, i) => {
          const adds = byKey.get(key) ?? []
          byKey.set(key, adds)
          adds.push({ hits: windows[window].hits[i], after: counts[thread][window][i] })
        })
      })
      for (const [key, adds] of byKey) {
        const broken = firstOutOfOrder(adds)
        if (broken) throw new Error(`window ${window}, key ${key}: ${broken}`)
      }
    }
  })
}

test('a table far too small evicts, counts that, and never hangs or fails', async () => {
  const addsCount = size({ small: 2_000, full: 200_000 })
  const shape = { threadsCount: 3, bucketsCount: 1, keysCount: 40, windowsCount: 5, addsCount, hits: () => 1 }
  const { plans, table } = plan(shape, seed())
  const counts = await Promise.all(plans.map(run))
  expect(getLiveEvictions(table)).toBeGreaterThan(addsCount)
  for (const after of counts.flatMap((windows) => windows.map((window) => Array.from(window)))) {
    expect(Math.min(...after.slice(0, 1_000))).toBe(1)
    expect(Math.max(...after.slice(0, 1_000))).toBeLessThan(3 * addsCount)
  }
})

/** The first result that no sequential order of the adds explains. */
function firstOutOfOrder(adds: { hits: number; after: number }[]): string | null {
  adds.sort((one, two) => one.after - two.after)
  let before = 0
  for (let i = 0; i < adds.length; i++) {
    const { hits, after } = adds[i]
    if (after === COUNT_MAX) {
      // which of the full ones was first is unknown, only that one of them can have filled it
      const most = Math.max(...adds.slice(i).map((add) => add.hits))
      return before + most < COUNT_MAX ? `${before} + at most ${most} gave ${after}` : null
    }
    if (after !== before + hits) return `${before} + ${hits} gave ${after}`
    before = after
  }
  return null
}

function plan(shape: Shape, from: number): { plans: CountingPlan[]; table: SharedArrayBuffer } {
  const random = seeded(from)
  const { threadsCount, bucketsCount, keysCount, windowsCount, addsCount, hits } = shape
  const table = createMemoryTable((HEADER_WORDS + bucketsCount * BUCKET_WORDS) * 4)
  const gate = new SharedArrayBuffer(4)
  const plans = Array.from({ length: threadsCount }, () => ({
    table,
    gate,
    threadsCount,
    windows: Array.from({ length: windowsCount }, () => ({
      keys: Int32Array.from({ length: addsCount }, () => Math.floor(random() * keysCount)),
      hits: Float64Array.from({ length: addsCount }, () => hits(random)),
    })),
    windowSec: WINDOW_SEC,
    startSec: START_SEC,
  }))
  return { plans, table }
}

function run(workerData: CountingPlan): Promise<Float64Array[]> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('../counting-thread.ts', import.meta.url), { workerData })
    worker.once('message', resolve)
    worker.once('error', reject)
  })
}
