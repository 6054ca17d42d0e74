import { expect, test } from 'vitest'
import type { RuleNode } from '../../../engine/config/rules.ts'
import { OverLimitCache } from '../../../engine/stores/over-limit-cache.ts'
import { Code, Unit } from '../../../proto/ratelimit.ts'
import { descriptor, descriptorWithHits, engine, NOON, rule } from '../harness.ts'

test('4.5, A.3: a counter over its limit is cached: no store call, statistics continue', () => {
  const localCache = new OverLimitCache(0, () => {})
  const { decide, takeStats, store } = engine([rule('a', { requestsPerUnit: 1, unit: Unit.Hour })], {
    localCache,
  })
  expect(decide({ a: '1' }, { hits: 3 }).overallCode).toBe(Code.OverLimit)
  expect(takeStats('a')).toMatchObject({ near_limit: 1, over_limit: 2, total_hits: 3 })
  const { statuses } = decide({ a: '1' }, { hits: 3 })
  expect(statuses[0]).toMatchObject({ code: Code.OverLimit, limitRemaining: 0, resetSec: 3600 })
  expect(takeStats('a')).toMatchObject({
    over_limit: 5,
    over_limit_with_local_cache: 3,
    total_hits: 6,
    near_limit: 1,
  })
  expect(store.addOne(`d_a_1_${NOON}`, 0, NOON + 3600, NOON)).toBe(3)
  expect(decide({ a: '1' }, { descriptorHits: 0 }).overallCode).toBe(Code.OverLimit)
})

test('12#35, A.3: a cached count is compared with the current limit: a raised limit takes effect at once', () => {
  const localCache = new OverLimitCache(0, () => {})
  const { decide } = engine([rule('a', { requestsPerUnit: 1, unit: Unit.Hour })], { localCache })
  decide({ a: '1' }, { hits: 3 })
  const raised = decide({ a: '1' }, { descriptorHits: 0, override: { requestsPerUnit: 10, unit: Unit.Hour } })
  expect([raised.overallCode, raised.statuses[0].limitRemaining]).toEqual([Code.Ok, 7])
})

test('4.5: a key too large for the local cache is logged, and the request continues', () => {
  const logged: string[] = []
  const localCache = new OverLimitCache(0, (key) => logged.push(key))
  const { decide } = engine([rule('a', { requestsPerUnit: 0 })], { localCache })
  const value = 'x'.repeat(1000)
  for (let i = 0; i < 2; i++) expect(decide({ a: value }).overallCode).toBe(Code.OverLimit)
  const shown = `${`d_a_${value}`.slice(0, 200)}…`
  expect(logged).toEqual([shown, `${shown} (2 by now)`])
})

test('4.5: the local cache is bounded; old entries are evicted', () => {
  const localCache = new OverLimitCache(0, () => {})
  for (let i = 0; i < 100_000; i++) localCache.add(`key_${i}`, 7)
  expect(localCache.isOver('key_99999', 6)).toBe(true)
  expect(localCache.isOver('key_99999', 7)).toBe(false)
  expect(localCache.isOver('key_0', 6)).toBe(false)
})

test('4.2, A.3#1-4: stopping does not increment counters of a request of which another would pass its limit', () => {
  const nodes = [
    rule('a', { requestsPerUnit: 2, unit: Unit.Hour }),
    rule('b', { requestsPerUnit: 5, unit: Unit.Hour }),
  ]
  const { decide, takeStats, store } = engine(nodes, { stopIncrementWhenOverLimit: true })
  const both = () =>
    decide([{ a: '1' }, { b: '1' }]).statuses.map(({ code, limitRemaining }) => [code, limitRemaining])
  const counts = () => ['a', 'b'].map((key) => store.addOne(`d_${key}_1_${NOON}`, 0, NOON + 3600, NOON))
  const seen = Array.from({ length: 4 }, () => [both(), counts()])
  expect(seen).toEqual([
    [
      [
        [Code.Ok, 1],
        [Code.Ok, 4],
      ],
      [1, 1],
    ],
    [
      [
        [Code.Ok, 0],
        [Code.Ok, 3],
      ],
      [2, 2],
    ],
    [
      [
        [Code.OverLimit, 0],
        [Code.Ok, 3],
      ],
      [3, 2],
    ],
    [
      [
        [Code.OverLimit, 0],
        [Code.Ok, 3],
      ],
      [4, 2],
    ],
  ])
  expect(takeStats('a')).toMatchObject({ total_hits: 4, within_limit: 2, near_limit: 1, over_limit: 2 })
  expect(takeStats('b')).toMatchObject({ total_hits: 4, within_limit: 4, near_limit: 0, over_limit: 0 })
})

test('4.2: stopping, a counter over its limit in the local cache leaves all others unchanged', () => {
  const localCache = new OverLimitCache(0, () => {})
  const nodes = [rule('a', { requestsPerUnit: 0 }), rule('b', { requestsPerUnit: 5 })]
  const { decide, store } = engine(nodes, { stopIncrementWhenOverLimit: true, localCache })
  decide({ a: '1' })
  const { statuses } = decide([{ a: '1' }, { b: '1' }])
  expect(statuses.map(({ code, limitRemaining }) => [code, limitRemaining])).toEqual([
    [Code.OverLimit, 0],
    [Code.Ok, 5],
  ])
  expect(store.addOne(`d_b_1_${NOON}`, 0, NOON + 60, NOON)).toBe(0)
})

