/**
 * Requests as bytes compared with the same requests decoded first: one engine of each kind, same rules, same order, so every
 * response and every statistic must be equal, whatever the cache holds.
 */
import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import type { RuleNode } from '../../../engine/config/rules.ts'
import type { DecisionCallback } from '../../../engine/decision/rate-limiter.ts'
import { compile } from '../../../engine/match/compile.ts'
import type { Batch } from '../../../engine/stores/batch.ts'
import { MemoryStore } from '../../../engine/stores/memory/memory-store.ts'
import { createMemoryTable } from '../../../engine/stores/memory/table-layout.ts'
import { decodeRequest, encodeRequest, MalformedRequest } from '../../../proto/codec.ts'
import type { RateLimitRequest, RateLimitResponse } from '../../../proto/ratelimit.ts'
import { seed, seeded, size } from '../../helpers/size.ts'
import { engine, NOON, rule } from '../harness.ts'

const SEED = seed()
const REQUESTS = size({ small: 6_000, full: 300_000 })

const CASES: [string, string][] = [
  ['5.4: no bytes at all', ''],
  ['5.4: no domain', '12060a040a0161'],
  ['5.4: an empty domain', '0a00' + '12060a040a0161'],
  ['5.4: no descriptors', '0a0164'],
  ['2.1: a descriptor without entries', '0a0164' + '1200'],
  ['5.2: a descriptor is cut', '0a0164' + '12060a04'],
  ['5.2: an entry is longer than its descriptor', '0a0164' + '12060a090a0161'],
  ['5.2: a domain that is not UTF-8', '0a01ff' + '12060a040a0161'],
  ['5.2: a key that is not UTF-8', '0a0164' + '12050a030a01ff'],
  ['5.2: the second descriptor is not UTF-8', '0a0164' + '12050a030a0161' + '12050a030a01ff'],
  ['5.2: the domain last', '12050a030a0161' + '0a0164'],
  ['5.2: the domain twice, the last counts', '0a0178' + '0a0164' + '12050a030a0161'],
  ['5.2: an unknown field', '0a0164' + '12050a030a0161' + '2801'],
  ['5.2: an unknown field within a descriptor', '0a0164' + '12070a030a01612801'],
  ['5.2: hits of the request, first', '1803' + '0a0164' + '12050a030a0161'],
  ['5.2: hits of the request, last', '0a0164' + '12050a030a0161' + '1803'],
  ['5.2: hits of the request, twice', '0a0164' + '1809' + '12050a030a0161' + '1803'],
  ['5.2: hits of 2^32-1', '0a0164' + '12050a030a0161' + '18ffffffff0f'],
  ['5.2: hits without an end', '0a0164' + '12050a030a0161' + '18ff'],
  ['5.2: a length in more bytes than it needs', '0a8100' + '64' + '12850080000a030a0161'],
  ['5.4: an override of no unit', '0a0164' + '12090a030a016112020801'],
]

for (const [name, hex] of CASES) {
  test(`${name}: the same by bytes as decoded first`, () => {
    const tested = engines()
    const bytes = Buffer.from(hex, 'hex')
    for (let again = 0; again < 3; again++) {
      const response = tested.decodedFirst(bytes)
      expect(tested.byBytes(bytes)).toEqual(response)
      expect(tested.asObjects(bytes)).toEqual(response)
    }
    const stats = tested.statsDecodedFirst()
    expect(tested.statsByBytes()).toEqual(stats)
    expect(tested.statsAsObjects()).toEqual(stats)
  })
}

