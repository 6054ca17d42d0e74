/**
 * The two boards: red lists the best sites, black warns (spec 7.3, 7.4). A site is on at most one of them; black wins.
 *
 *     red    rank value = score − 8 / √days     a young site needs a higher score for the same rank
 *     black  severity   = sum of its reasons    every reason is a fact that its page shows
 *
 * Pure: ranks of a day ago and the days of entry are passed as maps (board_day, spec 8.2); entries are returned.
 */
import type { RegionState, SiteFlag, Tier } from '../facts.ts'
import { latencyWorth } from './score.ts'
import type { History } from './windows.ts'

const HOUR_SEC = 3_600
const DAY_SEC = 86_400
const RED_HISTORY_MIN_SEC = 7 * DAY_SEC
const RED_AVAILABILITY_MIN = 0.97
const RED_PROBE_AGE_INTERVALS = 3
const SHORT_HISTORY_PENALTY = 8 // points deducted at 1 day of history, divided by the root of the days: 1.5 at 30
const DAYS_MAX = 30

export type RedReason =
  | 'availability_999'
  | 'models_true'
  | 'fast'
  | 'both_regions'
  | 'long_history'
  | 'availability_970'
export type BlackReason =
  | 'flag_scam'
  | 'down_72h'
  | 'parked'
  | 'down_24h'
  | 'tier_d'
  | 'tls_invalid'
  | 'models_missing'
  | 'availability_low'
  | 'availability_drop'
  | 'unreachable_everywhere'

/** What each warning weighs; a site's severity is their sum. `models_missing` counts the share of models that is missing. */
export const BLACK_WEIGHTS: Record<BlackReason, number> = {
  flag_scam: 100,
  down_72h: 60,
  parked: 50,
  down_24h: 40,
  tier_d: 30,
  tls_invalid: 25,
  models_missing: 30,
  availability_low: 25,
  availability_drop: 20,
  unreachable_everywhere: 20,
}

/** Reasons that apply to a provisional site too; all others need more evidence. */
const BLACK_AT_ONCE: readonly BlackReason[] = ['flag_scam', 'down_72h', 'parked']

export interface Candidate {
  slug: string
  tier: Tier // as published
  score: number // unrounded
  isProvisional: boolean
  history: Pick<History, 'a7d' | 'a30d' | 'p50Ms' | 'p95Ms' | 'lengthSec' | 'downSec'>
  truthRatio: number | null
  claimedCount: number
  regions: readonly RegionState['state'][] // of both
  flags: readonly SiteFlag[]
  isParked: boolean
  isCertificateInvalid: boolean
  hasOpenIncident: boolean
  probeAgeSec: number // since the newest finished probe
  intervalSec: number // between its probes
}

/** The previous board. Sites that are in neither map are new. */
export interface BoardPast {
  dayAgoRanks: ReadonlyMap<string, number> // slug → rank 24 h ago
  since: ReadonlyMap<string, string> // slug → date of entry, of the previous board
}

export interface BoardEntry<Reason> {
  slug: string
  rank: number // from 1, no ties
  rankChange: number | null // versus 24 h ago, positive = climbed; null = new
  since: string // YYYY-MM-DD
  reasons: Reason[] // strongest first, at least one
  value: number // sort key: rank value or severity
}

export interface Boards {
  red: BoardEntry<RedReason>[]
  black: BoardEntry<BlackReason>[]
}

/** All eligible sites of both boards, by rank. */
export function buildBoards(
  sites: readonly Candidate[],
  past: { red: BoardPast; black: BoardPast },
  nowSec: number,
): Boards {
  const black = sites
    .map((site) => ({ site, reasons: blackReasons(site) }))
    .filter(({ site, reasons }) => isBlack(site, reasons))
    .map(({ site, reasons }) => ({ site, reasons: listReasons(reasons), value: getSeverity(reasons) }))
    .sort((a, b) => b.value - a.value || a.site.score - b.site.score || bySlug(a.site, b.site))
  const warned = new Set(black.map(({ site }) => site.slug))
  const red = sites
    .filter((site) => !warned.has(site.slug) && isRed(site))
    .map((site) => ({ site, reasons: redReasons(site), value: rankValue(site) }))
    .sort((a, b) => b.value - a.value || byHistory(a.site, b.site) || bySlug(a.site, b.site))
  return { red: ranked(red, past.red, nowSec), black: ranked(black, past.black, nowSec) }
}

export function rankValue({ score, history }: Candidate): number {
  return score - SHORT_HISTORY_PENALTY / Math.sqrt(Math.min(DAYS_MAX, history.lengthSec / DAY_SEC))
}

