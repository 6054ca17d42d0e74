/**
 * Incidents: from when to when a region could not reach a site, and why (spec 3.2).
 *
 *     place A   ✓ ✓ ✗ ✗ ✗ ✗ ✗ ✗ ✓ ✓ ✓        n places: unreachable takes n/2 + 1 (rounded down) that say down,
 *     place B   ✓ ✓ ✓ ✗ ✗ ✗ ✗ ✗ ✗ ✗ ✓        reachable takes n/2 (rounded up) that say up
 *                     ├─ incident ┤
 *
 * It starts with the first failed probe of the place that tipped the scales, and ends with the first good one of the place
 * that tipped them back: a place that has been down for weeks does not date the outage of the others. It opens and
 * closes with the settled state of its region, so both are known one interval later than they are dated.
 * An incident stays open while its vantages are away, up to 24 h. An outage whose failed probes reach back to the end of the
 * newest incident is the same incident again.
 */
import type { ErrorCode } from '../facts.ts'
import { ERROR_CODES } from '../facts.ts'
import { type Evaluation, NEWEST, saysUp } from '../scoring/regions.ts'
import type { KnownIncident, Result } from './rows.ts'

/**
 * What is to be written, or null. `newest`: the region's newest incident, open or closed. `resultsOf`: counted results of
 * every place whose word counts, newest first; asked for only when something opens or closes.
 */
export function nextIncident(
  { state, sinceSec, agreeing }: Pick<Evaluation, 'state' | 'sinceSec' | 'agreeing'>,
  newest: KnownIncident | null,
  resultsOf: () => readonly Result[][],
  nowSec: number,
): KnownIncident | null {
  const isOpen = newest !== null && newest.endedAtSec === null
  if (isOpen === (state === 'unreachable')) return null
  if (isOpen) {
    const endSec = state === 'reachable' ? recoveredAtSec(resultsOf(), newest.startedAtSec, nowSec) : null
    return { ...newest, endedAtSec: Math.max(newest.startedAtSec, endSec ?? sinceSec) }
  }
  const { startedAtSec, cause } = findOutage(resultsOf(), nowSec) ?? {
    startedAtSec: sinceSec,
    cause: 'unknown',
  }
  const isSame = newest !== null && (newest.endedAtSec ?? 0) >= startedAtSec
  return isSame
    ? { ...newest, endedAtSec: null }
    : { startedAtSec, endedAtSec: null, cause, vantages: agreeing }
}

function findOutage(
  results: readonly Result[][],
  nowSec: number,
): { startedAtSec: number; cause: ErrorCode } | null {
  const says = results.map((ofOne) => saysUp({ results: ofOne }, nowSec))
  const down = results.filter((_, i) => says[i] === false).map((ofOne) => run(ofOne, false))
  const quorum = Math.floor(says.filter((said) => said !== null).length / 2) + 1
  const startedAtSec = tippedAtSec(down, quorum)
  const cause = mostFrequent(down.flat())
  return startedAtSec === null || cause === null ? null : { startedAtSec, cause }
}

function recoveredAtSec(results: readonly Result[][], startedAtSec: number, nowSec: number): number | null {
  const says = results.map((ofOne) => saysUp({ results: ofOne }, nowSec))
  const up = results.filter((_, i) => says[i] === true).map((ofOne) => run(ofOne, true))
  const quorum = Math.ceil(says.filter((said) => said !== null).length / 2)
  const after = up.map((good) => good.filter(({ atSec }) => atSec > startedAtSec))
  return tippedAtSec(after, quorum)
}

/** When the place came in that made the quorum; with fewer places than that, the last of them. */
function tippedAtSec(runs: readonly Result[][], quorum: number): number | null {
  const firsts = runs.flatMap((ofOne) => ofOne[ofOne.length - 1]?.atSec ?? []).sort((a, b) => a - b)
  return firsts[Math.min(quorum, firsts.length) - 1] ?? null
}

/**
 * The results of one kind that made the place say what it says: those of its newest three, and on from there as long as
 * no other comes between.
 */
function run(results: readonly Result[], isGood: boolean): Result[] {
  const found: Result[] = []
  for (let i = 0; i < results.length; i++) {
    if ((results[i].outcome !== 'down') === isGood) found.push(results[i])
    else if (i >= NEWEST) break
  }
  return found
}

/** Of equally frequent ones the one that comes first in the table: the lowest layer. */
function mostFrequent(results: readonly Result[]): ErrorCode | null {
  const counts = new Map<ErrorCode, number>()
  for (const { error } of results) if (error) counts.set(error, (counts.get(error) ?? 0) + 1)
  const most = Math.max(...counts.values())
  return ERROR_CODES.find((code) => counts.get(code) === most) ?? null
}
