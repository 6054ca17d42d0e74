/**
 * Where both regions of one site stand now (spec 6.5): the newest results of every place, and what was remembered.
 *
 *     region_state ─► before ─┐
 *     newest results ─────────┴─► evaluate ─► after ─► with the other region as control: blocking ─► region_state
 *
 * A change has to hold for two evaluations, one per interval. A look in between (a pass is repeated, or a site is judged
 * out of turn) is none of these two: it takes a region out of `unknown` and changes no other state, nor what is pending.
 */
import type { Region, RegionState } from '../facts.ts'
import { type Evidence, regionState } from '../score/blocking.ts'
import { type Evaluation, evaluate, firstEvaluation, NEWEST } from '../score/regions.ts'
import type { Database } from '../store/database.ts'
import { type OnlineVantage, type Result, readResults } from './rows.ts'

const EVIDENCE_SEC = 1_800
const EVIDENCE_MAX = 30 // of one place: one per minute, the shortest interval
const REGIONS: readonly Region[] = ['cn', 'overseas']

export interface Looked {
  region: Region
  evaluation: Evaluation
  state: RegionState
}

export interface Places {
  database: Database
  online: readonly OnlineVantage[]
  nowSec: number
}

/** `before` undefined: never evaluated. */
export function lookAtRegions(
  places: Places,
  siteId: number,
  before: (region: Region) => Evaluation | undefined,
  isOutOfTurn: boolean,
): Looked[] {
  const { nowSec } = places
  const after = REGIONS.map((region) => {
    const results = resultsIn(places, siteId, region, NEWEST)
    return nextEvaluation(before(region) ?? firstEvaluation(nowSec), results, nowSec, isOutOfTurn)
  })
  return REGIONS.map((region, i) => {
    const [here, other] = [after[i], after[1 - i]]
    const isOneSided = here.state === 'unreachable' && other.state === 'reachable'
    const evidence = (of: Region) => (isOneSided ? evidenceIn(places, siteId, of) : [])
    const state = regionState(here, other, evidence(region), evidence(REGIONS[1 - i]))
    return { region, evaluation: here, state }
  })
}

/** Of every online place of the region, newest first. */
export function resultsIn(
  { database, online, nowSec }: Places,
  siteId: number,
  region: Region,
  resultsMax: number,
): Result[][] {
  const vantages = online.filter((vantage) => vantage.region === region)
  return vantages.map(({ id }) => readResults(database, { siteId, vantageId: id, nowSec, resultsMax }))
}

export function nextEvaluation(
  before: Evaluation,
  results: readonly Result[][],
  nowSec: number,
  isOutOfTurn: boolean,
): Evaluation {
  const views = results.map((ofOne) => ({ lastSeenSec: nowSec, results: ofOne }))
  if (!isOutOfTurn) return evaluate(before, views, nowSec)
  const after = evaluate({ ...before, pending: null }, views, nowSec)
  return after.state === before.state ? { ...after, pending: before.pending } : after
}

/** Of the last 30 minutes, and the newest of each place in any case: a site that is down is asked less often. */
function evidenceIn(places: Places, siteId: number, region: Region): Evidence[] {
  return resultsIn(places, siteId, region, EVIDENCE_MAX).flatMap((results) =>
    results
      .filter(({ atSec }, i) => i < NEWEST || places.nowSec - atSec <= EVIDENCE_SEC)
      .map(({ error, httpStatus }) => ({ error, httpStatus, address: null })),
  ) // raw rows do not keep addresses
}
