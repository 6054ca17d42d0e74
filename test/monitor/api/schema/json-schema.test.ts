/** The validator of request bodies, results of agents and the changelog: its messages, and the same verdicts as ajv. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import examples from '../../../../monitor/api/schema/examples.json' with { type: 'json' }
import { check, type Schema } from '../../../../monitor/api/schema/json-schema.ts'
import { components } from '../../../../monitor/api/schema/resources.ts'
import { size } from '../../../helpers/size.ts'
import { SchemaOracle } from '../schema-oracle.ts'

// biome-ignore format: a table
const cases: [Schema, unknown, string | null][] = [
  [{ type: 'integer', minimum: 1 },                 0,         'the body must be from 1 to Infinity'],
  [{ type: 'integer' },                             1.5,       'the body must be an integer'],
  [{ type: 'number' },                              Number.NaN, 'the body must be a number'],
  [{ type: ['string', 'null'] },                    null,      null],
  [{ enum: ['a'] },                                 'b',       'the body must be one of a'],
  [{ type: 'array', items: { type: 'string' } },    ['a', 1],  '1 must be a string'],
  [{ type: 'array', uniqueItems: true },            ['a', 'a'], 'the body must not have an item twice'],
  [{ type: 'object', required: ['a'] },             {},        'the body must have a'],
  [{ type: 'object', additionalProperties: false }, { a: 1 },  'the body must not have "a"'],
  [{ type: 'string', maxLength: 1 },                '站站',    'the body must have 0 to 1 characters'],
  [{ type: 'string', maxLength: 1 },                '😀',      null],
]
for (const [schema, value, violation] of cases) {
  test(`10: ${JSON.stringify(value)} by ${JSON.stringify(schema)}`, () => {
    expect(check(schema, value, {})).toBe(violation)
    expect(new SchemaOracle().check(schema, value) === null).toBe(violation === null)
  })
}

test('10: an unknown keyword and a missing component are errors', () => {
  const missing = { $ref: '#/components/schemas/X' }
  expect(check(missing, 1, {})).toBe('the body refers to #/components/schemas/X, which is not there')
  expect(check({ multipleOf: 2 } as Schema, 1, {})).toBe(
    'the body has a schema with the unknown keyword multipleOf',
  )
})

const COMPONENTS = components(true)
const oracle = new SchemaOracle(COMPONENTS)
const { bodies } = examples as { bodies: Record<string, Record<string, unknown>> }

// biome-ignore format: a table
const BODIES: [component: string, body: unknown][] = [
  ['SiteList',         bodies.listSites[200]],
  ['SiteDetail',       bodies.getSite[200]],
  ['SiteScore',        bodies.getSiteScore[200]],
  ['SiteHistory',      bodies.getSiteHistory[200]],
  ['SiteModels',       bodies.getSiteModels[200]],
  ['SiteIncidents',    bodies.getSiteIncidents[200]],
  ['ModelList',        bodies.listModels[200]],
  ['Leaderboard',      bodies.getLeaderboard[200]],
  ['DetectionRequest', bodies.submitDetection.request],
  ['Detection',        bodies.getDetection[200]],
  ['Limits',           bodies.getLimits[200]],
  ['Meta',             bodies.getMeta[200]],
  ['Changelog',        bodies.getChangelog[200]],
]
const VALUES = [
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  '',
  'x',
  'x'.repeat(3_000),
  '2025-01-01',
  [],
  ['x', 'x'],
  {},
  { x: 1 },
]

/** A copy in which the place that `steps` lead to is removed, doubled, or replaced by another value. */
function change(value: unknown, steps: number[], how: number): unknown {
  const [step, ...rest] = steps
  const isContainer = typeof value === 'object' && value !== null && Object.keys(value).length > 0
  if (step === undefined || !isContainer) return structuredClone(VALUES[how % VALUES.length])
  const copy = structuredClone(value) as Record<string, unknown>
  const names = Object.keys(copy)
  const name = names[step % names.length]
  if (rest.length === 0 && how === VALUES.length) {
    if (Array.isArray(copy)) copy.splice(Number(name), 1)
    else delete copy[name]
  } else if (rest.length === 0 && how === VALUES.length + 1) {
    if (Array.isArray(copy)) copy.push(structuredClone(copy[Number(name)]))
    else copy[`${name}_more`] = copy[name]
  } else copy[name] = change(copy[name], rest, how)
  return copy
}

for (const [name, body] of BODIES) {
  const schema = { $ref: `#/components/schemas/${name}` }
  test(`10: ${name}: both find the example valid, and agree on changed copies`, () => {
    expect([check(schema, body, COMPONENTS), oracle.check(schema, body)]).toEqual([null, null])
    const counts = { valid: 0, invalid: 0 }
    fc.assert(
      fc.property(
        fc.array(fc.nat(50), { minLength: 1, maxLength: 6 }),
        fc.nat(VALUES.length + 1),
        (steps, how) => {
          const changed = change(body, steps, how)
          const violation = oracle.check(schema, changed)
          counts[violation === null ? 'valid' : 'invalid']++
          expect([violation, check(schema, changed, COMPONENTS)]).toEqual(
            violation === null ? [null, null] : [violation, expect.any(String)],
          )
        },
      ),
      { numRuns: size({ small: 100, full: 20_000 }) },
    )
    expect(counts.invalid).toBeGreaterThan(0)
  })
}
