import { expect, onTestFinished, test, vi } from 'vitest'
import type { Engine } from '../../../engine/decision/engine.ts'
import { compile } from '../../../engine/match/compile.ts'
import { MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import {
  createMemoryTable,
  getLiveEvictions,
  getPublicLiveEvictions,
  PUBLIC_DOMAIN,
} from '../../../engine/stores/memory/table-layout.ts'
import { encodeRequest } from '../../../proto/codec.ts'
import { Code, type RateLimitRequest, Unit } from '../../../proto/ratelimit.ts'
import { descriptor, descriptorWithHits, engine, NOON, override, rule } from '../harness.ts'

// biome-ignore format: the columns are the specification
const verdicts = [
  // before, hits -> code, remaining, near, over, within      limit 10, ratio 0.8
  [   4, 1, Code.Ok,        5, 0, 0, 1],
  [   7, 1, Code.Ok,        2, 0, 0, 1],
  [   8, 1, Code.Ok,        1, 1, 0, 1],
  [   7, 3, Code.Ok,        0, 2, 0, 3],
  [   9, 3, Code.OverLimit, 0, 1, 2, 0],
  [   7, 5, Code.OverLimit, 0, 2, 2, 0],
  [  10, 1, Code.OverLimit, 0, 0, 1, 0],
  [  12, 5, Code.OverLimit, 0, 0, 5, 0],
] as const

for (const [i, [before, hits, code, remaining, near, over, within]] of verdicts.entries()) {
  test(`4.4#${i + 1}: ${hits} hits on ${before} of 10`, () => {
    const { decide, takeStats } = engine([rule('a', { requestsPerUnit: 10 })])
    decide({ a: '1' }, { hits: before || 1 })
    const earlier = takeStats('a')
    const [status] = decide({ a: '1' }, { hits }).statuses
    const later = takeStats('a')
    expect([status.code, status.limitRemaining]).toEqual([code, remaining])
    const grown = ['near_limit', 'over_limit', 'within_limit', 'total_hits'].map(
      (name) => later[name] - earlier[name],
    )
    expect(grown).toEqual([near, over, within, hits])
  })
}

test('4.4: limit 0 is over with the first hit, but not with 0 hits', () => {
  const { decide } = engine([rule('a', { requestsPerUnit: 0 })])
  expect(decide({ a: 'x' }, { descriptorHits: 0 }).overallCode).toBe(Code.Ok)
  expect(decide({ a: 'x' }).overallCode).toBe(Code.OverLimit)
})

test('A.3: two equal descriptors in one request are counted one after the other', () => {
  const { decide } = engine([rule('a', { requestsPerUnit: 2, unit: Unit.Hour })])
  decide({ a: '1' })
  const { statuses, overallCode } = decide([{ a: '1' }, { a: '1' }])
  expect(statuses.map((status) => [status.code, status.limitRemaining])).toEqual([
    [Code.Ok, 0],
    [Code.OverLimit, 0],
  ])
  expect(overallCode).toBe(Code.OverLimit)
})

test('A.3, 5.3#5: shadow mode responds OK and counts what it would have refused', () => {
  const { decide, takeStats } = engine(
    [{ ...rule('a', { requestsPerUnit: 0, unit: Unit.Hour }), isShadow: true }],
    {
      headerNames: { limit: 'L', remaining: 'R', reset: 'T' },
    },
  )
  const { overallCode, statuses, responseHeadersToAdd } = decide({ a: '1' })
  expect(overallCode).toBe(Code.Ok)
  const limit = { name: '', requestsPerUnit: 0, unit: Unit.Hour }
  expect(statuses).toEqual([{ code: Code.Ok, currentLimit: limit, limitRemaining: 0, resetSec: 3600 }])
  expect(responseHeadersToAdd.map(({ value }) => value)).toEqual(['0', '0', '3600'])
  expect(takeStats('a')).toMatchObject({ over_limit: 1, shadow_mode: 1, within_limit: 0, total_hits: 1 })
})

// biome-ignore format: the columns are the specification
const quota = [
  // rules of the request                 global  overall
  [['rate over',  'quota ok'            ], false, Code.OverLimit],
  [['rate ok',    'quota over'          ], false, Code.OverLimit],
  [['rate ok',    'quota over', 'quota ok'], false, Code.Ok],
  [['quota over', 'quota over'          ], false, Code.OverLimit],
  [['quota over', 'none'                ], false, Code.OverLimit],
  [['rate over',  'rate ok'             ], true,  Code.Ok],
  [['rate over',  'rate over'           ], true,  Code.OverLimit],
  [['rate over',  'none'                ], true,  Code.Ok],
  [['rate over',  'unlimited'           ], true,  Code.OverLimit],
] as const

for (const [i, [kinds, isQuota, overall]] of quota.entries()) {
  test(`A.4#${i + 1}${isQuota && kinds[1] === 'none' ? ' 12#28' : ''}: ${kinds.join(', ')}${isQuota ? ', global quota mode' : ''}`, () => {
    const nodes = kinds.flatMap((kind, i) => {
      const limit = { requestsPerUnit: kind.endsWith('over') ? 0 : 9, isUnlimited: kind === 'unlimited' }
      return kind === 'none' ? [] : [{ ...rule(`k${i}`, limit), isQuota: kind.startsWith('quota') }]
    })
    const { decide } = engine(nodes, { isQuota })
    expect(decide(kinds.map((_, i) => ({ [`k${i}`]: 'v' }))).overallCode).toBe(overall)
  })
}

test('5.3#2 12#45: an unlimited rule responds OK with the largest remaining and counts nothing', () => {
  const { decide, stats } = engine([rule('a', { isUnlimited: true, unit: Unit.Unknown })])
  const status = { code: Code.Ok, currentLimit: null, limitRemaining: 4294967295, resetSec: 0 }
  expect(decide({ a: '1' })).toMatchObject({ overallCode: Code.Ok, statuses: [status] })
  expect(stats()).toEqual({})
})

test('4.7: global shadow mode responds OK overall, counts it, and leaves the statuses', () => {
  const { decide, stats } = engine([rule('a', { requestsPerUnit: 0 })], { isShadow: true })
  const { overallCode, statuses } = decide({ a: '1' })
  expect([overallCode, statuses[0].code]).toEqual([Code.Ok, Code.OverLimit])
  expect(stats()).toMatchObject({ 'ratelimit.service.global_shadow_mode': 1 })
})

test('2.6, 5.3#1: a matched rule drops the rules it replaces, whatever their order', () => {
  const nodes = [rule('a', { name: 'loose', requestsPerUnit: 0 }), rule('b', { replaces: ['loose'] })]
  const { decide, takeStats } = engine(nodes)
  const { overallCode, statuses } = decide([{ a: '1' }, { b: '1' }])
  expect(overallCode).toBe(Code.Ok)
  expect(statuses[0]).toEqual({ code: Code.Ok, currentLimit: null, limitRemaining: 0, resetSec: 0 })
  expect(takeStats('a').total_hits).toBeUndefined()
  expect(decide({ a: '1' }).overallCode).toBe(Code.OverLimit)
})

test('2.6: many replaces over many descriptors cost no more than their sum', () => {
  const replaces = Array.from({ length: 20 }, (_, i) => `other${i}`)
  const { decideRequest } = engine([rule('a', { replaces, name: 'a' })])
  const descriptors = Array.from({ length: 4096 }, () => descriptor({ a: '1' }))
  const add = vi.spyOn(Set.prototype, 'add')
  onTestFinished(() => add.mockRestore())
  decideRequest({ domain: 'd', descriptors, hitsAddend: 0 })
  expect(add.mock.calls.length).toBeLessThan(1.1 * descriptors.length * replaces.length)
})

test('5.3#3 5.3#4 5.3#6: within, over, and over with quota mode have complete statuses', () => {
  const quota = { ...rule('q', { requestsPerUnit: 0, name: 'most' }), isQuota: true }
  const { decide } = engine([rule('a', { requestsPerUnit: 2 }), quota])
  const limit = { name: '', requestsPerUnit: 2, unit: Unit.Minute }
  const within = { code: Code.Ok, currentLimit: limit, limitRemaining: 1, resetSec: 60 }
  const over = { code: Code.OverLimit, currentLimit: limit, limitRemaining: 0, resetSec: 60 }
  expect(decide({ a: '1' }).statuses).toEqual([within])
  decide({ a: '1' })
  expect(decide({ a: '1' }).statuses).toEqual([over])
  const quotaLimit = { name: 'most', requestsPerUnit: 0, unit: Unit.Minute }
  expect(decide({ q: '1' }).statuses).toEqual([{ ...over, currentLimit: quotaLimit }])
})

test('12#29: with the global quota mode a request whose descriptors are all over is still over', () => {
  const { decide } = engine([rule('a', { requestsPerUnit: 0 })], { isQuota: true })
  expect(decide({ a: '1' }).overallCode).toBe(Code.OverLimit)
})

test('2.2: a limit sent with the request takes precedence over the rules, with its own window and counters', () => {
  const { decide, takeStats } = engine([rule('a', { requestsPerUnit: 9 })])
  const override = { requestsPerUnit: 1, unit: Unit.Hour }
  expect(decide({ a: '1' }, { override }).statuses[0].currentLimit).toEqual({ name: '', ...override })
  expect(decide({ a: '1' }, { override }).overallCode).toBe(Code.OverLimit)
  expect(takeStats('a_1')).toMatchObject({ total_hits: 2, over_limit: 1 })
})

test('2.2, 5.3#1: an unknown domain is OK and counted once per descriptor', () => {
  const { decideRequest, stats } = engine([])
  const descriptors = [descriptor({ a: '1' }), descriptor({ b: '1' })]
  expect(decideRequest({ domain: 'who', descriptors, hitsAddend: 0 })).toMatchObject({ overallCode: Code.Ok })
  expect(stats()).toEqual({ 'ratelimit.service.rate_limit.who.domain_not_found': 2 })
})

test('4.8#1-3: headers show the smallest remaining; of several limits that are over, the last', () => {
  const headerNames = { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' }
  const nodes = [
    rule('a', { requestsPerUnit: 9 }),
    rule('b', { requestsPerUnit: 5 }),
    rule('c', { requestsPerUnit: 0 }),
  ]
  const { decide } = engine(nodes, { headerNames })
  expect(decide([{ a: '1' }, { b: '1' }]).responseHeadersToAdd).toEqual([
    { key: 'RateLimit-Limit', value: '5' },
    { key: 'RateLimit-Remaining', value: '4' },
    { key: 'RateLimit-Reset', value: '60' },
  ])
  expect(decide([{ a: '1' }, { c: '1' }, { b: '1' }]).responseHeadersToAdd[0].value).toBe('0')
  expect(decide({ unknown: '1' }).responseHeadersToAdd).toEqual([])
})

// biome-ignore format: the columns are the specification
const refused = [
  ['5.4#1', 'an empty domain',          { domain: '' },                              'rate limit domain must not be empty'],
  ['5.4#2', 'no descriptors',           { descriptors: [] },                         'rate limit descriptor list must not be empty'],
  ['5.4#5 12#1', 'an override without unit', { descriptors: [override(0)] },              'rate limit override has an unknown unit: 0'],
  ['5.4#5', 'an override of unit 99',   { descriptors: [override(99)] },             'rate limit override has an unknown unit: 99'],
  ['12#42', 'hits above 2^63-1',        { descriptors: [descriptorWithHits(2n ** 63n)] },        'hits_addend must not be above 9223372036854775807'],
  ['5.4', '4,097 descriptors',        { descriptors: Array.from({ length: 4097 }, () => descriptorWithHits(1)) }, 'a request must not have more than 4096 descriptors'],
] as const

for (const [row, what, change, message] of refused) {
  test(`${row}: ${what} is a service error and counted`, () => {
    const { decideRequest, stats } = engine([rule('a', {})])
    const request = { domain: 'd', descriptors: [descriptor({ a: '1' })], hitsAddend: 0, ...change }
    expect(() => decideRequest(request as RateLimitRequest)).toThrow(message)
    expect(stats()).toEqual({ 'ratelimit.service.call.should_rate_limit.service_error': 1 })
  })
}

test('5.4#3: before the first configuration every call is a service error', () => {
  const { decideRequest } = engine(null)
  const request = { domain: 'd', descriptors: [descriptor({ a: '1' })], hitsAddend: 0 }
  expect(() => decideRequest(request)).toThrow('no rate limit configuration loaded')
})

// biome-ignore format: a table
const floods: [string, (one: Engine, request: RateLimitRequest) => void][] = [
  ['as bytes',                         (one, request) => one.decideBytes(encodeRequest(request), NOBODY)],
  ['as an object',                     (one, request) => one.decide(request, NOBODY)],
  ['with hits of the descriptor',      (one, request) => one.decide(hitsOnEach(request), NOBODY)],
]
const NOBODY = { isCancelled: false, onDecision() {}, onError() {} }
const hitsOnEach = (request: RateLimitRequest) => ({
  ...request,
  descriptors: request.descriptors.map((each) => ({ ...each, hitsAddend: 1 })),
})

test.each(floods)(
  'M4.1: counters of the public domain %s evict none of a domain whose name goes on',
  (_how, decide) => {
    const table = createMemoryTable(512, 512) // 1 bucket, 2 public ones
    let now = NOON
    const { engine: one, decideRequest } = engine(null, { store: new MemoryStore(table), nowSec: () => now })
    const nodes = [rule('user', { unit: Unit.Hour }), rule('private', { unit: Unit.Day })]
    one.setRules(compile([PUBLIC_DOMAIN, `${PUBLIC_DOMAIN}_private`].map((name) => ({ name, nodes }))))
    const alice = {
      domain: `${PUBLIC_DOMAIN}_private`,
      descriptors: [descriptor({ user: 'alice' })],
      hitsAddend: 0,
    }
    const remaining = () => decideRequest(alice).statuses[0].limitRemaining
    for (const hour of [0, 1]) {
      now = NOON + hour * 3_600 // the counters of the next window, too, are where they belong
      expect(remaining()).toBe(4)
      for (let i = 0; i < 60; i++)
        decide(one, { domain: PUBLIC_DOMAIN, descriptors: [descriptor({ private: `${i}` })], hitsAddend: 0 })
      expect(remaining()).toBe(3)
    }
    expect([getLiveEvictions(table), getPublicLiveEvictions(table) > 0]).toEqual([0, true])
  },
)
