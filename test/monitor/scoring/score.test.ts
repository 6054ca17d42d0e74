import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Certificate, Hygiene } from '../../../monitor/facts.ts'
import { addProbe, type Bucket, DAY_SEC, emptyBucket, HOUR_SEC } from '../../../monitor/scoring/bucket.ts'
import {
  availabilityWorth,
  computeScore,
  displayScore,
  getHygieneValue,
  getReachability,
  latencyWorth,
  type ScoreInputs,
} from '../../../monitor/scoring/score.ts'
import { toTier } from '../../../monitor/scoring/tier.ts'
import { computeHistory } from '../../../monitor/scoring/windows.ts'

const NOW_SEC = 1_795_194_360 // 2026-11-20T17:06:00Z

type Vector = readonly (number | null)[]
function toInputs([a24h, a7d, a30d, p50Ms, p95Ms, truthRatio, reachability, hygiene]: Vector): ScoreInputs {
  return { history: { a24h, a7d, a30d, p50Ms, p95Ms }, truthRatio, reachability, hygiene }
}

// biome-ignore format: the columns are the specification
const vectors = [
  // a24,   a7,   a30,   p50,  p95, models, reach, hygiene -> score, tier before caps
  [[1,   0.996, 0.992,   420, 1500,    0.9,     1,  0.8],   89.7, 'A'],
  [[1,   0.996, 0.992,   420, 1500,    0.9,  null,  0.8],   87.9, 'A'],
  [[0.5, 0.90,  0.95,   1200, 4000,    0.5,   0.5,  0.4],   27.1, 'D'],
  // ours
  [[1,   1,     1,       300, 1000,      1,     1,    1],    100, 'S'],
  [[0,   0,     0,      3000, 8000,      0,     0,    0],      0, 'D'],
  [[null, null, null,   null, null,   null,  null, null],      0, 'D'], // nothing known
  [[null, null, null,   null, null,   null,     1, null],    100, 'S'], // all that is known
  [[null, 0.99, null,   null, null,   null,  null, null],     75, 'B'], // windows without data drop out
] as const
for (const [vector, score, tier] of vectors) {
  test(`7.2: (${vector.map(String).join(', ')}) is ${score}, ${tier}`, () => {
    const { value } = computeScore(toInputs(vector))
    expect(displayScore(value)).toBe(score)
    expect(toTier(value)).toBe(tier)
  })
}

test('M7.2#2: the components explain a score', () => {
  const { components, method } = computeScore(toInputs(vectors[1][0]))
  expect(method).toBe('score-1')
  expect(components.map(({ key, weight }) => [key, weight])).toEqual([
    ['availability', 40],
    ['models', 20],
    ['latency', 15],
    ['reachability', 15],
    ['hygiene', 10],
  ])
  expect(components[3].value).toBeNull()
  expect(components[0].inputs).toEqual({ a24h: 1, a7d: 0.996, a30d: 0.992 })
})

// biome-ignore format: the columns are the specification
const worths = [
  [0.5,    0],
  [0.9,    0],
  [0.935,  0.25],
  [0.97,   0.5],
  [0.98,   0.625],
  [0.99,   0.75],
  [0.9945, 0.875],
  [0.999,  1],
  [1,      1],
] as const
for (const [a, worth] of worths) {
  test(`M7.2#1: an availability of ${a} is worth ${worth}`, () => {
    const history = { a24h: a, a7d: a, a30d: a, p50Ms: null, p95Ms: null }
    expect(availabilityWorth(history)).toBeCloseTo(worth, 9)
  })
}

// biome-ignore format: the columns are the specification
const latencies = [
  [ 300, 1000,   1],
  [   0,    0,   1],   // faster than any clock
  [3000, 8000,   0],
  [9000, 9000,   0],
  [3000, 1000,   0.4],
  [ 300, 8000,   0.6],
  [ 949, null,   0.5], // the geometric middle of 300 and 3000
  [null, null,   null],
] as const
for (const [p50, p95, worth] of latencies) {
  test(`M7.2#3: first bytes of ${p50} and ${p95} ms are worth ${worth}`, () => {
    if (worth === null) expect(latencyWorth(p50, p95)).toBeNull()
    else expect(latencyWorth(p50, p95)).toBeCloseTo(worth, 3)
  })
}