test(`2.1: ${REQUESTS} requests by bytes and decoded first get equal responses (seed ${SEED})`, () => {
  const tested = engines()
  const random = seeded(SEED)
  for (let i = 0; i < REQUESTS; i++) {
    const bytes = encodeRequest(randomRequest(random))
    if (random() < 0.02) bytes[Math.floor(random() * bytes.length)] ^= 1 << Math.floor(random() * 8)
    if (i % 1_000 === 999) tested.setRules(i % 2_000 === 999 ? 7 : 9)
    const response = tested.decodedFirst(bytes)
    const hex = Buffer.from(bytes).toString('hex')
    for (const other of [tested.byBytes(bytes), tested.asObjects(bytes)]) {
      if (!isDeepStrictEqual(other, response)) expect(other, hex).toEqual(response) // toEqual is slow
    }
  }
  const stats = tested.statsDecodedFirst()
  expect(tested.statsByBytes()).toEqual(stats)
  expect(tested.statsAsObjects()).toEqual(stats)
})

test('2.1: nothing cached changes when the transport reuses the bytes', () => {
  const tested = engines()
  const buffer = new Uint8Array(64)
  for (const user of ['1', '2', '1', '3', '2']) {
    const bytes = encodeRequest(request(user))
    buffer.fill(0xff)
    buffer.set(bytes)
    expect(tested.byBytes(buffer.subarray(0, bytes.length))).toEqual(tested.decodedFirst(bytes))
  }
})

function engines() {
  const one = () => {
    const store = new MemoryStore(createMemoryTable(1 << 22))
    return engine(rules(7), { store, keyPrefix: 'p:' })
  }
  const byBytes = one()
  const asObjects = one()
  const decodedFirst = one()
  const getResponse = (decide: (callback: DecisionCallback) => void): RateLimitResponse | string => {
    let result: RateLimitResponse | string = 'no callback was called'
    const callback = {
      isCancelled: false,
      onDecision: (response: RateLimitResponse) => {
        result = structuredClone(response)
      },
      onError: (error: Error) => {
        result = `${error.name} ${error.message}`
      },
    }
    try {
      decide(callback)
    } catch (error) {
      if (!(error instanceof MalformedRequest)) throw error
      return 'malformed'
    }
    return result
  }
  return {
    byBytes: (bytes: Uint8Array) => getResponse((callback) => byBytes.engine.decideBytes(bytes, callback)),
    /** As JSON requests are decided. */
    asObjects: (bytes: Uint8Array) =>
      getResponse((callback) => asObjects.engine.decide(decodeRequest(bytes), callback)),
    /** Each descriptor has its own hits: then none is cached or matched on bytes. */
    decodedFirst: (bytes: Uint8Array) =>
      getResponse((callback) => {
        const request = decodeRequest(bytes)
        for (const each of request.descriptors) each.hitsAddend ??= request.hitsAddend || 1
        decodedFirst.engine.decide(request, callback)
      }),
    setRules(limit: number) {
      const image = compile([{ name: 'd', nodes: rules(limit) }])
      byBytes.engine.setRules(image)
      asObjects.engine.setRules(image)
      decodedFirst.engine.setRules(image)
    },
    statsByBytes: () => byBytes.stats(),
    statsAsObjects: () => asObjects.stats(),
    statsDecodedFirst: () => decodedFirst.stats(),
  }
}

function rules(limit: number): RuleNode[] {
  const named = (name: string, replaces: string[]) => ({ name, replaces, requestsPerUnit: limit })
  return [
    rule('user', { requestsPerUnit: limit }),
    { ...rule('path', { requestsPerUnit: limit, unit: 1 }), value: '/a*', hasShareThreshold: true },
    {
      ...rule('path', { requestsPerUnit: limit }),
      children: [{ ...rule('user', {}), value: '7' }, rule('user', {})],
    },
    { ...rule('metric', { requestsPerUnit: limit }), value: '/*b', hasValueToMetric: true },
    {
      ...rule('detailed', { requestsPerUnit: limit }),
      hasDetailedMetric: true,
      children: [rule('user', {})],
    },
    { ...rule('us*', { requestsPerUnit: limit }) },
    rule('first', named('one', [])),
    rule('second', named('two', ['one'])),
    rule('free', { isUnlimited: true }),
    { ...rule('quota', { requestsPerUnit: limit }), isQuota: true },
    { ...rule('shadow', { requestsPerUnit: limit }), isShadow: true },
  ]
}

