/**
 * `GET /sites/{slug}` and the paths below it (spec 2.2, 3.2), from the snapshot and the store's reader. Periods end at the
 * time of the snapshot, so equal data gives equal bytes.
 */
import type { NetworkFacts } from '../facts.ts'
import { bucketStartSec, DAY_SEC, HOUR_SEC } from '../scoring/bucket.ts'
import { compareModels, modelKey } from '../scoring/models.ts'
import { type ProbePoint, pointOfBucket, pointOfProbe, ratio, timestamp } from '../scoring/probe-point.ts'
import { displayScore } from '../scoring/score.ts'
import type { SiteState, Snapshot } from '../storage/snapshot.ts'
import type { Store } from '../storage/store.ts'
import { getSiteFacts } from './site-facts.ts'
import { ratioOrNull, regionView, siteView, timestampOrNull } from './site-view.ts'

export type Details = Pick<Store, 'read'>
export type HistoryKind = 'hour' | 'day' | 'raw'
type Regions = 'cn' | 'overseas' | 'all'

const HISTORY_DAYS = 30
const RAW_SEC = 48 * HOUR_SEC
const CHANGES_SEC = 90 * DAY_SEC
const INCIDENTS_SEC = 400 * DAY_SEC // as long as they are kept
const MODELS_MAX = 10_000

export async function siteDetail(
  { generatedAtSec: nowSec }: Snapshot,
  site: SiteState,
  history: HistoryKind | 'none',
  details: Details,
  mediaBase: string,
) {
  const [points, observation, models, screenshot] = await Promise.all([
    history === 'none' ? [] : readPoints(details, site.id, 'all', history, HISTORY_DAYS, nowSec),
    details.read('observation', site.id),
    modelsNow(details, site.id, nowSec),
    details.read('newestScreenshot', site.id),
  ])
  const observedAtSec = observation?.atSec ?? site.lastProbedSec
  return {
    ...siteView(site),
    probe_history: points,
    model_list_claimed: models.claimed.slice(0, MODELS_MAX),
    model_list_verified: models.verified.slice(0, MODELS_MAX),
    network_profile: {
      ...networkView(observation?.profile ?? UNKNOWN_NETWORK, site.regions, nowSec),
      observed_at: timestamp(observedAtSec),
    },
    screenshot_url: screenshot === null ? null : `${mediaBase}${screenshot.path}`,
  }
}

export function siteScore(site: SiteState) {
  const facts = getSiteFacts(site)
  return {
    score: displayScore(site.score),
    tier: site.tier,
    provisional: facts.isProvisional,
    components: facts.components.map(({ key, weight, value, inputs }) => ({
      key,
      weight,
      value: ratioOrNull(value),
      inputs: Object.fromEntries(
        Object.entries(inputs).map(([name, input]) => [snake(name), ratioOrNull(input)]),
      ),
    })),
    caps: facts.caps.map(({ code, maxTier }) => ({ code, max_tier: maxTier })),
    availability_peak_30d: ratioOrNull(facts.availabilityPeak30d),
    computed_at: timestamp(facts.computedAtSec),
    method: facts.method,
  }
}

export async function siteHistory(
  { generatedAtSec: nowSec }: Snapshot,
  site: SiteState,
  { days, history, region }: { days: number; history: HistoryKind; region: Regions },
  details: Details,
) {
  const points = await readPoints(details, site.id, region, history, days, nowSec)
  return { from: timestamp(nowSec - spanSec(history, days)), to: timestamp(nowSec), points }
}

