import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Match, RuleDomain, RuleNode } from '../../../engine/config/rules.ts'
import { compile } from '../../../engine/match/compile.ts'
import { HASH_START, hashByte } from '../../../engine/match/image.ts'
import { Trie } from '../../../engine/match/trie.ts'
import type { Entry } from '../../../proto/ratelimit.ts'
import { Unit } from '../../../proto/ratelimit.ts'
import { size } from '../../helpers/size.ts'
import { matchPlain } from './match-plain.ts'
import { naiveMatch, toCompositeKey } from './naive.ts'
import { limited, parseEntries, ruleDomain, ruleLimit, ruleNode } from './rules.ts'

function lookUp(trie: Trie, domain: string, entries: Entry[]) {
  const out: Match = { rule: null, statsKey: '', sharedValues: ['left', 'over'] }
  if (!trie.match(trie.domain(domain), entries, out)) {
    expect(out.rule).toBeNull()
    return null
  }
  const { rule, statsKey, sharedValues } = out
  return { path: rule!.path, statsKey, sharedValues: sharedValues.slice(0, entries.length) }
}

function compileTrie(...nodes: RuleNode[]): Trie {
  return new Trie(compile([ruleDomain('d', ...nodes)]))
}

describe('A.2 depth', () => {
  const trie = compileTrie(limited({ key: 'deep', children: [limited({ key: 'in' })] }))
  // biome-ignore format: the columns are the specification
  const cases = [
    ['A.2#1 12#44', 'deep=1',           'd.deep'],
    ['A.2#2 12#44', 'deep=1 in=2',      'd.deep.in'],
    ['A.2#3 12#44', 'deep=1 x=2',       null],
    ['A.2#4',       'deep=1 in=2 z=3',  null],
    ['A.2#5',       'in=2',             null],
  ] as const
  for (const [id, entries, path] of cases) {
    test(`${id}: ${entries} -> ${path}`, () => {
      expect(lookUp(trie, 'd', parseEntries(entries))?.path ?? null).toBe(path)
    })
  }
})

describe('A.1 precedence: exact, then wildcards in load order, then default', () => {
  const trie = compileTrie(
    limited({ key: 'k' }),
    limited({ key: 'k', value: 'foo' }),
    limited({ key: 'k', value: 'f*' }),
    limited({ key: 'k', value: 'fo*' }),
  )
  // biome-ignore format: the columns are the specification
  const cases = [
    ['foo', 'd.k_foo'],
    ['fox', 'd.k_f*'],
    ['fo*', 'd.k_fo*'], // the pattern's own text is an exact match
    ['bar', 'd.k'],
    ['',    'd.k'],
    ['Foo', 'd.k'],
  ] as const
  for (const [value, path] of cases) {
    test(`k=${value} -> ${path}`, () => {
      expect(lookUp(trie, 'd', [{ key: 'k', value }])?.path).toBe(path)
    })
  }
})