export function getSeverity(reasons: ReadonlyMap<BlackReason, number>): number {
  return [...reasons.values()].reduce((sum, weight) => sum + weight, 0)
}

/** Reason → its weight, in the order of the specification. Down for 72 h replaces down for 24 h. */
export function blackReasons(site: Candidate): Map<BlackReason, number> {
  const { history, truthRatio } = site
  const { a7d, a30d, downSec } = history
  const isMissing = truthRatio !== null && site.claimedCount >= 5 && truthRatio < 0.7
  const measured = site.regions.filter((state) => state !== 'unknown')
  const applies: Record<BlackReason, boolean> = {
    flag_scam: site.flags.includes('scam'),
    down_72h: downSec >= 72 * HOUR_SEC,
    parked: site.isParked,
    down_24h: downSec >= 24 * HOUR_SEC && downSec < 72 * HOUR_SEC,
    tier_d: site.tier === 'D',
    tls_invalid: site.isCertificateInvalid,
    models_missing: isMissing,
    availability_low: a7d !== null && a7d < 0.9,
    availability_drop: a7d !== null && a30d !== null && a30d - a7d > 0.1,
    unreachable_everywhere: measured.length > 0 && !measured.includes('reachable'),
  }
  const weigh = (reason: BlackReason) =>
    BLACK_WEIGHTS[reason] * (reason === 'models_missing' ? 1 - (truthRatio ?? 1) : 1)
  const reasons = Object.keys(BLACK_WEIGHTS) as BlackReason[]
  return new Map(reasons.filter((reason) => applies[reason]).map((reason) => [reason, weigh(reason)]))
}

function isBlack(site: Candidate, reasons: ReadonlyMap<BlackReason, number>): boolean {
  return site.isProvisional ? BLACK_AT_ONCE.some((reason) => reasons.has(reason)) : reasons.size > 0
}

function isRed(site: Candidate): boolean {
  return (
    (site.tier === 'S' || site.tier === 'A' || site.tier === 'B') &&
    !site.isProvisional &&
    site.history.lengthSec >= RED_HISTORY_MIN_SEC &&
    (site.history.a7d ?? 0) >= RED_AVAILABILITY_MIN &&
    site.flags.length === 0 &&
    !site.hasOpenIncident &&
    site.probeAgeSec <= RED_PROBE_AGE_INTERVALS * site.intervalSec
  )
}

/**
 * Strengths, by the weight of their component in the score. A site may be eligible without any; its reason is then its
 * availability, which is at least 0.97.
 */
function redReasons({ history, truthRatio, regions }: Candidate): RedReason[] {
  const isFast = (latencyWorth(history.p50Ms, history.p95Ms) ?? 0) >= 0.8 // 475 ms at the median, 1.5 s at p95
  const reasons: [RedReason, boolean][] = [
    ['availability_999', (history.a30d ?? 0) >= 0.999],
    ['models_true', (truthRatio ?? 0) >= 0.95],
    ['fast', isFast],
    ['both_regions', regions.length > 1 && regions.every((state) => state === 'reachable')],
    ['long_history', history.lengthSec >= (DAYS_MAX - 1) * DAY_SEC],
  ]
  const names = reasons.filter(([, applies]) => applies).map(([name]) => name)
  return names.length > 0 ? names : ['availability_970']
}

function listReasons(reasons: ReadonlyMap<BlackReason, number>): BlackReason[] {
  return [...reasons].sort(([, a], [, b]) => b - a).map(([name]) => name) // stable: equals keep the order above
}

function ranked<Reason>(
  rows: { site: Candidate; reasons: Reason[]; value: number }[],
  { dayAgoRanks, since }: BoardPast,
  nowSec: number,
): BoardEntry<Reason>[] {
  const today = new Date(nowSec * 1000).toISOString().slice(0, 10)
  return rows.map(({ site: { slug }, reasons, value }, i) => {
    const before = dayAgoRanks.get(slug)
    const rankChange = before === undefined ? null : before - (i + 1)
    return { slug, rank: i + 1, rankChange, since: since.get(slug) ?? today, reasons, value }
  })
}

/** Higher availability first, then the lower time to first byte; unknown values last. */
function byHistory(a: Candidate, b: Candidate): number {
  const availability = (b.history.a30d ?? 0) - (a.history.a30d ?? 0)
  return availability || (a.history.p50Ms ?? 1e9) - (b.history.p50Ms ?? 1e9)
}

function bySlug(a: Candidate, b: Candidate): number {
  return a.slug < b.slug ? -1 : 1
}
