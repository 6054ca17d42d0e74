/** A worker whose event loop does not turn: it is reported, and does not keep the process from ending. */
import { expect, onTestFinished, test } from 'vitest'
import { ServePool, type WorkerOptions } from '../../../engine/runtime/serve-pool.ts'
import { eventually } from '../../helpers/eventually.ts'
import { RELEASED } from './blocked-worker.ts'

const CHECK_MS = 10
const STALL = { kind: 'stall', ms: 0 } as const // until it is released

async function startPool() {
  const words = new Int32Array(new SharedArrayBuffer(4))
  const events: string[] = []
  const pool = new ServePool(
    new URL('./blocked-worker.ts', import.meta.url),
    2,
    { memoryTable: words.buffer } as unknown as WorkerOptions,
    {
      message: () => {},
      died: () => {},
      unresponsive: (index, forSec) => events.push(`${index} unresponsive ${forSec}`),
      responsive: (index) => events.push(`${index} responsive`),
    },
    CHECK_MS,
  )
  const release = () => {
    Atomics.store(words, RELEASED, 1)
    Atomics.notify(words, RELEASED)
  }
  onTestFinished(async () => {
    release()
    await pool.drain(0)
  })
  await pool.start()
  return { pool, events, release }
}

test('an event loop that does not turn is reported once, and again when it turns', async () => {
  const { pool, events, release } = await startPool()
  pool.send(1, STALL)
  await eventually(() => expect(events).toContain(`1 unresponsive ${(2 * CHECK_MS) / 1_000}`))
  release()
  await eventually(() => expect(events.findLast((event) => event.startsWith('1 '))).toBe('1 responsive'))
  const reports = events.filter((event) => event.startsWith('1 ')) // a busy machine may add pairs before
  expect(reports.map((event) => event.split(' ')[1])).toEqual(
    reports.map((_, i) => (i % 2 === 0 ? 'unresponsive' : 'responsive')),
  )
})

test('drain does not wait for it beyond its time, and names it', async () => {
  const { pool } = await startPool()
  pool.send(1, STALL)
  expect(await pool.drain(0)).toContain(1)
})

test('drain waits for one that responds again', async () => {
  const { pool, events, release } = await startPool()
  pool.send(1, STALL)
  await eventually(() => expect(events).toContain('1 unresponsive 0.02'))
  const drained = pool.drain(3_600_000)
  release()
  expect(await drained).toEqual([])
})
