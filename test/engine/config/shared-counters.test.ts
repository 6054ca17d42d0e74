import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toCompositeKey } from '../../../engine/config/patterns.ts'
import type { RuleDomain, RuleNode } from '../../../engine/config/rules.ts'
import { findSharedCounters } from '../../../engine/config/shared-counters.ts'
import type { Entry } from '../../../proto/ratelimit.ts'
import { size } from '../../helpers/size.ts'
import { naiveMatch } from '../match/naive.ts'
import { limited, ruleDomain } from '../match/rules.ts'
import { arbitraryNodes, DAY, lintNodes, lintWarnings } from './linting.ts'

describe('3.1 rules that share a counter', () => {
  const units = (a: string, b: string) => [
    `{key: a, value: b_c_d, rate_limit: {unit: ${a}, requests_per_unit: 1}}`,
    `{key: a, descriptors: [{key: c, rate_limit: {unit: ${b}, requests_per_unit: 1}}]}`,
  ]
  // biome-ignore format: the columns are the specification
  const cases = [
    ['day',    'day',   'always'],
    ['minute', 'hour',  'in the first minute of each hour'],
    ['hour',   'minute', 'in the first minute of each hour'],
    ['week',   'month', 'whenever a week and a month begin together'],
  ] as const
  for (const [a, b, when] of cases) {
    test(`a=b_c_d per ${a} and a=b, c=d per ${b}: ${when}`, async () => {
      expect(await lintNodes(...units(a, b))).toEqual([
        `0.yaml: line 3: 'd.a_b_c_d' and 'd.a.c' (0.yaml: line 4) requested with a=b, c=d share a counter ${when}`,
      ])
    })
  }
  test('across domains, reported once', async () => {
    const a = `domain: shop\ndescriptors: [{key: eu_a, value: x, ${DAY}}]`
    const b = `domain: shop_eu\ndescriptors: [{key: a, value: x, ${DAY}}]`
    expect(await lintWarnings(a, b)).toEqual([
      "0.yaml: line 2: 'shop.eu_a_x' and 'shop_eu.a_x' (1.yaml: line 2) requested with a=x share a counter always",
    ])
  })
  test('a shared pattern is a fixed text too', async () => {
    const shared = `{key: p, value: 'x*', share_threshold: true, ${DAY}}`
    const nested = `{key: p, descriptors: [{key: q, ${DAY}}]}`
    expect(await lintNodes(shared.replace('x*', 'x*_q_1'), nested)).toEqual([
      "0.yaml: line 3: 'd.p_x*_q_1' and 'd.p.q' (0.yaml: line 4) requested with p=x*, q=1 share a counter always",
    ])
    expect(await lintNodes(shared, nested)).toEqual([])
  })
  test('rules that count nothing share no counter', async () => {
    const unlimited = '{key: a, value: b_c_d, rate_limit: {unlimited: true}}'
    expect(await lintNodes(unlimited, units('day', 'day')[1])).toEqual([])
  })
})

describe("3.1 counters that clients' values can reach", () => {
  const reaches = "a value chosen by clients can reach another rule's counter:"
  const nested = (...below: string[]) => `{key: user, ${DAY}, descriptors: [${below.join(', ')}]}`

  test('user=7_plan_free has the key of user=7, plan=free', async () => {
    expect(await lintNodes(nested(`{key: plan, value: free, ${DAY}}`))).toEqual([
      `0.yaml: line 3: ${reaches} 'd.user' requested with user=7_plan_free and 'd.user.plan_free' (0.yaml: line 3) requested with user=7, plan=free share a counter always`,
    ])
  })
  test('one warning per rule, whatever the number of rules it reaches', async () => {
    const below = [`{key: plan, ${DAY}}`, `{key: path, value: /a*, ${DAY}}`, `{key: x, value: y, ${DAY}}`]
    expect(await lintNodes(nested(...below))).toEqual([
      `0.yaml: line 3: ${reaches} 'd.user' requested with user=7_plan_7 and 'd.user.plan' (0.yaml: line 3) requested with user=7, plan=7 share a counter always; it reaches 2 more in the same way`,
    ])
  })
  test('keys of which one opens the other, and in which windows', async () => {
    const nodes = ['{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}', `{key: user_id, ${DAY}}`]
    expect(await lintNodes(...nodes)).toEqual([
      `0.yaml: line 3: ${reaches} 'd.user' requested with user=id_7 and 'd.user_id' (0.yaml: line 4) requested with user_id=7 share a counter in the first hour of each day`,
    ])
  })
  test('across domains', async () => {
    const a = `domain: shop\ndescriptors: [{key: eu, ${DAY}}]`
    const b = `domain: shop_eu\ndescriptors: [{key: user, ${DAY}}]`
    expect(await lintWarnings(a, b)).toEqual([
      `0.yaml: line 2: ${reaches} 'shop.eu' requested with eu=user_7 and 'shop_eu.user' (1.yaml: line 2) requested with user=7 share a counter always`,
    ])
  })
  // biome-ignore format: a table
  const closed = [
    ['values fixed by the rules',      `{key: plan, value: free, ${DAY}, descriptors: [{key: user, ${DAY}}]}`],
    ['a parent without a limit',             `{key: user, descriptors: [{key: plan, ${DAY}}]}`],
    ['a parent without any limit',           `{key: user, rate_limit: {unlimited: true}, descriptors: [{key: plan, ${DAY}}]}`],
    ['a pattern that matches the unusual values',  `{key: user, ${DAY}, descriptors: [{key: plan, ${DAY}}]}, {key: user, value: '*_*'}`],
    ['one key for all values',               `{key: user, value: '*', share_threshold: true, ${DAY}, descriptors: [{key: plan, ${DAY}}]}`],
    ['other keys',                           `{key: user, ${DAY}}, {key: address, ${DAY}, descriptors: []}`],
  ] as const
  for (const [what, nodes] of closed) {
    test(`no warning for ${what}`, async () => {
      expect(await lintWarnings(`domain: d\ndescriptors: [${nodes}]`)).toEqual([])
    })
  }
})

