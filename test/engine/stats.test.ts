import { expect, test } from 'vitest'
import {
  type Deltas,
  NEAR_LIMIT,
  OVER_LIMIT,
  OVER_LIMIT_WITH_LOCAL_CACHE,
  SHADOW_MODE,
  Stats,
  TOTAL_HITS,
  WITHIN_LIMIT,
} from '../../engine/stats/stats.ts'
import { Totals } from '../../engine/stats/totals.ts'

/** What has grown: counters that are handed over at 0 have not. */
function grown({ names, values }: Deltas): [name: string, value: number][] {
  return names.map((name, i): [string, number] => [name, values[i]]).filter(([, value]) => value !== 0)
}

test('a new plain counter is in one delta with the value 0', () => {
  const stats = new Stats()
  stats.counter('error')
  expect(stats.takeDeltas()).toMatchObject({ names: ['error'], values: [0] })
  expect(stats.takeDeltas().names).toEqual([])
  stats.add(stats.counter('error'), 2)
  expect(stats.takeDeltas()).toMatchObject({ names: ['error'], values: [2] })
})

test("a rule's over_limit is in one delta at 0 with its first hits, unless its key contains clients' values", () => {
  const stats = new Stats()
  const base = stats.rule('shop.user')
  const ofCaller = stats.rule('shop.user_alice', 'shop.user')
  expect(stats.takeDeltas().names).toEqual([])
  stats.add(base + TOTAL_HITS, 1)
  stats.add(ofCaller + TOTAL_HITS, 1)
  const name = 'ratelimit.service.rate_limit.shop.user'
  const { names, values } = stats.takeDeltas()
  expect(names).toEqual([`${name}.total_hits`, `${name}.over_limit`, `${name}_alice.total_hits`])
  expect(values).toEqual([1, 0, 1])
  stats.add(base + TOTAL_HITS, 1)
  expect(stats.takeDeltas().names).toEqual([`${name}.total_hits`])
})

test("the degraded counter of a rule's policy is in the first delta with hits at 0, or with its value, and not again", () => {
  const stats = new Stats()
  const name = 'ratelimit.service.rate_limit.shop'
  const quiet = stats.rule('shop.quiet', 'shop.quiet', 'allow')
  const failing = stats.rule('shop.failing', 'shop.failing', 'deny')
  const ofCaller = stats.rule('shop.quiet_alice', 'shop.quiet', 'allow')
  const degraded = () => {
    const { names, values } = stats.takeDeltas()
    return names.map((text, i) => [text, values[i]]).filter(([text]) => String(text).includes('degraded'))
  }
  expect(degraded()).toEqual([])
  for (const first of [quiet, failing, ofCaller]) stats.add(first + TOTAL_HITS, 1)
  stats.addDegraded(failing, 2, 1)
  expect(degraded()).toEqual([
    [`${name}.quiet.degraded_allow`, 0],
    [`${name}.failing.degraded_deny`, 1],
  ])
  stats.add(quiet + TOTAL_HITS, 1)
  expect(degraded()).toEqual([])
})

test('totals contain counters that arrived with 0', () => {
  const [stats, totals] = [new Stats(), new Totals()]
  stats.counter('error')
  totals.merge(stats.takeDeltas(), 'a thread')
  expect(totals.counters).toEqual([['error', 0]])
})

test('each delta is taken once', () => {
  const stats = new Stats()
  const base = stats.rule('shop.user')
  stats.add(base + TOTAL_HITS, 3)
  stats.add(stats.counter('plain'), 1)
  expect(stats.takeDeltas()).toEqual({
    names: [
      'ratelimit.service.rate_limit.shop.user.total_hits',
      'ratelimit.service.rate_limit.shop.user.over_limit',
      'plain',
    ],
    values: [3, 0, 1],
    timers: [],
    gauges: [],
    ofRules: [],
  })
  stats.add(base + OVER_LIMIT, 2)
  expect(stats.takeDeltas().values).toEqual([2])
  expect(stats.takeDeltas().values).toEqual([])
})

