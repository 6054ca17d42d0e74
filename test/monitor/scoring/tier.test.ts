import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Tier } from '../../../monitor/facts.ts'
import {
  type Cap,
  type CapInputs,
  listCaps,
  nextTier,
  TIERS,
  type TierMemory,
  toTier,
} from '../../../monitor/scoring/tier.ts'

const HOUR_SEC = 3_600
const STEP_SEC = 300 // recomputed every 5 minutes

// biome-ignore format: the columns are the specification
const borders = [
  [100,    'S'], [92, 'S'], [91.999, 'A'], [80, 'A'], [79.999, 'B'],
  [65,     'B'], [64.999, 'C'], [45, 'C'], [44.999, 'D'], [0, 'D'],
] as const
for (const [score, tier] of borders) {
  test(`7.2: ${score} is ${tier}, at first sight too`, () => {
    expect(toTier(score)).toBe(tier)
    expect(nextTier(null, score, [], 0).tier).toBe(tier)
  })
}

/** The tier after each step of `scores`, one every `stepSec`. */
function walk(
  scores: readonly number[],
  stepSec = STEP_SEC,
  caps: (i: number) => Cap[] = () => [],
): TierMemory[] {
  let memory: TierMemory | null = null
  return scores.map((score, i) => {
    memory = JSON.parse(JSON.stringify(nextTier(memory, score, caps(i), i * stepSec))) as TierMemory // as when stored
    return memory
  })
}

const steps = (count: number, score: number) => new Array<number>(count).fill(score)
const listTiers = (walked: TierMemory[]) => walked.map(({ tier }) => tier)

describe('7.2: hysteresis', () => {
  // biome-ignore format: the columns are the specification
  const moves = [
    // from, to, hours -> tier
    [85,  91.9, 100, 'A'],
    [85,  92.9,  23, 'A'], // above the border, not by 1.0, not for long enough
    [85,  92.9,  24, 'S'],
    [85,  93,     0, 'S'], // by 1.0: at once
    [93,  91.1,   5, 'S'],
    [93,  91.1,   6, 'A'],
    [93,  91,     0, 'A'],
    [99,  30,     0, 'D'], // over all borders at once
    [30,  99,     0, 'S'],
    [30,  80.5,   0, 'B'], // A has to wait, B and C do not
    [30,  80.5,  24, 'A'],
  ] as const
  for (const [from, to, hours, tier] of moves) {
    test(`from ${from} to ${to} for ${hours} h: ${tier}`, () => {
      const walked = walk([from, ...steps((hours * HOUR_SEC) / STEP_SEC + 1, to)])
      expect(walked.at(-1)!.tier).toBe(tier)
      // Not a step sooner: who waits for a time has kept its tier until then.
      if (hours === 24 || hours === 6) expect(walked.at(-2)!.tier).not.toBe(tier)
    })
  }

  test('the clock starts again at each crossing', () => {
    const almost = (HOUR_SEC * 5.5) / STEP_SEC
    const walked = walk([
      93,
      ...steps(almost, 91.5),
      92.1,
      ...steps(almost, 91.5),
      92.1,
      ...steps(almost, 91.5),
    ])
    expect(new Set(listTiers(walked))).toEqual(new Set(['S']))
  })

  test('since is when the published tier began', () => {
    const walked = walk([93, 93, 85, 85])
    expect(walked.map(({ sinceSec }) => sinceSec)).toEqual([0, 0, 600, 600])
  })

  test('a tier never flaps while noise stays below 1.0 around a border', () => {
    const border = fc.constantFrom(92, 80, 65, 45)
    const noise = fc.array(fc.double({ min: -0.999, max: 0.999, noNaN: true }), {
      minLength: 600,
      maxLength: 600,
    })
    const start = fc.constantFrom(-5, 5)
    fc.assert(
      fc.property(border, noise, start, (center, offsets, first) => {
        // Noise comes to both sides now and then: here at least every 5 hours.
        const scores = offsets.map(
          (offset, i) => center + (i % 60 === 0 ? Math.sign(0.5 - ((i / 60) % 2)) * 0.5 : offset),
        )
        const walked = walk([center + first, ...scores])
        expect(new Set(listTiers(walked)).size).toBe(1)
      }),
      { numRuns: 30 },
    )
  })

  test('for any scores, a tier changes only by margin or by time, and borders apply in order', () => {
    const scores = fc.array(fc.double({ min: 0, max: 100, noNaN: true }), { minLength: 2, maxLength: 100 })
    fc.assert(
      fc.property(scores, fc.integer({ min: 60, max: 30 * HOUR_SEC }), (values, stepSec) => {
        const walked = walk(values, stepSec)
        walked.forEach(({ tier, borders: held }, i) => {
          const order = held.map(({ isHeld }) => isHeld)
          expect([...order].sort()).toEqual(order) // false before true
          if (i === 0 || stepSec >= 6 * HOUR_SEC || tier === walked[i - 1].tier) return
          const isRise = TIERS.indexOf(tier) < TIERS.indexOf(walked[i - 1].tier)
          const margin = toTier(values[i] + (isRise ? -1 : 1))
          const byMargin = isRise
            ? TIERS.indexOf(margin) <= TIERS.indexOf(tier)
            : TIERS.indexOf(margin) >= TIERS.indexOf(tier)
          const longSec = isRise ? 24 * HOUR_SEC : 6 * HOUR_SEC
          expect(byMargin || i * stepSec >= longSec).toBe(true)
        })
      }),
    )
  })
})