describe('2.2 consequences', () => {
  test('no entries, no limit', () => expect(lookUp(compileTrie(limited({ key: 'a' })), 'd', [])).toBeNull())

  test('an unknown domain has node -1 and no limit; names are case-sensitive', () => {
    const trie = compileTrie(limited({ key: 'a' }))
    expect(trie.domain('D')).toBe(-1)
    expect(trie.domain('')).toBe(-1)
    expect(trie.domain('d_a')).toBe(-1)
    expect(lookUp(trie, 'D', parseEntries('a=1'))).toBeNull()
    expect(trie.domain('d')).toBeGreaterThan(0)
  })

  test('no backtracking: an exact node without the child hides the default node that has it', () => {
    const below = () => [limited({ key: 'b' })]
    const trie = compileTrie(
      ruleNode({ key: 'a', value: '1', children: [limited({ key: 'c' })] }),
      ruleNode({ key: 'a', children: below() }),
    )
    expect(lookUp(trie, 'd', parseEntries('a=1 b=2'))).toBeNull()
    expect(lookUp(trie, 'd', parseEntries('a=2 b=2'))?.path).toBe('d.a.b')
  })

  test('an exact node without limit exempts its value from the default limit', () => {
    const trie = compileTrie(limited({ key: 'a' }), ruleNode({ key: 'a', value: '1' }))
    expect(lookUp(trie, 'd', parseEntries('a=1'))).toBeNull()
    expect(lookUp(trie, 'd', parseEntries('a=2'))?.path).toBe('d.a')
  })

  test('composite texts are ambiguous, and so are matches', () => {
    const trie = compileTrie(limited({ key: 'a', value: 'b_c' }), limited({ key: 'x', value: 'y' }))
    expect(lookUp(trie, 'd', parseEntries('a=b_c'))?.path).toBe('d.a_b_c')
    expect(lookUp(trie, 'd', parseEntries('a_b=c'))?.path).toBe('d.a_b_c')
    expect(lookUp(trie, 'd', parseEntries('x_y=anything'))?.path).toBe('d.x_y') // by the default look-up
  })

  test('value "*" matches the empty value too and precedes the node without value', () => {
    const trie = compileTrie(limited({ key: 'a' }), limited({ key: 'a', value: '*' }))
    expect(lookUp(trie, 'd', parseEntries('a='))?.path).toBe('d.a_*')
  })

  test('12#19: a star in the key matches other keys', () => {
    const trie = compileTrie(limited({ key: 'path*' }))
    expect(lookUp(trie, 'd', parseEntries('path=x'))?.path).toBe('d.path*')
    expect(lookUp(trie, 'd', parseEntries('pathology=x'))).toEqual({
      path: 'd.path*',
      statsKey: 'd.pathology_path*',
      sharedValues: [''],
    })
  })

  test('texts beyond ASCII and longer than the reused buffer', () => {
    const long = 'é😀€'.repeat(20_000)
    const trie = compileTrie(limited({ key: 'ключ', value: '😀' }), limited({ key: 'k', value: 'é*€' }))
    expect(lookUp(trie, 'd', parseEntries('ключ=😀'))?.path).toBe('d.ключ_😀')
    expect(lookUp(trie, 'd', parseEntries(`k=${long}`))?.path).toBe('d.k_é*€')
    expect(lookUp(trie, 'd', parseEntries(`k=${long}x`))).toBeNull()
  })

  test('a byte that is not UTF-8 stays that byte, which no request contains', () => {
    const trie = compileTrie(limited({ key: 'k', value: '\udcff' }), limited({ key: 'k', value: 'a\udcfe*' }))
    for (const value of ['\udcff', '\ufffd', 'a\ufffdb', 'a\udcfe']) {
      expect(lookUp(trie, 'd', [{ key: 'k', value }])).toBeNull()
    }
  })

  test('half a surrogate pair is U+FFFD, in rules and in requests', () => {
    const trie = compileTrie(limited({ key: 'k', value: '\ud800' }))
    expect(lookUp(trie, 'd', [{ key: 'k', value: '\udc00' }])?.path).toBe('d.k_\ufffd')
    expect(lookUp(trie, 'd', [{ key: 'k', value: '\ufffd' }])?.path).toBe('d.k_\ufffd')
  })
})

