import { expect, test } from 'vitest'
import { compile } from '../../../engine/match/compile.ts'
import { rulesLines } from '../../../transports/debug/texts.ts'
import { rulesOf } from '../../engine/config/loading.ts'

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
        descriptors:
          - key: deep
            rate_limit: { unit: week, requests_per_unit: 0 }
            detailed_metric: true
  - key: none
  - key: free
    rate_limit: { unlimited: true }
  - key: free2
    rate_limit: { unlimited: true, requests_per_unit: 7 }
`
const BAR = 'domain: bar\ndescriptors: [{ key: a, rate_limit: { unit: year, requests_per_unit: 1 } }]'

test('6.5#4: /rlconfig is a line per node with a limit, parents first; no names, flags or replaces', () => {
  const image = compile(rulesOf([SHOP, BAR]))
  expect([...rulesLines(image, null)].join('')).toBe(
    'shop.user: unit=DAY requests_per_unit=5, shadow_mode: true, quota_mode: false\n' +
      'shop.user.plan_free: unit=SECOND requests_per_unit=4294967295, shadow_mode: false, quota_mode: true\n' +
      'shop.user.path_/a*.deep: unit=WEEK requests_per_unit=0, shadow_mode: false, quota_mode: false\n' +
      'shop.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n' +
      'shop.free2: unit=UNKNOWN requests_per_unit=7, shadow_mode: false, quota_mode: false\n' +
      'bar.a: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false\n',
  )
})

test('6.5#4: a key with a line feed makes no line of its own', () => {
  const key = 'a\\nd.user: unit=MINUTE requests_per_unit=999'
  const image = compile(
    rulesOf([
      `domain: d\ndescriptors: [{ key: "${key}", rate_limit: { unit: day, requests_per_unit: 1 } }]\n`,
    ]),
  )
  expect([...rulesLines(image, null)]).toEqual([
    'd.a_d.user: unit=MINUTE requests_per_unit=999: unit=DAY requests_per_unit=1, shadow_mode: false, quota_mode: false\n',
  ])
})
