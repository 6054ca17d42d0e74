/**
 * `GET /leaderboard` (spec 3.3): the boards of the evaluation, each entry with the present state of its site.
 */
import { timestamp } from '../scoring/probe-point.ts'
import { displayScore } from '../scoring/score.ts'
import type { BoardEntry, SiteState, Snapshot } from '../storage/snapshot.ts'
import { getSiteFacts } from './site-facts.ts'
import { siteIndex } from './site-index.ts'
import { ratioOrNull, siteView } from './site-view.ts'

const WINDOW_DAYS = 30

interface Addresses {
  publicBaseUrl: string // without a final slash; empty = root-relative links
  supportEmail: string // empty = none
}

export function leaderboard(
  snapshot: Snapshot,
  board: 'red' | 'black',
  limit: number,
  { publicBaseUrl, supportEmail }: Addresses,
) {
  const toLinks = ({ slug }: SiteState) =>
    board === 'red'
      ? {}
      : {
          evidence_url: `${publicBaseUrl}/api/v1/sites/${slug}`,
          appeal_url: supportEmail === '' ? null : `mailto:${supportEmail}`,
        }
  const sites = siteIndex(snapshot)
  const entries = snapshot.boards[board].filter(({ slug }) => sites.bySlug(slug))
  return {
    board,
    generated_at: timestamp(snapshot.generatedAtSec),
    window_days: WINDOW_DAYS,
    total: entries.length,
    entries: entries.slice(0, limit).map((entry) => {
      const site = sites.bySlug(entry.slug)!
      return { ...entryView(entry, site), ...toLinks(site) }
    }),
  }
}

function entryView({ rank, rankBefore, sinceSec, reasons }: BoardEntry, site: SiteState) {
  const facts = getSiteFacts(site)
  return {
    rank,
    rank_change: rankBefore === null ? null : rankBefore - rank,
    ...siteView(site),
    score: displayScore(site.score),
    availability_7d: ratioOrNull(facts.availability7d),
    availability_30d: ratioOrNull(facts.availability30d),
    latency_p50_ms: facts.p50Ms,
    models_claimed: facts.modelsClaimed,
    models_verified: facts.modelsVerified,
    since: timestamp(sinceSec).slice(0, 10),
    reasons,
  }
}
