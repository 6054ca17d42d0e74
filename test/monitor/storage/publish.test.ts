import { expect, test } from 'vitest'
import type { Observation } from '../../../monitor/facts.ts'
import { DAY_SEC } from '../../../monitor/scoring/bucket.ts'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import { readSnapshot } from '../../../monitor/storage/publish.ts'
import { Reader } from '../../../monitor/storage/reader.ts'
import type { ModelSighting, Write } from '../../../monitor/storage/rows.ts'
import { saveVantage } from '../../../monitor/storage/vantages.ts'
import { catalogueSite, freshDatabase, NOW_SEC, probe } from './stores.ts'

const TODAY_SEC = NOW_SEC - (NOW_SEC % DAY_SEC)

test('2.1: a site is published once it has a finished probe and a tier, unless it is hidden or removed', async () => {
  const { snapshot, write, ids, sync } = await filled()
  expect(snapshot().sites).toEqual([])
  for (const slug of ['one', 'two', 'hidden', 'gone']) {
    write({ kind: 'probe', siteId: ids[slug], vantageId: 1, probe: probe(NOW_SEC - 5) })
    if (slug !== 'two')
      write({ kind: 'score', siteId: ids[slug], tier: 'B', tierSinceSec: 1, score: 70, facts: null })
  }
  sync(['one', 'two', 'hidden'])
  expect(snapshot().sites.map(({ slug }) => slug)).toEqual(['one'])
  expect(snapshot().aliases).toEqual({ 'old-one': 'one' })
  write({ kind: 'score', siteId: ids.two, tier: 'B', tierSinceSec: 1, score: 70, facts: null })
  expect(snapshot().sites.map(({ slug }) => slug)).toEqual(['one', 'two'])
})

test('2.1: state and last probe are those of the newest counted probe, in whatever order probes arrive', async () => {
  const { snapshot, write, ids, publish } = await filled()
  publish('one')
  write({ kind: 'probe', siteId: ids.one, vantageId: 1, probe: probe(NOW_SEC, { outcome: 'down' }) })
  write({ kind: 'probe', siteId: ids.one, vantageId: 1, probe: probe(NOW_SEC - 60) })
  write({
    kind: 'probe',
    siteId: ids.one,
    vantageId: 1,
    probe: probe(NOW_SEC + 60, { outcome: 'inconclusive' }),
  })
  expect(snapshot().sites[0]).toMatchObject({ state: 'down', lastProbedSec: NOW_SEC })
})

test('2.1: a site is as well as its better region; a region without a probe of the last intervals says nothing', async () => {
  const { database, snapshot, write, ids } = await filled()
  write({ kind: 'score', siteId: ids.one, tier: 'A', tierSinceSec: 1, score: 85, facts: null })
  const china = saveVantage(database, { name: 'cn1', region: 'cn', country: 'CN' })
  const state = () => snapshot().sites[0].state
  const send = (vantageId: number, afterSec: number, outcome: 'up' | 'degraded' | 'down') =>
    write({
      kind: 'probe',
      siteId: ids.one,
      vantageId,
      probe: probe(NOW_SEC - 2_000 + afterSec, { outcome }),
    })
  send(1, 0, 'up')
  send(china, 800, 'down')
  expect(state()).toBe('up')
  send(china, 901, 'down')
  expect(state()).toBe('down') // the other region's probes have stopped
  send(1, 920, 'degraded')
  expect(state()).toBe('degraded')
  send(china, 940, 'up')
  expect(state()).toBe('up')
  send(1, 960, 'down')
  send(china, 980, 'down')
  expect(state()).toBe('down')
  send(china, 600, 'up') // late: it is not the newest
  expect(state()).toBe('down')
})

test('6.5: a region without results is unknown; others are as evaluated', async () => {
  const { snapshot, write, ids, publish, reader } = await filled()
  publish('one')
  const state = {
    state: 'reachable',
    blocking: 'none',
    vantages: 2,
    agreeing: 2,
    checkedAtSec: NOW_SEC,
  } as const
  const pending = { state: 'unreachable', count: 1 } as const
  write({ kind: 'region', siteId: ids.one, region: 'cn', state, sinceSec: 5, pending })
  expect(snapshot().sites[0].regions).toEqual({
    cn: state,
    overseas: { state: 'unknown', blocking: 'none', vantages: 0, agreeing: 0, checkedAtSec: null },
  })
  expect(reader.evaluations()).toEqual([{ siteId: ids.one, region: 'cn', ...state, sinceSec: 5, pending }])
})

test('3.3: boards of today by rank, with the rank of the day before; hidden sites leave no gap', async () => {
  const { snapshot, write, ids, publish, reader } = await filled()
  for (const slug of ['one', 'two']) publish(slug)
  const row = (slug: string, rank: number) => ({ siteId: ids[slug], rank, sinceSec: 7, reasons: ['fast'] })
  write({ kind: 'board', daySec: TODAY_SEC - DAY_SEC, board: 'red', rows: [row('two', 1)] })
  write({ kind: 'board', daySec: TODAY_SEC, board: 'red', rows: [row('two', 3), row('one', 1)] })
  write({
    kind: 'board',
    daySec: TODAY_SEC,
    board: 'red',
    rows: [row('one', 1), row('hidden', 2), row('two', 3)],
  })
  expect(snapshot().boards).toEqual({
    red: [
      { siteId: ids.one, slug: 'one', rank: 1, rankBefore: null, sinceSec: 7, reasons: ['fast'] },
      { siteId: ids.two, slug: 'two', rank: 2, rankBefore: 1, sinceSec: 7, reasons: ['fast'] },
    ],
    black: [],
  })
  expect(reader.board('red', TODAY_SEC - DAY_SEC)).toEqual([row('two', 1)])
  expect(reader.board('black', TODAY_SEC)).toEqual([])
})

