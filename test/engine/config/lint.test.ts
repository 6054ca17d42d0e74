import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toCompositeKey } from '../../../engine/config/patterns.ts'
import type { RuleNode } from '../../../engine/config/rules.ts'
import type { UnreachableNode } from '../../../engine/config/unreachable-rules.ts'
import { findUnreachableNodes } from '../../../engine/config/unreachable-rules.ts'
import type { Entry } from '../../../proto/ratelimit.ts'
import { size } from '../../helpers/size.ts'
import { fits, naiveMatch } from '../match/naive.ts'
import { ruleDomain } from '../match/rules.ts'
import { arbitraryNodes, DAY, entry, lintNodes, lintWarnings } from './linting.ts'

describe('lint warnings about fields', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['{key: a, unit: day}',         'unit has no effect here; it belongs in rate_limit'],
    ['{key: a, rate_limit: {unit: day, requests_per_unit: 3, shadow_mode: true}}',
                                    'shadow_mode has no effect here; it belongs in a descriptor'],
    ['{key: a, rate_limit: {unit: day, requests_per_unit: 3, replaces: [{name: x, unit: day}]}}',
                                    'unit has no effect here; it belongs in rate_limit'],
    ['{key: a, domain: x}',         'domain has no effect here; it belongs in the top of the file'],
    ['{key: a, rate_limit: {unit: day}}',
                                    'requests_per_unit is missing, which means 0: every request is over the limit'],
    ['{key: a, rate_limit: {unit: day, requests_per_unit: }}',
                                    'requests_per_unit is missing, which means 0: every request is over the limit'],
  ] as const
  for (const [node, text] of cases) {
    test(node, async () => expect(await lintNodes(node)).toContain(`0.yaml: line 3: ${text}`))
  }
  test('no warning for valid rules', async () => {
    const fine = [
      `{key: a, ${DAY}}`,
      '{key: b, rate_limit: {unlimited: true}}',
      '{key: c, rate_limit: {unit: day, requests_per_unit: 0}}',
      '{key: d, metadata: {unit: x, foo: {key: y}}}',
    ]
    expect(await lintNodes(...fine)).toEqual([])
    // A key that only holds anchors is no mistake, and what aliases repeat is reported once.
    const limit = 'metadata: {name: &l {unit: day, requests_per_unit: 1}}'
    const kept = `domain: d\nkey: &k {unit: day}\n${limit}\ndescriptors: [{key: a, rate_limit: *l}]`
    expect(await lintWarnings(kept)).toEqual([])
    expect(
      await lintWarnings(
        'domain: d\ndescriptors: [{key: x, descriptors: [&a {key: a, unit: day}, {<<: *a, key: b}]}]',
      ),
    ).toEqual(['0.yaml: line 2: unit has no effect here; it belongs in rate_limit'])
  })
})

describe('2.6 replaces', () => {
  const rule = (key: string, more: string) =>
    `{key: ${key}, rate_limit: {unit: day, requests_per_unit: 1, ${more}}}`
  test('a name that no rule of the domain has', async () => {
    const nodes = [rule('a', 'name: x, replaces: [{name: y}, {name: z}]'), rule('b', 'name: y')]
    expect(await lintNodes(...nodes)).toEqual([
      "0.yaml: line 3: replaces 'z', but no rule of domain 'd' has that name",
    ])
  })
  test('a rule of another domain is another rule, a rule of another file is not', async () => {
    const a = `domain: d\ndescriptors:\n  - ${rule('a', 'name: x, replaces: [{name: y}]')}`
    const b = `descriptors:\n  - ${rule('b', 'name: y')}`
    expect(await lintWarnings(a, `domain: d\n${b}`)).toEqual([])
    expect(await lintWarnings(a, `domain: e\n${b}`)).toHaveLength(1)
  })
  test('an unlimited rule is never replaced', async () => {
    const nodes = [rule('a', 'replaces: [{name: y}]'), '{key: b, rate_limit: {unlimited: true, name: y}}']
    expect(await lintNodes(...nodes)).toEqual([
      "0.yaml: line 3: replaces 'y', but only unlimited rules have that name, and those are never replaced",
    ])
  })
})

describe('2.2 rules that no request matches', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    [['{key: k}', '{key: k, value: "*"}'],
      "line 3: 'd.k' can never match: 'k_*' matches all others first"],
    [['{key: "path*"}', '{key: path}'],
      "line 4: 'd.path' can never match: 'path*' matches all others first"],
    [['{key: "pa*"}', '{key: "path*"}'],
      "line 4: 'd.path*' can never match: 'pa*' matches all others first"],
    [['{key: k, value: f*}', '{key: k, value: fo*}'],
      "line 4: 'd.k_fo*' matches only a request whose key and value form 'k_fo*': 'k_f*' matches all others first"],
    [['{key: user_id}', '{key: user_id, value: "*"}'],
      "line 3: 'd.user_id' matches only a request whose key and value form 'user_id': 'user_id_*' matches all others first"],
    [['{key: x, descriptors: [{key: k, descriptors: [{key: c}]}, {key: k, value: "*"}]}'],
      "line 3: 'd.x.k' can never match: 'k_*' matches all others first"],
    [['{key: !!binary /w==}'], "line 3: 'd.\udcff' can never match: it is not valid UTF-8, and requests are"],
  ] as const
  for (const [nodes, text] of cases) {
    test(text, async () => expect(await lintNodes(...nodes)).toEqual([`0.yaml: ${text}`]))
  }
  test('a pattern with several stars is reachable while one of them can match the underscore', async () => {
    const nodes = ['{key: "*", value: "*a*"}', '{key: "*a*"}']
    expect(await lintNodes(...nodes)).toEqual([])
    expect(await lintNodes(nodes[0], '{key: "*a*", value: "*"}', nodes[1])).toEqual([
      "0.yaml: line 5: 'd.*a*' can never match: '*a*_*' matches all others first",
    ])
  })
  test('a pattern after a narrower one, beside one, or of another key is reachable', async () => {
    const nodes = [
      '{key: k, value: fo*}',
      '{key: k, value: f*}',
      '{key: k, value: "*o"}',
      '{key: j}',
      '{key: k}',
    ]
    expect(await lintNodes(...nodes)).toEqual([])
  })
  test('the examples have no lint warnings', async () => {
    const { readdirSync, readFileSync } = await import('node:fs')
    const dir = new URL('../../../examples/config/', import.meta.url)
    const files = readdirSync(dir).map((name) => readFileSync(new URL(name, dir), 'utf8'))
    expect(await lintWarnings(...files)).toEqual([])
  })
})