describe('2.3 stats keys', () => {
  const v2m = { hasValueToMetric: true }
  const share = { hasShareThreshold: true }
  const detailed = { hasDetailedMetric: true }
  // biome-ignore format: the columns are the specification
  const cases: [string, RuleNode, string, string, string[]][] = [
    ['2.3#4: exact, below a level that shows its value',
      ruleNode({ key: 'a', ...v2m, children: [limited({ key: 'b', value: 'x' })] }),
      'a=1 b=x', 'd.a_1.b_x', ['', '']],
    ['2.3#5: default with value_to_metric', limited({ key: 'k', ...v2m }), 'k=1', 'd.k_1', ['']],
    ['2.3#6: default without', limited({ key: 'k' }), 'k=1', 'd.k', ['']],
    ['2.3#3: wildcard without, below a level that shows its value',
      ruleNode({ key: 'a', ...v2m, children: [limited({ key: 'b', value: 'x*' })] }),
      'a=1 b=xy', 'd.a_1.b_x*', ['', '']],
    ['2.3#3 2.3#7: wildcard', limited({ key: 'wild', value: 'foo*' }), 'wild=foo1', 'd.wild_foo*', ['']],
    ['2.3#2 2.3#8: wildcard, value_to_metric', limited({ key: 'wild', value: 'foo*', ...v2m }), 'wild=foo1', 'd.wild_foo1', ['']],
    ['2.3#1 2.3#9: share beats value_to_metric',
      limited({ key: 'wild', value: 'foo*', ...v2m, ...share }), 'wild=foo1', 'd.wild_foo*', ['foo*']],
    ['2.3#10 12#33: share above a default node',
      ruleNode({ key: 'route', value: 'api/*', ...v2m, ...share, children: [limited({ key: 'method' })] }),
      'route=api/v1 method=GET', 'd.route_api/*.method', ['api/*', '']],
    ['2.3#11: share above a detailed node',
      ruleNode({ key: 'service', value: 'svc/*', ...share, children: [limited({ key: 'endpoint', ...detailed })] }),
      'service=svc/a endpoint=get', 'd.service_svc/*.endpoint_get', ['svc/*', '']],
    ['2.3#12: two shares',
      ruleNode({ key: 'path', value: 'path/*', ...share, children: [
        ruleNode({ key: 'file', value: 'file/*', ...share, children: [limited({ key: 'type' })] }),
      ] }),
      'path=path/1 file=file/2 type=x', 'd.path_path/*.file_file/*.type', ['path/*', 'file/*', '']],
    ['2.3#13: value_to_metric on two of three levels',
      ruleNode({ key: 'route', ...v2m, children: [
        ruleNode({ key: 'http_method', ...v2m, children: [limited({ key: 'subject_id' })] }),
      ] }),
      'route=api http_method=GET subject_id=123', 'd.route_api.http_method_GET.subject_id', ['', '', '']],
    ['2.3#14: detailed', limited({ key: 'key7', ...detailed }), 'key7=foo', 'd.key7_foo', ['']],
    ['detailed, empty value keeps the underscore', limited({ key: 'k', ...detailed }), 'k=', 'd.k_', ['']],
    ['detailed below a share, empty value loses it',
      ruleNode({ key: 's', value: 'x*', ...share, children: [limited({ key: 'k', ...detailed })] }),
      's=xy k=', 'd.s_x*.k', ['x*', '']],
    ['exact with an empty value', limited({ key: 'k_' }), 'k=', 'd.k', ['']],
    ['value_to_metric without a value', limited({ key: 'k', ...v2m }), 'k=', 'd.k', ['']],
  ]
  for (const [name, node, entries, statsKey, sharedValues] of cases) {
    test(`${name}: ${statsKey}`, () => {
      const found = lookUp(compileTrie(node), 'd', parseEntries(entries))
      expect(found).toMatchObject({ statsKey, sharedValues })
    })
  }

  for (const [flag, given] of Object.entries({ detailed_metric: detailed, value_to_metric: v2m })) {
    test(`12#8: metadata stays with ${flag}`, () => {
      const metadata = { a: { b: [1, 'x', null, true] } }
      const out: Match = { rule: null, statsKey: '', sharedValues: [] }
      const trie = compileTrie(limited({ key: 'k', metadata, ...given }))
      trie.match(trie.domain('d'), parseEntries('k=1'), out)
      expect(out).toMatchObject({ statsKey: 'd.k_1', rule: { metadata } })
    })
  }
})

test('the image keeps every field of a rule; rule objects are created once', () => {
  const limit = ruleLimit({
    name: 'n',
    requestsPerUnit: 4_294_967_295,
    unit: Unit.Week,
    replaces: ['a', 'b c'],
  })
  const trie = compileTrie(
    limited({ key: 'k', limit, isShadow: true, isQuota: true, onStoreError: 'local', localShare: 100 }),
    limited({ key: 'l', onStoreError: 'error' }),
    limited({ key: 'm', localShare: 1 }),
  )
  const [rule, ...others] = trie.rules()
  expect(rule).toEqual({
    id: 0,
    path: 'd.k',
    limit: { name: 'n', requestsPerUnit: 4_294_967_295, unit: Unit.Week },
    isUnlimited: false,
    isShadow: true,
    isQuota: true,
    onStoreError: 'local',
    localShare: 100,
    replaces: ['a', 'b c'],
    metadata: null,
  })
  expect(trie.rule(0)).toBe(rule)
  expect(others).toMatchObject([
    { isShadow: false, isQuota: false, onStoreError: 'error', localShare: null },
    { isShadow: false, isQuota: false, onStoreError: null, localShare: 1 },
  ])
})

