/**
 * Fixed windows: the window a hit belongs to, and the time until it ends (spec 3.1, 4.6).
 *
 *     start                        end
 *       |---- hits are counted ----|---- new key, count starts at 0 ----
 *                 ^ nowSec
 *                 |-- resetSec ----|
 *
 * Windows are aligned to the UNIX epoch in UTC: weeks start on Thursday, months are blocks of 30 days.
 * One counter per key and one addition per hit; at the edge of two windows, twice the limit can pass.
 */
import { Unit } from '../../proto/ratelimit.ts'

/** Length in seconds by unit number; 0 for UNKNOWN. */
// biome-ignore format: one line is the table
const UNIT_SEC = [0, 1, 60, 3_600, 86_400, 2_592_000, 31_536_000, 604_800]

/** Seconds in one unit: 1 to 31,536,000; 0 for UNKNOWN and for unknown numbers. */
export function unitSec(unit: number): number {
  return UNIT_SEC[unit] ?? 0
}

/** The protocol number of a unit's name in any case, as YAML writes it; UNKNOWN if there is none. */
export function parseUnit(name: string): Unit {
  // biome-ignore format: one line is the table
  switch (name.toUpperCase()) {
    case 'SECOND': return Unit.Second
    case 'MINUTE': return Unit.Minute
    case 'HOUR': return Unit.Hour
    case 'DAY': return Unit.Day
    case 'WEEK': return Unit.Week
    case 'MONTH': return Unit.Month
    case 'YEAR': return Unit.Year
    default: return Unit.Unknown
  }
}

/** Epoch second at which the window that holds `nowSec` began. */
export function windowStartSec(nowSec: number, lengthSec: number): number {
  return nowSec - (nowSec % lengthSec)
}

/** Seconds until the window ends: 1 to `lengthSec`, never 0, so that clients wait. */
export function resetSec(nowSec: number, lengthSec: number): number {
  return lengthSec - (nowSec % lengthSec)
}
