/**
 * From score to tier, with hysteresis (spec 7.2).
 *
 *     score ─┬─ 1.0 above a border ────────► held above it at once        border + 1.0 ┄┄┄┄┄ rises
 *            ├─ above it for 24 h ─────────► held above                   border       ───── no change; a clock runs
 *            ├─ 1.0 below ─────────────────► held below at once           border − 1.0 ┄┄┄┄┄ falls
 *            └─ below it for 6 h ──────────► held below
 *
 * Each of the four borders has its own memory, so a change over two borders needs no intermediate step. Caps are applied
 * afterwards and at once, both ways: they do not change the held tier. The caller stores TierMemory and passes it again.
 */
import type { SiteFlag, Tier } from '../facts.ts'
import type { History } from './windows.ts'

export const TIERS: readonly Tier[] = ['S', 'A', 'B', 'C', 'D'] // best first
export const BORDERS = [92, 80, 65, 45] // of S, A, B, C; below the last is D
const MARGIN = 1.0
const HOUR_SEC = 3_600
const RISE_AFTER_SEC = 24 * HOUR_SEC
const FALL_AFTER_SEC = 6 * HOUR_SEC

const PROBES_MIN = 200
const HISTORY_MIN_SEC = 72 * HOUR_SEC
const DOWN_MAX_SEC = 72 * HOUR_SEC

export interface TierMemory {
  tier: Tier // as published, after caps
  sinceSec: number
  borders: { isHeld: boolean; isAbove: boolean; crossedSec: number }[] // of S, A, B, C
}

// biome-ignore format: one line per cap
export const CAPS = {
  provisional:         'B', // fewer than 200 probes or 72 h of history
  availability_7d_95:  'B',
  availability_7d_90:  'C',
  availability_7d_70:  'D',
  certificate_invalid: 'C', // now
  down_72h:            'D', // no up or degraded probe
  flag:                'D', // scam, closed, phishing
} as const satisfies Record<string, Tier>
export type CapCode = keyof typeof CAPS

export interface Cap {
  code: CapCode
  maxTier: Tier
}

export interface CapInputs {
  history: Pick<History, 'a7d' | 'probes' | 'lengthSec' | 'downSec'>
  isCertificateInvalid: boolean
  flags: readonly SiteFlag[]
}

/** Every cap that applies, in the order of the table. */
export function listCaps({ history, isCertificateInvalid, flags }: CapInputs): Cap[] {
  const { a7d, probes, lengthSec, downSec } = history
  const applies: Record<CapCode, boolean> = {
    provisional: probes < PROBES_MIN || lengthSec < HISTORY_MIN_SEC,
    availability_7d_95: a7d !== null && a7d < 0.95,
    availability_7d_90: a7d !== null && a7d < 0.9,
    availability_7d_70: a7d !== null && a7d < 0.7,
    certificate_invalid: isCertificateInvalid,
    down_72h: downSec >= DOWN_MAX_SEC,
    flag: flags.length > 0,
  }
  const codes = Object.keys(CAPS) as CapCode[]
  return codes.filter((code) => applies[code]).map((code) => ({ code, maxTier: CAPS[code] }))
}

/** The tier of a score without memory and caps. */
export function toTier(score: number): Tier {
  return TIERS[countBelow(BORDERS.map((border) => score >= border))]
}

/** `before` null: a site's first evaluation, without hysteresis. `score` is unrounded. */
export function nextTier(
  before: TierMemory | null,
  score: number,
  caps: readonly Cap[],
  nowSec: number,
): TierMemory {
  const borders = BORDERS.map((border, i) => {
    const isAbove = score >= border
    const past = before?.borders[i]
    if (!past) return { isHeld: isAbove, isAbove, crossedSec: nowSec }
    const crossedSec = past.isAbove === isAbove ? past.crossedSec : nowSec
    const isMoving = past.isHeld !== isAbove && mayMove(score - border, nowSec - crossedSec)
    return { isHeld: isMoving ? isAbove : past.isHeld, isAbove, crossedSec }
  })
  const held = countBelow(borders.map(({ isHeld }) => isHeld))
  const capped = Math.max(held, ...caps.map(({ maxTier }) => TIERS.indexOf(maxTier)))
  const tier = TIERS[capped]
  return { tier, sinceSec: before?.tier === tier ? before.sinceSec : nowSec, borders }
}

/** `distance` from the border on the new side; `forSec`: how long the score has been there. */
function mayMove(distance: number, forSec: number): boolean {
  return Math.abs(distance) >= MARGIN || forSec >= (distance >= 0 ? RISE_AFTER_SEC : FALL_AFTER_SEC)
}

/** How many borders, from S down, the score is below, which is the index of its tier. */
function countBelow(isAbove: boolean[]): number {
  const first = isAbove.indexOf(true)
  return first < 0 ? isAbove.length : first
}
