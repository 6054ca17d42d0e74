import { expect, test } from 'vitest'
import { Pattern } from '../../../transports/metrics/re2.ts'

// biome-ignore format: the columns are the specification
const found = [
  // pattern, text -> groups
  ['b+',                            'abbc',          ['bb']], // anywhere
  ['^(\\w+)\\.(\\d{2,3})$',         'shop.123',      ['shop.123', 'shop', '123']],
  ['(?P<a>x)(?<b>y)?',              'x',             ['x', 'x', '']], // took no part: empty
  ['(?i)Shop-[a-c]',                'sHOP-B',        ['sHOP-B']],
  ['(?i)[^a-z]',                    'aB7',           ['7']],
  ['a.c',                           'a\rc',          ['a\rc']], // only a line feed is none
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
  ['\\s',                           'a\u00a0b c',    [' ']], // no-break spaces are none in Go
  ['x{,2}',                         'ax{,2}',        ['x{,2}']], // no repeat: text
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
  ['(a',             'Unterminated group'],
  ['a**',            'Nothing to repeat'],
  ['(a)\\1',         'back-references are not supported: \\1'],
  ['a(?=b)',         'look-around is not supported: (?=b'],
  ['(?<!a)b',        'look-around is not supported: (?<!'],
  ['a(?i)b',         'flags are supported at the start only: (?i)b'],
  ['(?i:a)b',        'flags are supported at the start only: (?i:a'],
  ['(?U)a+',         'the flag U is not supported'],
  ['(?m)a\\z',       '\\z beside the flag m is not supported'],
  ['\\pL',           '\\p is not supported'],
  ['\\C',            '\\C is not supported'],
  ['\\07',           '\\0 is not supported'],
  ['[[:foo:]]',      '[:foo:] is not supported'],
  ['[^',             'missing closing ]'],
  ['[b-a]',          'bad range b-a'],
  ['a\\',            'trailing backslash'],
  ['(?<a>x)(?<a>y)', 'duplicate group name a'],
  ['(a{0,99}){99}',  'repeats too often to run in linear time'],
  ['a'.repeat(10_001), 'longer than 10000 characters'],
] as const

for (const [pattern, why] of refused) {
  test(`7.5: ${pattern.slice(0, 40)} is refused: ${why}`, () => {
    expect(() => new Pattern(pattern)).toThrow(why)
  })
}

test('7.5: groups have their names', () => {
  expect([...new Pattern('(x)(?P<a>y)').find('xy')!.names]).toEqual([['a', 2]])
})

test('7.5: a pattern written to explode does not', () => {
  // Backtracking would need 2^50 steps; no clock here, since it would simply never end.
  expect(new Pattern('^(a+)+$').find(`${'a'.repeat(1_000)}!`)).toBe(null)
})
