/**
 * The light probe, and what every probe returns. Only this folder probes through egress; when to probe is decided by
 * scheduler/, what many probes mean by scoring/. Nothing is kept between two probes.
 *
 *     const context = { egress, asn: await loadAsnTable(ASN_DB), nowMs: Date.now }
 *     await lightProbe(context, target)                       one request: up, degraded or down, and how fast
 *     await fullProbe(context, target, { onStep })            full.ts: at most 6 requests; an Observation
 *     await detect(context, { url, signal, onStep })          detect.ts: a full probe and a verdict
 *
 * Nothing is thrown for what a relay does. A probe that failed because of this host, or while this thread was stalled, is
 * `inconclusive`; other failures of the local network are found by the connectivity check (scoring/outcome.ts). Failures are
 * repeated by the planner (scheduler/schedule.ts).
 */
import type { Egress, Visit, VisitRequest } from '../egress/egress.ts'
import type { ErrorCode, Probe } from '../facts.ts'
import { retryAfterMs } from '../scheduler/schedule.ts'
import { classifyProbe, PROBE_SLOW_MS } from '../scoring/outcome.ts'
import { trimEndSlashes } from '../trim-slashes.ts'
import type { AsnTable } from './asn.ts'
import { LISTING_PATH } from './fingerprints.ts'
import type { Listing } from './listing.ts'
import { parseListing } from './listing.ts'

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
  key?: string | null // full probes repeat the listing with it, over https only; never logged, never in a result
}

export interface ProbeAttempt {
  probe: Probe
  listing: Listing
  detail: string | null // why, for logs; never text of the target
  retryAfterMs: number // of a 429 or 503, at most an hour; 0 = not requested
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

/** The outcome of a visit of the listing. `isParked`: found elsewhere; the listing only shows that it is not one. */
export function toProbeAttempt(
  kind: Probe['kind'],
  visit: Omit<Visit, 'body'>,
  listing: Listing,
  { nowMs, slowMs = PROBE_SLOW_MS }: ProbeContext,
  { isParked = false } = {},
): ProbeAttempt {
  const { status: httpStatus, timings } = visit
  const address = visit.triedAddress ?? visit.remoteAddress // the latter when the connection was reused
  const error: ErrorCode | null = isParked ? 'parked' : listing.error
  const classified = classifyProbe(
    { listing: listing.auth, httpStatus, ttfbMs: timings.ttfbMs, error },
    slowMs,
  )
  const isDoubtful = visit.hasStalled && (classified.outcome === 'down' || classified.error === 'slow')
  const outcome = visit.isOurs || isDoubtful ? 'inconclusive' : classified.outcome
  const atMs = nowMs()
  return {
    probe: {
      atSec: Math.floor(atMs / 1_000),
      kind,
      outcome,
      error: classified.error,
      httpStatus,
      timings,
      address,
    },
    listing,
    detail: visit.detail,
    retryAfterMs: getRetryAfterMs(visit, atMs),
  }
}

/** `/v1/models` below `https://host/base/`; a base that ends in `/v1` has it once. */
export function urlBelow(base: string, path: string): string {
  const url = new URL(base)
  url.search = ''
  url.hash = ''
  const folder = trimEndSlashes(url.pathname).replace(/\/v1(\/models)?$/, '')
  url.pathname = folder + path
  return url.href
}

function getRetryAfterMs({ status, headers }: Pick<Visit, 'status' | 'headers'>, nowMs: number): number {
  if (status !== 429 && status !== 503) return 0
  return retryAfterMs(headers.get('retry-after') ?? null, Math.floor(nowMs / 1_000))
}