test('3.2: a full probe is read as it was written; models come, go and come back', async () => {
  const { write, ids, reader } = await filled()
  const full = (atSec: number, listed: string[], claimed: string[]) => {
    const names = [...new Set([...listed, ...claimed])]
    const models = names.map(
      (id): ModelSighting => ({
        key: id,
        id,
        isClaimed: claimed.includes(id),
        isVerified: listed.includes(id),
      }),
    )
    write({ kind: 'observation', siteId: ids.one, observation: observation(atSec, listed, claimed), models })
  }
  expect(reader.observation(ids.one)).toBeNull()
  full(100, ['a', 'b'], ['b', 'c'])
  full(200, ['a'], ['c'])
  full(150, ['z'], []) // late: no effect
  full(300, ['a', 'b'], [])
  expect(reader.observation(ids.one)).toEqual(observation(300, ['a', 'b'], []))
  expect(reader.models(ids.one)).toEqual([
    { id: 'a', firstSeenSec: 100, lastSeenSec: 300 },
    { id: 'b', firstSeenSec: 100, lastSeenSec: 300 },
    { id: 'c', firstSeenSec: 100, lastSeenSec: 200 },
  ])
  expect(reader.modelChanges(ids.one, 0)).toEqual([
    { atSec: 300, change: 'added', id: 'b' },
    { atSec: 300, change: 'removed', id: 'c' },
    { atSec: 200, change: 'removed', id: 'b' },
  ])
})

test('3.2: an incident opens and closes; a screenshot, a score and a meta value are read again', async () => {
  const { write, ids, reader } = await filled()
  const incident = {
    kind: 'incident',
    siteId: ids.one,
    region: 'cn',
    startedAtSec: 50,
    cause: 'tls_reset',
    vantages: 2,
  } as const
  write({ ...incident, endedAtSec: null })
  write({ ...incident, endedAtSec: 90 })
  expect(reader.incidents(ids.one, 50)).toEqual([
    { id: 1, region: 'cn', startedAtSec: 50, endedAtSec: 90, cause: 'tls_reset', vantages: 2 },
  ])
  expect(reader.incidents(ids.one, 51)).toEqual([])
  const nothing = { sha256: null, width: null, height: null, takenAtSec: null }
  write({ kind: 'screenshot', siteId: ids.one, month: '2026-10', path: 'x.webp', error: null, ...nothing })
  write({ kind: 'screenshot', siteId: ids.one, month: '2026-11', path: null, error: 'timeout', ...nothing })
  expect(reader.newestScreenshot(ids.one)?.path).toBe('x.webp')
  write({ kind: 'score', siteId: ids.one, tier: 'S', tierSinceSec: 9, score: 93.25, facts: { borders: [1] } })
  expect(reader.scores()).toEqual([
    { siteId: ids.one, tier: 'S', tierSinceSec: 9, score: 93.25, facts: { borders: [1] } },
  ])
  write({ kind: 'meta', key: 'k', value: 'v' })
  expect([reader.meta('k'), reader.meta('x')]).toEqual(['v', null])
})

test('8.2: the reader cannot write', async () => {
  const { reader } = await filled()
  const { database } = reader as unknown as { database: { run(sql: string): number } }
  expect(() => database.run("INSERT INTO meta VALUES ('a', 'b')")).toThrow('readonly')
})

async function filled() {
  const database = await freshDatabase()
  const site = (slug: string) =>
    catalogueSite(slug, { isHidden: slug === 'hidden', aliases: [`old-${slug}`] })
  const sync = (slugs: string[]) => syncCatalogue(database, slugs.map(site), NOW_SEC)
  const { ids } = sync(['one', 'two', 'hidden', 'gone'])
  saveVantage(database, { name: 'main', region: 'overseas', country: null })
  const write = (...writes: Write[]) => expect(applyBatch(database, writes, NOW_SEC)).toEqual([])
  const publish = (slug: string) => {
    write({ kind: 'probe', siteId: ids[slug], vantageId: 1, probe: probe(NOW_SEC - 300) })
    write({ kind: 'score', siteId: ids[slug], tier: 'A', tierSinceSec: 1, score: 85, facts: null })
  }
  const reader = new Reader(database.path)
  return { database, sync, ids, write, publish, reader, snapshot: () => readSnapshot(database, 1, NOW_SEC) }
}

function observation(atSec: number, models: string[], claimed: string[]): Observation {
  return {
    atSec,
    models,
    claimed,
    listing: 'open',
    profile: {
      cdn: { provider: 'cloudflare', evidence: ['header:cf-ray'] },
      asn: { number: 13_335, name: 'CLOUDFLARENET', country: 'US' },
      ips: ['104.16.0.1'],
      hasIpv6: true,
      tls: null,
      software: { name: 'new-api', version: null, confidence: 0.9 },
    },
    hygiene: { redirectsToHttps: true, hasHsts: null, leaksUpstream: false },
    isParked: false,
  }
}
