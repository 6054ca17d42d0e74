/** The demo's history is what a monitor would have left that stored every probe as a raw row and evaluated all the time. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { evaluateAll } from '../../../../monitor/evaluation/pass.ts'
import type { CatalogueSite, Observation, Probe, Region } from '../../../../monitor/facts.ts'
import { DAY_SEC, HOUR_SEC } from '../../../../monitor/scoring/bucket.ts'
import { applyBatch } from '../../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../../monitor/storage/catalogue-transaction.ts'
import { Database } from '../../../../monitor/storage/database.ts'
import { migrate } from '../../../../monitor/storage/migrate.ts'
import { Reader } from '../../../../monitor/storage/reader.ts'
import { RollUp } from '../../../../monitor/storage/roll-up.ts'
import type { Write } from '../../../../monitor/storage/rows.ts'
import { createVantage, saveVantage } from '../../../../monitor/storage/vantages.ts'
import { fillHistory } from '../../../../scripts/commands/demo/history.ts'
import { DEMO_SITES, type DemoSite, siteUrl } from '../../../../scripts/commands/demo/sites.ts'
import { size } from '../../../helpers/size.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'

const OWN = 'frankfurt'
const INTERVAL_SEC = 300
const AFTERNOON = Date.UTC(2026, 10, 20, 16, 24, 31) / 1_000

interface Measured {
  siteId: number
  vantageId: number
  probe: Probe
}

/** An observation as a full probe of a site that is well makes it. */
function createObservation({ listed, claimed, scheme }: DemoSite, nowSec: number): Observation {
  const tls = {
    version: 'TLSv1.3',
    issuer: 'Demo CA',
    notAfterSec: nowSec + 60 * DAY_SEC,
    isValid: true,
    alpn: null,
  }
  return {
    atSec: nowSec,
    models: listed && [...listed],
    listing: listed ? 'open' : 'key_required',
    claimed: [...claimed],
    profile: {
      cdn: { provider: null, evidence: [] },
      asn: { number: 64_496, name: 'DEMO-CLOUD', country: 'US' },
      ...{
        ips: ['127.0.0.2'],
        hasIpv6: false,
        software: { name: 'new-api', version: null, confidence: 0.99 },
      },
      tls: scheme === 'https' ? tls : null,
    },
    hygiene: { redirectsToHttps: scheme === 'https', hasHsts: scheme === 'https', leaksUpstream: false },
    isParked: false,
  }
}

/** The caller closes the database. */
async function createDatabase(sites: readonly DemoSite[], startSec: number) {
  const folder = join(makeTemporaryFolder(), 'data')
  mkdirSync(folder)
  const database = new Database(join(folder, 'monitor.sqlite'))
  await migrate(database)
  const entries = sites.map((site): CatalogueSite => {
    const { slug, name, flags = [] } = site
    const url = siteUrl(site)
    return {
      ...{ slug, name, url, apiBase: url, firstSeen: null, modelsClaimed: [], keyFile: null, aliases: [] },
      ...{
        regions: ['cn', 'overseas'],
        intervalSec: null,
        hasScreenshot: true,
        flags: [...flags],
        isHidden: false,
      },
    }
  })
  const { ids } = syncCatalogue(database, entries, startSec)
  const overseas = saveVantage(database, { name: OWN, region: 'overseas', country: 'DE' })
  createVantage(database, { name: 'shanghai', region: 'cn', country: 'CN' })
  const vantages = { overseas: { id: overseas, name: OWN }, cn: { id: overseas + 1, name: 'shanghai' } }
  return { database, ids, vantages }
}

async function fill(
  sites: readonly DemoSite[],
  {
    nowSec = AFTERNOON,
    days = 30,
    passResults,
  }: { nowSec?: number; days?: number; passResults?: number } = {},
) {
  const created = await createDatabase(sites, nowSec - days * DAY_SEC)
  const measured: Measured[] = []
  const pairs = sites.map((site) => {
    const well = createObservation(site, nowSec)
    const tls = well.profile.tls && { ...well.profile.tls, isValid: site.now !== 'expired' }
    const isAnswering = site.now !== 'parked' && site.now !== 'challenge' && site.now !== 'failing'
    const listing = isAnswering
      ? { ...well }
      : { ...well, listing: 'absent' as const, models: null, claimed: [] }
    const now = { ...listing, isParked: site.now === 'parked', profile: { ...well.profile, tls } }
    return [site.slug, { well, now }] as const
  })
  const probesCount = await fillHistory({
    ...{ ...created, sites, days, nowSec, passResults, ownVantage: OWN, observations: new Map(pairs) },
    onProbe: (siteId, vantageId, probe) => measured.push({ siteId, vantageId, probe }),
  })
  return { ...created, measured, probesCount, nowSec }
}

