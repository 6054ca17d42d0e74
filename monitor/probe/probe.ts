/**
 * The prober: what one look at a relay finds. The only callers of egress for probes and detections are in this folder;
 * when to look is plan/'s part, what many looks mean is score/'s, and nothing is kept here between two looks.
 *
 *     const context = { egress, asn: await loadAsnTable(ASN_DB), nowMs: Date.now }
 *     await lightProbe(context, target)                       one request: up, degraded or down, and how fast
 *     await fullProbe(context, target, { onStep })            full.ts: at most 6 requests; an Observation
 *     await detect(context, { url, signal, onStep })          detect.ts: a full probe and a verdict
 *
 * Nothing is thrown for what a relay does. A try that failed through our own network, or while this thread stood still, is
 * `inconclusive`; the control check of scoring/outcome.ts finds failures of our network that do not show here. Repeating a failure is the planner's (scheduler/confirm.ts).
 */
import type { Egress, Visit, VisitRequest } from '../egress/egress.ts'
import type { ErrorCode, Probe } from '../facts.ts'
import { retryAfterMs } from '../scheduler/schedule.ts'
import { classifyProbe, PROBE_SLOW_MS } from '../scoring/outcome.ts'
import { trimEndSlashes } from '../trim-slashes.ts'
import type { AsnTable } from './asn.ts'
import type { Listing } from './listing.ts'
import { LISTING_PATH, parseListing } from './listing.ts'

export interface ProbeContext {
  egress: Pick<Egress, 'visit' | 'handshake' | 'names'>
  asn: AsnTable
  nowMs: () => number // epoch
  slowMs?: number // PROBE_SLOW_MS
}

export interface ProbeTarget {
  url: string // landing page
  apiBase: string // `/v1/models` is below it
  purpose: 'catalogue' | 'detection'
  extraPort?: number // of the catalogue entry
  onResolved?: VisitRequest['onResolved']
  key?: string | null // asked with as well in full probes, over https only; never logged, never in a result
}

export interface ProbeAttempt {
  probe: Probe
  listing: Listing
  detail: string | null // why, for logs; never the target's words
  retryAfterMs: number // of a 429 or 503, at most an hour; 0 = not asked for
}

export async function lightProbe(
  context: ProbeContext,
  target: ProbeTarget,
  signal?: AbortSignal,
): Promise<ProbeAttempt> {
  const { purpose, extraPort, onResolved } = target
  const url = urlBelow(target.apiBase, LISTING_PATH)
  const visit = await context.egress.visit({ url, purpose, extraPort, signal, onResolved })
  return toProbeAttempt('light', visit, parseListing(visit), context)
}

/** What a visit of the listing means. `parked`: seen elsewhere, where the listing only shows that it is none. */
export function toProbeAttempt(
  kind: Probe['kind'],
  visit: Omit<Visit, 'body'>,
  listing: Listing,
  { nowMs, slowMs = PROBE_SLOW_MS }: ProbeContext,
  { isParked = false } = {},
): ProbeAttempt {
  const { status: httpStatus, timings } = visit
  const address = visit.triedAddress ?? visit.remoteAddress // the latter of a connection that was there already
  const error: ErrorCode | null = isParked ? 'parked' : listing.error
  const judged = classifyProbe({ listing: listing.auth, httpStatus, ttfbMs: timings.ttfbMs, error }, slowMs)
  const isDoubtful = visit.hasStalled && (judged.outcome === 'down' || judged.error === 'slow')
  const outcome = visit.isOurs || isDoubtful ? 'inconclusive' : judged.outcome
  const atMs = nowMs()
  return {
    probe: {
      atSec: Math.floor(atMs / 1_000),
      kind,
      outcome,
      error: judged.error,
      httpStatus,
      timings,
      address,
    },
    listing,
    detail: visit.detail,
    retryAfterMs: askedToWaitMs(visit, atMs),
  }
}

/** `/v1/models` below `https://host/base/`; a base that ends in `/v1` itself names it once. */
export function urlBelow(base: string, path: string): string {
  const url = new URL(base)
  url.search = ''
  url.hash = ''
  const folder = trimEndSlashes(url.pathname).replace(/\/v1(\/models)?$/, '')
  url.pathname = folder + path
  return url.href
}

function askedToWaitMs({ status, headers }: Pick<Visit, 'status' | 'headers'>, nowMs: number): number {
  if (status !== 429 && status !== 503) return 0
  return retryAfterMs(headers.get('retry-after') ?? null, Math.floor(nowMs / 1_000))
}
