/** The index of a batch's slots against a Map, over many fillings and with keys whose hashes meet. */
import { expect, test } from 'vitest'
import { Counter } from '../../../engine/stores/counter.ts'
import { SlotIndex } from '../../../engine/stores/slot-index.ts'
import { seed, seeded } from '../../helpers/size.ts'

const SLOTS_MAX = 16
const FILLINGS = 2 ** 27 // a number of 27 bits beside a slot of 4

test('finds what a Map finds, filling after filling', () => {
  const random = seeded(seed())
  const index = new SlotIndex(SLOTS_MAX)
  for (let filling = 0; filling < 2_000; filling++) {
    const counters: Counter[] = []
    const slots = new Map<string, number>()
    for (let slot = 0; slot < SLOTS_MAX; slot++) {
      const counter = new Counter(`key ${Math.floor(random() * 20)}${random() < 0.2 ? ' ü€😀' : ''}`)
      expect(index.find(counter, counters)).toBe(slots.get(counter.key) ?? -1)
      counters.push(counter)
      index.set(counter, slot, counters)
      slots.set(counter.key, slot)
    }
    index.clear()
  }
})

test('entries of long ago do not come back when filling numbers start again', () => {
  const index = new SlotIndex(SLOTS_MAX)
  const counters = [new Counter('a')]
  index.set(counters[0], 0, counters)
  for (let filling = 0; filling < FILLINGS; filling++) index.clear()
  expect(index.find(counters[0], counters)).toBe(-1)
  index.set(counters[0], 0, counters)
  expect(index.find(new Counter('a'), counters)).toBe(0)
})

test('keys whose hashes meet are told apart, and looked for a few steps only', () => {
  const index = new SlotIndex(64)
  const counters = Array.from({ length: 64 }, (_, i) => {
    const counter = new Counter(`${i}`)
    Object.defineProperty(counter, 'hash', { value: 7 })
    return counter
  })
  for (const [slot, counter] of counters.entries()) index.set(counter, slot, counters)
  const found = counters.map((counter) => index.find(counter, counters))
  expect(found.slice(0, 16)).toEqual([...found.keys()].slice(0, 16))
  expect(found.slice(16).every((slot) => slot === -1)).toBe(true)
})
