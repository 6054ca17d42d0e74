import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Outcome, Region } from '../../../monitor/facts.ts'
import {
  addProbe,
  type Bucket,
  betterBucket,
  bucketStartSec,
  DAY_SEC,
  emptyBucket,
  HOUR_SEC,
  type WindowSec,
} from '../../../monitor/scoring/bucket.ts'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { readBuckets } from '../../../monitor/storage/bucket-rows.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import type { Database } from '../../../monitor/storage/database.ts'
import { Reader } from '../../../monitor/storage/reader.ts'
import { RollUp } from '../../../monitor/storage/roll-up.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { saveVantage } from '../../../monitor/storage/vantages.ts'
import { size } from '../../helpers/size.ts'
import { catalogueSite, freshDatabase, NOW_SEC, probe } from './stores.ts'

const MIDNIGHT_SEC = NOW_SEC - (NOW_SEC % DAY_SEC)
const AFTER_ALL_SEC = MIDNIGHT_SEC + 3 * DAY_SEC

interface Seen {
  region: Region
  atSec: number
  outcome: Outcome
  ttfbMs: number
}

const seen = fc.record<Seen>({
  region: fc.constantFrom('cn', 'overseas'),
  atSec: fc.integer({ min: MIDNIGHT_SEC, max: MIDNIGHT_SEC + 2 * DAY_SEC - 1 }),
  outcome: fc.constantFrom<Outcome>('up', 'up', 'up', 'degraded', 'down', 'inconclusive'),
  ttfbMs: fc.integer({ min: 1, max: 9_000 }),
})
const history = fc.uniqueArray(seen, {
  selector: ({ region, atSec }) => `${region} ${atSec}`,
  minLength: 1,
  maxLength: 80,
})

test('M13#11: roll-ups equal a direct computation from raw rows, whatever the batches and the moment', async () => {
  await fc.assert(
    fc.asyncProperty(
      history,
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 0, max: 40 }),
      async (all, batch, early) => {
        const { database, write, rollUp } = await filled()
        for (let i = 0; i < all.length; i += batch) {
          write(all.slice(i, i + batch))
          if (i / batch === early) rollUp(AFTER_ALL_SEC) // what comes later is late, and rolled up again
        }
        rollUp(AFTER_ALL_SEC)
        for (const windowSec of [HOUR_SEC, DAY_SEC] as const)
          expect(stored(database, windowSec)).toEqual(direct(all, windowSec))
        const rows = dump(database)
        database.run('INSERT INTO roll_up_due SELECT 3600, at, 1 FROM probe_hour GROUP BY at')
        rollUp(AFTER_ALL_SEC)
        expect(dump(database)).toEqual(rows)
        database.close()
      },
    ),
    { numRuns: size({ small: 12, full: 1_000 }) },
  )
})

test('8.2: the same probes in another order and in other batches are the same rows', async () => {
  const errors = ['slow', 'http_429', 'challenge', 'dns_error'] as const
  const writes = errors.map((error, i): Write => {
    const found = probe(NOW_SEC + i, { outcome: 'degraded', error, httpStatus: 200 + i })
    return { kind: 'probe', siteId: 1, vantageId: 1, probe: found }
  })
  const [one, other] = [await filled(), await filled()]
  applyBatch(one.database, writes, 0)
  for (const write of [...writes].reverse()) applyBatch(other.database, [write], 0)
  for (const { database, rollUp } of [one, other]) {
    rollUp(AFTER_ALL_SEC)
    database.run('DELETE FROM roll_up_due')
  }
  expect(dump(other.database)).toEqual(dump(one.database))
})

