import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findSelfCollisions } from '../../../engine/config/self-collisions.ts'
import { size } from '../../helpers/size.ts'
import { naiveMatch } from '../match/naive.ts'
import { ruleDomain } from '../match/rules.ts'
import { arbitraryNodes, DAY, lintNodes, lintWarnings } from './linting.ts'

describe('3.1 one rule with two requests for one counter', () => {
  // biome-ignore format: a table
  const cases = [
    // node                                                                      path            one request, another one
    [`{key: 'user*', ${DAY}}`,                                                  'd.user*',      'user=7_7', 'user_7=7'],
    [`{key: '*', ${DAY}}`,                                                      'd.*',          '7=7_7', '7_7=7'],
    [`{key: '*_id', value: 7, ${DAY}}`,                                         'd.*_id_7',     '7=id_7', '7_id=7'],
    [`{key: 'user*', descriptors: [{key: plan, ${DAY}}]}`,                      'd.user*',      'user=7_7', 'user_7=7'],
    [`{key: tag, descriptors: [{key: tag, ${DAY}}]}`,                           'd.tag.tag',    'tag=7_tag_7, tag=7', 'tag=7, tag=7_tag_7'],
    [`{key: tag, value: '*', descriptors: [{key: tag, ${DAY}}]}`,               'd.tag_*.tag',  'tag=7_tag_7, tag=7', 'tag=7, tag=7_tag_7'],
    [`{key: a, descriptors: [{key: b, value: c, descriptors: [{key: a, ${DAY}}]}]}`, 'd.a.b_c.a', 'a=7_b_c_a_7, b=c, a=7', 'a=7, b=c, a=7_b_c_a_7'],
  ] as const
  for (const [node, path, one, other] of cases) {
    test(`${path}: ${one} and ${other}`, async () => {
      expect(await lintNodes(node)).toContain(
        `0.yaml: line 3: '${path}' requested with ${one} and with ${other}: both requests share a counter`,
      )
    })
  }

  // biome-ignore format: a table
  const silent = [
    ['one key for all texts of a pattern',    `{key: 'user*', share_threshold: true, ${DAY}}`],
    ['a pattern that counts nothing',         `{key: 'user*', rate_limit: {unlimited: true}}`],
    ['a star in the value',                   `{key: user, value: 'a*', ${DAY}}`],
    ['open values below different keys',      `{key: user, descriptors: [{key: plan, ${DAY}}]}`],
    ['a repeated key with a fixed value',     `{key: tag, value: a, descriptors: [{key: tag, ${DAY}}]}`],
    ['a repeated key that another rule takes', `{key: tag, descriptors: [{key: tag, ${DAY}}, {key: tag, value: '*_*'}]}`],
  ] as const
  for (const [what, nodes] of silent) {
    test(`no warning for ${what}`, async () => {
      expect(await lintWarnings(`domain: d\ndescriptors: [${nodes}]`)).not.toContainEqual(
        expect.stringContaining('both requests share a counter'),
      )
    })
  }
})

test('property, 3.1: both requests of a reported pair match the rule and form one key', () => {
  fc.assert(
    fc.property(arbitraryNodes(2), (nodes) => {
      const domains = [ruleDomain('d', ...nodes)]
      for (const { path, requests } of findSelfCollisions(domains, { left: 1_000_000 })) {
        const [one, other] = requests.map((entries) =>
          entries.map(({ key, value }) => `${key}_${value}`).join('_'),
        )
        expect(one).toBe(other)
        expect(requests[0]).not.toEqual(requests[1])
        for (const entries of requests) {
          const found = naiveMatch(domains, 'd', [...entries])
          if (found) expect(found.path).toBe(path) // null: only a rule below has a limit
        }
      }
    }),
    { numRuns: size({ small: 500, full: 50_000 }) },
  )
})
