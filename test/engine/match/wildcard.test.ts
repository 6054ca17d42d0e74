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

describe('A.1 wildcards', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['wild_foo*',     ['wild_foo', 'wild_foo1', 'wild_foo/bar_baz'],            ['wild_fo', 'wild_bar', 'Wild_foo1']],
    ['k_*',           ['k_', 'k_x'],                                            ['k', 'K_']],
    ['midWild_bar*b', ['midWild_barab', 'midWild_bar123b', 'midWild_barb'],     ['midWild_bar', 'midWild_barbc']],
    ['m_ab*ba',       ['m_abba'],                                               ['m_aba']], // no overlap
    ['m_foo*bar*baz', ['m_foobarbaz', 'm_fooXbarYbaz', 'm_foobarbarbaz'],
                                                                  ['m_foobaz', 'm_foobarba', 'm_barfoobaz']],
    ['m_a**b',        ['m_ab', 'm_axb'],                                        ['m_a']],
    ['m_*x*',         ['m_x', 'm_axb'],                                         ['m_abc']],
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
