/**
 * Delays between attempts, for clients that reconnect and for threads that are restarted.
 *
 *     backoffMs        1st attempt   2nd          3rd                  4th
 *                             initial  initial..2×  initial..4×  …  never above the maximum
 *     doublingMs       10 s, 20 s, 40 s, 60 s, 60 s: exact; for a poll, which adds its own jitter
 *     RestartBackoff   listed pauses for a thread, unlimited or until the list ends
 *
 * Delays of clients are random, so that a fleet that lost its server does not return all at once.
 */
export interface BackoffSpan {
  initialMs: number
  maxMs: number
}

const DOUBLINGS_MAX = 30 // every maximum is reached earlier

/** Delay before the next attempt after `failures` failed ones, 1 or more. `random` returns 0 to 1. */
export function backoffMs(failures: number, span: BackoffSpan, random: () => number): number {
  const longestMs = doublingMs(failures, { ...span, maxMs: Number.POSITIVE_INFINITY })
  return Math.min(span.initialMs + random() * (longestMs - span.initialMs), span.maxMs)
}

/** The same without chance: the initial delay, doubled with each further failure. */
export function doublingMs(failures: number, { initialMs, maxMs }: BackoffSpan): number {
  return Math.min(initialMs * 2 ** Math.min(failures - 1, DOUBLINGS_MAX), maxMs)
}

/** `ms`, longer or shorter by up to `share` of it. */
export function jitteredMs(ms: number, share: number, random: () => number): number {
  return ms * (1 + (2 * random() - 1) * share)
}

const FORGET_MS = 60_000 // of running: then a failure no longer counts

/**
 * Pauses between the restarts of one thread. Failures count until threads have run for FORGET_MS since, so a thread that
 * fails again and again is restarted ever later, and one that fails once a day at once.
 */
export class RestartBackoff {
  private readonly pausesMs: readonly number[]
  private readonly isLimited: boolean
  private agesMs: number[] = [] // of recent failures, in running time; at most as many as there are pauses

  /** `pausesMs`: before the first restart, the second, …; afterwards the last one, or none if the restarts are limited. */
  constructor(pausesMs: readonly number[], isLimited = false) {
    this.pausesMs = pausesMs
    this.isLimited = isLimited
  }

  /** Whether the last failure came after none, or none that still counts. */
  get isFirst(): boolean {
    return this.agesMs.length === 1
  }

  /** A thread has failed `ranMs` after its start. Returns the pause before the next start; null = do not restart. */
  onFailure(ranMs: number): number | null {
    const recent = this.agesMs.map((ageMs) => ageMs + ranMs).filter((ageMs) => ageMs < FORGET_MS)
    const lastIndex = this.pausesMs.length - 1
    this.agesMs = [...recent, 0].slice(-this.pausesMs.length)
    if (this.isLimited && recent.length > lastIndex) return null
    return this.pausesMs[Math.min(recent.length, lastIndex)]
  }
}
