/**
 * Incidents: when a region could not reach a site, and why (spec 3.2).
 *
 *     vantage A   ✓ ✓ ✗ ✗ ✗ ✗ ✗ ✗ ✓ ✓ ✓        n vantages: unreachable takes n/2 + 1 (rounded down) down votes,
 *     vantage B   ✓ ✓ ✓ ✗ ✗ ✗ ✗ ✗ ✗ ✗ ✓        reachable takes n/2 (rounded up) up votes
 *                       ├─ incident ┤
 *
 * It starts with the first failed probe of the vantage that completed the quorum and ends with the first success of the
 * vantage that ended it: a vantage that has been down for weeks does not date the outage of the others. It opens and closes
 * with the settled state of its region, so both are known one interval later than they are dated. An incident stays open
 * while its vantages are offline, up to 24 h. An outage whose failed probes reach back to the end of the newest incident
 * reopens that incident.
 */
import type { ErrorCode } from '../facts.ts'
import { ERROR_CODES } from '../facts.ts'
import { type Evaluation, getVote, NEWEST } from '../scoring/regions.ts'
import type { KnownIncident, Result } from './rows.ts'

/**
 * The incident to write, or null. `newest`: the region's newest incident, open or closed. `readAll`: counted results of
 * every vantage that votes, newest first; called only when an incident opens or closes.
 */
export function nextIncident(
  { state, sinceSec, agreeing }: Pick<Evaluation, 'state' | 'sinceSec' | 'agreeing'>,
  newest: KnownIncident | null,
  readAll: () => readonly Result[][],
  nowSec: number,
): KnownIncident | null {
  const isOpen = newest !== null && newest.endedAtSec === null
  if (isOpen === (state === 'unreachable')) return null
  if (isOpen) {
    const endSec = state === 'reachable' ? recoveredAtSec(readAll(), newest.startedAtSec, nowSec) : null
    return { ...newest, endedAtSec: Math.max(newest.startedAtSec, endSec ?? sinceSec) }
  }
  const { startedAtSec, cause } = findOutage(readAll(), nowSec) ?? {
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
  const votes = results.map((own) => getVote({ results: own }, nowSec))
  const down = results.filter((_, i) => votes[i] === false).map((own) => run(own, false))
  const quorum = Math.floor(votes.filter((vote) => vote !== null).length / 2) + 1
  const startedAtSec = quorumAtSec(down, quorum)
  const cause = mostFrequent(down.flat())
  return startedAtSec === null || cause === null ? null : { startedAtSec, cause }
}

function recoveredAtSec(results: readonly Result[][], startedAtSec: number, nowSec: number): number | null {
  const votes = results.map((own) => getVote({ results: own }, nowSec))
  const up = results.filter((_, i) => votes[i] === true).map((own) => run(own, true))
  const quorum = Math.ceil(votes.filter((vote) => vote !== null).length / 2)
  const after = up.map((good) => good.filter(({ atSec }) => atSec > startedAtSec))
  return quorumAtSec(after, quorum)
}

/** When the vantage that completed the quorum changed; with fewer vantages, the last of them. */
function quorumAtSec(runs: readonly Result[][], quorum: number): number | null {
  const firsts = runs.flatMap((own) => own[own.length - 1]?.atSec ?? []).sort((a, b) => a - b)
  return firsts[Math.min(quorum, firsts.length) - 1] ?? null
}

/**
 * The results of one kind that decided a vantage's vote: those among its newest three, and older ones up to the first of
 * the other kind.
 */
function run(results: readonly Result[], isGood: boolean): Result[] {
  const found: Result[] = []
  for (let i = 0; i < results.length; i++) {
    if ((results[i].outcome !== 'down') === isGood) found.push(results[i])
    else if (i >= NEWEST) break
  }
  return found
}

/** Of equally frequent codes the first of the table, which is the lowest layer. */
function mostFrequent(results: readonly Result[]): ErrorCode | null {
  const counts = new Map<ErrorCode, number>()
  for (const { error } of results) if (error) counts.set(error, (counts.get(error) ?? 0) + 1)
  const most = Math.max(...counts.values())
  return ERROR_CODES.find((code) => counts.get(code) === most) ?? null
}
