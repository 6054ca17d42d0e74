/**
 * Why one region cannot reach what the other can (spec 6.5). The reachable region is the control, as OONI does it: only
 * what fails here and works there is blocking.
 *
 *     here: resolved?  ──no──► dns      connected?  ──no──► tcp      TLS?  ──no──► tls      answer?  ──other──► http
 *
 * Each failure votes for the layer it died in; the most frequent wins, of equals the lower layer. Failures that say
 * nothing about blocking (a resolver that was slow, a certificate) do not vote; without a vote it is `unknown`.
 * Cannot see: a block that looks exactly like the site's own trouble, nor one that both regions share.
 * An address decides nothing but votes for `tcp`: an agent could tell any (agent/results.ts).
 */
import type { ErrorCode, Probe, RegionState } from '../facts.ts'
import type { Evaluation } from './regions.ts'

type Layer = 'dns' | 'tcp' | 'tls' | 'http'
const LAYERS: readonly Layer[] = ['dns', 'tcp', 'tls', 'http']

/** Failures that vote, and for what. An answer counts only while the control does not see the same. */
const LAYER_OF: Partial<Record<ErrorCode, Layer>> = {
  dns_nxdomain: 'dns',
  dns_bogus: 'dns',
  target_not_allowed: 'dns', // an answer that policy denies
  connect_timeout: 'tcp',
  connect_reset: 'tcp',
  tls_timeout: 'tls',
  tls_reset: 'tls',
  http_timeout: 'http',
  http_reset: 'http',
  http_4xx: 'http',
  http_5xx: 'http',
  redirect_loop: 'http',
  redirect_refused: 'http',
  not_api: 'http',
  body_invalid: 'http',
  parked: 'http',
}

const TELLING = /^(connect|tls)_/

/**
 * What is worth keeping of a probe's address: that of a connection that failed. With all of them a row of the raw table
 * has 59 bytes instead of 45 (73 with IPv6), 85 MB more on 6 M rows, so what the control reaches is known otherwise
 * (evaluation/regions.ts).
 */
export function addressToKeep({ outcome, error, address = null }: Omit<Probe, 'timings'>): string | null {
  return outcome === 'down' && TELLING.test(error ?? '') ? address : null
}

/** One result of the last 30 minutes. `address`: where it connected to or tried to, null = not known. */
export interface Evidence {
  error: ErrorCode | null
  httpStatus: number | null
  address: string | null
}

/** `here`: results of the region that is asked about; `control`: those of the other one. */
export function regionState(
  region: Evaluation,
  other: Evaluation,
  here: readonly Evidence[],
  control: readonly Evidence[],
): RegionState {
  const { state, vantages, agreeing, checkedAtSec } = region
  const blocking = detectBlocking(state, other.state, here, control)
  return { state, blocking, vantages, agreeing, checkedAtSec }
}

function detectBlocking(
  state: Evaluation['state'],
  otherState: Evaluation['state'],
  here: readonly Evidence[],
  control: readonly Evidence[],
): RegionState['blocking'] {
  if (state === 'unknown') return 'unknown'
  if (state === 'reachable' || otherState !== 'reachable') return 'none'
  const votes = new Map<Layer, number>()
  for (const evidence of here) {
    const layer = getVote(evidence, control)
    if (layer !== null) votes.set(layer, (votes.get(layer) ?? 0) + 1)
  }
  const most = Math.max(0, ...votes.values())
  return LAYERS.find((layer) => votes.get(layer) === most) ?? 'unknown'
}

function getVote({ error, httpStatus, address }: Evidence, control: readonly Evidence[]): Layer | null {
  const layer = (error && LAYER_OF[error]) ?? null
  if (layer === 'http') {
    const isSeenThere = control.some((seen) => seen.error === error && seen.httpStatus === httpStatus)
    return isSeenThere ? null : layer
  }
  if (layer === 'tcp' && address !== null) {
    const reached = control.filter(isConnected).map((seen) => seen.address)
    const isKnown = reached.some((known) => known !== null)
    return isKnown && !reached.includes(address) ? null : layer
  }
  return layer
}

/** Whatever failed later, TLS included, failed on a connection that was there. */
function isConnected({ error }: Evidence): boolean {
  return error === null || !error.startsWith('connect_')
}
