/**
 * What does one addition in the memory store cost, key text to count?
 *   floor  Atomics.add on a word chosen by the key's number: no store on shared memory can beat it
 *   map    a Map from key to count, private to one thread: without shared memory
 *   now    the store
 * Worth changing when `now` on one hot key is more than 120 ns above `floor`; some 70 of them are reading the text.
 */
import { MemoryStore } from '../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../engine/stores/memory/table-layout.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const NOW_SEC = 1_790_000_000
const END_SEC = 1_790_000_060
const hits = size({ small: 1_000, full: 200_000 })
const random = seeded(7)

for (const keysCount of [1, 1_000, 100_000]) {
  const keys = Array.from({ length: keysCount }, (_, i) =>
    // flat, like keys read from a socket; a concatenated one costs 80 ns more to read
    Buffer.from(`shop_user_${i}_path_/api/items_1790000000_`).toString('latin1'),
  )
  const order = Int32Array.from({ length: hits }, () => Math.floor(random() * keysCount))
  const words = new Int32Array(new SharedArrayBuffer(keysCount * 4))
  const counts = new Map<string, number>()
  const store = new MemoryStore(createMemoryTable(64 * 2 ** 20))

  await measure('memory', hits, {
    [`floor ${keysCount} keys`]: () => {
      let sum = 0
      for (let i = 0; i < hits; i++) sum += Atomics.add(words, order[i], 1)
      return sum
    },
    [`map   ${keysCount} keys`]: () => {
      let sum = 0
      for (let i = 0; i < hits; i++) {
        const key = keys[order[i]]
        const count = (counts.get(key) ?? 0) + 1
        counts.set(key, count)
        sum += count
      }
      return sum
    },
    [`now   ${keysCount} keys`]: () => {
      let sum = 0
      for (let i = 0; i < hits; i++) sum += store.addOne(keys[order[i]], 1, END_SEC, NOW_SEC)
      return sum
    },
  })
}
