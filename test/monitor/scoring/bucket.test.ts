import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ERROR_CODES, type Probe } from '../../../monitor/facts.ts'
import {
  addProbe,
  type Bucket,
  betterBucket,
  bucketStartSec,
  DAY_SEC,
  emptyBucket,
  getAvailability,
  HOUR_SEC,
  mergeBuckets,
  toStatus,
} from '../../../monitor/scoring/bucket.ts'
import { pointOfBucket, pointOfProbe } from '../../../monitor/scoring/probe-point.ts'

const AT_SEC = 1_795_190_400 // 2026-11-20T16:00:00Z
const NO_TIMINGS = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null }

function createProbe(probe: Partial<Probe>): Probe {
  const plain = { atSec: AT_SEC, kind: 'light', outcome: 'up', error: null, httpStatus: 401 } as const
  return { ...plain, timings: NO_TIMINGS, ...probe }
}

function createBucket(...probes: Partial<Probe>[]): Bucket {
  const bucket = emptyBucket(AT_SEC, HOUR_SEC)
  for (const probe of probes) addProbe(bucket, createProbe(probe))
  return bucket
}

const ttfb = (ttfbMs: number) => ({ ...NO_TIMINGS, ttfbMs })

const ms = fc.option(fc.nat({ max: 9_000 }))
const anyProbe: fc.Arbitrary<Probe> = fc.record({
  atSec: fc.integer({ min: AT_SEC, max: AT_SEC + HOUR_SEC - 1 }),
  kind: fc.constantFrom('light', 'full'),
  outcome: fc.constantFrom('up', 'degraded', 'down', 'inconclusive'),
  error: fc.option(fc.constantFrom(...ERROR_CODES)),
  httpStatus: fc.option(fc.integer({ min: 100, max: 599 })),
  timings: fc.record({ dnsMs: ms, connectMs: ms, tlsMs: ms, ttfbMs: ms, totalMs: ms }),
})
const anyProbes = fc.array(anyProbe, { maxLength: 30 })

// biome-ignore format: the columns are the specification
const statuses = [
  [1,      'up'],
  [0.98,   'up'],
  [0.9799, 'degraded'],
  [0.5,    'degraded'],
  [0.4999, 'down'],
  [0,      'down'],
] as const
for (const [availability, status] of statuses) {
  test(`2.2: availability ${availability} is ${status}`, () => expect(toStatus(availability)).toBe(status))
}

test('2.2: availability is (up + 0.7 degraded) / probes', () => {
  const bucket = createBucket({}, {}, { outcome: 'degraded' }, { outcome: 'down' })
  expect(getAvailability([bucket])).toBeCloseTo(2.7 / 4, 12)
  expect(getAvailability([])).toBeNull()
})

test('2.2, 6.3: an inconclusive probe is in no bucket and makes none', () => {
  const bucket = createBucket({ outcome: 'inconclusive', error: 'dns_timeout', timings: ttfb(5) })
  expect(bucket).toEqual(emptyBucket(AT_SEC, HOUR_SEC))
  expect(pointOfBucket(bucket)).toBeNull()
  expect(mergeBuckets([bucket, bucket], AT_SEC, DAY_SEC)).toBeNull()
  expect(betterBucket(bucket, null)).toBeNull()
})

test('2.2: a bucket as callers see it, member by member', () => {
  const timings = { dnsMs: 4, connectMs: 38, tlsMs: 44, ttfbMs: 212, totalMs: 230 }
  const bucket = createBucket(
    { timings },
    { timings },
    { outcome: 'degraded', error: 'http_429', httpStatus: 429, timings },
    { outcome: 'down', error: 'connect_timeout', httpStatus: null, timings: { ...timings, dnsMs: 3_000 } },
    { outcome: 'down', error: 'connect_timeout', httpStatus: null },
    { outcome: 'inconclusive' },
  )
  const point = pointOfBucket(bucket)!
  const { ttfb: ttfbMs, total, ...short } = point.latency_ms
  expect({ ...point, latency_ms: short }).toEqual({
    at: '2026-11-20T16:00:00Z',
    window_s: 3600,
    status: 'degraded',
    probes: 5,
    up: 2,
    degraded: 1,
    down: 2,
    availability: 0.54,
    http_status: 401,
    latency_ms: { dns: 5, connect: 37, tls: 42 }, // within 12 % or 1 ms
    errors: { connect_timeout: 2, http_429: 1 },
  })
  expect(Object.keys(point.errors)).toEqual(['connect_timeout', 'http_429']) // in the order of 6.3, not of arrival
  expect(Math.abs(ttfbMs! - 212)).toBeLessThan(0.12 * 212)
  expect(Math.abs(total! - 230)).toBeLessThan(0.12 * 230)
})

