/**
 * Can a site be reached from a region? (spec 6.5)
 *
 *     3 newest results of a vantage ─► it votes up or down ─┐
 *     … of another                  ─► …                    ├─► quorum ─► twice in a row? ─► state ─► blocking
 *     (only vantages that are online count)                 ┘
 *
 * While no online vantage has results, those of offline vantages are used: a state survives their absence for 24 h, with no
 * vantage agreeing and `checkedAtSec` as its age. Revoked vantages are not used.
 *
 * Pure: the caller stores the Evaluation of each site and region and passes it again, once per probe interval. Why a
 * region is blocked needs the other region as control and is computed afterwards: see blocking.ts.
 */
import type { Outcome, RegionState } from '../facts.ts'

export const NEWEST = 3 // results of a vantage that decide its vote
const HOLD_COUNT = 2 // consecutive evaluations that confirm a change
export const RESULT_AGE_MAX_SEC = 86_400 // three probes at the longest back-off take 20 h
const ONLINE_SEC = 60 // since an agent's last poll

/** Recent results of one vantage of the region, online or not. */
export interface VantageView {
  lastSeenSec: number // its last poll; now for the server's own vantage
  results: { atSec: number; outcome: Outcome }[] // in any order; inconclusive ones are skipped
}

/** Kept between evaluations in the table region_state (spec 8.2). */
export interface Evaluation {
  state: RegionState['state']
  sinceSec: number
  vantages: number // online now
  agreeing: number // of those, whose vote is `state`
  checkedAtSec: number | null // the newest result that was used
  pending: { state: RegionState['state']; count: number } | null
}

export function firstEvaluation(nowSec: number): Evaluation {
  return { state: 'unknown', sinceSec: nowSec, vantages: 0, agreeing: 0, checkedAtSec: null, pending: null }
}

export function isOnline(lastSeenSec: number, nowSec: number): boolean {
  return Math.abs(nowSec - lastSeenSec) <= ONLINE_SEC // also if the clock was set back
}

/** The next evaluation. A change takes effect when it is seen twice in a row; from `unknown`, at once. */
export function evaluate(before: Evaluation, views: VantageView[], nowSec: number): Evaluation {
  const online = views.filter((view) => isOnline(view.lastSeenSec, nowSec))
  const onlineVotes = listVotes(online, nowSec)
  const votes = onlineVotes.length > 0 ? onlineVotes : listVotes(views, nowSec)
  const upCount = votes.filter(Boolean).length
  const found = toState(upCount, votes.length)
  const count = before.pending?.state === found ? before.pending.count + 1 : 1
  const isSettled = found === before.state || before.state === 'unknown' || count >= HOLD_COUNT
  const state = isSettled ? found : before.state
  return {
    state,
    sinceSec: state === before.state ? before.sinceSec : nowSec,
    vantages: online.length,
    agreeing: onlineVotes.length > 0 ? agreeing(state, upCount, votes.length) : 0,
    checkedAtSec: newestSec(onlineVotes.length > 0 ? online : views) ?? before.checkedAtSec,
    pending: isSettled ? null : { state: found, count },
  }
}

function listVotes(views: VantageView[], nowSec: number): boolean[] {
  return views.map((view) => getVote(view, nowSec)).filter((vote) => vote !== null)
}

/** At least 2 of the 3 newest counted results are up or degraded; with fewer results, at least half. null = no results. */
export function getVote({ results }: Pick<VantageView, 'results'>, nowSec: number): boolean | null {
  const counted = results
    .filter(({ outcome, atSec }) => outcome !== 'inconclusive' && nowSec - atSec <= RESULT_AGE_MAX_SEC)
    .sort((a, b) => b.atSec - a.atSec)
    .slice(0, NEWEST)
  if (counted.length === 0) return null
  return counted.filter(({ outcome }) => outcome !== 'down').length >= Math.ceil(counted.length / 2)
}

function toState(upCount: number, votesCount: number): RegionState['state'] {
  if (votesCount === 0) return 'unknown'
  return upCount >= Math.ceil(votesCount / 2) ? 'reachable' : 'unreachable'
}

function agreeing(state: RegionState['state'], upCount: number, votesCount: number): number {
  if (state === 'unknown') return 0
  return state === 'reachable' ? upCount : votesCount - upCount
}

function newestSec(views: VantageView[]): number | null {
  let newest: number | null = null
  for (const { results } of views) {
    for (const { atSec, outcome } of results) {
      if (outcome !== 'inconclusive' && (newest === null || atSec > newest)) newest = atSec
    }
  }
  return newest
}
