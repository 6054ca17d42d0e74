/**
 * Whose turn is it? A site is probed by every online vantage of a region, or, when more than two are online, by two of
 * them in rotation (spec 6.5).
 *
 *     slot        0      1      2      3            3 vantages
 *     a           x      x             x
 *     b           x             x      x            every one has two of three, starting elsewhere for each site
 *     c                  x      x
 *
 * All planners come to the same answer from the epoch and the list alone; nobody hands out turns.
 */
import { hash } from './schedule.ts'

const PER_REGION = 2

/** The number of the slot that holds `atSec`. */
export function getSlotNumber(atSec: number, intervalSec: number): number {
  return Math.floor(atSec / intervalSec)
}

/** The names in turn, out of those online in one region. */
export function inTurn(slug: string, slot: number, online: readonly string[]): string[] {
  const names = [...online].sort()
  if (names.length <= PER_REGION) return names
  const first = hash(slug) + slot * PER_REGION
  return Array.from({ length: PER_REGION }, (_, i) => names[(first + i) % names.length])
}
