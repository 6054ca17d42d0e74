import { expect, test } from 'vitest'
import { compile } from '../../../engine/match/compile.ts'
import { rulesJson, rulesLines } from '../../../transports/debug/text-pages.ts'
import { loadDomains } from '../../engine/config/loading.ts'

const SHOP = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5, name: daily, replaces: [{ name: other }] }
    shadow_mode: true
    descriptors:
      - key: plan
        value: free
        rate_limit: { unit: second, requests_per_unit: 4294967295 }
        quota_mode: true
      - key: path
        value: /a*
        share_threshold: true
        value_to_metric: true
        descriptors:
          - key: deep
            rate_limit: { unit: week, requests_per_unit: 0 }
            detailed_metric: true
            metadata: { owner: [a, 1, null] }
  - key: none
  - key: free
    rate_limit: { unlimited: true }
  - key: free2
    rate_limit: { unlimited: true, requests_per_unit: 7 }
`
const BAR = 'domain: bar\ndescriptors: [{ key: a, rate_limit: { unit: year, requests_per_unit: 1 } }]'

test('6.5#4: /rlconfig is a line per node with a limit or unlimited, parents first', () => {
  const image = compile(loadDomains([SHOP, BAR]))
  expect([...rulesLines(image, null)].join('')).toBe(
    'shop.user: unit=DAY requests_per_unit=5, shadow_mode: true, quota_mode: false\n' +
      'shop.user.plan_free: unit=SECOND requests_per_unit=4294967295, shadow_mode: false, quota_mode: true\n' +
      'shop.user.path_/a*.deep: unit=WEEK requests_per_unit=0, shadow_mode: false, quota_mode: false\n' +
      'shop.free: unlimited, shadow_mode: false, quota_mode: false\n' +
      'shop.free2: unlimited, shadow_mode: false, quota_mode: false\n' +
      'bar.a: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false\n',
  )
})

test('the policy for store errors is shown where a file sets it', () => {
  const limit = 'rate_limit: { unit: day, requests_per_unit: 1 }'
  const image = compile(
    loadDomains([
      `domain: d\ndescriptors:\n  - { key: a, ${limit}, on_store_error: local, local_share: 50 }\n  - { key: b, ${limit}, on_store_error: error }\n  - { key: c, ${limit} }\n`,
    ]),
  )
  const line = 'unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false'
  expect([...rulesLines(image, null)]).toEqual([
    `d.a: ${line}, on_store_error: local, local_share: 50\n`,
    `d.b: ${line}, on_store_error: error\n`,
    `d.c: ${line}\n`,
  ])
  const { rules } = JSON.parse([...rulesJson(image, null)].join(''))
  expect(rules[0]).toMatchObject({ on_store_error: 'local', local_share: 50 })
  expect(rules[1]).toMatchObject({ on_store_error: 'error' })
  expect(rules[2]).not.toHaveProperty('on_store_error')
})

test('6.5#4: a key with a line feed adds no line', () => {
  const key = 'a\\nd.user: unit=MINUTE requests_per_unit=999'
  const image = compile(
    loadDomains([
      `domain: d\ndescriptors: [{ key: "${key}", rate_limit: { unit: day, requests_per_unit: 1 } }]\n`,
    ]),
  )
  expect([...rulesLines(image, null)]).toEqual([
    'd.a_d.user: unit=MINUTE requests_per_unit=999: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false\n',
  ])
})

test('6.5#4: JSON has all fields of each rule, and its place', () => {
  const image = compile(loadDomains([SHOP, BAR]))
  const { load_failure, rules } = JSON.parse([...rulesJson(image, 'a "failure"\n')].join(''))
  expect(load_failure).toBe('a "failure"\n')
  const modes = { shadow_mode: false, quota_mode: false }
  const user = { key: 'user' }
  expect(rules).toEqual([
    {
      path: 'shop.user',
      domain: 'shop',
      descriptors: [user],
      rate_limit: { unit: 'DAY', requests_per_unit: 5, name: 'daily', replaces: [{ name: 'other' }] },
      shadow_mode: true,
      quota_mode: false,
      file: '0.yaml',
      line: 4,
    },
    {
      path: 'shop.user.plan_free',
      domain: 'shop',
      descriptors: [user, { key: 'plan', value: 'free' }],
      rate_limit: { unit: 'SECOND', requests_per_unit: 4_294_967_295 },
      shadow_mode: false,
      quota_mode: true,
      file: '0.yaml',
      line: 8,
    },
    {
      path: 'shop.user.path_/a*.deep',
      domain: 'shop',
      descriptors: [
        user,
        { key: 'path', value: '/a*', value_to_metric: true, share_threshold: true },
        { key: 'deep', detailed_metric: true },
      ],
      rate_limit: { unit: 'WEEK', requests_per_unit: 0 },
      ...modes,
      metadata: { owner: ['a', 1, null] },
      file: '0.yaml',
      line: 17,
    },
    expect.objectContaining({ path: 'shop.free', rate_limit: { unlimited: true }, line: 22 }),
    expect.objectContaining({ path: 'shop.free2', rate_limit: { unlimited: true }, line: 24 }),
    {
      path: 'bar.a',
      domain: 'bar',
      descriptors: [{ key: 'a' }],
      rate_limit: { unit: 'YEAR', requests_per_unit: 1 },
      ...modes,
      file: '1.yaml',
      line: 2,
    },
  ])
})

test('6.5#4: as JSON, key and value apart, whatever they hold', () => {
  const yaml =
    'domain: "d_ü"\ndescriptors: [{ key: "k_é", value: "_😀\\n", rate_limit: { unlimited: true } }]'
  const { rules } = JSON.parse([...rulesJson(compile(loadDomains([yaml])), null)].join(''))
  expect(rules).toMatchObject([{ domain: 'd_ü', descriptors: [{ key: 'k_é', value: '_😀\n' }] }])
})

test('6.5#4: as JSON, without rules', () => {
  expect(JSON.parse([...rulesJson(null, null)].join(''))).toEqual({ load_failure: null, rules: [] })
})
