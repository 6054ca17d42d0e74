/**
 * Where both regions of one site stand now (spec 6.5): the newest results of every place, and what was remembered.
 *
 *     region_state ─► before ─┐
 *     newest results ─────────┴─► evaluate ─► after ─► with the other region as control: blocking ─► region_state
 *
 * A change has to hold for two evaluations, one per interval. A look in between (a pass is repeated, or a site is judged
 * out of turn) is none of these two: it takes a region out of `unknown` and changes no other state, nor what is pending.
 *
 * Which addresses the control reaches (for `tcp`): rows of what worked keep none, so they are those of the server's newest
 * full probe, where its region is the control. Gives up: where agents alone are the control, every failure to connect
 * votes, compared with nothing; and a site whose name leads to other addresses hour by hour or place by place, or to
 * another host, has fewer votes for `tcp` than it deserves.
 */
import type { Region, RegionState } from '../facts.ts'
import { type Evidence, regionState } from '../score/blocking.ts'
import { type Evaluation, evaluate, firstEvaluation, NEWEST } from '../score/regions.ts'
import type { Database } from '../store/database.ts'
import { type OnlineVantage, type Result, readAddresses, readResults } from './rows.ts'

const EVIDENCE_SEC = 1_800
const EVIDENCE_MAX = 30 // of one place: one per minute, the shortest interval
const ADDRESSES_AGE_MAX_SEC = 43_200 // two full probes; what was before them says nothing of now
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
    const control = REGIONS[1 - i]
    const [failed, seen] = isOneSided
      ? [evidenceIn(places, siteId, region), controlIn(places, siteId, control)]
      : [[], []]
    const state = regionState(here, other, failed, seen)
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
      .map(({ error, httpStatus, address }) => ({ error, httpStatus, address })),
  )
}

/**
 * The same, and each address that the server reaches as a result that connected to it. Without those no address at all:
 * the few that agents tell of TLS that failed would be taken for all there are, and one agent could silence the others.
 */
function controlIn(places: Places, siteId: number, region: Region): Evidence[] {
  const { database, online, nowSec } = places
  const isServers = online.some((vantage) => vantage.isOwn && vantage.region === region)
  const addresses = isServers ? readAddresses(database, siteId, nowSec - ADDRESSES_AGE_MAX_SEC) : []
  const seen = evidenceIn(places, siteId, region)
  if (addresses.length === 0) return seen.map((evidence) => ({ ...evidence, address: null }))
  return [...seen, ...addresses.map((address) => ({ error: null, httpStatus: null, address }))]
}
