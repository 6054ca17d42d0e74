/**
 * Validates the results of an agent: each is stored, already known, or refused with a reason (spec 6.5).
 *
 *     results, by sequence ─► repeated? ─► values consistent? ─► site in its catalogue? ─► time ─► probe
 *
 * When the agent's clock differs from the server's by more than 60 s, every time is corrected by the present difference;
 * results measured before a clock was set right are therefore corrected wrongly. No time is later than now. The address
 * of a failed connection is used for votes on blocking only (scoring/blocking.ts): it is never connected to or shown.
 */
import { ApiError } from '../api/errors.ts'
import { check } from '../api/schema/json-schema.ts'
import { parseAddress } from '../egress/address.ts'
import type { ErrorCode, Probe } from '../facts.ts'
import {
  BUFFERED_ROWS_MAX,
  KEPT_SEC,
  RESULT,
  type ResultsRequest,
  type ResultsResponse,
  reasonText,
  type WireResult,
} from './wire.ts'

export const SKEW_MAX_SEC = 60
const LATE_MAX_SEC = KEPT_SEC + 3_600 // results age by up to an hour while a backlog is sent
const DEGRADED: readonly (ErrorCode | null)[] = ['slow', 'http_429', 'challenge'] // spec 6.3

export interface ResultsOutcome {
  response: ResultsResponse
  probes: { siteId: number; probe: Probe }[] // by sequence
}

export interface ResultsContext {
  accepted: number // highest sequence so far
  siteIds: ReadonlyMap<string, number> // by slug: the sites assigned to this agent
  nowMs: number
}

/** Throws ApiError, and takes nothing, when a sequence number is further ahead than an agent's buffer is long. */
export function takeResults({ clock_ms, results }: ResultsRequest, context: ResultsContext): ResultsOutcome {
  const highestMax = context.accepted + BUFFERED_ROWS_MAX
  if (results.some(({ sequence }) => sequence > highestMax))
    throw new ApiError('invalid_request', `sequence numbers must be at most ${highestMax} now; poll again`)
  const response: ResultsResponse = {
    accepted: context.accepted,
    stored: 0,
    repeated: 0,
    refused: 0,
    refusals: [],
  }
  const probes: ResultsOutcome['probes'] = []
  const clock = { agentSec: Math.floor(clock_ms / 1_000), nowSec: Math.floor(context.nowMs / 1_000) }
  for (const result of results.toSorted((one, other) => one.sequence - other.sequence)) {
    const { sequence } = result
    if (sequence <= response.accepted) {
      response.repeated++
      continue
    }
    response.accepted = sequence
    const probe = toProbe(result, clock, context.siteIds)
    if (typeof probe === 'string') response.refusals.push({ sequence, reason: reasonText(probe) })
    else probes.push(probe)
  }
  response.stored = probes.length
  response.refused = response.refusals.length
  return { response, probes }
}

/** Returns the reason as text when the result is refused. */
function toProbe(
  result: WireResult,
  clock: { agentSec: number; nowSec: number },
  siteIds: ReadonlyMap<string, number>,
): ResultsOutcome['probes'][number] | string {
  const violation = check(RESULT, result, {}) ?? findContradiction(result)
  if (violation !== null) return `impossible: ${violation}`
  const siteId = siteIds.get(result.slug)
  if (siteId === undefined) return 'unknown_site: not in the catalogue of this agent'
  const { agentSec, nowSec } = clock
  if (result.at_s > agentSec + SKEW_MAX_SEC) return 'future: later than clock_ms'
  const skewSec = agentSec - nowSec
  const atSec = Math.min(nowSec, result.at_s - (Math.abs(skewSec) > SKEW_MAX_SEC ? skewSec : 0))
  if (atSec < nowSec - LATE_MAX_SEC) return 'too_old: more than a day'
  const { outcome, error, http_status: httpStatus, address = null } = result
  const timings = {
    dnsMs: result.dns_ms,
    connectMs: result.connect_ms,
    tlsMs: result.tls_ms,
    ttfbMs: result.ttfb_ms,
    totalMs: result.total_ms,
  }
  return { siteId, probe: { atSec, kind: 'light', outcome, error, httpStatus, timings, address } }
}

/** Combinations of values that no probe can measure, and an address that is not one: beyond what a schema expresses. */
function findContradiction(result: WireResult): string | null {
  const { outcome, error, http_status, ttfb_ms, total_ms, address = null } = result
  if (outcome === 'up' && error !== null) return 'outcome "up" must have no error'
  if (outcome !== 'up' && error === null) return `outcome "${outcome}" must have an error`
  if (outcome === 'degraded' && !DEGRADED.includes(error))
    return `outcome "degraded" cannot have error ${error}`
  if (outcome === 'down' && DEGRADED.includes(error)) return `outcome "down" cannot have error ${error}`
  if ((outcome === 'up' || outcome === 'degraded') && http_status === null)
    return `outcome "${outcome}" must have an http_status`
  if (ttfb_ms !== null && total_ms !== null && ttfb_ms > total_ms) return 'ttfb_ms must be at most total_ms'
  if (address !== null && parseAddress(address) === null) return 'address must be an IP address'
  return null
}