test('a node knows its place, key, value, and the way to it', () => {
  const places = { file: 'limits/shop.yaml', line: 7 }
  const child = limited({ key: 'path', value: '/a_b', file: 'limits/überall.yaml', line: 12 })
  const trie = new Trie(
    compile([
      ruleDomain('other', limited({ key: 'x' })),
      ruleDomain('shop', ruleNode({ key: 'user_id', value: '7', ...places, children: [child] })),
    ]),
  )
  const [, rule] = trie.rules()
  const [domain, user, path] = trie.getRuleNodes(rule)
  expect(trie.getRuleNodes(rule)).toHaveLength(3)
  expect([domain, user, path].map((node) => trie.getText(node))).toEqual(['shop', 'user_id_7', 'path_/a_b'])
  expect([domain, user, path].map((node) => trie.getDepth(node))).toEqual([0, 1, 2])
  expect([user, path].map((node) => trie.getPlace(node))).toEqual([
    places,
    { file: 'limits/überall.yaml', line: 12 },
  ])
  expect([user, path].map((node) => trie.getKeyAndValue(node))).toEqual([
    { key: 'user_id', value: '7' },
    { key: 'path', value: '/a_b' },
  ])
  expect(trie.getKeyAndValue(trie.getRuleNodes(trie.rule(0))[1])).toEqual({ key: 'x', value: '' })
  expect([trie.domainOfRule(rule), trie.getDomainName(user)]).toEqual(['shop', 'shop'])
  expect([trie.getRule(user), trie.getRule(path)]).toEqual([null, rule])
})

test('texts of equal hash are distinct', () => {
  const [one, other] = ['user_0wl8', 'user_xqd6'] // found by search; other texts for another hash
  const hash = (text: string) => [...Buffer.from(text)].reduce(hashByte, HASH_START)
  expect(hash(one)).toBe(hash(other))
  const trie = compileTrie(limited({ key: one }))
  expect(lookUp(trie, 'd', [{ key: one, value: '1' }])?.path).toBe(`d.${one}`)
  expect(lookUp(trie, 'd', [{ key: other, value: '1' }])).toBeNull()
  const both = compileTrie(limited({ key: one }), limited({ key: other }))
  for (const key of [one, other]) expect(lookUp(both, 'd', [{ key, value: '1' }])?.path).toBe(`d.${key}`)
})

test('texts at the end of the reused buffer of 64 KiB', () => {
  const name = '€'.repeat(30_000)
  const trie = new Trie(compile([ruleDomain(name, limited({ key: 'k', value: '€*€' }))]))
  for (const length of [21_840, 21_843, 21_844, 21_845, 21_846, 21_847])
    expect(lookUp(trie, name, [{ key: 'k', value: '€'.repeat(length) }])?.path).toBe(`${name}.k_€*€`)
  for (const length of [21_843, 21_844, 21_845, 21_846]) {
    const wide = compileTrie(limited({ key: '€', value: '€'.repeat(length) }))
    expect(lookUp(wide, 'd', [{ key: '€', value: '€'.repeat(length) }])?.path).toHaveLength(length + 4)
  }
})

test('a domain without descriptors is known and limits nothing', () => {
  const image = compile([ruleDomain('empty')])
  expect(image).toMatchObject({ rulesCount: 0, domainsCount: 1 })
  const trie = new Trie(image)
  expect(trie.domain('empty')).toBeGreaterThan(0)
  expect(lookUp(trie, 'empty', parseEntries('a=1'))).toBeNull()
  expect([...new Trie(compile([])).rules()]).toEqual([])
})

test('memory that is not an image is refused', () => {
  const image = { memory: new SharedArrayBuffer(64), rulesCount: 0, domainsCount: 0 }
  expect(() => new Trie(image)).toThrow('no rules image')
})

