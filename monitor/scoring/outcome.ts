/**
 * What one try of a probe means (spec 6.3), and the control check that tells our own broken network from a broken site
 * (spec 6.5). Repeating a failure before it counts is the planner's (scheduler/schedule.ts).
 *
 *     the listing answered: open, or asks for a key ──► up, or degraded (slow) after more than PROBE_SLOW_MS
 *     429, a challenge page ──────────────────────────► degraded
 *     everything else ────────────────────────────────► down ──► inconclusive, when our own network was gone
 */
import type { ErrorCode, ListingAuth, Outcome, Probe } from '../facts.ts'

export const PROBE_SLOW_MS = 3_000 // default of the setting PROBE_SLOW_MS

const CONTROLS_MIN = 2 // of the 3 addresses; fewer answers: it is us. Of fewer addresses all, or nothing would ever count
const MINUTE_SEC = 60
const FAILED_MINUTES_MAX = 60 // remembered; only two matter for a probe that is judged soon after it ends

/** What one try has seen. `error` is set where it broke; what it saw before that may be there nevertheless. */
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

/** Whether our own network is there, by which of the control addresses have answered. */
export function areAnswering(answers: readonly boolean[]): boolean {
  return answers.filter(Boolean).length >= Math.min(CONTROLS_MIN, answers.length)
}

/**
 * A control check that began at `atSec`: a failed one joins `failedMinutes`, of which the caller keeps the result. Starts
 * empty. A second check of the same minute that succeeds takes nothing back.
 */
export function recordConnectivity(
  failedMinutes: readonly number[],
  atSec: number,
  answers: readonly boolean[],
): number[] {
  const minute = toMinute(atSec)
  if (areAnswering(answers) || failedMinutes.includes(minute)) return [...failedMinutes]
  return [...failedMinutes, minute].slice(-FAILED_MINUTES_MAX)
}

/** Failures in a minute whose control check failed, and in the next, say nothing about the site. */
export function reclassify(probe: Probe, failedMinutes: readonly number[]): Probe {
  if (probe.outcome !== 'down') return probe
  const minute = toMinute(probe.atSec)
  const isOurs = failedMinutes.includes(minute) || failedMinutes.includes(minute - 1)
  return isOurs ? { ...probe, outcome: 'inconclusive' } : probe
}

/** The minute of the control check that a probe is judged by. */
export function toMinute(atSec: number): number {
  return Math.floor(atSec / MINUTE_SEC)
}

function errorOfStatus(httpStatus: number | null): ErrorCode {
  if (httpStatus !== null && httpStatus >= 500) return 'http_5xx'
  return httpStatus !== null && httpStatus >= 400 ? 'http_4xx' : 'not_api'
}