test('lint warnings beyond the maximum are counted', async () => {
  const nodes = Array.from({ length: 1_100 }, (_, i) => `{key: k${i}, unit: day}`)
  const warnings = await lintNodes(...nodes)
  expect(warnings).toHaveLength(1_001)
  expect(warnings.at(-1)).toBe('100 more warnings')
})

test('the number of comparisons is bounded; a warning says that some were skipped', async () => {
  const nodes = Array.from({ length: 2_500 }, (_, i) => `{key: k, value: 'x*-${i}-'}`)
  expect((await lintNodes(...nodes)).at(-1)).toContain('too many rules to compare all pairs')
})

/** The node that an entry matches among siblings, by the text of the specification, and the kind of match. */
function findMatched(siblings: RuleNode[], { key, value }: Entry): { node: RuleNode; how: string } | null {
  const text = `${key}_${value}`
  const exact = siblings.find((node) => toCompositeKey(node) === text)
  if (exact) return { node: exact, how: 'exact' }
  const wildcard = siblings.find(
    (node) => toCompositeKey(node).includes('*') && fits(toCompositeKey(node), text),
  )
  if (wildcard) return { node: wildcard, how: 'wildcard' }
  const other = siblings.find((node) => toCompositeKey(node) === key)
  return other ? { node: other, how: 'default' } : null
}

test('property, 2.2: an unreachable node is matched only as its warning says, and every other node is matched', () => {
  fc.assert(
    fc.property(arbitraryNodes(1), fc.array(entry, { maxLength: 40 }), (siblings, entries) => {
      const closed = new Map(
        findUnreachableNodes(siblings, { left: 1_000_000 }).map((found) => [found.node, found]),
      )
      for (const request of [...entries, ...siblings.flatMap(witnesses)]) {
        const found = findMatched(siblings, request)
        const warning = found && closed.get(found.node)
        if (warning) expect(found.how === 'exact' ? warning.isExactOpen : warning.isDefaultOpen).toBe(true)
        if (warning && found.how === 'wildcard')
          expect.fail(`${JSON.stringify(request)} matches ${warning.composite}`)
      }
      for (const node of siblings) {
        const isMatched = witnesses(node).some((request) => {
          const found = findMatched(siblings, request)
          return found?.node === node && found.how === getIntendedKind(node)
        })
        expect(isMatched).toBe(!closed.has(node))
      }
    }),
    { numRuns: size({ small: 1_000, full: 500_000 }) },
  )
})

function getIntendedKind(node: RuleNode): string {
  if (toCompositeKey(node).includes('*')) return 'wildcard'
  return node.value === '' ? 'default' : 'exact'
}

/** Requests that match a node unless another one does: each star is a character that no rule contains. */
function witnesses(node: RuleNode): Entry[] {
  const composite = toCompositeKey(node)
  const parts = composite.split('*')
  const texts = [composite, `${composite}_◊`, parts.join('◊')]
  for (let i = 1; i < parts.length; i++)
    texts.push(`${parts.slice(0, i).join('◊')}◊_◊${parts.slice(i).join('◊')}`)
  return texts.flatMap((text) => {
    const splits = [...text.matchAll(/_/g)].map(({ index }) => index)
    return splits.map((at) => ({ key: text.slice(0, at), value: text.slice(at + 1) }))
  })
}

test('property, 2.2: without the nodes that can never match, every request matches the same rule', () => {
  fc.assert(
    fc.property(
      arbitraryNodes(2),
      fc.array(fc.array(entry, { minLength: 1, maxLength: 3 })),
      (nodes, requests) => {
        const all = [ruleDomain('d', ...nodes)]
        const left = [ruleDomain('d', ...withoutNever(nodes))]
        for (const request of requests) {
          expect(naiveMatch(left, 'd', request)).toEqual(naiveMatch(all, 'd', request))
        }
      },
    ),
    { numRuns: size({ small: 1_000, full: 200_000 }) },
  )
})

function withoutNever(siblings: RuleNode[]): RuleNode[] {
  const isNever = ({ isExactOpen, isDefaultOpen }: UnreachableNode) => !isExactOpen && !isDefaultOpen
  const never = new Set(
    findUnreachableNodes(siblings, { left: 1_000_000 })
      .filter(isNever)
      .map(({ node }) => node),
  )
  const left = siblings.filter((node) => !never.has(node))
  return left.map((node) => ({ ...node, children: withoutNever(node.children) }))
}
