import { expect, test } from 'vitest'
import { MemoryStore } from '../../engine/counters/memory.ts'
import { createMemoryTable } from '../../engine/counters/memory-layout.ts'
import { Engine, type EngineOptions } from '../../engine/decide.ts'
import { compile } from '../../engine/match/compile.ts'
import type { RuleLimit, RuleNode } from '../../engine/rules.ts'
import { Stats } from '../../engine/stats/stats.ts'
import {
  Code,
  type Descriptor,
  type Entry,
  type RateLimitRequest,
  type RateLimitResponse,
  Unit,
} from '../../proto/ratelimit.ts'

const DECISIONS = 'decisions'
const NOON = 1_763_640_000 // divisible by 60 and 3,600: a fresh window of both

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

for (const [before, hits, code, remaining, near, over, within] of verdicts) {
  test(`4.4: ${hits} hits on ${before} of 10`, () => {
    const { ask, statsOf } = engine([rule('a', { requestsPerUnit: 10 })])
    ask({ a: '1' }, { hits: before || 1 })
    const earlier = statsOf('a')
    const [status] = ask({ a: '1' }, { hits }).statuses
    const later = statsOf('a')
    expect([status.code, status.limitRemaining]).toEqual([code, remaining])
    const grown = ['near_limit', 'over_limit', 'within_limit', 'total_hits'].map(
      (name) => later[name] - earlier[name],
    )
    expect(grown).toEqual([near, over, within, hits])
  })
}

test('4.4: limit 0 is over at once, but looking with 0 hits is not', () => {
  const { ask } = engine([rule('a', { requestsPerUnit: 0 })])
  expect(ask({ a: 'x' }, { descriptorHits: 0 }).overallCode).toBe(Code.Ok)
  expect(ask({ a: 'x' }).overallCode).toBe(Code.OverLimit)
})

test('A.3: two equal descriptors in one request are counted one after the other', () => {
  const { ask } = engine([rule('a', { requestsPerUnit: 2, unit: Unit.Hour })])
  ask({ a: '1' })
  const { statuses, overallCode } = ask([{ a: '1' }, { a: '1' }])
  expect(statuses.map((status) => [status.code, status.limitRemaining])).toEqual([
    [Code.Ok, 0],
    [Code.OverLimit, 0],
  ])
  expect(overallCode).toBe(Code.OverLimit)
})

