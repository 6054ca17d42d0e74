/**
 * A failure counts only when it repeats (spec 6.3).
 *
 *     down ── 5 s ──► down ── 15 s ──► down          stored: one down, with the last code
 *     down ── 5 s ──► up                             stored: up
 *     down, and the site asks to be left alone       stored: down; it has said so itself, and is not asked again sooner
 *
 * Every failure is confirmed, also that of a site that is down already: otherwise a flapping site would look worse
 * while it is down than while it is up. Price: two more requests, and 20 s, per down probe.
 */
import type { Outcome } from '../facts.ts'

export const REPEATS = 2 // default of confirm_failures
export const REPEATS_MAX = 5

const DELAYS_MS = [5_000, 15_000, 30_000, 30_000, 30_000] // before the first repeat, the second, …

/** How long to wait before this probe is tried again on a new connection; null = its outcome stands. */
export function repeatDelayMs(
  outcome: Outcome,
  {
    repeatsDone,
    repeatsMax,
    retryAfterMs,
  }: { repeatsDone: number; repeatsMax: number; retryAfterMs: number },
): number | null {
  if (outcome !== 'down' || retryAfterMs > 0) return null
  return repeatsDone < Math.min(repeatsMax, REPEATS_MAX) ? DELAYS_MS[repeatsDone] : null
}