test('a trie as text', () => {
  const trie = new Trie(
    compile([
      ruleDomain(
        'shop',
        limited({ key: 'user', isShadow: true }),
        limited({ key: 'user', value: 'admin', limit: ruleLimit({ isUnlimited: true }) }),
        ruleNode({
          key: 'path',
          value: '/api/*',
          hasShareThreshold: true,
          children: [limited({ key: 'method', limit: ruleLimit({ name: 'writes', replaces: ['reads'] }) })],
        }),
      ),
      ruleDomain(
        'mail',
        limited({ key: 'to', isQuota: true, hasDetailedMetric: true, metadata: { a: 1 } }),
        limited({ key: 'from', hasValueToMetric: true, onStoreError: 'local', localShare: 25 }),
      ),
    ]),
  )
  expect(`\n${trie}\n`).toBe(`
shop
  user                  1/SECOND shadow
  user_admin            unlimited
  path_/api/*           share_threshold
    method              1/SECOND "writes" replaces "reads"
mail
  to                    1/SECOND quota metadata {"a":1} detailed_metric
  from                  1/SECOND on_store_error local local_share 25 value_to_metric
`)
})

test('property, section 2: the trie agrees with the specification', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'a', 'b', '_', '*', 'é', '😀', '\ud800', '.'),
    maxLength: 4,
  })
  const leaf = fc.record({
    key: fc.oneof(
      fc.constantFrom('a', 'b', 'a_b', 'a*'),
      text.filter((key) => key !== ''),
    ),
    value: fc.oneof(fc.constantFrom('', 'b', 'b_a', '*', 'a*b', 'b*'), text),
    limit: fc.option(fc.constant(ruleLimit()), { freq: 4 }),
    isShadow: fc.boolean(),
    hasDetailedMetric: fc.boolean(),
    hasValueToMetric: fc.boolean(),
    hasShareThreshold: fc.boolean(),
  })
  const nodes = (depth: number): fc.Arbitrary<RuleNode[]> =>
    fc.uniqueArray(
      fc.tuple(leaf, depth > 0 ? nodes(depth - 1) : fc.constant<RuleNode[]>([])).map(([given, children]) => {
        const hasShareThreshold = given.hasShareThreshold && toCompositeKey(given).includes('*')
        return ruleNode({ ...given, hasShareThreshold, children })
      }),
      // the trie compares bytes, where half a pair is U+FFFD
      { maxLength: depth === 2 ? 8 : 4, selector: (node) => toCompositeKey(node).toWellFormed() },
    )
  const entry = fc.record({
    key: fc.oneof(fc.constantFrom('a', 'b', 'a_b', 'ab'), text),
    value: fc.oneof(fc.constantFrom('', 'b', 'a', 'b_a', 'ab', 'bab'), text),
  })
  const entries = fc.array(entry, { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(nodes(2), fc.array(entries, { minLength: 1, maxLength: 8 }), (top, requests) => {
      const domains: RuleDomain[] = [ruleDomain('d', ...top), ruleDomain('d.a', limited({ key: 'a' }))]
      const trie = new Trie(compile(domains))
      for (const domain of ['d', 'd.a', 'x']) {
        for (const request of requests) {
          const expected = naiveMatch(domains.map(wellFormed), domain, wellFormed(request))
          const found = wellFormed(lookUp(trie, domain, request))
          if (!isDeepStrictEqual(found, expected)) expect(found).toEqual(expected) // toEqual is slow
          if (domain !== 'd') continue
          const plain = matchPlain(trie, domain, request)
          const isPlain =
            found !== null && found.statsKey === found.path && found.sharedValues.join('') === ''
          if (plain !== 'renamed') expect(plain.toWellFormed()).toBe(isPlain ? found.path : 'none')
        }
      }
    }),
    { numRuns: size({ small: 500, full: 30_000 }) },
  )
})

/** The same with each half of a surrogate pair as U+FFFD, in every string. */
function wellFormed<T>(value: T): T {
  return JSON.parse(JSON.stringify(value).replaceAll(/\\ud[89ab][0-9a-f]{2}/g, '\ufffd'))
}