/** Text of the counter key without the window, and the rule, of a request. */
function getCounterKey(domains: RuleDomain[], domain: string, entries: Entry[]) {
  const found = naiveMatch(domains, domain, entries)
  if (!found) return null
  const texts = entries.map(({ key, value }, i) => `${key}_${found.sharedValues[i] || value}`)
  const composites = found.path.split('.').slice(1)
  const isKeyOpen = found.sharedValues.some((shared, i) => shared !== '' && texts[i] !== composites[i])
  return { text: `${[domain, ...texts].join('_')}_`, path: found.path, isKeyOpen }
}

test('property, 3.1: reported rules do share a counter, with the entries named; all that do are reported', () => {
  const trees = fc.tuple(arbitraryNodes(2), arbitraryNodes(2))
  const domains = trees.map(([a, b]) => [ruleDomain('d', ...a), ruleDomain('d_a', ...b)])
  fc.assert(
    fc.property(domains, (rules) => {
      const shared = [...findSharedCounters(rules, { left: 1_000_000 })]
      for (const { path, ruleEntries, isOpen, otherPath, entries } of shared) {
        const other = getCounterKey(rules, getDomain(otherPath), [...entries])
        expect(other?.path).toBe(otherPath)
        if (isOpen)
          expect(getCounterKey(rules, getDomain(path), [...ruleEntries])).toMatchObject({
            path,
            text: other?.text,
          })
        else expect(other?.text).toBe(`${writtenText(path)}_`)
      }
      for (const { path, text } of writtenOut(rules)) {
        for (const { name } of rules) {
          if (!text.startsWith(`${name}_`)) continue
          for (const entries of readings(text.slice(name.length + 1))) {
            const other = getCounterKey(rules, name, entries)
            if (!other || other.text !== text || other.isKeyOpen || other.path === path) continue
            const isReported = shared.some((each) => {
              const pair = [each.path, each.otherPath]
              return pair.includes(path) && pair.includes(other.path)
            })
            expect(isReported || isUnlimited(rules, other.path)).toBe(true)
          }
        }
      }
    }),
    { numRuns: size({ small: 1_000, full: 100_000 }) },
  )
})

function getDomain(path: string): string {
  return path.slice(0, path.indexOf('.'))
}

/** All entries whose keys and values, each followed by `_`, read like this. */
function readings(text: string): Entry[][] {
  const bars = [...text.matchAll(/_/g)].map(({ index }) => index)
  return bars.flatMap((end, i) =>
    bars.slice(0, i).flatMap((at) => {
      const first = { key: text.slice(0, at), value: text.slice(at + 1, end) }
      if (end === text.length - 1) return [[first]]
      return readings(text.slice(end + 1)).map((others) => [first, ...others])
    }),
  )
}

/** A path as key text: levels are joined by `_` there. Domains and values hold no dots here. */
function writtenText(path: string): string {
  return path.replaceAll('.', '_')
}

function writtenOut(domains: RuleDomain[]): { path: string; text: string }[] {
  const found: { path: string; text: string }[] = []
  const walk = (nodes: RuleNode[], path: string) => {
    for (const node of nodes) {
      if (node.value === '' || node.key.includes('*')) continue
      if (node.value.includes('*') && !node.hasShareThreshold) continue
      const below = `${path}.${toCompositeKey(node)}`
      if (node.limit && !node.limit.isUnlimited) found.push({ path: below, text: `${writtenText(below)}_` })
      walk(node.children, below)
    }
  }
  for (const { name, nodes } of domains) walk(nodes, name)
  return found
}

function isUnlimited(domains: RuleDomain[], path: string): boolean {
  const search = (nodes: RuleNode[], above: string): boolean =>
    nodes.some((node) => {
      const at = `${above}.${toCompositeKey(node)}`
      return (at === path && node.limit?.isUnlimited === true) || search(node.children, at)
    })
  return domains.some(({ name, nodes }) => search(nodes, name))
}

test('3.1: one rule with two texts is not a pair', () => {
  const rules = [ruleDomain('d', limited({ key: 'a', value: 'b' }), limited({ key: 'c' }))]
  expect([...findSharedCounters(rules, { left: 1_000 })]).toEqual([])
})
