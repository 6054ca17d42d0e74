import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type BoardPast,
  blackReasons,
  buildBoards,
  type Candidate,
  getSeverity,
  rankValue,
} from '../../../monitor/scoring/boards.ts'

const NOW_SEC = 1_795_194_360 // 2026-11-20
const HOUR_SEC = 3_600
const DAY_SEC = 24 * HOUR_SEC
const EMPTY: BoardPast = { dayAgoRanks: new Map(), since: new Map() }

const GOOD: Candidate = {
  slug: 'good',
  tier: 'A',
  score: 88,
  isProvisional: false,
  history: { a7d: 0.995, a30d: 0.995, p50Ms: 600, p95Ms: 3000, lengthSec: 16 * DAY_SEC, downSec: 0 },
  truthRatio: 0.8,
  claimedCount: 10,
  regions: ['reachable', 'unknown'],
  flags: [],
  isParked: false,
  isCertificateInvalid: false,
  hasOpenIncident: false,
  probeAgeSec: 60,
  intervalSec: 300,
}

type Change = Partial<Omit<Candidate, 'history'>> & { history?: Partial<Candidate['history']> }
function createCandidate({ history, ...change }: Change = {}): Candidate {
  return { ...GOOD, ...change, history: { ...GOOD.history, ...history } }
}

const boards = (...sites: Candidate[]) => buildBoards(sites, { red: EMPTY, black: EMPTY }, NOW_SEC)
const slugs = (entries: { slug: string }[]) => entries.map(({ slug }) => slug)

describe('7.3: who is on the red board', () => {
  // biome-ignore format: the columns are the specification
  const cases: [string, Change, boolean][] = [
    ['a good site',                  {},                                       true],
    ['tier S',                       { tier: 'S' },                            true],
    ['tier B',                       { tier: 'B' },                            true],
    ['tier C',                       { tier: 'C' },                            false],
    ['provisional',                  { isProvisional: true },                  false],
    ['7 days of history',            { history: { lengthSec: 7 * DAY_SEC } },  true],
    ['less',                         { history: { lengthSec: 7 * DAY_SEC - 1 } }, false],
    ['a(7 d) 0.97',                  { history: { a7d: 0.97 } },               true],
    ['a(7 d) 0.9699',                { history: { a7d: 0.9699 } },             false],
    ['a(7 d) not known',             { history: { a7d: null } },               false],
    ['an operator flag',             { flags: ['closed'] },                    false],
    ['an open incident',             { hasOpenIncident: true },                false],
    ['newest probe 3 intervals ago', { probeAgeSec: 900 },                     true],
    ['longer ago',                   { probeAgeSec: 901 },                     false],
  ]
  for (const [name, change, isOn] of cases) {
    test(`${name}: ${isOn ? 'yes' : 'no'}`, () => {
      expect(slugs(boards(createCandidate(change)).red)).toEqual(isOn ? ['good'] : [])
    })
  }
})

// biome-ignore format: the columns are the specification
const values = [
  [ 1, 80],
  [ 4, 84],
  [16, 86],
  [30, 88 - 8 / Math.sqrt(30)],
  [99, 88 - 8 / Math.sqrt(30)], // 30 days at most
] as const
for (const [days, value] of values) {
  test(`7.3: 88 points with ${days} days of history rank as ${value}`, () => {
    expect(rankValue(createCandidate({ history: { lengthSec: days * DAY_SEC } }))).toBeCloseTo(value, 9)
  })
}

