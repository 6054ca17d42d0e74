import { describe, expect, test } from 'vitest'
import { readDraft } from '../../../engine/config/read.ts'
import { validate } from '../../../engine/config/validate.ts'
import { compile } from '../../../engine/match/compile.ts'
import { Trie } from '../../../engine/match/trie.ts'

function load(files: string[], isMerging = false) {
  return validate(
    files.map((yaml, i) => readDraft(`${i}.yaml`, Buffer.from(yaml))),
    { isMerging },
  )
}

function getLoadError(files: string[], isMerging = false): string {
  try {
    load(files, isMerging)
  } catch (error) {
    return (error as Error).message
  }
  return 'no error'
}

const nodes = (...list: string[]) =>
  `domain: d\ndescriptors:\n${list.map((node) => `  - ${node}\n`).join('')}`
const DAY = 'rate_limit: {unit: day}'

describe('1.4 error texts', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['1.4', '', 'config file cannot have empty domain'],
    ['1.4', 'descriptors: []', 'config file cannot have empty domain'],
    ['1.4#1', nodes('value: x'), 'descriptor has empty key (line 3)'],
    ['1.4#3', nodes('key: a', 'key: a'), "duplicate descriptor composite key 'd.a' (line 4)"],
    ['1.4#2 1.4#3', nodes('key: a_b', '{key: a, value: b}'), "duplicate descriptor composite key 'd.a_b' (line 4)"],
    ['1.4#3', nodes('{key: a, value: b, descriptors: [{key: c}, {key: c}]}'),
      "duplicate descriptor composite key 'd.a_b.c' (line 3)"],
    ['1.4#4', nodes('{key: a, rate_limit: {unlimited: true, unit: Day}}'),
      'should not specify rate limit unit when unlimited (line 3)'],
    ['1.4#5', nodes('{key: a, rate_limit: {}}'), "invalid rate limit unit '' (line 3)"],
    ['1.4#5', nodes('{key: a, rate_limit: {unit: Unknown}}'), "invalid rate limit unit 'Unknown' (line 3)"],
    ['1.4#5', nodes('{key: a, rate_limit: {unit: days}}'), "invalid rate limit unit 'days' (line 3)"],
    ['1.4#6', nodes('{key: a, rate_limit: {unit: day, replaces: [{name: x}, {}]}}'),
      'should not have an empty replaces entry (line 3)'],
    ['1.4#7', nodes('{key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}]}}'),
      'replaces should not contain name of same descriptor (line 3)'],
    ['1.4#8', nodes('{key: a, value: b, share_threshold: true}'),
      "share_threshold can only be used with wildcard values (containing '*'), but found key 'a_b' (line 3)"],
    ['1.4', nodes('{key: a, metadata: {x: .inf}}'),
      'error parsing metadata: number Infinity is not finite (line 3)'],
    ['1.4#9', nodes('{key: a, metadata: {x: [!!binary /w==]}}'),
      'error parsing metadata: invalid UTF-8 in string (line 3)'],
    ['1.4#10', nodes('{key: a, descriptors: [{key: b, descriptors: [{value: c}]}]}'),
      'descriptor has empty key (line 3)'],
  ] as const
  for (const [id, yaml, text] of cases) {
    test(`${id}: ${text}`, () => expect(getLoadError([yaml])).toBe(`0.yaml: ${text}`))
  }
})

describe('1.4 order', () => {
  test('of one node: key, duplicate, unit, replaces, share_threshold, metadata, children', () => {
    const wrong = [
      ['key: ""', 'key: a', 'empty key'],
      ['value: ""', 'value: ""', 'duplicate'],
      [
        'rate_limit: {unit: no, replaces: [{}]}',
        'rate_limit: {unit: day, replaces: [{}]}',
        'invalid rate limit unit',
      ],
      ['name: x', 'rate_limit: {replaces: []}', 'empty replaces'],
      ['share_threshold: true', 'share_threshold: false', 'share_threshold'],
      ['metadata: {x: .inf}', 'metadata: {x: 1}', 'metadata'],
      ['descriptors: [{value: x}]', 'descriptors: []', 'empty key'],
    ]
    for (let mended = 0; mended < wrong.length; mended++) {
      const fields = wrong.map(([bad, good], i) => (i < mended ? good : bad)).join(', ')
      const isAlone = mended > 1 // then the duplicate is gone
      const text = getLoadError([nodes(...(isAlone ? [] : ['key: a']), `{${fields}}`)])
      expect(text).toContain(wrong[mended][2])
    }
  })
  test("the duplicate comes before the limit's errors", () => {
    expect(getLoadError([nodes('key: a', '{key: a, rate_limit: {}}')])).toContain('duplicate descriptor')
  })
  test("a parent's errors come before its children's", () => {
    expect(getLoadError([nodes('{key: a, descriptors: [{value: x}], share_threshold: true}')])).toContain(
      'share_threshold',
    )
  })
  test("a child's errors come before the next sibling's", () => {
    expect(
      getLoadError([nodes('{key: a, descriptors: [{value: x}]}', '{key: b, rate_limit: {}}')]),
    ).toContain('empty key')
  })
  test('an unnamed rule with an empty replaces entry: empty comes first', () => {
    expect(getLoadError([nodes('{key: a, rate_limit: {unit: day, replaces: [{name: ""}]}}')])).toContain(
      'empty replaces',
    )
  })
})

test('1.4 accepted rules', () => {
  const domains = load([
    nodes(
      '{key: a, rate_limit: {unlimited: true, unit: foo, requests_per_unit: 4}}',
      '{key: b, rate_limit: {unit: WeEk, replaces: [{name: nobody}]}}',
      '{key: c, shadow_mode: true}',
      '{key: d, rate_limit: {unit: day, name: same}}',
      '{key: e, rate_limit: {unit: day, name: same}}',
    ),
  ])
  expect(`\n${new Trie(compile(domains))}\n`).toBe(`
d
  a                     unlimited
  b                     0/WEEK replaces "nobody"
  c
  d                     0/DAY "same"
  e                     0/DAY "same"
`)
})

describe('1.7 domains in several files', () => {
  const user = `domain: d\ndescriptors: [{key: user, value: a*, ${DAY}}, {key: user, ${DAY}}]`
  const path = `domain: d\ndescriptors: [{key: path, ${DAY}}, {key: user, value: ab*, ${DAY}}]`

  test('without merging', () => {
    expect(getLoadError([user, path])).toBe("1.yaml: duplicate domain 'd' in config file")
  })
  test('with merging, later wildcards come after earlier ones', () => {
    expect(`\n${new Trie(compile(load([user, 'domain: e', path], true)))}\n`).toBe(
      `
d
  user_a*               1/DAY
  user                  1/DAY
  path                  1/DAY
  user_ab*              1/DAY
e
`.replaceAll('1/DAY', '0/DAY'),
    )
  })
  test('children are not merged: the same node in two files is an error', () => {
    expect(getLoadError([user, `domain: d\ndescriptors:\n  - key: user`], true)).toBe(
      "1.yaml: duplicate descriptor composite key 'd.user' (line 3)",
    )
  })
})

test('bounds: 100 levels, not 101', () => {
  const deep = (levels: number) =>
    `domain: d\ndescriptors: ${'[{key: a, descriptors: '.repeat(levels)}${'}]'.repeat(levels)}`
  expect(load([deep(100)])).toHaveLength(1)
  expect(getLoadError([deep(101)])).toBe('0.yaml: descriptors are nested more than 100 deep (line 2)')
})