describe('7.2: caps', () => {
  const good: CapInputs = {
    history: { a7d: 1, probes: 200, lengthSec: 72 * HOUR_SEC, downSec: 0 },
    isCertificateInvalid: false,
    flags: [],
  }
  const history = (change: Partial<CapInputs['history']>): CapInputs => ({
    ...good,
    history: { ...good.history, ...change },
  })

  // biome-ignore format: the columns are the specification
  const cases: [string, CapInputs, string[], Tier][] = [
    ['none',                   good,                                        [], 'S'],
    ['199 probes',             history({ probes: 199 }),                    ['provisional'], 'B'],
    ['history under 72 h',     history({ lengthSec: 72 * HOUR_SEC - 1 }),   ['provisional'], 'B'],
    ['a(7 d) 0.95',            history({ a7d: 0.95 }),                      [], 'S'],
    ['a(7 d) 0.9499',          history({ a7d: 0.9499 }),                    ['availability_7d_95'], 'B'],
    ['a(7 d) 0.90',            history({ a7d: 0.9 }),                       ['availability_7d_95'], 'B'],
    ['a(7 d) 0.8999',          history({ a7d: 0.8999 }),                    ['availability_7d_95', 'availability_7d_90'], 'C'],
    ['a(7 d) 0.6999',          history({ a7d: 0.6999 }), ['availability_7d_95', 'availability_7d_90', 'availability_7d_70'], 'D'],
    ['a(7 d) not known',       history({ a7d: null }),                      [], 'S'],
    ['an invalid certificate', { ...good, isCertificateInvalid: true },     ['certificate_invalid'], 'C'],
    ['down for 72 h',          history({ downSec: 72 * HOUR_SEC }),         ['down_72h'], 'D'],
    ['down for less',          history({ downSec: 72 * HOUR_SEC - 1 }),     [], 'S'],
    ['scam',                   { ...good, flags: ['scam'] },                ['flag'], 'D'],
    ['closed',                 { ...good, flags: ['closed'] },              ['flag'], 'D'],
    ['phishing',               { ...good, flags: ['phishing'] },            ['flag'], 'D'],
  ]
  for (const [name, inputs, codes, tier] of cases) {
    test(`${name}: ${tier} at most`, () => {
      const caps = listCaps(inputs)
      expect(caps.map(({ code }) => code)).toEqual(codes)
      expect(nextTier(null, 100, caps, 0).tier).toBe(tier)
      expect(nextTier(null, 10, caps, 0).tier).toBe('D') // a cap never lifts
    })
  }

  test('act at once, up and down, and do not change the stored tier', () => {
    const isCapped = (i: number) => i === 1 || i === 2
    const walked = walk(steps(5, 95), STEP_SEC, (i) =>
      isCapped(i) ? [{ code: 'certificate_invalid', maxTier: 'C' }] : [],
    )
    expect(listTiers(walked)).toEqual(['S', 'C', 'C', 'S', 'S'])
    expect(walked.map(({ sinceSec }) => sinceSec)).toEqual([0, 300, 300, 900, 900])
  })
})
