/**
 * A detection: a full probe of a submitted address, and a verdict (spec 3.5).
 *
 *     models or 401/403 ─► known program? ─yes─► relay          ─no─► compatible_api
 *     no listing        ─► known program? ─yes─► relay   challenge, 429? ─► blocked      any response? ─► not_relay
 *     no response       ─► unreachable
 *
 * `done` covers every finding about the target; `failed` means that nothing was measured. The caller bounds the queue and the
 * 45 s of a run: when its signal fires, the run ends as deadline_exceeded.
 */
import type { BucketStatus, ListingAuth, NetworkFacts, Probe, Region, RegionState, Tier } from '../facts.ts'
import { compareModels } from '../scoring/models.ts'
import { CERTIFICATE_DAYS_MIN, computeScore, getHygieneValue } from '../scoring/score.ts'
import { TIERS, toTier } from '../scoring/tier.ts'
import type { FullProbeResult } from './full.ts'
import { fullProbe } from './full.ts'
import type { ProbeContext, ProbeTarget } from './probe.ts'
import type { OnStep } from './steps.ts'

export type Verdict = 'relay' | 'compatible_api' | 'not_relay' | 'blocked' | 'unreachable'
export type Notice =
  | 'cert_expires_soon'
  | 'cert_invalid'
  | 'challenge_page'
  | 'parked_page'
  | 'http_only'
  | 'rate_limited'
  | 'slow'
  | 'leaks_upstream'
  | 'single_vantage'

export interface DetectionResult {
  verdict: Verdict
  confidence: number // 0 to 1
  status: BucketStatus
  estimatedTier: Tier | null // null = not a relay; at best B
  probe: Probe
  models: string[] // sorted, at most MODELS_SHOWN
  modelsTotal: number
  listingAuth: ListingAuth
  profile: NetworkFacts | null // null = not reached
  regions: Record<Region, RegionState>
  notices: Notice[]
}

export type DetectionOutcome =
  | { status: 'done'; result: DetectionResult }
  | { status: 'failed'; code: 'target_not_allowed' | 'deadline_exceeded' | 'internal_error' }

export interface DetectRequest {
  url: string // the target key (spec 3.4)
  region: Region // of this vantage
  isSingleVantage: boolean // no other vantage is online
  signal?: AbortSignal
  onStep?: OnStep
  onResolved?: ProbeTarget['onResolved']
}

const MODELS_SHOWN = 2_000
const TIER_MAX: Tier = 'B' // from one probe
const TIER_MAX_INVALID: Tier = 'C'
const DAY_SEC = 86_400

export async function detect(context: ProbeContext, request: DetectRequest): Promise<DetectionOutcome> {
  const { url, signal, onStep, onResolved } = request
  const target = { url, apiBase: url, purpose: 'detection', onResolved } as const
  const found = await fullProbe(context, target, { onStep, signal })
  const { error, outcome } = found.probe
  if (error === 'target_not_allowed') return { status: 'failed', code: error }
  if (signal?.aborted) return { status: 'failed', code: 'deadline_exceeded' }
  if (outcome === 'inconclusive' || found.isIncomplete) return { status: 'failed', code: 'internal_error' }

  const { observation, listing } = found
  const models = [...(observation?.models ?? [])].sort()
  const { verdict, confidence } = toVerdict(found)
  const result: DetectionResult = {
    verdict,
    confidence,
    status: outcome,
    estimatedTier: verdict === 'relay' || verdict === 'compatible_api' ? estimateTier(found, url) : null,
    probe: found.probe,
    models: models.slice(0, MODELS_SHOWN),
    modelsTotal: models.length,
    listingAuth: listing.auth,
    profile: observation?.profile ?? null,
    regions: toRegions(found.probe, request.region),
    notices: listNotices(found, request),
  }
  return { status: 'done', result }
}

