import fc from 'fast-check'
import { expect, test } from 'vitest'
import { QUEUE_ROWS_MAX, WriteQueue } from '../../../monitor/storage/queue.ts'
import { countRows, type Write } from '../../../monitor/storage/rows.ts'
import { size } from '../../helpers/size.ts'
import { probe } from './stores-plain.ts'

// A queue is drawn as its writes: u for an up probe, d for one that is down, m for another write.
// biome-ignore format: the columns are the specification
const cases = [
  // pushed     bound  kept      dropped ups, others
  ['uud',       3,     'uud',    0, 0], // full is not too full
  ['uudd',      3,     'udd',    1, 0], // the oldest up goes
  ['dudu',      3,     'ddu',    1, 0], // wherever it stands
  ['uuuuud',    3,     'uud',    3, 0],
  ['ddmd',      3,     'dmd',    0, 1], // no up: the oldest of all
  ['mddu',      3,     'ddu',    0, 1], // the new one is not there yet
  ['mdduu',     3,     'ddu',    1, 1],
] as const

for (const [pushed, bound, kept, ups, others] of cases) {
  test(`8.2: ${pushed} in a queue of ${bound} leaves ${kept}`, () => {
    const queue = new WriteQueue(bound)
    pushed.split('').forEach((letter, i) => {
      queue.push(createWrite(letter, i))
    })
    expect([queue.rowsCount, queue.droppedUps, queue.droppedOthers]).toEqual([kept.length, ups, others])
    expect(queue.take(100).map(toLetter).join('')).toBe(kept)
    expect(queue.rowsCount).toBe(0)
  })
}

test('8.2: the bound is 50,000 rows, however long nothing is taken', () => {
  expect(QUEUE_ROWS_MAX).toBe(50_000)
  const queue = new WriteQueue(2_000)
  const pushes = size({ small: 100_000, full: 3_000_000 })
  queue.push(createWrite('d', 0))
  for (let i = 1; i < pushes; i++) queue.push(createWrite('u', i))
  const { places } = queue as unknown as { places: unknown[] }
  expect(places.length).toBeLessThan(5_000)
  expect(queue.droppedUps).toBe(pushes - 2_000)
  const sites = queue.take(2_000).map((write) => write.kind === 'probe' && write.siteId)
  expect(sites).toEqual([0, ...Array.from({ length: 1_999 }, (_, i) => pushes - 1_999 + i)]) // the newest, in order
})

test('8.2: a write of many rows counts as many, and is a batch of its own when it is larger than one', () => {
  const models = Array.from({ length: 999 }, (_, i) => ({
    key: `${i}`,
    id: `${i}`,
    isClaimed: true,
    isVerified: true,
  }))
  const large = { kind: 'observation', siteId: 1, observation: {} as never, models } as const
  const queue = new WriteQueue(1_002)
  for (const letter of 'uuu') queue.push(createWrite(letter, 0))
  queue.push(large)
  expect([queue.rowsCount, queue.droppedUps]).toEqual([1_002, 1])
  expect(queue.take(500)).toHaveLength(2)
  expect(queue.take(500)).toEqual([large])
})

test('8.2: it keeps the same writes as a plain list, in order', () => {
  const steps = fc.array(fc.oneof(fc.constantFrom('u', 'd', 'm'), fc.integer({ min: 1, max: 5 })), {
    maxLength: 60,
  })
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 10 }), (all, bound) => {
      const queue = new WriteQueue(bound)
      let plain: Write[] = []
      all.forEach((step, i) => {
        if (typeof step === 'number') {
          expect(queue.take(step)).toEqual(plain.slice(0, step))
          plain = plain.slice(step)
          return
        }
        const write = createWrite(step, i)
        queue.push(write)
        if (plain.length === bound)
          plain.splice(
            Math.max(
              0,
              plain.findIndex((known) => toLetter(known) === 'u'),
            ),
            1,
          )
        plain.push(write)
      })
      expect(queue.rowsCount).toBe(plain.reduce((sum, write) => sum + countRows(write), 0))
      expect(queue.take(100)).toEqual(plain)
    }),
    { numRuns: size({ small: 200, full: 20_000 }) },
  )
})

function createWrite(letter: string, number: number): Write {
  if (letter === 'm') return { kind: 'meta', key: 'k', value: String(number) }
  return {
    kind: 'probe',
    siteId: number,
    vantageId: 1,
    probe: probe(number, { outcome: letter === 'u' ? 'up' : 'down' }),
  }
}

function toLetter(write: Write): string {
  return write.kind === 'probe' ? write.probe.outcome[0] : 'm'
}
