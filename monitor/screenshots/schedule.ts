/**
 * When a site's picture is due (spec 8.3), as a pure function of stored rows and time. UTC throughout.
 *
 *     month    1 ─────────────── 5 ──── 7 ─────────────────────────────────────►
 *              └ slot, by hash ──┘      └ last try of a month for a site that has a picture already
 *     no picture yet: at once, in any part of the month
 *     after a failure: a day later, three tries in all per month
 */
import { hash } from '../scheduler/schedule.ts'
import { DAY_SEC } from '../scoring/bucket.ts'
import type { ScreenshotState } from '../storage/reader.ts'

export const TRIES_MAX = 3
const SLOT_DAYS = 5
const WINDOW_DAYS = SLOT_DAYS + TRIES_MAX - 1

/** `YYYY-MM`, UTC. */
export function toMonth(nowSec: number): string {
  return new Date(nowSec * 1_000).toISOString().slice(0, 7)
}

/** When the next try is due, now or before; null = not now. `state`: null = nothing is stored. */
export function dueSinceSec(
  slug: string,
  state: Omit<ScreenshotState, 'siteId'> | null,
  nowSec: number,
): number | null {
  if (state?.isTaken) return null
  const monthSec = Date.parse(`${toMonth(nowSec)}-01T00:00:00Z`) / 1_000
  if (state?.hasPicture && nowSec >= monthSec + WINDOW_DAYS * DAY_SEC) return null
  const slotSec = state?.hasPicture ? monthSec + (hash(slug) % (SLOT_DAYS * DAY_SEC)) : monthSec
  const tries = countTries(state?.errors ?? null)
  if (tries >= TRIES_MAX) return null
  const dueSec = tries === 0 ? slotSec : Math.max(slotSec, (state?.triedAtSec ?? 0) + DAY_SEC)
  return dueSec <= nowSec ? dueSec : null
}

export function countTries(errors: string | null): number {
  return errors === null || errors === '' ? 0 : errors.split(',').length
}
