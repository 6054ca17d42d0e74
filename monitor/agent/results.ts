/**
 * The server's look at what an agent has measured: each result by itself is stored, known already, or refused with a
 * reason (spec 6.5).
 *
 *     results, by sequence ─► seen before? ─► values possible? ─► site of its catalogue? ─► time ─► probe
 *
 *     agent's clock    ───────── at ────────────────── sent ──          more than 60 s ahead or behind the server's:
 *     server's clock         ──── at - skew ────────────── now ──       every time is moved by what it differs now
 *
 * Gives up: what was measured before an agent's clock was put right is moved by what that clock says afterwards.
 * A time is never later than now, whatever was sent. An address is believed for votes on blocking only
 * (scoring/blocking.ts): nobody connects to it, and nobody is shown it.
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
const LATE_MAX_SEC = KEPT_SEC + 3_600 // the hour is for what is kept while the last of it is sent
const DEGRADED: readonly (ErrorCode | null)[] = ['slow', 'http_429', 'challenge'] // spec 6.3

export interface ResultsOutcome {
  answer: ResultsResponse
  probes: { siteId: number; probe: Probe }[] // oldest sequence first
}

export interface ResultsContext {
  accepted: number // highest sequence so far
  siteIds: ReadonlyMap<string, number> // by slug, of what this agent is to probe
  nowMs: number
}

/** Throws ApiError when the sequence numbers jump further than an agent's buffer reaches: nothing is taken then. */
export function takeResults({ clock_ms, results }: ResultsRequest, context: ResultsContext): ResultsOutcome {
  const highestMax = context.accepted + BUFFERED_ROWS_MAX
  if (results.some(({ sequence }) => sequence > highestMax))
    throw new ApiError('invalid_request', `sequence numbers must be at most ${highestMax} now; poll again`)
  const answer: ResultsResponse = {
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
    if (sequence <= answer.accepted) {
      answer.repeated++
      continue
    }
    answer.accepted = sequence
    const taken = toProbe(result, clock, context.siteIds)
    if (typeof taken === 'string') answer.refusals.push({ sequence, reason: reasonText(taken) })
    else probes.push(taken)
  }
  answer.stored = probes.length
  answer.refused = answer.refusals.length
  return { answer, probes }
}

/** Text: why it is refused. */
function toProbe(
  result: WireResult,
  clock: { agentSec: number; nowSec: number },
  siteIds: ReadonlyMap<string, number>,
): ResultsOutcome['probes'][number] | string {
  const complaint = check(RESULT, result, {}) ?? findContradiction(result)
  if (complaint !== null) return `impossible: ${complaint}`
  const siteId = siteIds.get(result.slug)
  if (siteId === undefined) return 'unknown_site: not in the catalogue of this agent'
  const { agentSec, nowSec } = clock
  if (result.at_s > agentSec + SKEW_MAX_SEC) return 'future: later than the clock it was sent by'
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

/** What no probe can find, though each value by itself could be; and an address that is none, which no schema can tell. */
function findContradiction(result: WireResult): string | null {
  const { outcome, error, http_status, ttfb_ms, total_ms, address = null } = result
  if (outcome === 'up' && error !== null) return 'what is up has no error'
  if (outcome !== 'up' && error === null) return 'what is not up has an error'
  if (outcome === 'degraded' && !DEGRADED.includes(error)) return `degraded is not for ${error}`
  if (outcome === 'down' && DEGRADED.includes(error)) return `down is not for ${error}`
  if ((outcome === 'up' || outcome === 'degraded') && http_status === null) return 'an answer has a status'
  if (ttfb_ms !== null && total_ms !== null && ttfb_ms > total_ms)
    return 'the first byte comes before the end'
  if (address !== null && parseAddress(address) === null) return 'address must be an IP address'
  return null
}
