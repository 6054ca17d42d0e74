import { expect, test } from 'vitest'
import { Pattern } from '../../../transports/metrics/re2.ts'

// biome-ignore format: the columns are the specification
const found = [
  // pattern, text -> groups
  ['b+',                            'abbc',          ['bb']], // anywhere
  ['^(\\w+)\\.(\\d{2,3})$',         'shop.123',      ['shop.123', 'shop', '123']],
  ['(?P<a>x)(?<b>y)?',              'x',             ['x', 'x', '']], // a group that took no part is empty
  ['(?i)Shop-[a-c]',                'sHOP-B',        ['sHOP-B']],
  ['(?i)[^a-z]',                    'aB7',           ['7']],
  ['a.c',                           'a\rc',          ['a\rc']], // only a line feed is excluded
  ['(?s)a.c',                       'a\nc',          ['a\nc']],
  ['(?m)^b$',                       'a\nb\nc',       ['b']],
  ['\\Aa\\z',                       'a',             ['a']],
  ['\\Qa.b\\E+',                    'xa.bb',         ['a.bb']],
  ['\\x41\\x{42}\\a?',              'AB',            ['AB']],
  ['[[:alpha:]_]+[[:digit:]]',      '-ab_1',         ['ab_1']],
  ['[]a]+',                         'x]a',           [']a']],
  ['[^]a]+',                        ']xa',           ['x']],
  ['[\\w-x]+',                      '!a-x',          ['a-x']],
  ['[a-]+',                         'b-a',           ['-a']],
  ['[\\D]+',                        '12ab',          ['ab']],
  ['[\\S]+\\s',                     ' ab\t',         ['ab\t']],
  ['\\s',                           'a\u00a0b c',    [' ']], // \\s has no no-break space in Go
  ['x{,2}',                         'ax{,2}',        ['x{,2}']], // not a repetition
  ['a(?i)b(?-i:c)',                 'aBCaBc',        ['aBc']],
  ['(?U)a+',                        'aaa',           ['a']],
  ['(?m)a\\z',                      'a\na',          ['a']],
  ['\\pL+\\p{Greek}',               '1éαβ',          ['éαβ']],
  ['\\101\\x{1F600}',               'A😀',           ['A😀']],
  ['(?:(a)|b)+',                    'ab',            ['ab', 'a']], // a group keeps the text of its last match
  ['a]}',                           'a]}',           ['a]}']],
  ['a|ab',                          'ab',            ['a']], // the first that fits, not the longest
  ['(?:a|b)+?c',                    'xabc',          ['abc']],
  ['\\bfoo\\B',                     'foo food',      ['foo']],
  ['[/\\-\\]]+',                    'a/-]b',         ['/-]']],
] as const

for (const [pattern, text, groups] of found) {
  test(`7.5: ${pattern} finds ${JSON.stringify(groups)} in ${JSON.stringify(text)}`, () => {
    expect(new Pattern(pattern).find(text)?.groups).toEqual(groups)
  })
}

// biome-ignore format: the columns are the specification
const refused = [
  // pattern -> the error of Go 1.26; below the empty line Sluice's own
  ['(a',             'error parsing regexp: missing closing ): `(a`'],
  ['a**',            'error parsing regexp: invalid nested repetition operator: `**`'],
  ['(a)\\1',         'error parsing regexp: invalid escape sequence: `\\1`'],
  ['a(?=b)',         'error parsing regexp: invalid or unsupported Perl syntax: `(?=`'],
  ['(?<!a)b',        'error parsing regexp: invalid named capture: `(?<!a)b`'],
  ['\\C',            'error parsing regexp: invalid escape sequence: `\\C`'],
  ['[[:foo:]]',      'error parsing regexp: invalid character class range: `[:foo:]`'],
  ['[^',             'error parsing regexp: missing closing ]: `[^`'],
  ['[b-a]',          'error parsing regexp: invalid character class range: `b-a`'],
  ['a\\',            'error parsing regexp: trailing backslash at end of expression: ``'],
  ['x{1001}',        'error parsing regexp: invalid repeat count: `{1001}`'],
  ['(x{1000}){1000}', 'error parsing regexp: invalid repeat count: `{1000}`'],
  ['(a{0,99}){99}',  'error parsing regexp: invalid repeat count: `{99}`'],

  ['(?<a>x)(?<a>y)', 'error parsing regexp: duplicate capture group name: `a`'],
  ['a'.repeat(10_001), 'longer than 10000 characters'],
  [`${'a'.repeat(497)}b{2}`, 'longer than 500 characters with counted repetitions'],
  ['(a{500}){2}b{1000}', 'compiles to more than 2000 instructions'],
  ['(a)'.repeat(51), 'more than 50 groups'],
] as const

for (const [pattern, why] of refused) {
  test(`7.5: ${pattern.slice(0, 40)} is refused: ${why}`, () => {
    expect(() => new Pattern(pattern)).toThrow(new Error(why))
  })
}

test('7.5: groups have their names', () => {
  expect([...new Pattern('(x)(?P<a>y)').find('xy')!.names]).toEqual([['a', 2]])
})

test('7.5: patterns that backtrack without end elsewhere run in linear time', () => {
  // Backtracking would need 2^1000 steps. No clock: the test would not end.
  for (const pattern of ['^(a+)+$', '^(a|a)*$', '^(.*)*x$', '(a*)*b', '^(?:a?){50}a{50}$'])
    expect(new Pattern(pattern).find(`${'a'.repeat(1_000)}!`)).toBe(null)
})

test('7.5: the largest patterns are usable', () => {
  expect(new Pattern('a'.repeat(1_900)).find('a'.repeat(1_900))?.groups).toHaveLength(1)
  expect(new Pattern('(a?)'.repeat(50)).find('aa')?.groups).toHaveLength(51)
  expect(new Pattern('^[a-z.]{900}$').find('a.'.repeat(450))?.groups).toHaveLength(1)
})

test('7.5: a text of more than 4,096 characters is not searched', () => {
  expect(new Pattern('a').find('a'.repeat(4_096))?.groups).toEqual(['a'])
  expect(new Pattern('a').find('a'.repeat(4_097))).toBe(null)
})

test('7.5: engine flags of the process are unchanged', () => {
  const linearFlag: string = 'l' // of V8's experimental engine, which stays off
  expect(() => new RegExp('a', linearFlag)).toThrow('Invalid flags')
})