function request(user: string): RateLimitRequest {
  return {
    domain: 'd',
    descriptors: [{ entries: [{ key: 'user', value: user }], limit: null, hitsAddend: null }],
    hitsAddend: 0,
  }
}

function randomRequest(random: () => number): RateLimitRequest {
  const pick = <T>(...choices: T[]) => choices[Math.floor(random() * choices.length)]
  const value = () => pick('', '7', '7', '/ab', 'ü', `${Math.floor(20_000 ** random())}`, 'long '.repeat(40))
  const descriptors = Array.from({ length: 1 + Math.floor(random() * 3) }, () => ({
    entries: Array.from({ length: random() < 0.7 ? 1 : Math.floor(random() * 20) ** random() }, () => ({
      key: pick(
        'user',
        'path',
        'metric',
        'detailed',
        'usurper',
        'first',
        'second',
        'free',
        'quota',
        'shadow',
        'unknown',
      ),
      value: value(),
    })),
    limit: random() < 0.1 ? { requestsPerUnit: pick(0, 3), unit: pick(0, 1, 2, 9) } : null,
    hitsAddend: random() < 0.1 ? pick<number | bigint>(0, 2, 2 ** 40, 2n ** 63n - 1n, 2n ** 63n) : null,
  }))
  return {
    domain: pick('d', 'd', 'd', 'd', 'elsewhere', 'much longer than any domain in practice '.repeat(3)),
    descriptors,
    hitsAddend: pick(0, 0, 0, 1, 5),
  }
}

test('Q20: a limit sent with a request keeps the counter as long as the rule it replaces', () => {
  const kept: number[] = []
  const store = {
    isSynchronous: true,
    hasCapacity: true,
    add(batch: Batch, _nowSec: number, done: (batch: Batch) => void) {
      kept.push(...batch.expirySec.slice(0, batch.slotsCount))
      done(batch)
    },
    connect: async () => {},
    close: async () => {},
  }
  const { engine: one } = engine(rules(7), { store })
  const callback = { isCancelled: false, onDecision: () => {}, onError: () => {} }
  const sendRequest = (key: string, unit: number | null) => {
    const limit = unit === null ? null : { requestsPerUnit: 5, unit }
    const descriptors = [{ entries: [{ key, value: '7' }], limit, hitsAddend: null }]
    one.decideBytes(encodeRequest({ domain: 'd', descriptors, hitsAddend: 0 }), callback)
  }
  sendRequest('user', null) // 7 per minute
  sendRequest('user', 1)
  sendRequest('user', 3)
  sendRequest('unknown', 1)
  expect(kept).toEqual([60, 60, 3_600, 1])
})

test('5.4: requests cancelled while the store was busy count no hits', async () => {
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
  const added: string[][] = []
  const results: string[] = []
  const store = {
    isSynchronous: false,
    hasCapacity: false,
    add(batch: Batch, _nowSec: number, done: (batch: Batch) => void) {
      added.push(batch.counters.slice(0, batch.slotsCount).map(({ key }) => key))
      setImmediate(() => done(batch))
    },
    connect: async () => {},
    close: async () => {},
  }
  const { engine: busy } = engine(rules(7), { store })
  const sendRequest = (user: string) => {
    const callback = {
      isCancelled: false,
      onDecision: () => results.push(user),
      onError: () => results.push(`${user} failed`),
    }
    busy.decide(request(user), callback)
    return callback
  }
  const callbacks = ['1', '2', '3'].map(sendRequest)
  await turn()
  expect(added).toEqual([])
  callbacks[1].isCancelled = true
  store.hasCapacity = true
  sendRequest('4')
  await turn()
  await turn()
  expect(added).toEqual([['1', '3', '4'].map((user) => `d_user_${user}_${NOON}`)])
  expect(results).toEqual(['2 failed', '1', '3', '4'])
})