// biome-ignore format: one line each
const displayed = [[89.65, 89.7], [89.649_999, 89.6], [1.05, 1.1], [0, 0], [100, 100], [99.96, 100]] as const
for (const [value, shown] of displayed) {
  test(`7.2: ${value} is shown as ${shown}`, () => expect(displayScore(value)).toBe(shown))
}

test('M7.2#4: reachability is the mean over measured regions', () => {
  expect(getReachability(['reachable', 'unreachable'])).toBe(0.5)
  expect(getReachability(['reachable', 'unknown'])).toBe(1)
  expect(getReachability(['unknown', 'unknown'])).toBeNull()
})

describe('M7.2#5: hygiene', () => {
  const tls = (days: number, more: Partial<Certificate> = {}): Certificate => ({
    version: 'TLSv1.3',
    issuer: 'x',
    notAfterSec: NOW_SEC + days * DAY_SEC,
    isValid: true,
    alpn: null,
    ...more,
  })
  const facts = (
    redirectsToHttps: boolean | null,
    hasHsts: boolean | null,
    leaksUpstream: boolean | null,
  ): Hygiene => ({
    redirectsToHttps,
    hasHsts,
    leaksUpstream,
  })
  const good = facts(true, true, false)
  // biome-ignore format: the columns are the specification
  const cases = [
    ['all of it',                      tls(15),                        good,                     true,  1],
    ['14 days left',                   tls(14),                        good,                     true,  0.6],
    ['an invalid certificate',         tls(90, { isValid: false }),    good,                     true,  0.6],
    ['TLS 1.2',                        tls(90, { version: 'TLSv1.2' }), good,                    true,  0.8],
    ['no redirect',                    tls(90), facts(false, true, false),                       true,  0.8],
    ['no HSTS',                        tls(90), facts(true, false, false),                       true,  0.9],
    ['a leak',                         tls(90), facts(true, true, true),                         true,  0.9],
    ['plain http',                     null,    facts(false, false, false),                      false, 0.1],
    ['no handshake: not known',        null,    facts(true, true, false),                        true,  1],
    ['parts not known drop out',       tls(90), facts(null, null, true),                         true,  0.6 / 0.7],
    ['nothing known',                  null,    facts(null, null, null),                         true,  null],
  ] as const
  for (const [name, certificate, hygiene, isHttps, want] of cases) {
    test(name, () => {
      const got = getHygieneValue(certificate, hygiene, { isHttps, nowSec: NOW_SEC })
      if (want === null) expect(got).toBeNull()
      else expect(got).toBeCloseTo(want, 9)
    })
  }
})

test('7.2: the score never falls when an input gets better', () => {
  const share = fc.option(fc.double({ min: 0, max: 1, noNaN: true }))
  const ms = fc.option(fc.integer({ min: 0, max: 12_000 }))
  const vector = fc.tuple(share, share, share, ms, ms, share, share, share)
  const better = fc.double({ min: 0, max: 1, noNaN: true })
  fc.assert(
    fc.property(vector, fc.nat({ max: 7 }), better, (values, at, by) => {
      const before = values[at]
      if (before === null) return
      const isTime = at === 3 || at === 4
      const after = isTime ? Math.floor(before * by) : before + (1 - before) * by
      const scoreBefore = computeScore(toInputs(values)).value
      const scoreAfter = computeScore(toInputs(values.with(at, after) as Vector)).value
      expect(scoreAfter).toBeGreaterThanOrEqual(scoreBefore - 1e-9)
      expect(scoreAfter).toBeLessThanOrEqual(100 + 1e-9)
    }),
    { numRuns: 2_000 },
  )
})

