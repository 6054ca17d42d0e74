/**
 * What lists and boards show of a site in addition to its row: `facts` of snapshot.ts, written by the evaluation and stored
 * as opaque JSON. Members that are absent, as in rows of older versions, are shown as unknown.
 */
import type { Component } from '../scoring/score.ts'
import { type Cap, TIERS, toTier } from '../scoring/tier.ts'
import type { SiteState } from '../storage/snapshot.ts'

export interface SiteFacts {
  availability7d: number | null // 0 to 1, unrounded
  availability30d: number | null
  availabilityPeak30d: number | null // 09:00 to 23:00 UTC+8
  probes30d: number | null // probes that the figures of 30 days rest on
  p50Ms: number | null // of the first byte, 7 days
  days: (number | null)[] // daily availability of 30 days, oldest first
  software: string
  modelsClaimed: number
  modelsVerified: number
  isProvisional: boolean
  components: Component[]
  caps: Cap[]
  method: string
  computedAtSec: number
}

const DAYS = 30
const NO_DAYS = new Array<null>(DAYS).fill(null)

export function getSiteFacts({ facts, lastProbedSec }: SiteState): SiteFacts {
  const known = (typeof facts === 'object' && facts !== null ? facts : {}) as Partial<SiteFacts>
  const days = Array.isArray(known.days) ? known.days.slice(-DAYS) : []
  return {
    availability7d: known.availability7d ?? null,
    availability30d: known.availability30d ?? null,
    availabilityPeak30d: known.availabilityPeak30d ?? null,
    probes30d: known.probes30d ?? null,
    p50Ms: known.p50Ms ?? null,
    days: [...NO_DAYS.slice(days.length), ...days],
    software: known.software ?? 'unknown',
    modelsClaimed: known.modelsClaimed ?? 0,
    modelsVerified: known.modelsVerified ?? 0,
    isProvisional: known.isProvisional ?? true,
    components: known.components ?? [],
    caps: known.caps ?? [],
    method: known.method ?? 'unknown',
    computedAtSec: known.computedAtSec ?? lastProbedSec,
  }
}

/** Whether the score alone would give a better tier. */
export function isCapped(site: SiteState): boolean {
  const { caps } = getSiteFacts(site)
  return caps.length > 0 && TIERS.indexOf(toTier(site.score)) < TIERS.indexOf(site.tier)
}
