/**
 * Rule files, mutated in every way. A load ends soon, with rules or with a specified error; rules compile, match as
 * specified, and can be linted. No crash and no hang.
 */
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { seed, size } from '../helpers/size.ts'
import type { FuzzResult, FuzzTask } from './yaml-run.ts'

const FILES = size({ small: 1_500, full: 100_000 })
const isFull = size({ small: false, full: true })
const FILE_MS_MAX = 2_000 // one file of at most 64 KiB; checked in the full size only
const SILENCE_MS_MAX = 120_000 // for 100 files; beyond, a file is considered to hang

/** Loads the files in a thread, which is terminated when it stops reporting. */
function load(task: FuzzTask): Promise<FuzzResult> {
  const worker = new Worker(new URL('./yaml-run.ts', import.meta.url), { workerData: task })
  let last: FuzzResult | null = null
  return new Promise<FuzzResult>((resolve, reject) => {
    const hang = () =>
      reject(new Error(`silent after file ${task.from + (last?.done ?? 0)} of seed ${task.seed}`))
    let timer = setTimeout(hang, SILENCE_MS_MAX)
    worker.on('message', (result: FuzzResult) => {
      last = result
      clearTimeout(timer)
      timer = setTimeout(hang, SILENCE_MS_MAX)
    })
    worker.on('error', reject)
    worker.on('exit', (code) => {
      clearTimeout(timer)
      if (code === 0 && last) resolve(last)
      else reject(new Error(`the thread ended with code ${code} after ${JSON.stringify(last)}`))
    })
  }).finally(() => worker.terminate())
}

test(`1.2, 1.3, 1.4: ${FILES} mutated rule files load or end with a specified error`, async () => {
  const result = await load({ seed: seed(), from: 0, to: FILES })
  expect(result.problem).toBe('')
  expect(result.done).toBe(FILES)
  if (isFull) expect(result.slowestMs, `file ${result.slowest} of seed ${seed()}`).toBeLessThan(FILE_MS_MAX)
  // If no mutated file loaded, only the parser would be tested.
  expect(result.accepted).toBeGreaterThan(FILES / 10)
  expect(result.withRules).toBeGreaterThan(FILES / 20)
  expect(result.matched).toBeGreaterThan(FILES / 20)
  if (isFull) console.log(`seed ${seed()}: ${JSON.stringify(result)}`)
})