test('4.2: stopping beside a counter over its limit in the local cache, huge hits do not change the remaining', () => {
  const localCache = new OverLimitCache(0, () => {})
  const nodes = [rule('a', { requestsPerUnit: 0 }), rule('b', { requestsPerUnit: 20 })]
  const { decide, decideRequest } = engine(nodes, { stopIncrementWhenOverLimit: true, localCache })
  decide({ b: '1' }, { hits: 2 })
  decide({ a: '1' })
  const huge = { ...descriptor({ b: '1' }), hitsAddend: 2n ** 62n }
  const { statuses } = decideRequest({
    domain: 'd',
    descriptors: [descriptor({ a: '1' }), huge],
    hitsAddend: 0,
  })
  expect([statuses[1].code, statuses[1].limitRemaining]).toEqual([Code.Ok, 18])
})

test('4.4: near_limit never shrinks, also where 32 bits round the limit up', () => {
  const { decideRequest, takeStats } = engine([rule('a', { requestsPerUnit: 2 ** 32 - 1 })], {
    nearLimitRatio: 1,
  })
  decideRequest({ domain: 'd', descriptors: [descriptorWithHits(2 ** 32)], hitsAddend: 0 })
  expect(takeStats('a')).toMatchObject({ near_limit: 0, over_limit: 1 })
})

test('12#9: skipped hits are near the limit when the count is, as if the count before had wrapped', () => {
  const nodes = [rule('a', { requestsPerUnit: 0 }), rule('b', { requestsPerUnit: 100 })]
  const { decide, takeStats } = engine(nodes, { stopIncrementWhenOverLimit: true, nearLimitRatio: 0.1 })
  decide({ b: '1' }, { hits: 11 })
  const earlier = takeStats('b')
  decide([{ a: '1' }, { b: '1' }], { hits: 20 })
  expect(takeStats('b').near_limit - earlier.near_limit).toBe(20)
})

test('12#20: two rules on equal entries share a counter while their windows start together', () => {
  const minute = { requestsPerUnit: 2, unit: Unit.Minute }
  const hour = { requestsPerUnit: 2, unit: Unit.Hour }
  const { decide } = engine([]) // at noon both windows start at noon
  const remaining = [minute, hour, minute].map(
    (override) => decide({ a: '1' }, { override }).statuses[0].limitRemaining,
  )
  expect(remaining).toEqual([1, 0, 0])
  expect(
    decide({ a: '1' }, { override: { requestsPerUnit: 9, unit: Unit.Second } }).statuses[0].limitRemaining,
  ).toBe(5)
})

test('2.5: hits from 2^53 to 2^63-1 are counted, and over any limit', () => {
  const { decideRequest } = engine([rule('a', { requestsPerUnit: 2 ** 32 - 1 })])
  const decide = (hits: number | bigint) =>
    decideRequest({ domain: 'd', descriptors: [descriptorWithHits(hits)], hitsAddend: 0 }).overallCode
  expect([decide(2 ** 32 - 2), decide(1), decide(0), decide(2n ** 63n - 1n), decide(0)]).toEqual([
    Code.Ok,
    Code.Ok,
    Code.Ok,
    Code.OverLimit,
    Code.OverLimit,
  ])
})

test('5.8#1-4 12#22: dynamic metadata repeats the request, with the metadata of the rules that passed', () => {
  const nodes: RuleNode[] = [
    { ...rule('a', {}), metadata: { team: 'x', deep: { one: 1 } } },
    { ...rule('b', {}), metadata: { team: 'y', deep: { one: 9, two: 2 }, more: [1] } },
    { ...rule('c', { requestsPerUnit: 0 }), metadata: { over: true } },
  ]
  const { decideRequest } = engine(nodes, { hasMetadata: true })
  const descriptors = [
    { ...descriptor({ a: '1' }), hitsAddend: 0 },
    descriptor({ b: '2' }),
    descriptor({ c: '3' }),
    { ...descriptor({ x: '1', y: '' }), limit: { requestsPerUnit: 10, unit: Unit.Minute } },
  ]
  const request = { domain: 'd', descriptors, hitsAddend: 2 }
  const metadata = {
    domain: 'd',
    hitsAddend: 2,
    descriptors: [
      { entries: ['a=1'], hitsAddend: 0 },
      { entries: ['b=2'] },
      { entries: ['c=3'] },
      { entries: ['x=1', 'y='], limit: 'requests_per_unit:10 unit:MINUTE' },
    ],
    metadata: { team: 'x', deep: { one: 1, two: 2 }, more: [1] },
  }
  expect(decideRequest(request).dynamicMetadata).toEqual(metadata)
  // Q22: merging must not write into the rules: the same request again, and each part alone, get the same responses
  expect(decideRequest(request).dynamicMetadata).toEqual(metadata)
  const alone = { domain: 'd', descriptors: [descriptor({ a: '1' })], hitsAddend: 0 }
  expect(decideRequest(alone).dynamicMetadata?.metadata).toEqual({ team: 'x', deep: { one: 1 } })
})

test('5.8: without the setting there is no metadata', () => {
  expect(engine([rule('a', {})]).decide({ a: '1' }).dynamicMetadata).toBeNull()
})
