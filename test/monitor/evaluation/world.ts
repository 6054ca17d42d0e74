/** The environment of evaluation tests: a real database, a clock under control, stored probes, evaluation passes. */
import { expect } from 'vitest'
import { evaluateAll, type PassOptions } from '../../../monitor/evaluation/pass.ts'
import type { CatalogueSite, ErrorCode, Observation, Outcome, Region } from '../../../monitor/facts.ts'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import type { Database } from '../../../monitor/storage/database.ts'
import { readSnapshot } from '../../../monitor/storage/publish.ts'
import { Reader } from '../../../monitor/storage/reader.ts'
import { RollUp } from '../../../monitor/storage/roll-up.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { saveVantage } from '../../../monitor/storage/vantages.ts'
import { catalogueSite, freshDatabase, NOW_SEC, probe } from '../storage/stores.ts'

export { NOW_SEC } from '../storage/stores.ts'

export const INTERVAL_SEC = 300
export const DAY_SEC = 86_400
export const MAIN = 'main' // the server's own place

export type WorldSite = { slug: string } & Partial<CatalogueSite>

export async function openWorld(...sites: (string | WorldSite)[]): Promise<World> {
  return new World(
    await freshDatabase(),
    sites.map((site) => (typeof site === 'string' ? { slug: site } : site)),
  )
}

export class World {
  nowSec = NOW_SEC
  ownVantage: string | null = MAIN
  readonly database: Database
  readonly reader: Reader
  readonly vantages: Record<string, number> = {}
  ids: Record<string, number> = {}
  private readonly rollUp: RollUp

  constructor(database: Database, sites: WorldSite[]) {
    this.database = database
    this.reader = new Reader(database)
    this.rollUp = new RollUp(database)
    this.list(sites)
    this.vantage(MAIN, 'overseas')
  }

  /** The whole catalogue anew. */
  list(sites: WorldSite[]): void {
    const entries = sites.map(({ slug, ...more }) => catalogueSite(slug, more))
    this.ids = { ...this.ids, ...syncCatalogue(this.database, entries, this.nowSec).ids }
  }

  vantage(name: string, region: Region): void {
    this.vantages[name] = saveVantage(this.database, { name, region, country: null })
  }

  /** An agent that polls now. */
  seen(...names: string[]): void {
    this.write(
      names.map((name) => ({ kind: 'vantage-seen', vantageId: this.vantages[name], atSec: this.nowSec })),
    )
  }

  /** One probe that ends now. */
  probed(
    slug: string,
    outcome: Outcome | ErrorCode = 'up',
    vantage = MAIN,
    address: string | null = null,
  ): void {
    this.write([this.probeWrite(slug, outcome, vantage, this.nowSec, address)])
  }

  /** One observation of now. */
  observed(slug: string, more: Partial<Observation> = {}): void {
    const observation = { ...createObservation(this.nowSec), ...more }
    this.write([{ kind: 'observation', siteId: this.ids[slug], observation, models: null }])
  }

  /** Intervals pass, each with a probe of every one of these sites and a pass at its end. */
  live(intervals: number, outcome: Outcome | ErrorCode, ...slugs: string[]): void {
    for (let i = 0; i < intervals; i++) {
      this.nowSec += INTERVAL_SEC
      for (const slug of slugs) this.probed(slug, outcome)
      this.pass()
    }
  }

  /** The same for whole hours, with one pass at the end of each: faster, where nothing happens. Probes lie within. */
  liveHours(hours: number, outcome: Outcome | ErrorCode, ...slugs: string[]): void {
    for (let hour = 0; hour < hours; hour++) {
      const ends = Array.from({ length: 12 }, (_, i) => this.nowSec + (i + 0.5) * INTERVAL_SEC)
      this.nowSec += 12 * INTERVAL_SEC
      this.write(ends.flatMap((atSec) => slugs.map((slug) => this.probeWrite(slug, outcome, MAIN, atSec))))
      this.rolledUp()
      this.pass()
    }
  }

  rolledUp(): void {
    while (this.rollUp.step(this.nowSec)) {}
  }

  evaluate(options: Partial<PassOptions> = {}): Write[] {
    const { nowSec, ownVantage } = this
    return evaluateAll(this.database, { nowSec, intervalSec: INTERVAL_SEC, ownVantage, ...options })
  }

  pass(options: Partial<PassOptions> = {}): void {
    this.write(this.evaluate(options))
  }

  write(writes: Write[]): void {
    expect(applyBatch(this.database, writes, this.nowSec)).toEqual([])
  }

  snapshot() {
    return readSnapshot(this.database, 1, this.nowSec)
  }

  /** A region in a word; `…` = a change is seen and has to hold. */
  state(slug: string, region: Region = 'overseas'): string {
    const row = this.evaluation(slug, region)
    return row ? `${row.state}${row.pending ? '…' : ''}` : 'none'
  }

  evaluation(slug: string, region: Region = 'overseas') {
    return this.reader.evaluations().find((row) => row.siteId === this.ids[slug] && row.region === region)
  }

  incidents(slug: string) {
    return this.reader.incidents(this.ids[slug], 0).map(({ id: _, ...incident }) => incident)
  }

  tier(slug: string): string {
    return this.reader.scores().find(({ siteId }) => siteId === this.ids[slug])?.tier ?? 'none'
  }

  board(board: 'red' | 'black'): string[] {
    return this.snapshot().boards[board].map(({ slug }) => slug)
  }

  /** Everything a pass can write. */
  dump(): unknown {
    const tables = ['site', 'region_state', 'incident', 'board_day', 'meta']
    return tables.map((table) => this.database.all(`SELECT * FROM ${table} ORDER BY 1, 2`))
  }

  private probeWrite(
    slug: string,
    result: Outcome | ErrorCode,
    vantage: string,
    atSec: number,
    address: string | null = null,
  ): Write {
    const isOutcome =
      result === 'up' || result === 'degraded' || result === 'down' || result === 'inconclusive'
    const outcome = isOutcome ? result : 'down'
    const error = isOutcome ? (result === 'down' ? 'connect_timeout' : null) : result
    const found = probe(atSec, { outcome, error, httpStatus: outcome === 'up' ? 401 : null, address })
    return { kind: 'probe', siteId: this.ids[slug], vantageId: this.vantages[vantage], probe: found }
  }
}

export function createObservation(atSec: number): Observation {
  return {
    atSec,
    models: ['gpt-5.4', 'claude-sonnet-4-6'],
    claimed: ['gpt-5.4'],
    listing: 'open',
    profile: {
      cdn: { provider: null, evidence: [] },
      asn: { number: null, name: null, country: null },
      ips: ['104.16.0.1'],
      hasIpv6: false,
      tls: {
        version: 'TLSv1.3',
        issuer: 'WE1',
        notAfterSec: atSec + 60 * DAY_SEC,
        isValid: true,
        alpn: 'h2',
      },
      software: { name: 'new-api', version: null, confidence: 0.9 },
    },
    hygiene: { redirectsToHttps: true, hasHsts: true, leaksUpstream: false },
    isParked: false,
  }
}
