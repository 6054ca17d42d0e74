/** Trie.matchPlain: which requests need no second look at their texts. */
import { describe, expect, test } from 'vitest'
import { compile } from '../../../engine/match/compile.ts'
import { Trie } from '../../../engine/match/trie.ts'
import { matchPlain } from './match-plain.ts'
import { limited, parseEntries, ruleDomain, ruleNode } from './rules.ts'

describe('matchPlain', () => {
  const share = { hasShareThreshold: true }
  const nodes = [
    limited({ key: 'a' }),
    limited({ key: 'a', value: 'x*' }),
    limited({ key: 'b', hasValueToMetric: true }),
    limited({ key: 'b', value: '1', hasValueToMetric: true }),
    limited({ key: 'c', value: 'x*', ...share }),
    limited({ key: 'd', hasDetailedMetric: true }),
    limited({ key: 'e*' }),
    limited({ key: 'f', value: '' }),
    limited({ key: 'g_' }),
    ruleNode({ key: 'h', children: [limited({ key: 'i', ...share, value: 'y*' }), limited({ key: 'j' })] }),
  ]
  const trie = new Trie(compile([ruleDomain('d', ...nodes)]))
  // biome-ignore format: a table
  const cases = [
    ['a=1',        'd.a'],
    ['a=xy',       'd.a_x*'],
    ['b=1',        'd.b_1'],       // an exact match is counted as it was sent
    ['b=2',        'renamed'],
    ['c=xy',       'renamed'],
    ['c=y',        'none'],
    ['d=1',        'renamed'],
    ['e=1',        'renamed'],     // a star in the key
    ['f=1',        'd.f'],
    ['g=',         'renamed'],     // `g_` is configured, `g` is counted
    ['h=1',        'none'],        // no limit
    ['h=1 i=y1',   'renamed'],
    ['h=1 j=1',    'd.h.j'],
    ['h=1 j=1 k=1', 'none'],       // deeper than any rule
    ['z=1',        'none'],
  ] as const
  test.each(cases)('%s: %s', (text, expected) => {
    expect(matchPlain(trie, 'd', parseEntries(text))).toBe(expected)
  })

  test('an unknown domain, and no entries', () => {
    expect(matchPlain(trie, 'x', parseEntries('a=1'))).toBe('none')
    expect(matchPlain(trie, 'd', [])).toBe('none')
  })
})
