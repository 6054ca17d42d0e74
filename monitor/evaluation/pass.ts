/**
 * One pass over all sites: what was measured becomes region states, incidents, scores, tiers and boards.
 *
 *     per site, every PROBE_INTERVAL_S
 *       newest results ─► regions ─► incidents ─┐
 *       30 days of hours ─► history ────────────┼─► score ─► caps ─► tier ─┐
 *       full probes ─► models, hygiene ─────────┘                          ├─► candidate ─► boards, after the last site
 *       catalogue ─► claims, flags ────────────────────────────────────────┘
 *
 * Reads a database and writes nothing: what is to be written is returned, and memory is what was written last time.
 * A pass made again changes nothing. States, tiers, incidents and boards follow from what they were and from now; the one
 * thing that counts is how often a change was seen, and that is counted once per interval: when half of one has passed
 * since it was counted last (`evaluatedSec`), so that a timer's jitter neither skips nor doubles one.
 */

import { isDeepStrictEqual } from 'node:util'
import type { Region } from '../facts.ts'
import { DAY_SEC } from '../score/bucket.ts'
import { isAnswered } from '../score/models.ts'
import { reachabilityOf, scoreOf } from '../score/score.ts'
import { capsOf, nextTier } from '../score/tier.ts'
import { historyOfPast, type Past } from '../score/windows.ts'
import type { Database } from '../store/database.ts'
import { readAnswered } from '../store/observations.ts'
import { RAW_MAX, Reader, type StoredEvaluation } from '../store/reader.ts'
import type { Write } from '../store/rows.ts'
import { boardWrites, type PassCandidate } from './boards.ts'
import { type Findings, findingsOf } from './findings.ts'
import { nextIncident } from './incidents.ts'
import { accountOf, candidateOf, type Judged, type Memory, memoryOf, PEAK } from './judged.ts'
import { type Looked, lookAtRegions, type Places, voicesIn } from './regions.ts'
import { type PassSite, readNewestIncident, readSites, readVantages, sumHours } from './rows.ts'

export interface PassOptions {
  nowSec: number
  intervalSec: number // PROBE_INTERVAL_S
  ownVantage: string | null // its name; it is always online. null = nothing is probed from here
  siteIds?: readonly number[] // only these, and no boards
}

/** In the order in which they are to be written. Some 1.2 ms per site with 30 days of history and 300 models. */
export function evaluateAll(database: Database, options: PassOptions): Write[] {
  const pass = new Pass(database, options)
  const candidates: PassCandidate[] = []
  for (const site of readSites(database, options.siteIds)) {
    const candidate = pass.evaluate(site)
    if (!site.catalogue.isHidden) candidates.push(candidate)
  }
  if (!options.siteIds) pass.writes.push(...boardWrites(database, candidates, options.nowSec))
  return pass.writes
}

class Pass {
  readonly writes: Write[] = []
  private readonly database: Database
  private readonly reader: Reader
  private readonly places: Places
  private readonly options: PassOptions
  private readonly evaluations: ReadonlyMap<string, StoredEvaluation>
  private readonly memories: ReadonlyMap<number, Memory>

  constructor(database: Database, options: PassOptions) {
    this.database = database
    this.reader = new Reader(database)
    this.places = { database, vantages: readVantages(database, options), nowSec: options.nowSec }
    this.options = options
    this.evaluations = new Map(this.reader.evaluations().map((row) => [keyOf(row.siteId, row.region), row]))
    this.memories = new Map(this.reader.scores().map((row) => [row.siteId, memoryOf(row)]))
  }

  evaluate(site: PassSite): PassCandidate {
    const { nowSec, intervalSec } = this.options
    const memory = this.memories.get(site.id) ?? memoryOf(undefined)
    const { evaluatedSec } = memory
    const isOutOfTurn = evaluatedSec !== null && Math.abs(nowSec - evaluatedSec) < intervalSec / 2
    const before = (region: Region) => this.evaluations.get(keyOf(site.id, region))
    const regions = lookAtRegions(this.places, site.id, before, isOutOfTurn)
    for (const looked of regions) this.settle(site.id, looked)
    const judged = this.judge(site, memory, regions)
    this.keep(site.id, judged, isOutOfTurn ? evaluatedSec : nowSec)
    return candidateOf(site, judged, this.options)
  }

  /** State and incident of a region. */
  private settle(siteId: number, { region, state, evaluation }: Looked): void {
    const { sinceSec, pending } = evaluation
    const before = this.evaluations.get(keyOf(siteId, region))
    if (!isDeepStrictEqual(before, { siteId, region, ...state, sinceSec, pending })) {
      this.writes.push({ kind: 'region', siteId, region, state, sinceSec, pending })
    }
    const newest = readNewestIncident(this.database, siteId, region)
    const results = () => voicesIn(this.places, siteId, region, RAW_MAX).map((voice) => voice.results)
    const incident = nextIncident(evaluation, newest, results, this.options.nowSec)
    if (incident) this.writes.push({ kind: 'incident', siteId, region, ...incident })
  }

  private judge(site: PassSite, memory: Memory, regions: readonly Looked[]): Judged & { past: Past } {
    const { nowSec } = this.options
    const past = this.reader.past(site.id, nowSec)
    const history = historyOfPast(past, nowSec)
    const findings = this.findings(site)
    const states = regions.map(({ state }) => state.state)
    const { hygiene, isCertificateInvalid, models } = findings
    const reachability = reachabilityOf(states)
    const score = scoreOf({ history, truthRatio: models.truthRatio, reachability, hygiene })
    const caps = capsOf({ history, isCertificateInvalid, flags: site.catalogue.flags })
    const tier = nextTier(memory.tier, score.value, caps, nowSec)
    const hasOpenIncident = states.includes('unreachable') // an incident is open as long as its region is that
    return { past, history, findings, states, hasOpenIncident, score, caps, tier }
  }

  private keep(siteId: number, judged: Judged & { past: Past }, evaluatedSec: number): void {
    const { nowSec } = this.options
    const { tier, score, past } = judged
    const facts = accountOf(judged, { nowSec, evaluatedSec, past, peakBefore: this.peakBefore(siteId) })
    this.writes.push({
      kind: 'score',
      siteId,
      tier: tier.tier,
      tierSinceSec: tier.sinceSec,
      score: score.value,
      facts,
    })
  }

  /** Mostly the newest full probe was answered, too; then one row is read. */
  private findings(site: PassSite): Findings {
    const newest = this.reader.observation(site.id)
    const answered = newest && (isAnswered(newest) ? newest : readAnswered(this.database, site.id))
    return findingsOf(site, newest, answered, this.options.nowSec)
  }

  /** Peak hours of 30 days, up to where the hours of a Past begin. */
  private peakBefore(siteId: number) {
    const { nowSec } = this.options
    const range = { siteId, fromSec: nowSec - 30 * DAY_SEC, toSec: nowSec - 7 * DAY_SEC }
    return sumHours(this.database, { ...range, ...PEAK })
  }
}

function keyOf(siteId: number, region: Region): string {
  return `${siteId} ${region}`
}