test('7.1#1-6: the six counters of a rule have their names', () => {
  const stats = new Stats()
  const base = stats.rule('shop.user')
  const indices = [TOTAL_HITS, OVER_LIMIT, NEAR_LIMIT, OVER_LIMIT_WITH_LOCAL_CACHE, WITHIN_LIMIT, SHADOW_MODE]
  for (const [i, index] of indices.entries()) stats.add(base + index, i + 1)
  const { names, values } = stats.takeDeltas()
  expect(Object.fromEntries(names.map((name, i) => [name, values[i]]))).toEqual({
    'ratelimit.service.rate_limit.shop.user.total_hits': 1,
    'ratelimit.service.rate_limit.shop.user.over_limit': 2,
    'ratelimit.service.rate_limit.shop.user.near_limit': 3,
    'ratelimit.service.rate_limit.shop.user.over_limit_with_local_cache': 4,
    'ratelimit.service.rate_limit.shop.user.within_limit': 5,
    'ratelimit.service.rate_limit.shop.user.shadow_mode': 6,
  })
})

test("a rule counted under clients' values is also counted under its path", () => {
  const [stats, totals] = [new Stats(), new Totals()]
  stats.rule('shop.user_alice') // an override
  const [alice, bob, plain] = [
    stats.rule('shop.user_alice', 'shop.user'),
    stats.rule('shop.user_bob', 'shop.user'),
    stats.rule('shop.plan', 'shop.plan'),
  ]
  stats.add(alice + TOTAL_HITS, 3)
  stats.add(bob + TOTAL_HITS, 4)
  stats.add(plain + TOTAL_HITS, 9)
  totals.merge(stats.takeDeltas(), 'a thread')
  stats.add(bob + OVER_LIMIT, 2) // its over_limit follows its hit
  totals.merge(stats.takeDeltas(), 'a thread')
  expect(totals.getRule('shop.user')).toEqual({ hits: 7, overLimit: 2 })
  expect(totals.getRule('shop.plan')).toEqual({ hits: 0, overLimit: 0 })
  expect(totals.getCounter('ratelimit.service.rate_limit.shop.user_bob.over_limit')).toBe(2)
})

test('a name created twice is one counter, with any number of names', () => {
  const stats = new Stats()
  const bases = Array.from({ length: 1000 }, (_, i) => stats.rule(`shop.rule${i}`))
  expect(Array.from({ length: 1000 }, (_, i) => stats.rule(`shop.rule${i}`))).toEqual(bases)
  for (const base of bases) stats.add(base + TOTAL_HITS, 1)
  expect(grown(stats.takeDeltas()).map(([, value]) => value)).toEqual(bases.map(() => 1))
})

// biome-ignore format: the columns are the specification
const names = [
  ['remote_address_50.0.0.5', 'remote_address_50_0_0_5'],
  ['a:b|c',                   'a_b_c'],
  ['path_/v1.2/x y',          'path_/v1.2/x y'],
  ['v_1.2.3.4.5',             'v_1_2_3_4.5'],
  ['x\ny\r\u0000\u0085\u2028z',  'x_y____z'],
  ['a.__env=prod.___b=c',     'a._env=prod._b=c'], // no tags from clients
  ['__a',                     '_a'],
  ['a.::env=prod',            'a._env=prod'],
  ['a__b=c_.x',               'a__b=c_.x'],
] as const

for (const [written, counted] of names) {
  test(`7.1 7.2: ${JSON.stringify(written)} is counted as "${counted}"`, () => {
    const stats = new Stats()
    stats.add(stats.rule(`shop.${written}`) + TOTAL_HITS, 1)
    stats.add(stats.domainNotFound(written), 1)
    expect(grown(stats.takeDeltas()).map(([name]) => name)).toEqual([
      `ratelimit.service.rate_limit.shop.${counted}.total_hits`,
      `ratelimit.service.rate_limit.${counted}.domain_not_found`,
    ])
  })
}

test('12#25: the number of names with client text is bounded; the rest counts under `other`', () => {
  const stats = new Stats()
  for (let i = 0; i < 200_000; i++) {
    stats.rule(`s.user_${i}`)
    stats.domainNotFound(`d${i}`)
  }
  for (const late of ['late1', 'late2']) {
    stats.add(stats.rule(`shop.${late}`) + TOTAL_HITS, 1)
    stats.add(stats.domainNotFound(late), 1)
  }
  expect(grown(stats.takeDeltas())).toEqual([
    ['ratelimit.service.rate_limit.other.total_hits', 2],
    ['ratelimit.service.rate_limit.other.domain_not_found', 2],
  ])
})

