/**
 * One pass over all sites: from measurements to region states, incidents, scores, tiers and boards.
 *
 *     per site, every PROBE_INTERVAL_S
 *       newest results ─► regions ─► incidents ─┐
 *       30 days of hours ─► history ────────────┼─► score ─► caps ─► tier ─┐
 *       full probes ─► models, hygiene ─────────┘                          ├─► candidate ─► boards, after the last site
 *       catalogue ─► claims, flags ────────────────────────────────────────┘
 *
 * Reads the database and writes nothing: writes are returned, and the memory of a site is what was written last time. A
 * repeated pass changes nothing: states, tiers, incidents and boards follow from their previous values and the time. Only
 * how often a change was seen is a count; it is counted once per interval, when half of one has passed since the last count
 * (`evaluatedSec`), so that timer jitter neither skips nor doubles one.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Region } from '../facts.ts'
import { DAY_SEC } from '../scoring/bucket.ts'
import { isAnswered } from '../scoring/models.ts'
import { computeScore, getReachability } from '../scoring/score.ts'
import { listCaps, nextTier } from '../scoring/tier.ts'
import { computePastHistory, type Past } from '../scoring/windows.ts'
import type { Database } from '../storage/database.ts'
import { readAnswered } from '../storage/observations.ts'
import { RAW_MAX, Reader, type StoredEvaluation } from '../storage/reader.ts'
import type { Write } from '../storage/rows.ts'
import { boardWrites, type PassCandidate } from './boards.ts'
import { collectFindings, type Findings } from './findings.ts'
import { nextIncident } from './incidents.ts'
import { type EvaluatedRegion, evaluateRegions, type Places, voicesIn } from './regions.ts'
import { type PassSite, readNewestIncident, readSites, readVantages, sumHours } from './rows.ts'
import {
  type Memory,
  PEAK,
  readMemory,
  type SiteEvaluation,
  toCandidate,
  toStoredEvaluation,
} from './site-evaluation.ts'

export interface PassOptions {
  nowSec: number
  intervalSec: number // PROBE_INTERVAL_S
  ownVantage: string | null // name of the server's vantage, always online; null = the server does not probe
  siteIds?: readonly number[] // only these, and no boards
}

/** Returns writes in order. About 1.2 ms per site with 30 days of history and 300 models. */
export function evaluateAll(database: Database, options: PassOptions): Write[] {
  const pass = new EvaluationPass(database, options)
  const candidates: PassCandidate[] = []
  for (const site of readSites(database, options.siteIds)) {
    const candidate = pass.evaluate(site)
    if (!site.catalogue.isHidden) candidates.push(candidate)
  }
  if (!options.siteIds) pass.writes.push(...boardWrites(database, candidates, options.nowSec))
  return pass.writes
}

class EvaluationPass {
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
    this.evaluations = new Map(
      this.reader.evaluations().map((row) => [evaluationKey(row.siteId, row.region), row]),
    )
    this.memories = new Map(this.reader.scores().map((row) => [row.siteId, readMemory(row)]))
  }

  evaluate(site: PassSite): PassCandidate {
    const { nowSec, intervalSec } = this.options
    const memory = this.memories.get(site.id) ?? readMemory(undefined)
    const { evaluatedSec } = memory
    const isOutOfTurn = evaluatedSec !== null && Math.abs(nowSec - evaluatedSec) < intervalSec / 2
    const before = (region: Region) => this.evaluations.get(evaluationKey(site.id, region))
    const regions = evaluateRegions(this.places, site.id, before, isOutOfTurn)
    for (const region of regions) this.settle(site.id, region)
    const evaluation = this.evaluateSite(site, memory, regions)
    this.keep(site.id, evaluation, isOutOfTurn ? evaluatedSec : nowSec)
    return toCandidate(site, evaluation, this.options)
  }

  /** State and incident of a region. */
  private settle(siteId: number, { region, state, evaluation }: EvaluatedRegion): void {
    const { sinceSec, pending } = evaluation
    const before = this.evaluations.get(evaluationKey(siteId, region))
    if (!isDeepStrictEqual(before, { siteId, region, ...state, sinceSec, pending })) {
      this.writes.push({ kind: 'region', siteId, region, state, sinceSec, pending })
    }
    const newest = readNewestIncident(this.database, siteId, region)
    const results = () => voicesIn(this.places, siteId, region, RAW_MAX).map((voice) => voice.results)
    const incident = nextIncident(evaluation, newest, results, this.options.nowSec)
    if (incident) this.writes.push({ kind: 'incident', siteId, region, ...incident })
  }

  private evaluateSite(
    site: PassSite,
    memory: Memory,
    regions: readonly EvaluatedRegion[],
  ): SiteEvaluation & { past: Past } {
    const { nowSec } = this.options
    const past = this.reader.past(site.id, nowSec)
    const history = computePastHistory(past, nowSec)
    const findings = this.findings(site)
    const states = regions.map(({ state }) => state.state)
    const { hygiene, isCertificateInvalid, models } = findings
    const reachability = getReachability(states)
    const score = computeScore({ history, truthRatio: models.truthRatio, reachability, hygiene })
    const caps = listCaps({ history, isCertificateInvalid, flags: site.catalogue.flags })
    const tier = nextTier(memory.tier, score.value, caps, nowSec)
    const hasOpenIncident = states.includes('unreachable') // an incident is open as long as its region is that
    return { past, history, findings, states, hasOpenIncident, score, caps, tier }
  }

  private keep(siteId: number, evaluation: SiteEvaluation & { past: Past }, evaluatedSec: number): void {
    const { nowSec } = this.options
    const { tier, score, past } = evaluation
    const facts = toStoredEvaluation(evaluation, {
      nowSec,
      evaluatedSec,
      past,
      peakBefore: this.peakBefore(siteId),
    })
    this.writes.push({
      kind: 'score',
      siteId,
      tier: tier.tier,
      tierSinceSec: tier.sinceSec,
      score: score.value,
      facts,
    })
  }

  /** Usually the newest full probe has a listing response; then one row is read. */
  private findings(site: PassSite): Findings {
    const newest = this.reader.observation(site.id)
    const answered = newest && (isAnswered(newest) ? newest : readAnswered(this.database, site.id))
    return collectFindings(site, newest, answered, this.options.nowSec)
  }

  /** Peak hours of 30 days, up to the first hour of a Past. */
  private peakBefore(siteId: number) {
    const { nowSec } = this.options
    const range = { siteId, fromSec: nowSec - 30 * DAY_SEC, toSec: nowSec - 7 * DAY_SEC }
    return sumHours(this.database, { ...range, ...PEAK })
  }
}

function evaluationKey(siteId: number, region: Region): string {
  return `${siteId} ${region}`
}
