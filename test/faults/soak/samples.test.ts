import { expect, test } from 'vitest'
import type { ThreadStats } from '../../../engine/runtime/inspection/messages.ts'
import { threadsText } from '../../../transports/debug/threads.ts'
import { parseThreads, readProcess } from './samples.ts'

const MIB = 2 ** 20
const stats = (heapMib: number, p99: number): ThreadStats => ({
  uptimeSec: 60,
  delayMs: { min: 0, mean: 1, p99, max: 50 },
  busyShare: 0.5,
  heapUsedBytes: heapMib * MIB,
  heapTotalBytes: 90 * MIB,
  externalBytes: 2 * MIB,
  facts: [['Redis', '2 batches in flight']],
})
const found = new Map([
  ['main', stats(10, 3)],
  ['worker 0', stats(20, 7.5)],
  ['worker 1', stats(30, 4)],
])

test('heaps are summed over all threads, delays are those of main and of the slowest worker', () => {
  const text = threadsText({ found, nativeIds: new Map([['main', 4711]]), missing: [] })
  const expected = { heapBytes: 60 * MIB, externalBytes: 6 * MIB, mainDelayMs: 3, workerDelayMs: 7.5 }
  expect(parseThreads(text, 2)).toEqual(expected)
})

test('a sample without each worker is none', () => {
  const text = threadsText({ found, nativeIds: new Map(), missing: ['worker 2: no response'] })
  expect(parseThreads(text, 3)).toBeNull()
  expect(parseThreads('', 1)).toBeNull()
})

test('a text that is not understood is an error', () => {
  expect(() => parseThreads('main              up 1m\n  heap   unknown\n', 0)).toThrow('MiB used')
})

test('this process has memory, descriptors and threads; one that has ended has none', () => {
  const { rssBytes, descriptors, threads } = readProcess(process.pid)!
  expect(rssBytes).toBeGreaterThan(10 * MIB)
  expect(descriptors).toBeGreaterThan(3)
  expect(threads).toBeGreaterThan(1)
  expect(readProcess(2 ** 30)).toBeNull()
})