test('7.3: order is rank value, then a(30 d), then p50, then slug', () => {
  const sites = [
    createCandidate({ slug: 'd', score: 85 }),
    createCandidate({ slug: 'c', history: { p50Ms: 700 } }),
    createCandidate({ slug: 'n', history: { p50Ms: null } }),
    createCandidate({ slug: 'b' }),
    createCandidate({ slug: 'a' }),
    createCandidate({ slug: 'available', history: { a30d: 0.9951 } }),
    createCandidate({ slug: 'best', score: 90 }),
    createCandidate({ slug: 'young', score: 89, history: { lengthSec: 7 * DAY_SEC } }),
  ]
  const { red } = boards(...sites)
  expect(slugs(red)).toEqual(['best', 'available', 'a', 'b', 'c', 'n', 'young', 'd'])
  expect(red.map(({ rank }) => rank)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
})

describe('7.4: red reasons, strongest first', () => {
  // biome-ignore format: the columns are the specification
  const cases: [Change, string[]][] = [
    [{},                                          ['availability_970']], // at least one, and a true one
    [{ history: { a30d: 0.999 } },                ['availability_999']],
    [{ truthRatio: 0.95 },                        ['models_true']],
    [{ truthRatio: null },                        ['availability_970']],
    [{ history: { p50Ms: 300, p95Ms: 1000 } },    ['fast']],
    [{ regions: ['reachable', 'reachable'] },     ['both_regions']],
    [{ history: { lengthSec: 29.5 * DAY_SEC } },  ['long_history']],
    [{ history: { a30d: 1, p50Ms: 200, p95Ms: 900, lengthSec: 30 * DAY_SEC }, truthRatio: 1, regions: ['reachable', 'reachable'] },
      ['availability_999', 'models_true', 'fast', 'both_regions', 'long_history']],
  ]
  for (const [change, reasons] of cases) {
    test(reasons.join(', '), () => expect(boards(createCandidate(change)).red[0].reasons).toEqual(reasons))
  }
})

describe('7.4: black reasons and their weights', () => {
  // biome-ignore format: the columns are the specification
  const cases: [Change, Record<string, number>][] = [
    [{},                                            {}],
    [{ flags: ['scam'] },                           { flag_scam: 100 }],
    [{ flags: ['closed', 'phishing'] },             {}],                 // they make tier D, which is a reason
    [{ history: { downSec: 72 * HOUR_SEC } },       { down_72h: 60 }],
    [{ history: { downSec: 72 * HOUR_SEC - 1 } },   { down_24h: 40 }],
    [{ history: { downSec: 24 * HOUR_SEC } },       { down_24h: 40 }],
    [{ history: { downSec: 24 * HOUR_SEC - 1 } },   {}],
    [{ isParked: true },                            { parked: 50 }],
    [{ tier: 'D' },                                 { tier_d: 30 }],
    [{ isCertificateInvalid: true },                { tls_invalid: 25 }],
    [{ truthRatio: 0 },                             { models_missing: 30 }],
    [{ truthRatio: 0.5 },                           { models_missing: 15 }],
    [{ truthRatio: 0.7 },                           {}],
    [{ truthRatio: 0, claimedCount: 4 },            {}],
    [{ truthRatio: 0, claimedCount: 5 },            { models_missing: 30 }],
    [{ truthRatio: null },                          {}],
    [{ history: { a7d: 0.9, a30d: 0.9 } },          {}],
    [{ history: { a7d: 0.8999, a30d: 0.8999 } },    { availability_low: 25 }],
    [{ history: { a7d: 0.9, a30d: 0.9999 } },       {}],
    [{ history: { a7d: 0.89, a30d: 0.995 } },       { availability_low: 25, availability_drop: 20 }],
    [{ history: { a7d: null, a30d: 0.5 } },         {}],
    [{ regions: ['unreachable', 'unreachable'] },   { unreachable_everywhere: 20 }],
    [{ regions: ['unknown', 'unreachable'] },       { unreachable_everywhere: 20 }],
    [{ regions: ['reachable', 'unreachable'] },     {}],
    [{ regions: ['unknown', 'unknown'] },           {}],
  ]
  for (const [change, reasons] of cases) {
    test(`${JSON.stringify(change)}: ${JSON.stringify(reasons)}`, () => {
      const got = blackReasons(createCandidate(change))
      expect(Object.fromEntries(got)).toEqual(reasons)
      expect(getSeverity(got)).toBe(Object.values(reasons).reduce((a, b) => a + b, 0))
      expect(boards(createCandidate(change)).black).toHaveLength(got.size > 0 ? 1 : 0)
    })
  }

  test('strongest first; of equal ones in the order of the specification', () => {
    const worst = createCandidate({
      tier: 'D',
      truthRatio: 0,
      history: { downSec: 80 * HOUR_SEC, a7d: 0.2, a30d: 0.7 },
      regions: ['unreachable', 'unknown'],
    })
    const [entry] = boards(worst).black
    expect(entry.value).toBe(60 + 30 + 30 + 25 + 20 + 20)
    expect(entry.reasons).toEqual([
      'down_72h',
      'tier_d',
      'models_missing',
      'availability_low',
      'availability_drop',
      'unreachable_everywhere',
    ])
  })

  // biome-ignore format: the columns are the specification
  const provisional: [Change, boolean][] = [
    [{ tier: 'D' },                                    false],
    [{ isCertificateInvalid: true },                   false],
    [{ history: { downSec: 30 * HOUR_SEC } },          false],
    [{ history: { downSec: 72 * HOUR_SEC } },          true],
    [{ isParked: true },                               true],
    [{ flags: ['scam'] },                              true],
  ]
  for (const [change, isOn] of provisional) {
    test(`provisional, ${JSON.stringify(change)}: ${isOn ? 'on' : 'not on'} the board`, () => {
      expect(boards(createCandidate({ ...change, isProvisional: true })).black).toHaveLength(isOn ? 1 : 0)
    })
  }
})

test('7.4: order is severity, then the lower score, then slug', () => {
  const { black } = boards(
    createCandidate({ slug: 'b', tier: 'D', score: 20 }),
    createCandidate({ slug: 'a', tier: 'D', score: 20 }),
    createCandidate({ slug: 'z', tier: 'D', score: 10 }),
    createCandidate({ slug: 'scam', flags: ['scam'], score: 99 }),
  )
  expect(slugs(black)).toEqual(['scam', 'z', 'a', 'b'])
})

test('7.4: no site is on both boards; black wins', () => {
  const { red, black } = boards(
    createCandidate({ slug: 'leak', isCertificateInvalid: true }),
    createCandidate(),
  )
  expect([slugs(red), slugs(black)]).toEqual([['good'], ['leak']])
})

describe('3.3: rank change and since', () => {
  const past: BoardPast = {
    dayAgoRanks: new Map(Object.entries({ a: 3, b: 1, c: 3 })),
    since: new Map(Object.entries({ a: '2026-10-01', b: '2026-11-19' })),
  }
  const { red } = buildBoards(
    [
      createCandidate({ slug: 'a', score: 90 }),
      createCandidate({ slug: 'b', score: 89 }),
      createCandidate({ slug: 'c', score: 88 }),
      createCandidate({ slug: 'new', score: 87 }),
    ],
    { red: past, black: EMPTY },
    NOW_SEC,
  )
  // biome-ignore format: the columns are the specification
  const rows = [
    ['a',   1,    2, '2026-10-01'], // climbed
    ['b',   2,   -1, '2026-11-19'], // fell
    ['c',   3,    0, '2026-11-20'], // was here a day ago, left, came back
    ['new', 4, null, '2026-11-20'],
  ] as const
  rows.forEach(([slug, rank, rankChange, since], i) => {
    test(`${slug} is ${rank}, ${rankChange}, since ${since}`, () => {
      expect(red[i]).toMatchObject({ slug, rank, rankChange, since })
    })
  })
})

test('7.3, 7.4: the boards do not depend on the order of the sites, and ranks have no ties', () => {
  const site = fc.record({
    score: fc.constantFrom(50, 80, 90),
    tier: fc.constantFrom('A', 'D'),
    a30d: fc.constantFrom(null, 0.5, 0.99),
    p50Ms: fc.constantFrom(null, 100, 200),
    isParked: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(site, { maxLength: 20 }), (records) => {
      const sites = records.map(({ a30d, p50Ms, ...rest }, i) =>
        createCandidate({ ...rest, slug: `s${i}`, history: { a30d, p50Ms } } as Change),
      )
      const forward = boards(...sites)
      expect(boards(...[...sites].reverse())).toEqual(forward)
      for (const board of [forward.red, forward.black]) {
        expect(board.map(({ rank }) => rank)).toEqual(board.map((_, i) => i + 1))
        for (const { reasons } of board) expect(reasons.length).toBeGreaterThan(0)
      }
      expect(new Set([...slugs(forward.red), ...slugs(forward.black)]).size).toBe(
        forward.red.length + forward.black.length,
      )
    }),
  )
})
