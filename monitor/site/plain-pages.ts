/**
 * The plain text pages that the API and the prober link to (spec 11) while there is no web site: the method of the scores,
 * and the origin of the probes. Built once at the start.
 */
import { FULL_INTERVAL_MS } from '../scheduler/schedule.ts'
import { computeScore, METHOD } from '../scoring/score.ts'
import { CAPS } from '../scoring/tier.ts'

export const METHODOLOGY_PATH = '/methodology'
export const PROBE_PATH = '/about/probe'

export interface PageOptions {
  intervalSec: number // PROBE_INTERVAL_S
  userAgent: string
  supportEmail: string // empty = none
}

/** Path → text. */
export function plainPages(options: PageOptions): Readonly<Record<string, string>> {
  return { [METHODOLOGY_PATH]: methodology(options), [PROBE_PATH]: aboutProbe(options) }
}

const NOTHING_KNOWN = {
  history: { a24h: null, a7d: null, a30d: null, p50Ms: null, p95Ms: null },
  truthRatio: null,
  reachability: null,
  hygiene: null,
}

function methodology({ supportEmail }: PageOptions): string {
  const weights = computeScore(NOTHING_KNOWN).components.map(
    ({ key, weight }) => `  ${key.padEnd(14)}${weight}`,
  )
  const caps = Object.entries(CAPS).map(([code, tier]) => `  ${code.padEnd(22)}${tier}`)
  return `How sites are scored

Formula ${METHOD}. It uses measurements only, nothing paid, sponsored or self-reported. The weights of the score, 0 to 100:

${weights.join('\n')}

availability  24 hours, 7 days and 30 days of probes, weighted 0.2, 0.5 and 0.3; from 0 points at 0.90 to all at 0.999
models        the share of a site's claimed models that its own listing contains
latency       median and 95th percentile of the time to the first byte, 7 days
reachability  the share of measured regions (cn, overseas) from which the site is reached
hygiene       certificate, redirect to https, TLS 1.3, HSTS, errors that name no upstream

Unknown components are left out, and the others are scaled up. Tiers: S from 92, A from 80, B from 65, C from 45, else D. A tier
changes only if the score is 1.0 beyond the border, or beyond it for 24 hours (up) or 6 hours (down). Caps, and the best tier they
allow:

${caps.join('\n')}

Regions. A site is up for a vantage if 2 of its 3 newest results are. A region is reachable if the site is up for at least half of
its vantages; a change must be measured twice. A state stays valid for 24 hours after the last vantage went offline; checked_at is
the time of its newest probe. The kind of blocking in one region is determined with the other as control.

Boards. Red: tier S, A or B with 7 days of history, 7-day availability of at least 0.97 and no open incident; ordered by score
less 8 / sqrt(days of history). Black: sites with at least one warning, in reasons; ordered by their weight. Each entry of the
black board links its evidence.

Limits. Each vantage measures one network path to a site. A listing that names a model does not prove that the model works. A probe
without a key sees what an anonymous visitor sees.

The score of one site in detail: /api/v1/sites/{slug}/score
${mistakes(supportEmail)}`
}

function aboutProbe({ intervalSec, userAgent, supportEmail }: PageOptions): string {
  const fullHours = FULL_INTERVAL_MS / 3_600_000
  return `What the prober sends

User-Agent: ${userAgent}

To each listed site one GET /v1/models every ${intervalSec} s from each vantage, repeated a few times when it fails, and every ${fullHours} hours a
full probe with up to 6 requests: landing page, model listing, status and price list of known software. A site that stays down is
probed less often, down to once in 6 hours. Only GET and HEAD, no cookies, no referrer; at most 3 redirects are followed. A key is
sent only if the operator of this monitor has one for that site.

To each URL submitted to this monitor: one full probe.

To opt out, write to the operator of this monitor${supportEmail === '' ? '' : `, ${supportEmail}`}. Your host and its subdomains are then neither probed nor
listed, and submissions of them are refused.
${mistakes(supportEmail)}`
}

function mistakes(supportEmail: string): string {
  return supportEmail === '' ? '' : `To report a mistake: ${supportEmail}\n`
}