/** Confidences without a fingerprint are estimates: an open listing is rarely an accident, a 401 in JSON often is. */
function toVerdict({ listing, observation, probe }: FullProbeResult): {
  verdict: Verdict
  confidence: number
} {
  const software = observation?.profile.software
  if (software && software.name !== 'unknown') return { verdict: 'relay', confidence: software.confidence }
  if (listing.auth === 'open') {
    return { verdict: 'compatible_api', confidence: (listing.models as string[]).length > 0 ? 0.9 : 0.6 }
  }
  if (listing.auth === 'key_required') return { verdict: 'compatible_api', confidence: 0.6 }
  if (probe.error === 'challenge') return { verdict: 'blocked', confidence: 0.9 }
  if (probe.error === 'http_429') return { verdict: 'blocked', confidence: 0.6 }
  if (probe.error === 'parked') return { verdict: 'not_relay', confidence: 0.9 }
  const hasResponse = probe.httpStatus !== null || probe.error?.startsWith('redirect_')
  if (!hasResponse) return { verdict: 'unreachable', confidence: 0.9 }
  return {
    verdict: 'not_relay',
    confidence: probe.error === 'not_api' || probe.error === 'http_4xx' ? 0.8 : 0.5,
  }
}

/** The score's formula over one probe; unknown components are left out. */
function estimateTier({ probe, observation }: FullProbeResult, url: string): Tier {
  if (observation === null || probe.outcome === 'down') return 'D'
  const { profile, hygiene, atSec } = observation
  const availability = probe.outcome === 'up' ? 1 : 0.7
  const { ttfbMs } = probe.timings
  const history = {
    a24h: availability,
    a7d: availability,
    a30d: availability,
    p50Ms: ttfbMs,
    p95Ms: ttfbMs,
  }
  const { truthRatio } = compareModels([], observation, atSec)
  const isHttps = url.startsWith('https:')
  const { value } = computeScore({
    history,
    truthRatio,
    reachability: 1,
    hygiene: getHygieneValue(profile.tls, hygiene, { isHttps, nowSec: atSec }),
  })
  const worst = profile.tls?.isValid === false ? TIER_MAX_INVALID : TIER_MAX
  return TIERS[Math.max(TIERS.indexOf(toTier(value)), TIERS.indexOf(worst))]
}

/** A probe is evidence for the region it was made in only (spec 6.5). */
function toRegions({ outcome, atSec }: Probe, region: Region): Record<Region, RegionState> {
  const unknown = {
    state: 'unknown',
    blocking: 'unknown',
    vantages: 0,
    agreeing: 0,
    checkedAtSec: null,
  } as const
  const state = outcome === 'down' ? 'unreachable' : 'reachable'
  const measured = { state, blocking: 'none', vantages: 1, agreeing: 1, checkedAtSec: atSec } as const
  return { cn: unknown, overseas: unknown, [region]: measured }
}

function listNotices(
  { probe, observation }: FullProbeResult,
  { url, isSingleVantage }: DetectRequest,
): Notice[] {
  const tls = observation?.profile.tls
  const isLasting = tls && tls.notAfterSec - probe.atSec > CERTIFICATE_DAYS_MIN * DAY_SEC
  // biome-ignore format: one line per notice
  const facts: [Notice, boolean | null | undefined][] = [
    ['cert_invalid', tls && !tls.isValid],
    ['cert_expires_soon', tls?.isValid && !isLasting],
    ['challenge_page', probe.error === 'challenge'],
    ['parked_page', observation?.isParked],
    ['http_only', url.startsWith('http:') && observation?.hygiene.redirectsToHttps !== true],
    ['rate_limited', probe.error === 'http_429'],
    ['slow', probe.error === 'slow'],
    ['leaks_upstream', observation?.hygiene.leaksUpstream],
    ['single_vantage', isSingleVantage],
  ]
  return facts.filter(([, applies]) => applies).map(([notice]) => notice)
}
