/** What rules answer when the store cannot count their hits: `on_store_error`, `local_share`, and how a response shows it. */
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { BATCH_SLOTS_MAX } from '../../../engine/stores/batch.ts'
import { MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import { OverLimitCache } from '../../../engine/stores/over-limit-cache.ts'
import { Code, type RateLimitResponse } from '../../../proto/ratelimit.ts'
import { NOON, rule } from '../harness.ts'
import { degradedBy, failingEngine, ruleWith } from './failing-engine.ts'

const HEADER_NAMES = { limit: 'L', remaining: 'R', reset: 'T' }

describe('one policy', () => {
  test('error: the call fails with the error of the store', () => {
    const { decide, store, stats } = failingEngine([ruleWith('a', 'error')], { storeErrorPolicy: 'allow' })
    store.failing.add('a')
    expect(() => decide({ a: '1' }, { hits: 3 })).toThrow(`cannot count d_a_1_${NOON}`)
    expect(stats()).toEqual({
      'ratelimit.service.call.should_rate_limit.redis_error': 1,
      'ratelimit.service.rate_limit.d.a.total_hits': 3,
      'ratelimit.service.rate_limit.d.a.degraded_error': 3,
    })
  })

  test('allow: OK with the limit and all of it remaining', () => {
    const { decide, store, takeStats } = failingEngine([ruleWith('a', 'allow')])
    store.failing.add('a')
    for (let i = 0; i < 20; i++) {
      const response = decide({ a: '1' })
      expect(response.overallCode).toBe(Code.Ok)
      expect(response.statuses).toMatchObject([
        { code: Code.Ok, currentLimit: { requestsPerUnit: 10 }, limitRemaining: 10, resetSec: 60 },
      ])
      expect(degradedBy(response)).toBe('allow')
    }
    expect(takeStats('a')).toEqual({
      total_hits: 20,
      within_limit: 20,
      degraded_allow: 20,
      near_limit: 0,
      over_limit: 0,
    })
  })

  test('allow: hits that exceed the limit on their own are over it without any count', () => {
    const nodes = [ruleWith('a', 'allow'), ruleWith('none', 'allow', { limit: 0 })]
    const { decide, store } = failingEngine(nodes)
    store.failing.add('a').add('none')
    expect(decide({ a: '1' }, { hits: 10 }).overallCode).toBe(Code.Ok)
    expect(decide({ a: '1' }, { hits: 11 }).overallCode).toBe(Code.OverLimit)
    expect(decide({ none: '1' }).overallCode).toBe(Code.OverLimit)
    expect(decide({ none: '1' }, { descriptorHits: 0 }).overallCode).toBe(Code.Ok)
  })

  test('deny: OVER_LIMIT until the window ends', () => {
    const { decide, store, takeStats } = failingEngine([ruleWith('a', 'deny')])
    store.failing.add('a')
    const response = decide({ a: '1' }, { hits: 2 })
    expect(response.overallCode).toBe(Code.OverLimit)
    expect(response.statuses).toMatchObject([
      { code: Code.OverLimit, currentLimit: { requestsPerUnit: 10 }, limitRemaining: 0, resetSec: 60 },
    ])
    expect(degradedBy(response)).toBe('deny')
    expect(takeStats('a')).toEqual({
      total_hits: 2,
      over_limit: 2,
      degraded_deny: 2,
      near_limit: 0,
      within_limit: 0,
    })
  })

  test('deny on a rule in shadow mode: OK, and the hits it would have refused are counted', () => {
    const { decide, store, takeStats } = failingEngine([ruleWith('a', 'deny', { isShadow: true })])
    store.failing.add('a')
    const response = decide({ a: '1' })
    expect(response.overallCode).toBe(Code.Ok)
    expect(degradedBy(response)).toBe('deny')
    expect(takeStats('a')).toMatchObject({ shadow_mode: 1, over_limit: 1, degraded_deny: 1 })
  })

  test('local: counts in this process from 0 until the store is back', () => {
    const { decide, store, takeStats } = failingEngine([ruleWith('a', 'local', { limit: 3 })])
    const remaining = (hits = 1) => {
      const { statuses, overallCode } = decide({ a: '1' }, { hits })
      return overallCode === Code.Ok ? statuses[0].limitRemaining : 'over'
    }
    expect([remaining(), remaining()]).toEqual([2, 1])
    store.failing.add('a')
    expect([remaining(), remaining(), remaining(), remaining()]).toEqual([2, 1, 0, 'over'])
    store.failing.clear()
    expect([remaining(), remaining()]).toEqual([0, 'over'])
    store.failing.add('a')
    expect(remaining(), 'the window still has its local count').toBe('over')
    expect(takeStats('a')).toMatchObject({
      total_hits: 9,
      within_limit: 6,
      over_limit: 3,
      near_limit: 2,
      degraded_local: 5,
    })
  })

  // biome-ignore format: a table
  test.each([
    // limit, share → admitted by this process
    [   100,    33,   33],
    [    10,    25,    3], // rounded up
    [     1,     1,    1],
    [     0,    50,    0],
    [     7,   100,    7],
    [     7,  null,    7],
  ])('local_share: of %i per minute %s percent are %i', (limit, share, admitted) => {
    const { decide, store } = failingEngine([ruleWith('a', 'local', { limit, ...(share !== null && { share }) })])
    store.failing.add('a')
    const responses = Array.from({ length: admitted + 2 }, () => decide({ a: '1' }))
    expect(responses.filter(({ overallCode }) => overallCode === Code.Ok)).toHaveLength(admitted)
    for (const [i, { statuses }] of responses.entries()) {
      expect(statuses[0].currentLimit).toMatchObject({ requestsPerUnit: limit })
      expect(statuses[0].limitRemaining).toBe(Math.max(0, admitted - i - 1))
    }
  })

  test('a part of a limit is near when that part is', () => {
    const { decide, store, takeStats } = failingEngine([ruleWith('a', 'local', { limit: 100, share: 50 })])
    store.failing.add('a')
    decide({ a: '1' }, { hits: 45 })
    expect(takeStats('a')).toMatchObject({ within_limit: 45, near_limit: 5, over_limit: 0 })
  })

  test('local counts live to the end of the window', () => {
    const nowSec = NOON + 17
    const { decide, store, localStore } = failingEngine([ruleWith('a', 'local')], { nowSec: () => nowSec })
    const add = vi.spyOn(localStore, 'add')
    const ends: number[] = []
    add.mockImplementation((batch, ...others) => {
      ends.push(...batch.windowEndSec.slice(0, batch.slotsCount))
      MemoryStore.prototype.add.call(localStore, batch, ...others)
    })
    store.failing.add('a')
    expect(decide({ a: '1' }).statuses[0]).toMatchObject({ limitRemaining: 9, resetSec: 43 })
    expect(ends).toEqual([NOON + 60])
  })

  test('local without a local store fails the call', () => {
    const { decide, store } = failingEngine([ruleWith('a', 'local')], { localStore: null })
    store.failing.add('a')
    expect(() => decide({ a: '1' })).toThrow('cannot count')
  })

  test.each(['allow', 'deny'] as const)('%s needs no local store', (policy) => {
    const { decide, store } = failingEngine([ruleWith('a', policy)], { localStore: null })
    store.failing.add('a')
    expect(degradedBy(decide({ a: '1' }))).toBe(policy)
  })

  test('STORE_ERROR_POLICY is that of rules without a policy, and of limits that requests bring', () => {
    const { decide, store } = failingEngine([ruleWith('a', null)], { storeErrorPolicy: 'deny' })
    store.failing.add('a')
    expect(degradedBy(decide({ a: '1' }))).toBe('deny')
    expect(degradedBy(decide({ a: '1' }, { override: { requestsPerUnit: 5, unit: 2 } }))).toBe('deny')
  })
})

describe('several descriptors', () => {
  const nodes = [
    ruleWith('error', 'error'),
    ruleWith('allow', 'allow'),
    ruleWith('deny', 'deny'),
    ruleWith('local', 'local'),
    { ...rule('free', { isUnlimited: true, unit: 0 }), onStoreError: 'error' as const },
  ]

  test('the call fails only if a rule with error could not be counted', () => {
    const { decide, store, takeStats } = failingEngine(nodes)
    store.failing.add('allow').add('local')
    const response = decide([{ error: '1' }, { allow: '1' }, { local: '1' }, { free: '1' }, { unknown: '1' }])
    expect(response.statuses.map(({ code, limitRemaining }) => [code, limitRemaining])).toEqual([
      [Code.Ok, 9],
      [Code.Ok, 10],
      [Code.Ok, 9],
      [Code.Ok, 4_294_967_295],
      [Code.Ok, 0],
    ])
    store.failing.add('error')
    expect(() => decide([{ error: '1' }, { allow: '1' }])).toThrow('cannot count d_error_1_')
    expect(takeStats('allow'), 'a failed call answered nothing').toMatchObject({ degraded_allow: 1 })
    expect(takeStats('error')).toMatchObject({ degraded_error: 1 })
  })

  test('the header names the policy that admits least', () => {
    const { decide, store } = failingEngine(nodes)
    const header = (...keys: string[]) => degradedBy(decide(keys.map((key) => ({ [key]: '1' }))))
    expect(header('allow', 'deny', 'local'), 'all were counted').toBeUndefined()
    store.failing.add('allow').add('deny').add('local')
    expect(header('error')).toBeUndefined()
    expect(header('allow')).toBe('allow')
    expect(header('error', 'allow', 'local')).toBe('local')
    expect(header('local', 'deny', 'allow')).toBe('deny')
  })

  test('headers and metadata', () => {
    const { decide, store } = failingEngine(nodes, { hasMetadata: true, headerNames: HEADER_NAMES })
    store.failing.add('allow').add('local')
    const { responseHeadersToAdd, dynamicMetadata } = decide([{ error: '1' }, { allow: '1' }, { local: '1' }])
    expect(responseHeadersToAdd.map(({ key, value }) => `${key} ${value}`)).toEqual([
      'L 10',
      'R 9',
      'T 60',
      'x-ratelimit-degraded local',
    ])
    expect(dynamicMetadata).toEqual({
      domain: 'd',
      degraded: 'local',
      descriptors: [
        { entries: ['error=1'] },
        { entries: ['allow=1'], degraded: 'allow' },
        { entries: ['local=1'], degraded: 'local' },
      ],
    })
    expect(decide({ error: '1' }).dynamicMetadata).toEqual({
      domain: 'd',
      descriptors: [{ entries: ['error=1'] }],
    })
  })

  test('without the setting a response has no header', () => {
    const { decide, store } = failingEngine(nodes, { hasDegradedHeader: false })
    store.failing.add('allow')
    expect(decide({ allow: '1' }).responseHeadersToAdd).toEqual([])
  })

  test('equal local descriptors of a request count one after the other', () => {
    const { decide, store } = failingEngine([ruleWith('a', 'local', { limit: 1 })])
    store.failing.add('a')
    expect(decide([{ a: '1' }, { a: '1' }]).statuses.map(({ code }) => code)).toEqual([
      Code.Ok,
      Code.OverLimit,
    ])
  })

  test('hits far above 2^32 are counted locally as well', () => {
    const { decideRequest, store } = failingEngine([ruleWith('a', 'local')])
    store.failing.add('a')
    const descriptor = { entries: [{ key: 'a', value: '1' }], limit: null, hitsAddend: 2n ** 62n }
    const request = { domain: 'd', descriptors: [descriptor], hitsAddend: 0 }
    expect(decideRequest(request).overallCode).toBe(Code.OverLimit)
    expect(decideRequest({ ...request, descriptors: [{ ...descriptor, hitsAddend: 1 }] }).overallCode).toBe(
      Code.OverLimit,
    )
  })
})

test('nothing that a policy answered is in the local cache', () => {
  const localCache = new OverLimitCache(1 << 20, () => {})
  const nodes = [ruleWith('a', 'deny', { limit: 1 }), ruleWith('b', 'local', { limit: 1 })]
  const { decide, store } = failingEngine(nodes, { localCache })
  store.failing.add('a').add('b')
  for (let i = 0; i < 3; i++) decide([{ a: '1' }, { b: '1' }])
  store.failing.clear()
  expect(decide([{ a: '1' }, { b: '1' }]).overallCode).toBe(Code.Ok)
  expect(decide([{ a: '1' }, { b: '1' }]).overallCode).toBe(Code.OverLimit)
  store.failing.add('a').add('b')
  const known = decide([{ a: '1' }, { b: '1' }])
  expect(known.overallCode, 'the counts of the store are').toBe(Code.OverLimit)
  expect(degradedBy(known)).toBeUndefined()
})

test('a request that does not fit into the batch is answered by its policies', () => {
  const nodes = [ruleWith('a', 'allow'), ruleWith('b', 'error')]
  const { engine: tested, store, decideRequest } = failingEngine(nodes)
  store.hasCapacity = false
  Object.assign(store, { isSynchronous: false })
  const waiting = { isCancelled: false, onDecision() {}, onError() {} }
  const request = (key: string, value: number) => ({
    domain: 'd',
    descriptors: [{ entries: [{ key, value: String(value) }], limit: null, hitsAddend: null }],
    hitsAddend: 0,
  })
  for (let i = 0; i < BATCH_SLOTS_MAX; i++) tested.decide(request('a', i), waiting)
  expect(degradedBy(decideRequest(request('a', 1)))).toBe('allow')
  expect(() => decideRequest(request('b', 1))).toThrow('too many hits wait for the counter store')
})

test('a request whose hits were all counted is not degraded by another of the same batch', () => {
  const { engine: tested, store, stats } = failingEngine([ruleWith('a', 'allow'), ruleWith('b', 'allow')])
  const sent: (() => void)[] = []
  const add = store.add.bind(store)
  Object.assign(store, {
    isSynchronous: false,
    add: (...call: Parameters<typeof add>) => sent.push(() => add(...call)),
  })
  vi.useFakeTimers({ toFake: ['setImmediate'] })
  onTestFinished(() => void vi.useRealTimers())
  const responses: RateLimitResponse[] = []
  for (const key of ['a', 'b', 'a']) {
    const descriptors = [{ entries: [{ key, value: '1' }], limit: null, hitsAddend: null }]
    const callback = {
      isCancelled: false,
      onDecision: (response: RateLimitResponse) => responses.push(response),
    }
    tested.decide({ domain: 'd', descriptors, hitsAddend: 0 }, { ...callback, onError() {} })
  }
  vi.runAllTimers()
  expect(sent).toHaveLength(1)
  store.failing.add('b')
  sent[0]()
  expect(responses.map(degradedBy)).toEqual([undefined, 'allow', undefined])
  expect(responses.map(({ statuses }) => statuses[0].limitRemaining)).toEqual([9, 10, 8])
  expect(stats()).not.toHaveProperty(['ratelimit.service.rate_limit.d.a.degraded_allow'])
})

describe('STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT', () => {
  test('stores may count the other counters of a request when one fails whose policy is not error', () => {
    const nodes = [
      ruleWith('a', 'error'),
      ruleWith('b', 'allow'),
      ruleWith('c', null),
      ruleWith('d', 'local'),
    ]
    const options = { stopIncrementWhenOverLimit: true, storeErrorPolicy: 'deny' as const }
    const { decide, store } = failingEngine(nodes, options)
    const tolerated: [string, boolean][] = []
    const add = store.add.bind(store)
    store.add = (batch, nowSec, done) => {
      for (let slot = 0; slot < batch.slotsCount; slot++)
        tolerated.push([batch.counters[slot].key.slice(2, 3), batch.isTolerated[slot]])
      add(batch, nowSec, done)
    }
    decide([{ unknown: '1' }, { b: '1' }, { a: '1' }, { unknown: '1' }, { d: '1' }, { c: '1' }])
    expect(tolerated).toEqual([
      ['b', true],
      ['a', false],
      ['d', true],
      ['c', true],
    ])
  })

  test('a request that is over by the local cache adds nothing to local counts', () => {
    const localCache = new OverLimitCache(1 << 20, () => {})
    const nodes = [ruleWith('a', 'error', { limit: 1 }), ruleWith('b', 'local', { limit: 5 })]
    const { decide, store, takeStats } = failingEngine(nodes, {
      stopIncrementWhenOverLimit: true,
      localCache,
    })
    for (let i = 0; i < 2; i++) decide({ a: '1' })
    store.failing.add('b')
    const [before] = decide({ b: '1' }, { hits: 3 }).statuses
    const both = decide([{ a: '1' }, { b: '1' }], { hits: 2 })
    expect(both.statuses.map(({ code }) => code)).toEqual([Code.OverLimit, Code.Ok])
    expect([before.limitRemaining, both.statuses[1].limitRemaining]).toEqual([2, 2])
    decide({ b: '1' }, { hits: 2 })
    decide([{ a: '1' }, { b: '1' }], { hits: 2 })
    // near is 4: 1 of the 2 hits from 3 to 5 is, and so is 1 of the 2 that were not added at a count of 5
    expect(takeStats('b')).toMatchObject({ within_limit: 9, near_limit: 2, over_limit: 0 })
  })

  test('local counts obey it', () => {
    const nodes = [ruleWith('a', 'local', { limit: 1 }), ruleWith('b', 'local', { limit: 5 })]
    const { decide, store } = failingEngine(nodes, { stopIncrementWhenOverLimit: true })
    store.failing.add('a').add('b')
    const remaining = () =>
      decide([{ a: '1' }, { b: '1' }]).statuses.map(({ limitRemaining }) => limitRemaining)
    expect([remaining(), remaining(), remaining()]).toEqual([
      [0, 4],
      [0, 4],
      [0, 4],
    ])
  })
})
