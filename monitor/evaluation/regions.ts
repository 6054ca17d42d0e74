/**
 * Where both regions of one site stand now (spec 6.5): the newest results of every place, and what was remembered.
 *
 *     region_state ─► before ─┐
 *     newest results ─────────┴─► evaluate ─► after ─► with the other region as control: blocking ─► region_state
 *
 * Results of vantages that are away are read only where no online vantage of the region has any.
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
import { type Evidence, regionState } from '../scoring/blocking.ts'
import { type Evaluation, evaluate, firstEvaluation, NEWEST } from '../scoring/regions.ts'
import type { Database } from '../storage/database.ts'
import { type PlacedVantage, type Result, readAddresses, readResults } from './rows.ts'

const EVIDENCE_SEC = 1_800
const EVIDENCE_MAX = 30 // of one place: one per minute, the shortest interval
const ADDRESSES_AGE_MAX_SEC = 43_200 // two full probes; what was before them says nothing of now
const AWAY_SEC = 0 // last seen, of a vantage that is not online
const REGIONS: readonly Region[] = ['cn', 'overseas']

export interface EvaluatedRegion {
  region: Region
  evaluation: Evaluation
  state: RegionState
}

/** Counted results of one vantage, newest first. */
export interface Voice {
  isOnline: boolean
  results: Result[]
}

export interface Places {
  database: Database
  vantages: readonly PlacedVantage[]
  nowSec: number
}

/** `before` undefined: never evaluated. */
export function evaluateRegions(
  places: Places,
  siteId: number,
  before: (region: Region) => Evaluation | undefined,
  isOutOfTurn: boolean,
): EvaluatedRegion[] {
  const { nowSec } = places
  const after = REGIONS.map((region) => {
    const voices = voicesIn(places, siteId, region, NEWEST)
    return nextEvaluation(before(region) ?? firstEvaluation(nowSec), voices, nowSec, isOutOfTurn)
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

/** Of every online vantage of the region, and of those that are away where the others have no results. */
export function voicesIn(
  { database, vantages, nowSec }: Places,
  siteId: number,
  region: Region,
  resultsMax: number,
): Voice[] {
  const read = (wanted: boolean): Voice[] =>
    vantages
      .filter((vantage) => vantage.region === region && vantage.isOnline === wanted)
      .map(({ id, isOnline }) => {
        return { isOnline, results: readResults(database, { siteId, vantageId: id, nowSec, resultsMax }) }
      })
  const online = read(true)
  return online.some(({ results }) => results.length > 0) ? online : [...online, ...read(false)]
}

export function nextEvaluation(
  before: Evaluation,
  voices: readonly Voice[],
  nowSec: number,
  isOutOfTurn: boolean,
): Evaluation {
  const views = voices.map(({ isOnline, results }) => {
    return { lastSeenSec: isOnline ? nowSec : AWAY_SEC, results }
  })
  if (!isOutOfTurn) return evaluate(before, views, nowSec)
  const after = evaluate({ ...before, pending: null }, views, nowSec)
  return after.state === before.state ? { ...after, pending: before.pending } : after
}

/** Of the last 30 minutes, and the newest of each place in any case: a site that is down is asked less often. */
function evidenceIn(places: Places, siteId: number, region: Region): Evidence[] {
  return voicesIn(places, siteId, region, EVIDENCE_MAX).flatMap(({ results }) =>
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
  const { database, vantages, nowSec } = places
  const isServers = vantages.some((vantage) => vantage.isOwn && vantage.region === region)
  const addresses = isServers ? readAddresses(database, siteId, nowSec - ADDRESSES_AGE_MAX_SEC) : []
  const seen = evidenceIn(places, siteId, region)
  if (addresses.length === 0) return seen.map((evidence) => ({ ...evidence, address: null }))
  return [...seen, ...addresses.map((address) => ({ error: null, httpStatus: null, address }))]
}