const pick = (...slugs: string[]) => DEMO_SITES.filter(({ slug }) => slugs.includes(slug))

/** Hours and days of every region, as charts and scores read them. */
function readHistory(database: Database, ids: Readonly<Record<string, number>>, nowSec: number) {
  const reader = new Reader(database)
  return Object.values(ids).map((siteId) =>
    (['cn', 'overseas', 'all'] as const).map((region) =>
      ([HOUR_SEC, DAY_SEC] as const).map((windowSec) =>
        reader.history({ siteId, region, windowSec, fromSec: 0, toSec: nowSec + 1 }),
      ),
    ),
  )
}

const TABLES = {
  region_state: '*',
  incident: 'site_id, region, started_at, ended_at, cause, vantages',
  site: 'slug, state, tier, tier_since, score, score_json, last_probed, last_full',
  board_day: '*',
  observation: '*',
  model_seen: '*',
  model_change: '*',
}

function readRows(database: Database, table: keyof typeof TABLES) {
  return database.all(
    `SELECT ${TABLES[table]} FROM ${table} ORDER BY ${table === 'incident' ? '1, 2, 3' : '1, 2'}`,
  )
}

describe('M8.2: rows written directly', () => {
  const sites = pick('aurora', 'bamboo', 'ember', 'koi')
  let few: Awaited<ReturnType<typeof fill>>
  beforeAll(async () => {
    few = await fill(sites, { days: 9 })
  })
  afterAll(() => few.database.close())

  test('hours and days equal those computed from raw rows', async () => {
    const { database, ids, measured, probesCount, nowSec } = few
    const reference = await createDatabase(sites, nowSec - 9 * DAY_SEC)
    onTestFinished(() => reference.database.close())
    const rollUp = new RollUp(reference.database)
    const byHour = Map.groupBy(measured, ({ probe }) => Math.floor(probe.atSec / HOUR_SEC))
    for (const [hour, probes] of byHour) {
      const atSec = (hour + 1) * HOUR_SEC
      const writes = probes.map((each): Write => ({ kind: 'probe', ...each }))
      expect(applyBatch(reference.database, writes, atSec)).toEqual([])
      while (rollUp.step(atSec)) {}
    }
    expect(probesCount).toBe(measured.length)
    expect(measured.length).toBeGreaterThan(10_000)
    expect(readHistory(database, ids, nowSec)).toEqual(readHistory(reference.database, reference.ids, nowSec))
  })

  test('states, incidents, scores, boards and models equal those of a history with all raw rows', async () => {
    const all = await fill(sites, { days: 9, passResults: Number.POSITIVE_INFINITY })
    onTestFinished(() => all.database.close())
    for (const table of Object.keys(TABLES) as (keyof typeof TABLES)[])
      expect(readRows(few.database, table), table).toEqual(readRows(all.database, table))
    expect(readRows(few.database, 'incident').length).toBeGreaterThan(10)
    const countRaw = (database: Database) =>
      database.get<{ count: number }>('SELECT count(*) AS count FROM probe_raw')!.count
    expect(countRaw(few.database)).toBeLessThan(0.5 * countRaw(all.database))
    const [fewReader, allReader] = [new Reader(few.database), new Reader(all.database)]
    for (const siteId of Object.values(few.ids)) {
      const raw = (reader: Reader) => reader.rawProbes(siteId, 'all', few.nowSec - 2 * DAY_SEC)
      expect(raw(fewReader)).toEqual(raw(allReader))
    }
    expect(fewReader.probeStates()).toEqual(allReader.probeStates())
  })

  test('M6.5: regions and incidents are those of a monitor that evaluates every 5 minutes', async () => {
    const days = size({ small: 2, full: 3 })
    const some = pick('bamboo', 'ember', 'koi')
    const { database, measured, nowSec } = await fill(some, { days })
    const reference = await createDatabase(some, nowSec - days * DAY_SEC)
    onTestFinished(() => {
      database.close()
      reference.database.close()
    })
    const startSec = Math.floor(nowSec / DAY_SEC) * DAY_SEC - days * DAY_SEC
    let next = 0
    for (let atSec = startSec + INTERVAL_SEC; atSec <= nowSec; atSec += INTERVAL_SEC) {
      const writes: Write[] = Object.values(reference.vantages).map(({ id }) => ({
        ...{ kind: 'vantage-seen', vantageId: id, atSec },
      }))
      for (; measured[next]?.probe.atSec <= atSec; next++) writes.push({ kind: 'probe', ...measured[next] })
      applyBatch(reference.database, writes, atSec)
      const options = { nowSec: atSec, intervalSec: INTERVAL_SEC, ownVantage: OWN }
      applyBatch(reference.database, evaluateAll(reference.database, options), atSec)
    }
    const incidents = (of: Database) => readRows(of, 'incident')
    const states = (of: Database) =>
      of.all('SELECT site_id, region, state, blocking FROM region_state ORDER BY 1, 2')
    expect(incidents(database)).toEqual(incidents(reference.database))
    expect(incidents(database).length).toBeGreaterThan(0)
    expect(states(database)).toEqual(states(reference.database))
  })
})

