/**
 * The outcome of one attempt of a probe (spec 6.3), and the connectivity check that tells a failure of this host's network
 * from one of the site (spec 6.5). Failures are repeated by the planner (scheduler/schedule.ts).
 *
 *     the listing is open or requires a key ─► up, or degraded (slow) after more than PROBE_SLOW_MS
 *     429, a challenge page ─────────────────► degraded
 *     everything else ───────────────────────► down ──► inconclusive if the connectivity check failed
 */
import type { ErrorCode, ListingAuth, Outcome, Probe } from '../facts.ts'

export const PROBE_SLOW_MS = 3_000 // default of the setting PROBE_SLOW_MS

const RESPONSES_MIN = 2 // of the 3 addresses; with fewer addresses all must respond
const MINUTE_SEC = 60
const FAILED_MINUTES_MAX = 60 // remembered; only the last two matter for a recent probe

/** What one attempt has found. `error` is set where it failed; earlier findings may be present too. */
export interface Finding {
  listing: ListingAuth
  httpStatus: number | null
  ttfbMs: number | null
  error: ErrorCode | null
}

export function classifyProbe(
  { listing, httpStatus, ttfbMs, error }: Finding,
  slowMs = PROBE_SLOW_MS,
): { outcome: Outcome; error: ErrorCode | null } {
  if (error === 'challenge' || error === 'http_429' || error === 'slow') return { outcome: 'degraded', error }
  if (error !== null) return { outcome: 'down', error }
  if (httpStatus === 429) return { outcome: 'degraded', error: 'http_429' }
  if (listing === 'absent') return { outcome: 'down', error: errorOfStatus(httpStatus) }
  return (ttfbMs ?? 0) > slowMs ? { outcome: 'degraded', error: 'slow' } : { outcome: 'up', error: null }
}

/** Whether this host has network, by which of the checked addresses have responded. */
export function areAnswering(responses: readonly boolean[]): boolean {
  return responses.filter(Boolean).length >= Math.min(RESPONSES_MIN, responses.length)
}

/**
 * Adds the minute of a failed check that began at `atSec` to `failedMinutes`; the caller keeps the result. A second check of
 * the same minute that succeeds does not remove it.
 */
export function recordConnectivity(
  failedMinutes: readonly number[],
  atSec: number,
  responses: readonly boolean[],
): number[] {
  const minute = toMinute(atSec)
  if (areAnswering(responses) || failedMinutes.includes(minute)) return [...failedMinutes]
  return [...failedMinutes, minute].slice(-FAILED_MINUTES_MAX)
}

/** Failures in a minute whose check failed, and in the next, are inconclusive. */
export function reclassify(probe: Probe, failedMinutes: readonly number[]): Probe {
  if (probe.outcome !== 'down') return probe
  const minute = toMinute(probe.atSec)
  const isOurs = failedMinutes.includes(minute) || failedMinutes.includes(minute - 1)
  return isOurs ? { ...probe, outcome: 'inconclusive' } : probe
}

/** The minute of the check that applies to a probe. */
export function toMinute(atSec: number): number {
  return Math.floor(atSec / MINUTE_SEC)
}

function errorOfStatus(httpStatus: number | null): ErrorCode {
  if (httpStatus !== null && httpStatus >= 500) return 'http_5xx'
  return httpStatus !== null && httpStatus >= 400 ? 'http_4xx' : 'not_api'
}
