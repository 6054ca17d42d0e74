/**
 * When the next probe is planned (spec 6.4). Plain arithmetic: no clock, no chance of its own.
 *
 *     planned ──── interval ± 10 % ────► planned ──── … ────► planned      from plan to plan, not from end to end
 *                                          │ late by more than an interval: the slots in between are skipped
 *     down, down, down, down ×2, down ×4 … up to 60 min, up to 6 h after 7 days; one good answer: back to the interval
 */

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
export const FULL_INTERVAL_MS = 6 * HOUR_MS
export const JITTER_SHARE = 0.1
export const RETRY_AFTER_MAX_MS = HOUR_MS

const PATIENT_DOWNS = 3 // up to here a site is asked as often as ever
const BACK_OFF_MAX_MS = HOUR_MS
const LONG_DOWN_MS = 7 * 24 * HOUR_MS
const LONG_BACK_OFF_MAX_MS = 6 * HOUR_MS
const DOUBLINGS_MAX = 30 // any interval has met its maximum long before; keeps the power finite

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

/** The value of a Retry-After header (seconds, or a date) in milliseconds from now, 0 to one hour; no sense in it: 0. */
export function retryAfterMs(header: string | null, nowSec: number): number {
  const text = header?.trim() ?? ''
  if (/^[0-9]{1,10}$/.test(text)) return Math.min(RETRY_AFTER_MAX_MS, Number(text) * 1000)
  // Date.parse would take much more than a date of HTTP, so only texts that look like one get there.
  const dateMs = /^[A-Z][a-z]{2,8},? .{8,30}$/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(dateMs) ? 0 : Math.min(RETRY_AFTER_MAX_MS, Math.max(0, dateMs - nowSec * 1000))
}

/** FNV-1a, stirred once more so that its low bits are even too; 0 to 2^32-1. */
export function hash(text: string): number {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  return (value ^ (value >>> 13)) >>> 0
}
