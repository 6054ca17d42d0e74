/** What a detection has found, as callers see it (spec 3.5): the result that the desk keeps and hands out. */
import { networkView } from '../api/site-detail.ts'
import type { NetworkFacts } from '../facts.ts'
import type { DetectionResult } from '../probe/detect.ts'
import { pointOfProbe, ratio, timestamp } from '../score/probe-point.ts'

const UNKNOWN: NetworkFacts = {
  cdn: { provider: null, evidence: [] },
  asn: { number: null, name: null, country: null },
  ips: [],
  hasIpv6: false,
  tls: null,
  software: { name: 'unknown', version: null, confidence: 0 },
}

export function resultView(result: DetectionResult, vantage: string) {
  const { atSec } = result.probe
  return {
    verdict: result.verdict,
    confidence: ratio(result.confidence),
    status: result.status,
    estimated_tier: result.estimatedTier,
    probe: pointOfProbe(result.probe), // never null: an inconclusive one has failed and not come here
    models: result.models,
    models_total: result.modelsTotal,
    listing_auth: result.listingAuth,
    network_profile: {
      ...networkView(result.profile ?? UNKNOWN, result.regions, atSec),
      observed_at: timestamp(atSec),
    },
    notices: result.notices,
    vantage,
  }
}