// biome-ignore format: a table
const TIMES = [
  ['just after midnight', Date.UTC(2026, 10, 20,  0,  4, 10)],
  ['in the afternoon',    Date.UTC(2026, 10, 20, 15, 31, 22)],
  ['just before midnight', Date.UTC(2026, 10, 20, 23, 55, 59)],
] as const

// The demo of demo.test.ts has the same at the time of the run.
describe.each(size({ small: TIMES.slice(0, 1), full: [...TIMES] }))('the demo %s (UTC)', (_, nowMs) => {
  test('has all tiers, full boards with changes of rank, open and closed incidents', async () => {
    const nowSec = nowMs / 1_000
    const { database, ids } = await fill(DEMO_SITES, { nowSec })
    onTestFinished(() => database.close())
    const tiers = database
      .all<{ tier: string }>('SELECT DISTINCT tier FROM site ORDER BY tier')
      .map(({ tier }) => tier)
    expect(tiers).toEqual(['A', 'B', 'C', 'D', 'S'])
    const reader = new Reader(database)
    const todaySec = Math.floor(nowSec / DAY_SEC) * DAY_SEC
    const ranks = (daySec: number) =>
      new Map(reader.board('red', daySec).map(({ siteId, rank }) => [siteId, rank]))
    const [today, before] = [ranks(todaySec), ranks(todaySec - DAY_SEC)]
    expect(today.size).toBeGreaterThanOrEqual(5)
    expect(today.has(ids.orchid) && !before.has(ids.orchid)).toBe(true) // new
    expect([...today].some(([id, rank]) => before.has(id) && before.get(id) !== rank)).toBe(true)
    const warned = new Map(reader.board('black', todaySec).map(({ siteId, reasons }) => [siteId, reasons]))
    expect(warned.size).toBeGreaterThanOrEqual(5)
    expect(warned.get(ids.mirage)).toEqual(['models_missing'])
    const incidents = Object.values(ids).flatMap((id) => reader.incidents(id, 0))
    expect(incidents.filter(({ endedAtSec }) => endedAtSec === null).length).toBeGreaterThanOrEqual(4)
    expect(incidents.filter(({ endedAtSec }) => endedAtSec !== null).length).toBeGreaterThanOrEqual(20)
    const state = (slug: string, region: Region) =>
      reader.evaluations().find((each) => each.siteId === ids[slug] && each.region === region)
    expect(state('bamboo', 'cn')).toMatchObject({ state: 'unreachable', blocking: 'dns' })
    expect(state('pagoda', 'cn')).toMatchObject({ state: 'unreachable', blocking: 'tls' })
    expect(state('bamboo', 'overseas')).toMatchObject({ state: 'reachable' })
  })
})
