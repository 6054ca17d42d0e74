/**
 * The evaluation of one site: its stored form (kept with the score, shown in lists and pages, read by the next evaluation),
 * and the site as a candidate for boards.
 */
import type { SiteFacts } from '../api/site-facts.ts'
import type { RegionState } from '../facts.ts'
import {
  bucketStartSec,
  type Counts,
  countProbes,
  DAY_SEC,
  getAvailability,
  HOUR_SEC,
} from '../scoring/bucket.ts'
import type { Score } from '../scoring/score.ts'
import type { Cap, TierMemory } from '../scoring/tier.ts'
import type { History, Past } from '../scoring/windows.ts'
import type { StoredScore } from '../storage/reader.ts'
import type { PassCandidate } from './boards.ts'
import type { Findings } from './findings.ts'
import type { PassSite } from './rows.ts'

const DAYS = 30
/** 09:00 to 23:00 UTC+8: the hours that begin at 01:00 to 14:00 UTC. */
export const PEAK = { firstHour: 1, lastHour: 14 } as const

export interface SiteEvaluation {
  history: History
  findings: Findings
  states: readonly RegionState['state'][] // of both regions
  hasOpenIncident: boolean
  score: Score
  caps: Cap[]
  tier: TierMemory
}

export interface StoredEvaluation extends SiteFacts {
  borders: TierMemory['borders']
  evaluatedSec: number // when a change of a region's state last counted: once per interval
}

export interface Memory {
  tier: TierMemory | null
  evaluatedSec: number | null
}

/** Members that an older version did not write are unknown. */
export function readMemory(stored: StoredScore | undefined): Memory {
  if (!stored) return { tier: null, evaluatedSec: null }
  const { borders, evaluatedSec } = (stored.facts ?? {}) as Partial<StoredEvaluation>
  return {
    tier: { tier: stored.tier, sinceSec: stored.tierSinceSec, borders: borders ?? [] },
    evaluatedSec: evaluatedSec ?? null,
  }
}

export interface EvaluationTime {
  nowSec: number
  evaluatedSec: number
  past: Past
  peakBefore: Omit<Counts, 'atSec'> // counts of peak hours before the hours of `past`
}

export function toStoredEvaluation(
  evaluation: SiteEvaluation,
  { nowSec, evaluatedSec, past, peakBefore }: EvaluationTime,
): StoredEvaluation {
  const { history, findings, score, caps, tier } = evaluation
  return {
    availability7d: history.a7d,
    availability30d: history.a30d,
    availabilityPeak30d: getAvailability([peakBefore, ...past.hours.filter(isPeak)]),
    probes30d: past.days.reduce((sum, day) => sum + countProbes(day), 0),
    p50Ms: history.p50Ms,
    days: toDailyAvailability(past.days, nowSec),
    software: findings.software,
    modelsClaimed: findings.models.claimed.length,
    modelsVerified: findings.models.verified.length,
    isProvisional: isProvisional(caps),
    components: score.components,
    caps,
    method: score.method,
    computedAtSec: nowSec,
    borders: tier.borders,
    evaluatedSec,
  }
}

/** `intervalSec`: the default interval. */
export function toCandidate(
  site: PassSite,
  evaluation: SiteEvaluation,
  { nowSec, intervalSec }: { nowSec: number; intervalSec: number },
): PassCandidate {
  const { findings, states, score, caps, tier, history, hasOpenIncident } = evaluation
  return {
    siteId: site.id,
    slug: site.slug,
    tier: tier.tier,
    score: score.value,
    isProvisional: isProvisional(caps),
    history,
    truthRatio: findings.models.truthRatio,
    claimedCount: findings.models.claimed.length,
    regions: states,
    flags: site.catalogue.flags,
    isParked: findings.isParked,
    isCertificateInvalid: findings.isCertificateInvalid,
    hasOpenIncident,
    probeAgeSec: nowSec - site.lastProbedSec,
    intervalSec: site.catalogue.intervalSec ?? intervalSec,
  }
}

/** Daily availability, oldest first; today is the last. */
function toDailyAvailability(days: readonly Counts[], nowSec: number): (number | null)[] {
  const known = new Map(days.map((day) => [day.atSec, getAvailability([day])]))
  const todaySec = bucketStartSec(nowSec, DAY_SEC)
  return Array.from({ length: DAYS }, (_, i) => known.get(todaySec - (DAYS - 1 - i) * DAY_SEC) ?? null)
}

function isPeak({ atSec }: Counts): boolean {
  const hour = (atSec % DAY_SEC) / HOUR_SEC
  return hour >= PEAK.firstHour && hour <= PEAK.lastHour
}

function isProvisional(caps: readonly Cap[]): boolean {
  return caps.some(({ code }) => code === 'provisional')
}
