/** One site's life through buckets, history, score, tier and boards: new, proven, gone for four days, back. */
import { expect, test } from 'vitest'
import type { Probe, Tier } from '../../../monitor/facts.ts'
import { buildBoards, type Candidate } from '../../../monitor/scoring/boards.ts'
import {
  addProbe,
  type Bucket,
  DAY_SEC,
  emptyBucket,
  HOUR_SEC,
  mergeBuckets,
} from '../../../monitor/scoring/bucket.ts'
import { computeScore } from '../../../monitor/scoring/score.ts'
import { listCaps, nextTier, type TierMemory } from '../../../monitor/scoring/tier.ts'
import { computeHistory } from '../../../monitor/scoring/windows.ts'

const START_SEC = Date.UTC(2026, 9, 1) / 1000
const GONE_HOUR = 10 * 24
const BACK_HOUR = 14 * 24
const END_HOUR = 24 * 24

interface Moment {
  tier: Tier
  board: 'red' | 'black' | null
  reasons: string[]
}

function live(): Moment[] {
  const hours: Bucket[] = []
  const days: Bucket[] = []
  let memory: TierMemory | null = null
  return Array.from({ length: END_HOUR }, (_, hour) => {
    const atSec = START_SEC + hour * HOUR_SEC
    hours.push(createHour(atSec, hour >= GONE_HOUR && hour < BACK_HOUR))
    if (hour % 24 === 23) days.push(mergeBuckets(hours.slice(-24), atSec - 23 * HOUR_SEC, DAY_SEC)!)
    const nowSec = atSec + HOUR_SEC
    const history = computeHistory(hours, days, nowSec)
    const caps = listCaps({ history, isCertificateInvalid: false, flags: [] })
    const score = computeScore({ history, truthRatio: 1, reachability: 1, hygiene: 1 }).value
    memory = nextTier(memory, score, caps, nowSec)
    const isProvisional = caps.some(({ code }) => code === 'provisional')
    return { tier: memory.tier, ...buildBoard({ tier: memory.tier, score, isProvisional, history }, nowSec) }
  })
}

function createHour(atSec: number, isDown: boolean): Bucket {
  const bucket = emptyBucket(atSec, HOUR_SEC)
  const timings = { dnsMs: null, connectMs: 20, tlsMs: 30, ttfbMs: 250, totalMs: 260 }
  const probe: Probe = isDown
    ? { atSec, kind: 'light', outcome: 'down', error: 'connect_timeout', httpStatus: null, timings }
    : { atSec, kind: 'light', outcome: 'up', error: null, httpStatus: 401, timings }
  for (let i = 0; i < 12; i++) addProbe(bucket, probe)
  return bucket
}

function buildBoard(
  site: Pick<Candidate, 'tier' | 'score' | 'isProvisional' | 'history'>,
  nowSec: number,
): Omit<Moment, 'tier'> {
  const candidate: Candidate = {
    ...site,
    slug: 'site',
    truthRatio: 1,
    claimedCount: 5,
    regions: ['reachable', 'reachable'],
    flags: [],
    isParked: false,
    isCertificateInvalid: false,
    hasOpenIncident: false,
    probeAgeSec: 100,
    intervalSec: 300,
  }
  const empty = { dayAgoRanks: new Map(), since: new Map() }
  const { red, black } = buildBoards([candidate], { red: empty, black: empty }, nowSec)
  if (black.length > 0) return { board: 'black', reasons: black[0].reasons }
  return red.length > 0 ? { board: 'red', reasons: red[0].reasons } : { board: null, reasons: [] }
}

test('7: new, proven, down, up again', () => {
  const moments = live()
  /** After so many full hours. */
  const after = (hours: number) => moments[hours - 1]

  // New: provisional at most B, on no board.
  expect(after(71)).toEqual({ tier: 'B', board: null, reasons: [] })
  expect(after(72).tier).toBe('S') // 72 h of history and 864 probes
  expect(after(7 * 24 - 1).board).toBeNull()
  expect(after(7 * 24)).toMatchObject({ tier: 'S', board: 'red' })
  expect(after(7 * 24).reasons).toEqual(['availability_999', 'models_true', 'fast', 'both_regions'])

  // Gone: a(7 d) falls by 1/168 an hour, so it is below 0.97 after 6 h, 0.90 after 17 h, 0.70 after 51 h.
  const gone = (hours: number) => after(GONE_HOUR + hours)
  expect(gone(5).board).toBe('red') // a(7 d) is still 0.97
  expect(gone(6).board).toBeNull()
  expect(gone(9).tier).toBe('C') // 0.2 × 15/24 + 0.5 × 159/168 + 0.3 × 240/249 is worth nothing: 60 points
  expect(gone(17)).toEqual({ tier: 'C', board: 'black', reasons: ['availability_low'] })
  expect(gone(23).reasons).toEqual(['availability_low'])
  expect(gone(24).reasons).toEqual(['down_24h', 'availability_low'])
  expect([gone(50).tier, gone(51).tier]).toEqual(['C', 'D'])
  expect(gone(71).reasons.slice(0, 2)).toEqual(['down_24h', 'tier_d'])
  expect(gone(72).reasons).toEqual(['down_72h', 'tier_d', 'availability_low', 'availability_drop'])

  // Back: no longer down at once, but it takes its time until the week looks well again.
  const back = (hours: number) => after(BACK_HOUR + hours)
  expect(back(1).reasons).toEqual(['tier_d', 'availability_low', 'availability_drop'])
  expect([back(117).tier, back(118).tier]).toEqual(['D', 'C']) // 50 of the last 168 hours were bad
  expect(back(151).board).toBe('black')
  expect(back(152).board).toBeNull() // 16 of them
  expect(back(END_HOUR - BACK_HOUR).board).toBe('red') // with tier B: the month still remembers
  expect(back(END_HOUR - BACK_HOUR).tier).toBe('B')
})

test('7.2: the tier falls once and rises once', () => {
  const tiers = live().map(({ tier }) => tier)
  const runs = tiers.filter((tier, i) => tier !== tiers[i - 1])
  expect(runs.join('')).toBe('BSABCDCB')
})
