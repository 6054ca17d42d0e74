/** The result of a detection as the API shows it (spec 3.5). The queue keeps it in this form. */
import { networkView, UNKNOWN_NETWORK } from '../api/site-detail.ts'
import type { DetectionResult } from '../probe/detect.ts'
import { pointOfProbe, ratio, timestamp } from '../scoring/probe-point.ts'

export function resultView(result: DetectionResult, vantage: string) {
  const { atSec } = result.probe
  return {
    verdict: result.verdict,
    confidence: ratio(result.confidence),
    status: result.status,
    estimated_tier: result.estimatedTier,
    probe: pointOfProbe(result.probe), // never null: an inconclusive probe fails the detection
    models: result.models,
    models_total: result.modelsTotal,
    listing_auth: result.listingAuth,
    network_profile: {
      ...networkView(result.profile ?? UNKNOWN_NETWORK, result.regions, atSec),
      observed_at: timestamp(atSec),
    },
    notices: result.notices,
    vantage,
  }
}