describe('7.2: history from roll-ups', () => {
  const timings = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: 400, totalMs: null }
  function createFilled(
    atSec: number,
    windowSec: typeof HOUR_SEC | typeof DAY_SEC,
    up: number,
    down: number,
  ): Bucket {
    const bucket = emptyBucket(atSec, windowSec)
    const probe = { atSec, kind: 'light', error: null, httpStatus: 200, timings } as const
    for (let i = 0; i < up; i++) addProbe(bucket, { ...probe, outcome: 'up' })
    for (let i = 0; i < down; i++) addProbe(bucket, { ...probe, outcome: 'down' })
    return bucket
  }
  const lastHourSec = NOW_SEC - (NOW_SEC % HOUR_SEC)
  const midnightSec = NOW_SEC - (NOW_SEC % DAY_SEC)
  /** `hours` full hours back from now; `upOf` tells how many of 12 probes are up, by age in hours. */
  const createHours = (hours: number, getUpRatio: (age: number) => number) =>
    Array.from({ length: hours }, (_, age) =>
      createFilled(lastHourSec - age * HOUR_SEC, HOUR_SEC, getUpRatio(age), 12 - getUpRatio(age)),
    ).reverse()
  const createDays = (days: number, getUpRatio: (age: number) => number) =>
    Array.from({ length: days }, (_, i) => i + 1)
      .map((age) =>
        createFilled(midnightSec - age * DAY_SEC, DAY_SEC, getUpRatio(age), 288 - getUpRatio(age)),
      )
      .reverse()

  test('a day, a week and a month, each probe once', () => {
    const history = computeHistory(
      createHours(200, (age) => (age < 24 ? 12 : 6)),
      createDays(40, (age) => (age <= 6 ? 0 : 288)), // days of the last week must not be looked at: hours have them
      NOW_SEC,
    )
    expect(history.a24h).toBe(1)
    expect(history.a7d).toBeCloseTo((24 + 144 * 0.5) / 168, 2)
    expect(history.a30d).toBeCloseTo((24 + 137 * 0.5 + 552) / 713, 2)
    expect(history.probes).toBeGreaterThan(12 * (29 * 24 - 1))
    expect(history.probes).toBeLessThanOrEqual(12 * 30 * 24)
    expect(history.lengthSec).toBeGreaterThan(29 * DAY_SEC)
    expect(history.lengthSec).toBeLessThanOrEqual(30 * DAY_SEC)
    expect(Math.abs(history.p50Ms! - 400)).toBeLessThan(48)
  })

  test('the parts of a month fit together at any hour of the day', () => {
    fc.assert(
      fc.property(fc.nat({ max: DAY_SEC - 1 }), (offset) => {
        const nowSec = midnightSec + offset
        const hourSec = nowSec - (nowSec % HOUR_SEC)
        const hours = Array.from({ length: 800 }, (_, i) =>
          createFilled(hourSec - i * HOUR_SEC, HOUR_SEC, 1, 0),
        ).reverse()
        const days = Array.from({ length: 40 }, (_, i) =>
          createFilled(midnightSec - (i + 1) * DAY_SEC, DAY_SEC, 24, 0),
        )
        const { probes } = computeHistory(hours, days.reverse(), nowSec)
        expect(probes).toBeGreaterThan(29 * 24)
        expect(probes).toBeLessThanOrEqual(30 * 24 + 1)
        expect((probes - (hourSec - midnightSec) / HOUR_SEC - 1) % 24).toBe(0) // whole days before today
      }),
      { numRuns: 30 },
    )
  })

  test('nothing counted', () => {
    expect(computeHistory([], [], NOW_SEC)).toEqual({
      a24h: null,
      a7d: null,
      a30d: null,
      p50Ms: null,
      p95Ms: null,
      probes: 0,
      lengthSec: 0,
      downSec: 0,
    })
  })

  // biome-ignore format: the columns are the specification
  const downs = [
    // hours down until now -> down for at least, at most
    [0,    0,   0],
    [1,    0,   1],
    [24,  23,  24],
    [72,  71,  72],
    [73,  72,  73],
  ] as const
  for (const [hoursDown, least, most] of downs) {
    test(`down in the last ${hoursDown} hourly buckets`, () => {
      const { downSec } = computeHistory(
        createHours(150, (age) => (age < hoursDown ? 0 : 12)),
        [],
        NOW_SEC,
      )
      expect(downSec / HOUR_SEC).toBeGreaterThanOrEqual(least)
      expect(downSec / HOUR_SEC).toBeLessThanOrEqual(most)
    })
  }

  test('one good probe in an hour makes the hour good', () => {
    expect(
      computeHistory(
        createHours(100, (age) => (age === 2 ? 1 : 0)),
        [],
        NOW_SEC,
      ).downSec,
    ).toBeLessThan(2 * HOUR_SEC)
  })

  test('a pause of the monitor does not count as down time', () => {
    const hours = [
      createFilled(lastHourSec - 150 * HOUR_SEC, HOUR_SEC, 12, 0),
      createFilled(lastHourSec, HOUR_SEC, 0, 12),
    ]
    expect(computeHistory(hours, [], NOW_SEC).downSec).toBeLessThan(HOUR_SEC)
  })
})
