/**
 * When a site is probed next, whether a failure is repeated first, and by which vantage (spec 6.3 to 6.5). Pure
 * arithmetic: time and randomness are arguments.
 *
 *     planned ──── interval ± 10 % ────► planned ──── … ────► planned      measured from plan to plan
 *                                          │ late by more than an interval: the slots in between are skipped
 *     down, down, down, down ×2, down ×4 … up to 60 min, up to 6 h after 7 days; one success resets the interval
 */
import type { Outcome } from '../facts.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
export const FULL_INTERVAL_MS = 6 * HOUR_MS
export const JITTER_SHARE = 0.1
export const RETRY_AFTER_MAX_MS = HOUR_MS

const PATIENT_DOWNS = 3 // up to here the interval stays as it is
const BACK_OFF_MAX_MS = HOUR_MS
const LONG_DOWN_MS = 7 * 24 * HOUR_MS
const LONG_BACK_OFF_MAX_MS = 6 * HOUR_MS
const DOUBLINGS_MAX = 30 // every interval reaches its maximum long before; keeps the power finite

/** The interval after `downs` downs in a row, the first of them `downForMs` ago. Never shorter than `intervalMs`. */
export function backedOff(intervalMs: number, downs: number, downForMs: number): number {
  const doublings = Math.min(DOUBLINGS_MAX, Math.max(0, downs - PATIENT_DOWNS))
  const maxMs = downForMs >= LONG_DOWN_MS ? LONG_BACK_OFF_MAX_MS : BACK_OFF_MAX_MS
  return Math.max(intervalMs, Math.min(maxMs, intervalMs * 2 ** doublings))
}

export interface Slot {
  dueMs: number // later than nowMs
  skipped: number // slots that were missed
}

/** `random` is 0 to 1, 1 excluded. */
export function nextSlot(plannedMs: number, intervalMs: number, nowMs: number, random: number): Slot {
  const jitterMs = (2 * random - 1) * JITTER_SHARE * intervalMs
  const dueMs = Math.round(plannedMs + intervalMs + jitterMs)
  if (dueMs > nowMs) return { dueMs, skipped: 0 }
  const skipped = Math.floor((nowMs - dueMs) / intervalMs) + 1
  return { dueMs: dueMs + skipped * intervalMs, skipped }
}

/** The first runs of all sites are spread over one interval, the same way after every start. */
export function firstSlotMs(slug: string, intervalMs: number, nowMs: number): number {
  return nowMs + (hash(slug) % intervalMs)
}

/** The value of a Retry-After header (seconds, or a date) in milliseconds from now, 0 to one hour; 0 if invalid. */
export function retryAfterMs(header: string | null, nowSec: number): number {
  const text = header?.trim() ?? ''
  if (/^[0-9]{1,10}$/.test(text)) return Math.min(RETRY_AFTER_MAX_MS, Number(text) * 1000)
  // Date.parse accepts much more than an HTTP date, so the form is checked first.
  const dateMs = /^[A-Z][a-z]{2,8},? .{8,30}$/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(dateMs) ? 0 : Math.min(RETRY_AFTER_MAX_MS, Math.max(0, dateMs - nowSec * 1000))
}

/** FNV-1a with a final mix, so that its low bits are uniform too; 0 to 2^32-1. */
export function hash(text: string): number {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  return (value ^ (value >>> 13)) >>> 0
}

export const REPEATS = 2 // default of PROBE_RETRIES
export const REPEATS_MAX = 5

const REPEAT_DELAYS_MS = [5_000, 15_000, 30_000, 30_000, 30_000] // before the first repeat, the second, …

/**
 * A failure counts only when it repeats (spec 6.3). Returns how long to wait before this probe is repeated on a new connection;
 * null = its outcome stands.
 *
 *     down ── 5 s ──► down ── 15 s ──► down          stored: one down, with the last code
 *     down ── 5 s ──► up                             stored: up
 *     down with Retry-After                          stored: down, not repeated sooner than requested
 *
 * Failures of a site that is already down are repeated too; otherwise a flapping site would look worse while it is down
 * than while it is up. The cost is two more requests and 20 s per down probe.
 */
export function repeatDelayMs(
  outcome: Outcome,
  {
    repeatsDone,
    repeatsMax,
    retryAfterMs,
  }: { repeatsDone: number; repeatsMax: number; retryAfterMs: number },
): number | null {
  if (outcome !== 'down' || retryAfterMs > 0) return null
  return repeatsDone < Math.min(repeatsMax, REPEATS_MAX) ? REPEAT_DELAYS_MS[repeatsDone] : null
}

const VANTAGES_PER_SLOT = 2

/** The number of the slot that holds `atSec`. */
export function getSlotNumber(atSec: number, intervalSec: number): number {
  return Math.floor(atSec / intervalSec)
}

/**
 * The vantages that probe a site in a slot, out of those online in its region: all of them, or, when more than two are
 * online, two in rotation (spec 6.5). Every planner computes the same result from the epoch and the list.
 *
 *     slot        0      1      2      3            3 vantages
 *     a           x      x             x
 *     b           x             x      x            each has two slots of three; the start differs per site
 *     c                  x      x
 */
export function inTurn(slug: string, slot: number, online: readonly string[]): string[] {
  const names = [...online].sort()
  if (names.length <= VANTAGES_PER_SLOT) return names
  const first = hash(slug) + slot * VANTAGES_PER_SLOT
  return Array.from({ length: VANTAGES_PER_SLOT }, (_, i) => names[(first + i) % names.length])
}
