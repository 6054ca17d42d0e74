/**
 * A site in v1 (spec 2.1): exactly eight fields, in the order of the specification; and the summary of lists.
 */
import type { RegionState } from '../facts.ts'
import { ratio, timestamp } from '../scoring/probe-point.ts'
import { displayScore } from '../scoring/score.ts'
import type { SiteState } from '../storage/snapshot.ts'
import { getSiteFacts } from './site-facts.ts'

export function siteView(site: SiteState) {
  return {
    slug: site.slug,
    name: site.name,
    tier: site.tier,
    url: site.url,
    first_seen: site.firstSeen,
    last_probed: timestamp(site.lastProbedSec),
    reachable_cn: site.regions.cn.state === 'reachable',
    reachable_overseas: site.regions.overseas.state === 'reachable',
  }
}

/** `include=summary` of the list (spec 3.1). */
export function summaryView(site: SiteState) {
  const facts = getSiteFacts(site)
  return {
    score: displayScore(site.score),
    availability_7d: ratioOrNull(facts.availability7d),
    availability_30d: ratioOrNull(facts.availability30d),
    latency_p50_ms: facts.p50Ms,
    status: getStatus(site),
    software: facts.software,
    china_state: site.regions.cn.state,
    china_checked_at: timestampOrNull(site.regions.cn.checkedAtSec),
    overseas_state: site.regions.overseas.state,
    overseas_checked_at: timestampOrNull(site.regions.overseas.checkedAtSec),
    days: facts.days.map(ratioOrNull),
  }
}

export function regionView({ state, blocking, vantages, agreeing, checkedAtSec }: RegionState) {
  const isReachable = state === 'reachable'
  return {
    reachable: isReachable,
    state,
    blocking,
    vantages,
    agreeing,
    checked_at: timestampOrNull(checkedAtSec),
  }
}

/** A row has no inconclusive probe; the type allows one, which would be shown as degraded. */
export function getStatus({ state }: SiteState): 'up' | 'degraded' | 'down' {
  return state === 'inconclusive' ? 'degraded' : state
}

export function ratioOrNull(value: number | null): number | null {
  return value === null ? null : ratio(value)
}

export function timestampOrNull(atSec: number | null): string | null {
  return atSec === null ? null : timestamp(atSec)
}