/** The models claimed and listed now, and all that full probes have ever observed. */
export async function siteModels({ generatedAtSec: nowSec }: Snapshot, site: SiteState, details: Details) {
  const [seen, changes, now] = await Promise.all([
    details.read('models', site.id),
    details.read('modelChanges', site.id, nowSec - CHANGES_SEC),
    modelsNow(details, site.id, nowSec),
  ])
  const keys = {
    claimed: toKeySet(now.claimed),
    catalogue: toKeySet(now.catalogue),
    pricing: toKeySet(now.priced),
    listing: toKeySet(now.verified),
  }
  const known = new Set(seen.map(({ id }) => modelKey(id)))
  const firstSeen = `${site.firstSeen}T00:00:00Z`
  const unseen = now.claimed.filter((id) => !known.has(modelKey(id))) // the catalogue alone names them
  const models = [
    ...seen.map(({ id, firstSeenSec, lastSeenSec }) => {
      return { id, first_seen: timestamp(firstSeenSec), last_seen: timestamp(lastSeenSec) }
    }),
    ...unseen.map((id) => ({ id, first_seen: firstSeen, last_seen: timestamp(nowSec) })),
  ]
  return {
    models: models
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, MODELS_MAX)
      .map(({ id, ...times }) => {
        const key = modelKey(id)
        const source = SOURCES.filter((each) => keys[each].has(key))
        return { id, claimed: keys.claimed.has(key), verified: keys.listing.has(key), source, ...times }
      }),
    changes: changes.map(({ atSec, change, id }) => ({ at: timestamp(atSec), change, id })),
  }
}

const SOURCES = ['catalogue', 'pricing', 'listing'] as const

/** The models as the score counts them (spec 7.1). */
async function modelsNow(details: Details, siteId: number, nowSec: number) {
  const { catalogue, answered } = await details.read('modelSources', siteId)
  const priced = compareModels([], answered, nowSec).claimed
  return { ...compareModels(catalogue, answered, nowSec), catalogue, priced }
}

function toKeySet(ids: readonly string[]): Set<string> {
  return new Set(ids.map(modelKey))
}

export async function siteIncidents({ generatedAtSec: nowSec }: Snapshot, site: SiteState, details: Details) {
  const incidents = await details.read('incidents', site.id, nowSec - INCIDENTS_SEC)
  return {
    incidents: incidents.map(({ id, region, startedAtSec, endedAtSec, cause, vantages }) => ({
      id,
      started_at: timestamp(startedAtSec),
      ended_at: timestampOrNull(endedAtSec),
      duration_s: Math.max(0, (endedAtSec ?? nowSec) - startedAtSec),
      region,
      cause,
      vantages,
    })),
  }
}

/** Without `observed_at`; detections use it, too. */
export function networkView(profile: NetworkFacts, regions: SiteState['regions'], nowSec: number) {
  const { cdn, asn, ips, hasIpv6, tls, software } = profile
  return {
    cdn: {
      detected: cdn.provider !== null || cdn.evidence.length > 0,
      provider: cdn.provider,
      evidence: cdn.evidence,
    },
    asn,
    ips,
    ipv6: hasIpv6,
    china: regionView(regions.cn),
    overseas: regionView(regions.overseas),
    tls: tls && {
      version: tls.version,
      issuer: tls.issuer,
      not_after: timestamp(tls.notAfterSec),
      valid: tls.isValid,
      days_left: Math.floor((tls.notAfterSec - nowSec) / DAY_SEC),
      alpn: tls.alpn,
    },
    software: { ...software, confidence: ratio(software.confidence) },
  }
}

/** The profile before the first full probe. */
export const UNKNOWN_NETWORK: NetworkFacts = {
  cdn: { provider: null, evidence: [] },
  asn: { number: null, name: null, country: null },
  ips: [],
  hasIpv6: false,
  tls: null,
  software: { name: 'unknown', version: null, confidence: 0 },
}

/** Oldest first: at most 721 hours, 31 days, or 500 probes. */
async function readPoints(
  details: Details,
  siteId: number,
  region: Regions,
  history: HistoryKind,
  days: number,
  nowSec: number,
): Promise<ProbePoint[]> {
  const sinceSec = nowSec - spanSec(history, days)
  if (history === 'raw') {
    const probes = await details.read('rawProbes', siteId, region, sinceSec)
    return probes.reverse().flatMap((probe) => pointOfProbe(probe) ?? [])
  }
  const windowSec = history === 'hour' ? HOUR_SEC : DAY_SEC
  const fromSec = bucketStartSec(sinceSec, windowSec)
  const toSec = bucketStartSec(nowSec, windowSec) + windowSec
  const buckets = await details.read('history', { siteId, region, windowSec, fromSec, toSec })
  return buckets.flatMap((bucket) => pointOfBucket(bucket) ?? [])
}

function spanSec(history: HistoryKind, days: number): number {
  return history === 'raw' ? Math.min(RAW_SEC, days * DAY_SEC) : days * DAY_SEC
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
