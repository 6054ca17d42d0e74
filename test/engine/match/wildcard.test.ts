import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fitsAfterPrefix } from '../../../engine/match/wildcard.ts'
import { size } from '../../helpers/size.ts'

function fits(pattern: string, text: string): boolean {
  const prefix = pattern.slice(0, pattern.indexOf('*'))
  if (!text.startsWith(prefix)) return false
  const p = Buffer.from(`**${pattern}**`) // what stands around them must not matter
  const t = Buffer.from(`ab${text}ab`)
  return fitsAfterPrefix(p, 2, p.length - 2, Buffer.byteLength(prefix), t, 2, t.length - 2)
}

// biome-ignore format: the columns are the specification
const rows = [
  ['A.1#1',  'wild_foo*',     ['wild_foo', 'wild_foo1', 'wild_foo/bar_baz'],          true],
  ['A.1#2',  'wild_foo*',     ['wild_fo', 'wild_bar', 'Wild_foo1'],                   false],
  ['A.1#3',  'k_*',           ['k_', 'k_x'],                                          true],
  ['A.1#4',  'midWild_bar*b', ['midWild_barab', 'midWild_bar123b', 'midWild_barb'],   true],
  ['A.1#5',  'midWild_bar*b', ['midWild_bar', 'midWild_barbc'],                       false],
  ['A.1#6',  'm_ab*ba',       ['m_aba'],                                              false], // would overlap
  ['A.1#7',  'm_ab*ba',       ['m_abba'],                                             true],
  ['A.1#8',  'm_foo*bar*baz', ['m_foobarbaz', 'm_fooXbarYbaz', 'm_foobarbarbaz'],     true],
  ['A.1#9',  'm_foo*bar*baz', ['m_foobaz', 'm_foobarba', 'm_barfoobaz'],              false],
  ['A.1#10', 'm_a**b',        ['m_ab', 'm_axb'],                                      true],
  ['A.1#11', 'm_*x*',         ['m_x', 'm_axb'],                                       true],
  ['A.1#12', 'm_*x*',         ['m_abc'],                                              false],
] as const
for (const [id, pattern, texts, isMatch] of rows) {
  test(`${id}: ${pattern} ${isMatch ? 'matches' : 'does not match'} ${texts.join(', ')}`, () => {
    expect(texts.map((text) => fits(pattern, text))).toEqual(texts.map(() => isMatch))
  })
}

describe('1.6 further patterns', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['k_*',           [],                                                       ['k', 'K_']],
    ['m_a**b',        [],                                                       ['m_a']],
    ['*',             ['', 'a'],                                                []],
    ['*aab*',         ['aaab', 'aaaab'],                                        ['aab'.slice(1)]],
    ['a*é*b',         ['aéb', 'a_é_b'],                                         ['aèb']], // half a letter is no letter
  ] as const
  for (const [pattern, yes, no] of cases) {
    for (const text of yes) test(`${pattern} takes '${text}'`, () => expect(fits(pattern, text)).toBe(true))
    for (const text of no) test(`${pattern} refuses '${text}'`, () => expect(fits(pattern, text)).toBe(false))
  }
})

test('property, 1.6: a pattern is the regular expression with .* for each star', () => {
  const unit = fc.constantFrom('a', 'a', 'b', '_', '/')
  const patterns = fc
    .array(fc.oneof(unit, fc.constant('*')), { minLength: 1, maxLength: 8 })
    .map((units) => units.join(''))
    .filter((pattern) => pattern.includes('*'))
  fc.assert(
    fc.property(patterns, fc.string({ unit, maxLength: 10 }), (pattern, text) => {
      const expected = new RegExp(`^${pattern.replaceAll('*', '[^]*')}$`).test(text)
      expect(fits(pattern, text)).toBe(expected)
    }),
    { numRuns: size({ small: 5_000, full: 1_000_000 }) },
  )
})

test('property, 1.6: parts long and repetitive enough for the table are found at the same place', () => {
  const part = fc.tuple(fc.integer({ min: 60, max: 120 }), fc.constantFrom('', 'b', 'ab', 'ba'))
  const run = fc.tuple(fc.integer({ min: 0, max: 300 }), fc.constantFrom('b', 'ab', 'bb'))
  const repeated = (pieces: (readonly [number, string])[]) =>
    pieces.map(([n, end]) => 'a'.repeat(n) + end).join('')
  fc.assert(
    fc.property(
      fc.array(part, { minLength: 1, maxLength: 3 }),
      fc.array(run, { maxLength: 5 }),
      (parts, runs) => {
        const pattern = `x*${parts.map((one) => `${repeated([one])}*`).join('')}y`
        const text = `x${repeated(runs)}y`
        let rest: string | undefined = text.slice(1, -1)
        for (const one of parts) {
          const at: number = rest?.indexOf(repeated([one])) ?? -1
          rest = at < 0 ? undefined : rest?.slice(at + repeated([one]).length)
        }
        expect(fits(pattern, text)).toBe(rest !== undefined)
      },
    ),
    { numRuns: size({ small: 2_000, full: 200_000 }) },
  )
})

test('a part that is found by its table ends before what the suffix needs', () => {
  const part = `${'a'.repeat(100)}b`
  const text = 'a'.repeat(300) // so much work that the table is made
  expect(fits(`*${part}*b`, `${text}bb`)).toBe(true)
  expect(fits(`*${part}*b`, `${text}b`)).toBe(false)
  expect(fits(`*${part}*ab`, `${text}bab`)).toBe(true)
  expect(fits(`*${part}*`, text)).toBe(false)
})

test('property, 1.6: parts of repeated pieces are found by their table', () => {
  const piece = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 6 })
  const cuts = fc.array(fc.tuple(fc.nat({ max: 20 }), fc.integer({ min: 1, max: 20 })), { maxLength: 12 })
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 3 }), cuts, (pieces, slices) => {
      const part = `aaaaaaaaaa${pieces.join('')}${pieces[0]}`
      const partly = slices.map(([from, length]) => part.slice(from, from + length)).join('')
      const text = `${'a'.repeat(100)}${partly}` // the letters use up the work of plain search
      expect(fits(`*${part}*`, text)).toBe(text.includes(part))
      expect(fits(`*${part}*c`, `${text}c`)).toBe(text.includes(part))
    }),
    { numRuns: size({ small: 2_000, full: 200_000 }) },
  )
})

test('1.6: a hostile text costs its length, not its length times that of the pattern', () => {
  const part = `${'a'.repeat(1_000)}b`
  const text = 'a'.repeat(20_000)
  // plain search reads 20,000,000 bytes
  expect(countReads(`*${part}*`, text)).toBeLessThan(10 * text.length)
  expect(countReads(`*${part}*${part}*`, `${text}b${text}b`)).toBeLessThan(20 * text.length)
  expect(fits(`*${part}*`, text)).toBe(false)
  expect(fits(`*${part}*${part}*`, `${text}b${text}b`)).toBe(true)
})

/** How many bytes of the text are read. */
function countReads(pattern: string, text: string): number {
  let count = 0
  const bytes = Buffer.from(text)
  const counted = new Proxy(bytes, {
    get(target, name) {
      count++
      return target[Number(name)]
    },
  })
  fitsAfterPrefix(Buffer.from(pattern), 0, Buffer.byteLength(pattern), 0, counted, 0, bytes.length)
  return count
}