test('12#25: a long name counts under `other`, and so does every new one when the sum of lengths is at its maximum', () => {
  const stats = new Stats()
  const getRuleName = (key: string) => {
    stats.add(stats.rule(key), 1)
    return stats.takeDeltas().names[0]
  }
  expect(getRuleName('x'.repeat(1024))).toContain('xxx')
  expect(getRuleName('x'.repeat(1025))).toBe('ratelimit.service.rate_limit.other.total_hits')
  const keys = Array.from({ length: 30_000 }, (_, i) => `${i}_`.padEnd(1000, 'x')) // 30 MB
  for (const key of keys) stats.rule(key)
  expect(getRuleName('late'.padEnd(1000, 'x'))).toBe('ratelimit.service.rate_limit.other.total_hits')
  expect(getRuleName(keys[0])).toContain('0_xxx')
})

test('totals add the deltas of workers and are sorted', () => {
  const totals = new Totals()
  totals.merge({ names: ['b', 'a'], values: [1, 2], timers: [], gauges: [], ofRules: [] }, 'a thread')
  totals.merge({ names: ['b'], values: [4], timers: [], gauges: [], ofRules: [] }, 'a thread')
  totals.add('c', 1)
  expect(totals.sorted()).toEqual([
    ['a', 2],
    ['b', 5],
    ['c', 1],
  ])
})

test('7.1: durations are counted per whole millisecond, longer ones by tens, beyond a minute as one', () => {
  const stats = new Stats()
  const timer = stats.timer('t')
  for (const ms of [0.2, 0.9, 1, 999.99, 1_000, 1_009.9, 1_010, 60_000, 86_400_000]) timer.add(ms)
  const totals = new Totals()
  totals.merge(stats.takeDeltas(), 'a thread')
  expect([...totals.timers.get('t')!.counts]).toEqual([
    [0, 2],
    [1, 1],
    [999, 1],
    [1_000, 2],
    [1_010, 1],
    [60_000, 2],
  ])
  expect(totals.timers.get('t')!.sumMs).toBeCloseTo(
    0.2 + 0.9 + 1 + 999.99 + 1_000 + 1_009.9 + 1_010 + 60_000 + 86_400_000,
  )
  expect(stats.takeDeltas().timers).toEqual([])
  timer.add(1)
  totals.merge(stats.takeDeltas(), 'a thread')
  expect(totals.timers.get('t')!.counts.get(1)).toBe(2)
})

test('7.1: gauges are the sums over running threads', () => {
  const totals = new Totals()
  const [one, two] = [new Stats(), new Stats()]
  let open = 3
  one.gauge('connections', () => open)
  two.gauge('connections', () => 1)
  for (const [thread, stats] of Object.entries({ one, two })) totals.merge(stats.takeDeltas(), thread)
  totals.set('main', 7)
  expect(totals.sorted()).toEqual([
    ['connections', 4],
    ['main', 7],
  ])
  open = 0
  totals.merge(one.takeDeltas(), 'one')
  expect(totals.sorted()[0]).toEqual(['connections', 1])
  totals.forget('two')
  expect(totals.sorted()[0]).toEqual(['connections', 0])
  expect(totals.counters).toEqual([])
})

test('a hit of 2^63-1 does not end the counting: later hits are counted one by one, also in the totals', () => {
  const [stats, totals] = [new Stats(), new Totals()]
  const index = stats.counter('hits')
  for (let i = 0; i < 1_000; i++) stats.add(index, 2 ** 63)
  totals.merge(stats.takeDeltas(), 'a thread')
  for (let i = 0; i < 3; i++) {
    stats.add(index, 1)
    totals.merge(stats.takeDeltas(), 'a thread')
  }
  expect(totals.counters).toEqual([['hits', 1_000 * 2 ** 32 + 3]])
  stats.add(index, 2 ** 32 - 1) // the most that a request's own hits_addend can be
  expect(stats.takeDeltas().values).toEqual([2 ** 32 - 1])
})
