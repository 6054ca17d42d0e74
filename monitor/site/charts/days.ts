/** Points of the API on a grid of 30 UTC days, the last of which is running. A day or hour without a point is null. */
import { bucketStartSec, DAY_SEC, HOUR_SEC } from '../../scoring/bucket.ts'
import type { ProbePoint } from '../../scoring/probe-point.ts'

export const DAYS = 30
export const HOURS = 24

export interface DayGrid {
  startSec: number // of the first day
  days: (ProbePoint | null)[]
  hours: (ProbePoint | null)[][] // per day: 24, from 00:00 UTC
}

export function toDayGrid(
  dayPoints: readonly ProbePoint[],
  hourPoints: readonly ProbePoint[],
  nowSec: number,
): DayGrid {
  const startSec = bucketStartSec(nowSec, DAY_SEC) - (DAYS - 1) * DAY_SEC
  const days = new Array<ProbePoint | null>(DAYS).fill(null)
  const hours = days.map(() => new Array<ProbePoint | null>(HOURS).fill(null))
  for (const point of dayPoints) {
    const day = Math.floor((toSec(point) - startSec) / DAY_SEC)
    if (day >= 0 && day < DAYS) days[day] = point
  }
  for (const point of hourPoints) {
    const hour = Math.floor((toSec(point) - startSec) / HOUR_SEC)
    if (hour >= 0 && hour < DAYS * HOURS) hours[Math.floor(hour / HOURS)][hour % HOURS] = point
  }
  return { startSec, days, hours }
}

export function dayStartSec({ startSec }: DayGrid, day: number): number {
  return startSec + day * DAY_SEC
}

export function hourStartSec(grid: DayGrid, day: number, hour: number): number {
  return dayStartSec(grid, day) + hour * HOUR_SEC
}

function toSec({ at }: ProbePoint): number {
  return Date.parse(at) / 1_000
}
