/** Suggestions for mistyped names: total on any text, bounded, and right for the usual mistakes. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ENDPOINTS } from '../../../monitor/api/schema/endpoints.ts'
import { NAME_CHARS_MAX, suggestName } from '../../../monitor/api/suggestion.ts'
import { size } from '../../helpers/size.ts'

const NAMES = ENDPOINTS.find(({ id }) => id === 'listSites')!.parameters.map(({ name }) => name)

// biome-ignore format: a table
const cases: [string, string | null][] = [
  ['teir',      'tier'],     // two neighbours swapped
  ['tire',      'tier'],
  ['Tier',      'tier'],
  ['tiers',     'tier'],
  ['regoin',    'region'],
  ['limt',      'limit'],
  ['of set',    'offset'],
  ['sofware',   'software'],
  ['sotfwrae',  'software'],
  ['statuss',   'status'],
  ['incl',      null],       // three of seven letters are missing
  ['x',         null],       // every name of one letter would be near `q`
  ['page',      null],
  ['',          null],
  ['__proto__', null],
  ['constructor', null],
]
for (const [name, meant] of cases) {
  test(`${JSON.stringify(name)} means ${meant}`, () => expect(suggestName(name, NAMES)).toBe(meant))
}

test('an equal name, a longer one than is compared, and no names at all', () => {
  expect(suggestName('tier', NAMES)).toBe('tier')
  expect(suggestName('t'.repeat(NAME_CHARS_MAX + 1), ['t'.repeat(NAME_CHARS_MAX)])).toBeNull()
  expect(suggestName('t'.repeat(NAME_CHARS_MAX), ['t'.repeat(NAME_CHARS_MAX + 1)])).toBeNull()
  expect(suggestName('tier', [])).toBeNull()
})

test('total: any text gives null or a known name', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 64 }),
      fc.array(fc.string({ maxLength: 40 })),
      (name, known) => {
        const meant = suggestName(name, known)
        expect(meant === null || known.includes(meant)).toBe(true)
      },
    ),
    { numRuns: size({ small: 200, full: 20_000 }) },
  )
})

test('bounded: characters are read at most NAME_CHARS_MAX² times for each known name', () => {
  const counted = (text: string) => {
    const counter = { reads: 0 }
    const value = new Proxy(Object(text), {
      get(target, key) {
        if (typeof key === 'string' && /^\d+$/.test(key)) counter.reads++
        const member = Reflect.get(target, key)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
    return { counter, value }
  }
  for (const length of [1, 8, NAME_CHARS_MAX, NAME_CHARS_MAX + 1, 100_000]) {
    const { counter, value } = counted('a'.repeat(length))
    const known = Array.from({ length: 10 }, () => ({
      toLowerCase: () => value,
      length,
    })) as unknown as string[]
    suggestName('b'.repeat(length), known)
    expect(counter.reads).toBeLessThanOrEqual(10 * 3 * NAME_CHARS_MAX ** 2)
    expect(counter.reads > 0).toBe(length <= NAME_CHARS_MAX)
  }
})

test('one change of a name of four letters or more is recognised, whatever it is', () => {
  const long = NAMES.filter((name) => name.length >= 4)
  const change = fc.tuple(
    fc.constantFrom(...long),
    fc.nat(),
    fc.constantFrom('insert', 'delete', 'replace', 'swap'),
  )
  fc.assert(
    fc.property(change, fc.constantFrom(...'abcxyz_9'), ([name, at, how], letter) => {
      const i = at % name.length
      const changed = {
        insert: name.slice(0, i) + letter + name.slice(i),
        delete: name.slice(0, i) + name.slice(i + 1),
        replace: name.slice(0, i) + letter + name.slice(i + 1),
        swap: name.slice(0, i) + (name[i + 1] ?? '') + name[i] + name.slice(i + 2),
      }[how]!
      expect(suggestName(changed, [name])).toBe(name)
    }),
    { numRuns: size({ small: 200, full: 5_000 }) },
  )
})