test('8.2: hours are rolled up at :02, days at 00:05', async () => {
  const { database, write, rollUp } = await filled()
  write([{ region: 'cn', atSec: MIDNIGHT_SEC + 23 * HOUR_SEC, outcome: 'up', ttfbMs: 100 }])
  const counts = () =>
    ['probe_hour', 'probe_day'].map(
      (table) => database.get<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE region = 'all'`)!.n,
    )
  rollUp(MIDNIGHT_SEC + DAY_SEC + 119)
  expect(counts()).toEqual([0, 0])
  rollUp(MIDNIGHT_SEC + DAY_SEC + 120)
  expect(counts()).toEqual([1, 0])
  rollUp(MIDNIGHT_SEC + DAY_SEC + 299)
  expect(counts()).toEqual([1, 0])
  rollUp(MIDNIGHT_SEC + DAY_SEC + 300)
  expect(counts()).toEqual([1, 1])
  expect(database.all('SELECT * FROM roll_up_due')).toEqual([])
})

test('8.2: a probe that arrives while its hour is rolled up is not missed', async () => {
  const { database, write, rollUp, siteIds } = await filled(600)
  const atSec = MIDNIGHT_SEC
  write([{ region: 'cn', atSec, outcome: 'down', ttfbMs: 1 }])
  const steps = new RollUp(database)
  expect(steps.step(AFTER_ALL_SEC)).toBe(true) // the first 250 sites, the tested one included
  write([{ region: 'overseas', atSec, outcome: 'up', ttfbMs: 1 }])
  while (steps.step(AFTER_ALL_SEC)) {}
  rollUp(AFTER_ALL_SEC)
  const range = {
    siteId: siteIds[0],
    region: 'all',
    windowSec: HOUR_SEC,
    fromSec: atSec,
    toSec: atSec + 1,
  } as const
  expect(readBuckets(database, range)).toMatchObject([{ up: 1, down: 0 }])
})

test('8.2: history as it is read is the same before the roll-up as after it', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (all) => {
      const { database, write, rollUp, siteIds } = await filled()
      write(all)
      const reader = new Reader(database.path)
      const read = () =>
        ([HOUR_SEC, DAY_SEC] as const).flatMap((windowSec) =>
          (['cn', 'overseas', 'all'] as const).map((region) =>
            reader.history({
              siteId: siteIds[0],
              region,
              windowSec,
              fromSec: MIDNIGHT_SEC,
              toSec: AFTER_ALL_SEC,
            }),
          ),
        )
      const before = read()
      rollUp(AFTER_ALL_SEC)
      expect(read()).toEqual(before)
      reader.close()
      database.close()
    }),
    { numRuns: size({ small: 6, full: 300 }) },
  )
})

/** A database with sites and a vantage per region; probes are of the first site. */
async function filled(sitesCount = 1) {
  const database = await freshDatabase()
  const sites = Array.from({ length: sitesCount }, (_, i) => catalogueSite(`s${i}`))
  const siteIds = Object.values(syncCatalogue(database, sites, NOW_SEC).ids)
  const vantages = {
    cn: saveVantage(database, { name: 'cn', region: 'cn', country: null }),
    overseas: saveVantage(database, { name: 'main', region: 'overseas', country: null }),
  }
  const write = (all: Seen[]) => {
    const writes = all.map(
      (one): Write => ({
        kind: 'probe',
        siteId: siteIds[0],
        vantageId: vantages[one.region],
        probe: toProbe(one),
      }),
    )
    expect(applyBatch(database, writes, 0)).toEqual([])
  }
  const rollUp = (nowSec: number) => {
    const steps = new RollUp(database)
    while (steps.step(nowSec)) {}
  }
  return { database, write, rollUp, siteIds }
}

function toProbe({ atSec, outcome, ttfbMs }: Seen) {
  const timings = { dnsMs: null, connectMs: 3, tlsMs: null, ttfbMs, totalMs: ttfbMs + 1 }
  return probe(atSec, {
    outcome,
    timings,
    httpStatus: outcome === 'down' ? 502 : 401,
    error: outcome === 'down' ? 'http_5xx' : null,
  })
}

/** Straight from the probes: no merging, no rows. */
function direct(all: Seen[], windowSec: WindowSec): Record<string, Bucket> {
  const buckets: Record<string, Bucket> = {}
  for (const one of all) {
    if (one.outcome === 'inconclusive') continue
    const atSec = bucketStartSec(one.atSec, windowSec)
    const key = `${one.region} ${atSec}`
    buckets[key] ??= emptyBucket(atSec, windowSec)
    addProbe(buckets[key], toProbe(one))
  }
  for (const atSec of new Set(Object.values(buckets).map((bucket) => bucket.atSec))) {
    buckets[`all ${atSec}`] = betterBucket(
      buckets[`cn ${atSec}`] ?? null,
      buckets[`overseas ${atSec}`] ?? null,
    )!
  }
  return buckets
}

function stored(database: Database, windowSec: WindowSec): Record<string, Bucket> {
  const buckets: Record<string, Bucket> = {}
  for (const region of ['cn', 'overseas', 'all'] as const) {
    const range = { siteId: 1, region, windowSec, fromSec: 0, toSec: AFTER_ALL_SEC }
    for (const bucket of readBuckets(database, range)) buckets[`${region} ${bucket.atSec}`] = bucket
  }
  return buckets
}

function dump(database: Database): unknown {
  return ['probe_hour', 'probe_day', 'roll_up_due'].map((table) => database.all(`SELECT * FROM ${table}`))
}
