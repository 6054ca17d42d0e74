/**
 * Plain pages behind the links that the API and the prober hand out (spec 11), as long as there is no web site: how sites
 * are judged, and who sends the probes. Built once at the start.
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
  return `How sites are judged

Formula ${METHOD}. Only measurements enter it: nothing paid, sponsored or self-reported does. The weights of the score, 0 to 100:

${weights.join('\n')}

availability  24 hours, 7 days and 30 days of probes, weighted 0.2, 0.5 and 0.3; 0.90 is worth nothing, 0.999 everything
models        the share of the models a site claims that its own listing has
latency       median and 95th percentile of the time to the first byte, 7 days
reachability  the share of measured regions (cn, overseas) from which the site is reached
hygiene       certificate, redirect to https, TLS 1.3, HSTS, errors that name no upstream

What is not known drops out, and the rest is scaled up. Tiers: S from 92, A from 80, B from 65, C from 45, else D. A tier changes
only if the score is 1.0 beyond the border, or beyond it for 24 hours (up) or 6 hours (down). Caps, and the best tier they allow:

${caps.join('\n')}

Regions. A vantage says that a site is up when 2 of its 3 newest results are. A region is reachable if at least half of its
vantages say so, and a change has to be seen twice. What was measured stands for 24 hours after the last vantage has gone;
checked_at tells how old it is. Why one region is blocked is judged with the other as control.

Boards. Red: tier S, A or B with 7 days of history, 7-day availability of at least 0.97 and no open incident; ordered by score
less 8 / sqrt(days of history). Black: sites with at least one warning, in reasons; ordered by their weight. Each entry of the
black board links its evidence.

Limits. One place sees one way to a site. A listing that names a model does not prove that the model answers. A probe without a key
sees no more than an anonymous visitor.

Why one site has its tier: /api/v1/sites/{slug}/score
${mistakes(supportEmail)}`
}

function aboutProbe({ intervalSec, userAgent, supportEmail }: PageOptions): string {
  const fullHours = FULL_INTERVAL_MS / 3_600_000
  return `What the prober sends

User-Agent: ${userAgent}

To each listed site one GET /v1/models every ${intervalSec} s from each vantage, repeated a few times when it fails, and every ${fullHours} hours a
look with up to 6 requests: landing page, model listing, status and price list of known programs. A site that stays down is
asked less often, up to once in 6 hours. Only GET and HEAD, no cookies, no referrer; at most 3 redirects are followed. A key is
sent only where the operator of this monitor has been given one for that site.

To any address that somebody submits to this monitor: the same look, once.

To opt out write to the operator of this monitor${supportEmail === '' ? '' : `, ${supportEmail}`}. Your host and everything below it is then neither probed
nor listed, and submissions of it are refused.
${mistakes(supportEmail)}`
}

function mistakes(supportEmail: string): string {
  return supportEmail === '' ? '' : `To report a mistake: ${supportEmail}\n`
}
