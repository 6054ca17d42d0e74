/**
 * What does one hit cost in a batch, and does it pay to reuse batches?
 *   floor  a Map look-up of the key and one addition: merging equal keys without counters that hold their slot
 *   new    a new Batch every turn
 *   clear  one Batch, cleared every turn: what the engine does
 * Worth changing when `clear` is above `floor`.
 */
import { Batch } from '../engine/stores/batch.ts'
import { Counter } from '../engine/stores/counter.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const NOW_SEC = 1_790_000_000
const hitsCount = size({ small: 1_000, full: 200_000 })
const random = seeded(7)
const keys = Array.from({ length: 10_000 }, (_, i) =>
  Buffer.from(`shop_user_${i}_1790000000`).toString('latin1'),
)
const counters = keys.map((key) => new Counter(key))
const order = Int32Array.from({ length: hitsCount }, () => Math.floor(random() ** 3 * keys.length)) // a few are hot

for (const turn of [1, 8, 32, 256]) {
  const merged = new Map<string, number>()
  const reused = new Batch()
  await measure('batch', hitsCount, {
    [`floor ${turn} a turn`]: () => {
      let sum = 0
      for (let i = 0; i < hitsCount; i += turn) {
        for (let j = i; j < i + turn && j < hitsCount; j++) {
          merged.set(keys[order[j]], (merged.get(keys[order[j]]) ?? 0) + 1)
        }
        sum += merged.size
        merged.clear()
      }
      return sum
    },
    [`new   ${turn} a turn`]: () => {
      let sum = 0
      for (let i = 0; i < hitsCount; i += turn) sum += fill(new Batch(), i, i + turn)
      return sum
    },
    [`clear ${turn} a turn`]: () => {
      let sum = 0
      for (let i = 0; i < hitsCount; i += turn) {
        reused.clear()
        sum += fill(reused, i, i + turn)
      }
      return sum
    },
  })
}

/** Adds the hits, sets counts as a store does, reads every member. */
function fill(batch: Batch, from: number, to: number): number {
  const end = Math.min(to, hitsCount)
  for (let i = from; i < end; i++) batch.add(counters[order[i]], 1, 9, NOW_SEC + 60, 100, false)
  for (let slot = 0; slot < batch.slotsCount; slot++) batch.setPreviousCount(slot, batch.hits[slot])
  let sum = 0
  for (let member = 0; member < batch.membersCount; member++) sum += batch.getPreviousCount(member)
  return sum
}
