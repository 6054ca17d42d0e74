/** proto/json.ts against a model on documents made and mutated at random. */
import { describe, expect, test } from 'vitest'
import { requestFromJson } from '../../proto/json.ts'
import { mutated, randomRequestJson } from '../fuzz/json-bodies.ts'
import { seed, seeded, size } from '../helpers/size.ts'
import { isSame, naiveRequest } from './json-naive.ts'

const documents = size({ small: 20_000, full: 1_000_000 })

/** What reading yields: a request, or the message of an error. */
function read<T>(reader: (text: string) => T, text: string): T | string {
  try {
    return reader(text)
  } catch (error) {
    return (error as Error).message
  }
}

/** Whether JSON.parse loses something of the text: a field given twice, or digits that a double does not hold. */
function isLossy(text: string): boolean {
  const strings = text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g) // with a colon where they are names
  const written = Array.from(strings).filter(([, colon]) => colon !== undefined).length
  return fieldsCount(JSON.parse(text)) < written || /\d{16}/.test(text)
}

function fieldsCount(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = Array.isArray(value) ? 0 : Object.keys(value).length
  for (const child of Object.values(value)) count += fieldsCount(child)
  return count
}

describe(`6.3: on ${documents} documents (seed ${seed()})`, () => {
  test('the reader and a simple model on JSON.parse give the same request, or both refuse', () => {
    const random = seeded(seed())
    const counts = { accepted: 0, refused: 0, blind: 0 }
    for (let i = 0; i < documents; i++) {
      const whole = randomRequestJson(random)
      const text = i % 4 === 0 ? whole : mutated(whole, random)
      const [actual, naive] = [read(requestFromJson, text), read(naiveRequest, text)]
      const isAgreed =
        typeof actual === 'string' || typeof naive === 'string'
          ? typeof actual === typeof naive
          : isSame(actual, naive)
      if (isAgreed) counts[typeof actual === 'string' ? 'refused' : 'accepted']++
      else if (typeof naive !== 'string' && isLossy(text)) counts.blind++
      else expect.fail(`${text}\nours: ${JSON.stringify(actual)}\nmodel: ${JSON.stringify(naive)}`)
      if (i % 4 === 0 && typeof actual === 'string') expect.fail(`refused: ${text}\n${actual}`)
    }
    expect(counts.accepted).toBeGreaterThan(documents / 4) // neither side is always right by saying no
    expect(counts.refused).toBeGreaterThan(documents / 4)
    expect(counts.blind).toBeLessThan(documents / 20)
  })
})
