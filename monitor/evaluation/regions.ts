/**
 * The state of both regions of one site (spec 6.5), from the newest results of every vantage and the previous evaluation.
 *
 *     region_state ─► before ─┐
 *     newest results ─────────┴─► evaluate ─► after ─► with the other region as control: blocking ─► region_state
 *
 * Results of offline vantages are read only if no online vantage of the region has any.
 *
 * A change has to hold for two evaluations, one per interval. A pass in between (repeated, or of single sites) does not
 * count: it may take a region out of `unknown` but changes no other state, nor what is pending.
 *
 * Addresses that the control reaches (for `tcp`) are those of the server's newest full probe if its region is the control,
 * because successful probes store no address. Limits: where only agents are the control, every failure to connect votes; a site
 * whose addresses change by hour or vantage, or that redirects to another host, gets fewer `tcp` votes than it should.
 */
import type { Region, RegionState } from '../facts.ts'
import { type Evidence, regionState } from '../scoring/blocking.ts'
import { type Evaluation, evaluate, firstEvaluation, NEWEST } from '../scoring/regions.ts'
import type { Database } from '../storage/database.ts'
import { type PlacedVantage, type Result, readAddresses, readResults } from './rows.ts'

const EVIDENCE_SEC = 1_800
const EVIDENCE_MAX = 30 // of one vantage: one per minute, the shortest interval
const ADDRESSES_AGE_MAX_SEC = 43_200 // two intervals of full probes
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

/** Of every online vantage of the region; of offline ones too if the others have no results. */
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

/** Results of the last 30 minutes, and the newest of each vantage in any case: a site that is down is probed less often. */
function evidenceIn(places: Places, siteId: number, region: Region): Evidence[] {
  return voicesIn(places, siteId, region, EVIDENCE_MAX).flatMap(({ results }) =>
    results
      .filter(({ atSec }, i) => i < NEWEST || places.nowSec - atSec <= EVIDENCE_SEC)
      .map(({ error, httpStatus, address }) => ({ error, httpStatus, address })),
  )
}

/**
 * The same, with each address that the server reaches as a result that connected to it. Without those, no address at all:
 * the few that agents report of failed TLS would pass for a complete list, and one agent could suppress the others' votes.
 */
function controlIn(places: Places, siteId: number, region: Region): Evidence[] {
  const { database, vantages, nowSec } = places
  const isServers = vantages.some((vantage) => vantage.isOwn && vantage.region === region)
  const addresses = isServers ? readAddresses(database, siteId, nowSec - ADDRESSES_AGE_MAX_SEC) : []
  const seen = evidenceIn(places, siteId, region)
  if (addresses.length === 0) return seen.map((evidence) => ({ ...evidence, address: null }))
  return [...seen, ...addresses.map((address) => ({ error: null, httpStatus: null, address }))]
}
