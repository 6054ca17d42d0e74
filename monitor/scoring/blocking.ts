/**
 * Why one region cannot reach what the other can (spec 6.5). The reachable region is the control, as in OONI: only what
 * fails here and works there is blocking.
 *
 *     resolved?  ──no──► dns      connected?  ──no──► tcp      TLS?  ──no──► tls      expected response?  ──no──► http
 *
 * Each failure votes for the layer it failed in; the most frequent layer wins, the lower one of equals. Failures that are
 * no evidence of blocking (a slow resolver, a certificate) do not vote; without a vote the result is `unknown`. A block that
 * looks like the site's own failure, or that both regions share, is not detected. An address only decides votes for `tcp`,
 * because an agent could report any (agent/results.ts).
 */
import type { ErrorCode, Probe, RegionState } from '../facts.ts'
import type { Evaluation } from './regions.ts'

type Layer = 'dns' | 'tcp' | 'tls' | 'http'
const LAYERS: readonly Layer[] = ['dns', 'tcp', 'tls', 'http']

/** Failures that vote, and their layer. `http` counts only if the control does not see the same response. */
const LAYER_OF: Partial<Record<ErrorCode, Layer>> = {
  dns_nxdomain: 'dns',
  dns_bogus: 'dns',
  target_not_allowed: 'dns', // an address that policy denies
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

const OF_CONNECTION = /^(connect|tls)_/

/**
 * The address to store with a probe: only that of a failed connection. With all addresses a row of the raw table would have
 * 59 bytes instead of 45 (73 with IPv6), 85 MB more for 6 M rows; what the control reaches is known from full probes
 * (evaluation/regions.ts).
 */
export function addressToKeep({ outcome, error, address = null }: Omit<Probe, 'timings'>): string | null {
  return outcome === 'down' && OF_CONNECTION.test(error ?? '') ? address : null
}

/** One result of the last 30 minutes. `address`: connected to or dialled, null = not known. */
export interface Evidence {
  error: ErrorCode | null
  httpStatus: number | null
  address: string | null
}

/** `here`: results of the region; `control`: those of the other one. */
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
    const isSeenByControl = control.some((seen) => seen.error === error && seen.httpStatus === httpStatus)
    return isSeenByControl ? null : layer
  }
  if (layer === 'tcp' && address !== null) {
    const reached = control.filter(isConnected).map((seen) => seen.address)
    const isKnown = reached.some((known) => known !== null)
    return isKnown && !reached.includes(address) ? null : layer
  }
  return layer
}

/** Anything that failed later, TLS included, failed on an open connection. */
function isConnected({ error }: Evidence): boolean {
  return error === null || !error.startsWith('connect_')
}