test('A.3: shadow mode answers OK and counts what it would have refused', () => {
  const { ask, statsOf } = engine(
    [{ ...rule('a', { requestsPerUnit: 0, unit: Unit.Hour }), isShadow: true }],
    {
      headerNames: { limit: 'L', remaining: 'R', reset: 'T' },
    },
  )
  const { overallCode, statuses, responseHeadersToAdd } = ask({ a: '1' })
  expect(overallCode).toBe(Code.Ok)
  const limit = { name: '', requestsPerUnit: 0, unit: Unit.Hour }
  expect(statuses).toEqual([{ code: Code.Ok, currentLimit: limit, limitRemaining: 0, resetSec: 3600 }])
  expect(responseHeadersToAdd.map(({ value }) => value)).toEqual(['0', '0', '3600'])
  expect(statsOf('a')).toMatchObject({ over_limit: 1, shadow_mode: 1, within_limit: 0, total_hits: 1 })
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

for (const [kinds, isQuota, overall] of quota) {
  test(`A.4: ${kinds.join(', ')}${isQuota ? ', global quota mode' : ''}`, () => {
    const nodes = kinds.flatMap((kind, i) => {
      const limit = { requestsPerUnit: kind.endsWith('over') ? 0 : 9, isUnlimited: kind === 'unlimited' }
      return kind === 'none' ? [] : [{ ...rule(`k${i}`, limit), isQuota: kind.startsWith('quota') }]
    })
    const { ask } = engine(nodes, { isQuota })
    expect(ask(kinds.map((_, i) => ({ [`k${i}`]: 'v' }))).overallCode).toBe(overall)
  })
}

test('4.7: an unlimited rule answers OK with the largest remaining and counts nothing', () => {
  const { ask, stats } = engine([rule('a', { isUnlimited: true, unit: Unit.Unknown })])
  const status = { code: Code.Ok, currentLimit: null, limitRemaining: 4294967295, resetSec: 0 }
  expect(ask({ a: '1' })).toEqual({ overallCode: Code.Ok, statuses: [status], responseHeadersToAdd: [] })
  expect(stats()).toEqual({})
})

test('4.7: global shadow mode answers OK overall, counts it, and leaves the statuses', () => {
  const { ask, stats } = engine([rule('a', { requestsPerUnit: 0 })], { isShadow: true })
  const { overallCode, statuses } = ask({ a: '1' })
  expect([overallCode, statuses[0].code]).toEqual([Code.Ok, Code.OverLimit])
  expect(stats()).toMatchObject({ 'ratelimit.service.global_shadow_mode': 1 })
})

test('2.6: a matched rule drops the rules it replaces, whatever their order', () => {
  const nodes = [rule('a', { name: 'loose', requestsPerUnit: 0 }), rule('b', { replaces: ['loose'] })]
  const { ask, statsOf } = engine(nodes)
  const { overallCode, statuses } = ask([{ a: '1' }, { b: '1' }])
  expect(overallCode).toBe(Code.Ok)
  expect(statuses[0]).toEqual({ code: Code.Ok, currentLimit: null, limitRemaining: 0, resetSec: 0 })
  expect(statsOf('a').total_hits).toBeUndefined()
  expect(ask({ a: '1' }).overallCode).toBe(Code.OverLimit)
})

test('2.2: an override beats the rules, with its own window and counters', () => {
  const { ask, statsOf } = engine([rule('a', { requestsPerUnit: 9 })])
  const override = { requestsPerUnit: 1, unit: Unit.Hour }
  expect(ask({ a: '1' }, { override }).statuses[0].currentLimit).toEqual({ name: '', ...override })
  expect(ask({ a: '1' }, { override }).overallCode).toBe(Code.OverLimit)
  expect(statsOf('a_1')).toMatchObject({ total_hits: 2, over_limit: 1 })
})

test('2.2: an unknown domain is OK and counted once per descriptor', () => {
  const { askRaw, stats } = engine([])
  const descriptors = [descriptor({ a: '1' }), descriptor({ b: '1' })]
  expect(askRaw({ domain: 'who', descriptors, hitsAddend: 0 })).toMatchObject({ overallCode: Code.Ok })
  expect(stats()).toEqual({ 'ratelimit.service.rate_limit.who.domain_not_found': 2 })
})

test('4.8: headers tell of the smallest remaining; the last rate limit that is over wins', () => {
  const headerNames = { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' }
  const nodes = [
    rule('a', { requestsPerUnit: 9 }),
    rule('b', { requestsPerUnit: 5 }),
    rule('c', { requestsPerUnit: 0 }),
  ]
  const { ask } = engine(nodes, { headerNames })
  expect(ask([{ a: '1' }, { b: '1' }]).responseHeadersToAdd).toEqual([
    { key: 'RateLimit-Limit', value: '5' },
    { key: 'RateLimit-Remaining', value: '4' },
    { key: 'RateLimit-Reset', value: '60' },
  ])
  expect(ask([{ a: '1' }, { c: '1' }, { b: '1' }]).responseHeadersToAdd[0].value).toBe('0')
  expect(ask({ unknown: '1' }).responseHeadersToAdd).toEqual([])
})

// biome-ignore format: the columns are the specification
const refused = [
  ['an empty domain',          { domain: '' },                              'rate limit domain must not be empty'],
  ['no descriptors',           { descriptors: [] },                         'rate limit descriptor list must not be empty'],
  ['an override without unit', { descriptors: [override(0)] },              'rate limit override has an unknown unit: 0'],
  ['an override of unit 99',   { descriptors: [override(99)] },             'rate limit override has an unknown unit: 99'],
  ['hits above 2^53-1',        { descriptors: [hitsOf(Number.POSITIVE_INFINITY)] }, 'hits_addend must not be above 9007199254740991'],
  ['4,097 descriptors',        { descriptors: Array.from({ length: 4097 }, () => hitsOf(1)) }, 'a request must not have more than 4096 descriptors'],
] as const

for (const [what, change, message] of refused) {
  test(`5.4: ${what} is a service error and counted`, () => {
    const { askRaw, stats } = engine([rule('a', {})])
    const request = { domain: 'd', descriptors: [descriptor({ a: '1' })], hitsAddend: 0, ...change }
    expect(() => askRaw(request as RateLimitRequest)).toThrow(message)
    expect(stats()).toEqual({ 'ratelimit.service.call.should_rate_limit.service_error': 1 })
  })
}

test('5.4: before the first configuration every call is a service error', () => {
  const { askRaw } = engine(null)
  const request = { domain: 'd', descriptors: [descriptor({ a: '1' })], hitsAddend: 0 }
  expect(() => askRaw(request)).toThrow('no rate limit configuration loaded')
})

interface Ask {
  hits?: number
  descriptorHits?: number
  override?: { requestsPerUnit: number; unit: number }
}

function engine(nodes: RuleNode[] | null, options: Partial<EngineOptions> = {}) {
  const collected = new Stats()
  const engine = new Engine({
    store: new MemoryStore(createMemoryTable(1 << 20)),
    stats: collected,
    decisionsStat: DECISIONS,
    nowSec: () => NOON,
    random: () => 0,
    nearLimitRatio: 0.8,
    keyPrefix: '',
    jitterMaxSec: 0,
    isShadow: false,
    isQuota: false,
    headerNames: null,
    ...options,
  })
  if (nodes) engine.setRules(compile([{ name: 'd', nodes }]))
  const askRaw = (request: RateLimitRequest): RateLimitResponse => {
    let answered: RateLimitResponse | Error = new Error('the memory store did not answer at once')
    engine.decide(request, {
      answer(response) {
        answered = response
      },
      fail(error) {
        answered = error
      },
    })
    if (answered instanceof Error) throw answered
    return answered
  }
  const totals: Record<string, number> = {}
  const stats = () => {
    const { names, values } = collected.takeDeltas()
    names.forEach((name, i) => {
      if (name !== DECISIONS) totals[name] = (totals[name] ?? 0) + values[i]
    })
    return totals
  }
  return {
    askRaw,
    stats,
    ask(
      entries: Record<string, string> | Record<string, string>[],
      { hits = 0, descriptorHits, override }: Ask = {},
    ) {
      const descriptors = [entries].flat().map((each) => {
        return { ...descriptor(each), hitsAddend: descriptorHits ?? null, limit: override ?? null }
      })
      return askRaw({ domain: 'd', descriptors, hitsAddend: hits })
    },
    /** The six counters of rule `d.<path>`, by short name; those never hit are 0 or absent. */
    statsOf(path: string): Record<string, number> {
      const prefix = `ratelimit.service.rate_limit.d.${path}.`
      const found = Object.entries(stats()).filter(([name]) => name.startsWith(prefix))
      const zeros = { near_limit: 0, over_limit: 0, within_limit: 0 }
      return {
        ...(found.length > 0 && zeros),
        ...Object.fromEntries(found.map(([n, v]) => [n.slice(prefix.length), v])),
      }
    },
  }
}

function rule(key: string, limit: Partial<RuleLimit>): RuleNode {
  return {
    key,
    value: '',
    limit: { name: '', requestsPerUnit: 5, unit: Unit.Minute, isUnlimited: false, replaces: [], ...limit },
    children: [],
    isShadow: false,
    isQuota: false,
    hasDetailedMetric: false,
    hasValueToMetric: false,
    hasShareThreshold: false,
    metadata: null,
  }
}

function descriptor(entries: Record<string, string>): Descriptor {
  const list: Entry[] = Object.entries(entries).map(([key, value]) => ({ key, value }))
  return { entries: list, limit: null, hitsAddend: null }
}

function override(unit: number): Descriptor {
  return { ...descriptor({ a: '1' }), limit: { requestsPerUnit: 1, unit } }
}

function hitsOf(hitsAddend: number): Descriptor {
  return { ...descriptor({ a: '1' }), hitsAddend }
}