// biome-ignore format: the columns are the specification
const raw = [
  ['up',       null,              200,  'up',       1],
  ['degraded', 'slow',            200,  'degraded', 0.7],
  ['down',     'connect_refused', null, 'down',     0],
] as const
for (const [outcome, error, httpStatus, status, availability] of raw) {
  test(`2.2: a single probe that was ${outcome}, as callers see it`, () => {
    const timings = { ...NO_TIMINGS, dnsMs: 3, connectMs: 5_001 }
    const probe = createProbe({ atSec: AT_SEC + 77, outcome, error, httpStatus, timings, address: '9.9.9.9' })
    expect(JSON.stringify(pointOfProbe(probe))).not.toContain('9.9.9.9') // raw history has no address
    expect(pointOfProbe(probe)).toMatchObject({
      at: '2026-11-20T16:01:17Z',
      window_s: 0,
      status,
      probes: 1,
      availability,
      http_status: httpStatus,
      latency_ms: { dns: 3, connect: 5_001, tls: null, ttfb: null, total: null }, // its own, exactly
      errors: error === null ? {} : { [error]: 1 },
    })
  })
}

test('2.2: an inconclusive probe is no point', () => {
  expect(pointOfProbe(createProbe({ outcome: 'inconclusive' }))).toBeNull()
})

test('2.2: of equally frequent statuses the lower one', () => {
  expect(pointOfBucket(createBucket({ httpStatus: 503 }, { httpStatus: 401 }))!.http_status).toBe(401)
  expect(
    pointOfBucket(createBucket({ httpStatus: 503 }, { httpStatus: 503 }, { httpStatus: 401 }))!.http_status,
  ).toBe(503)
  expect(pointOfBucket(createBucket({ httpStatus: null }))!.http_status).toBeNull()
})

test('2.2: how fast a site refuses is not its latency', () => {
  const bucket = createBucket(
    { timings: ttfb(400) },
    { outcome: 'down', error: 'http_5xx', timings: ttfb(2) },
  )
  expect(pointOfBucket(bucket)!.latency_ms.ttfb).toBeGreaterThan(350)
})

describe('8.2: roll-ups', () => {
  test('merging hours is the same as counting all their probes, in any grouping and order', () => {
    fc.assert(
      fc.property(anyProbes, anyProbes, anyProbes, (a, b, c) => {
        const [x, y, z] = [createBucket(...a), createBucket(...b), createBucket(...c)]
        const direct = { ...createBucket(...c, ...a, ...b), windowSec: DAY_SEC }
        const merge = (...buckets: (Bucket | null)[]) =>
          mergeBuckets(
            buckets.filter((bucket) => bucket !== null),
            AT_SEC,
            DAY_SEC,
          )
        const all = merge(x, y, z)
        expect(all).toEqual(direct.up + direct.degraded + direct.down === 0 ? null : direct)
        expect(merge(merge(x, y), z)).toEqual(all)
        expect(merge(x, merge(z, y))).toEqual(all)
      }),
    )
  })

  test('merging again gives the same, and leaves what it merged alone', () => {
    const hours = [createBucket({ timings: ttfb(100) }), createBucket({ outcome: 'down', error: 'parked' })]
    const before = structuredClone(hours)
    const once = mergeBuckets(hours, AT_SEC, DAY_SEC)
    expect(mergeBuckets(hours, AT_SEC, DAY_SEC)).toEqual(once)
    expect(hours).toEqual(before)
  })

  const up = { timings: ttfb(300) }
  const fast = { timings: ttfb(100) }
  const down = { outcome: 'down' } as const
  // biome-ignore format: the columns are the specification
  const better = [
    // one,               other,              better
    [[up, up],            [fast, down],       'one'],   // availability first
    [[up, down],          [up, up],           'other'],
    [[up],                [fast],             'other'], // then the sooner median first byte
    [[fast, up, up],      [fast, fast, up],   'other'],
    [[{}],                [up],               'other'], // no first byte known is the latest
    [[up],                [up],               'one'],   // equal
    [[down],              [],                 'one'],   // nothing counted stands for nothing
    [[],                  [down],             'other'],
  ] as const
  for (const [a, b, want] of better) {
    test(`the better of ${JSON.stringify(a)} and ${JSON.stringify(b)} is ${want}`, () => {
      const [one, other] = [createBucket(...a), createBucket(...b)]
      expect(betterBucket(one, other)).toBe(want === 'one' ? one : other)
    })
  }

  test('a missing region leaves the other', () => {
    const bucket = createBucket(down)
    expect(betterBucket(null, bucket)).toBe(bucket)
    expect(betterBucket(bucket, null)).toBe(bucket)
    expect(betterBucket(null, null)).toBeNull()
  })

  test('buckets start at whole hours and days of UTC', () => {
    expect(bucketStartSec(AT_SEC + 3_599, HOUR_SEC)).toBe(AT_SEC)
    expect(bucketStartSec(AT_SEC + 3_600, HOUR_SEC)).toBe(AT_SEC + 3_600)
    expect(bucketStartSec(AT_SEC, DAY_SEC)).toBe(Date.UTC(2026, 10, 20) / 1000)
  })
})
