/**
 * A thread of memory/threads.test.ts: adds the hits of its plan and posts every count.
 *
 *     workerData  table, steps of { key number, hits, window }     ──►  message: the counts after, one per step
 *
 * Windows are given by their number; all threads wait for each other before the next one.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { MemoryStore } from '../../../engine/stores/memory/memory-store.ts'

export interface CountingPlan {
  table: SharedArrayBuffer
  gate: SharedArrayBuffer // one word: how many threads have reached a gate, ever
  threadsCount: number
  windows: { keys: Int32Array; hits: Float64Array }[]
  windowSec: number
  startSec: number
}

const { table, gate, threadsCount, windows, windowSec, startSec } = workerData as CountingPlan
const store = new MemoryStore(table)
const arrived = new Int32Array(gate)

const counts = windows.map(({ keys, hits }, window) => {
  waitForAll(window + 1)
  const nowSec = startSec + window * windowSec
  return Float64Array.from(keys, (key, i) =>
    store.addOne(`key_${key}_${nowSec}`, hits[i], nowSec + 1, nowSec),
  )
})
parentPort?.postMessage(counts)

function waitForAll(windowsCount: number): void {
  const expected = windowsCount * threadsCount
  Atomics.add(arrived, 0, 1)
  Atomics.notify(arrived, 0)
  for (let seen = Atomics.load(arrived, 0); seen < expected; seen = Atomics.load(arrived, 0)) {
    Atomics.wait(arrived, 0, seen, 1_000)
  }
}
