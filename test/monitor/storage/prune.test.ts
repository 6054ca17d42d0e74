import { expect, test } from 'vitest'
import { DAY_SEC } from '../../../monitor/scoring/bucket.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import type { Database } from '../../../monitor/storage/database.ts'
import { Prune, ROWS_PER_STEP } from '../../../monitor/storage/prune.ts'
import { saveVantage } from '../../../monitor/storage/vantages.ts'
import { catalogueSite, freshDatabase, NOW_SEC } from './stores.ts'

const BUCKET =
  "probes, up, degraded, down, hist, status_json, errors_json) VALUES (?, ?, ?, 1, 1, 0, 0, x'', '{}', '{}')"

// Spec 8.2, retention: how old a row may be, and how one is written.
const kept: Record<
  string,
  { days: number; write: (database: Database, siteId: number, atSec: number) => void }
> = {
  probe_raw: {
    days: 7,
    write: (database, siteId, atSec) =>
      database.run(
        "INSERT INTO probe_raw (site_id, vantage_id, at, kind, outcome) VALUES (?, 1, ?, 'light', 'up')",
        siteId,
        atSec,
      ),
  },
  probe_hour: {
    days: 32,
    write: (database, siteId, atSec) =>
      database.run(`INSERT INTO probe_hour (site_id, region, at, ${BUCKET}`, siteId, 'cn', atSec),
  },
  probe_day: {
    days: 400,
    write: (database, siteId, atSec) =>
      database.run(`INSERT INTO probe_day (site_id, region, at, ${BUCKET}`, siteId, 'all', atSec),
  },
  observation: {
    days: 90,
    write: (database, siteId, atSec) =>
      database.run("INSERT INTO observation VALUES (?, ?, '', '', '')", siteId, atSec),
  },
  model_change: {
    days: 90,
    write: (database, siteId, atSec) =>
      database.run(
        "INSERT INTO model_change (site_id, at, change, model_id) VALUES (?, ?, 'added', 'm')",
        siteId,
        atSec,
      ),
  },
  incident: {
    days: 400,
    write: (database, siteId, atSec) =>
      database.run(
        "INSERT INTO incident (site_id, region, started_at, ended_at, cause, vantages) VALUES (?, 'cn', ?, ?, 'slow', 1)",
        siteId,
        atSec - 9,
        atSec,
      ),
  },
  board_day: {
    days: 400,
    write: (database, siteId, atSec) =>
      database.run("INSERT INTO board_day VALUES (?, 'red', ?, 1, 0, '[]')", atSec, siteId),
  },
  detection: {
    days: 7,
    write: (database, _, atSec) =>
      database.run(
        "INSERT INTO detection (id, target_key, url, status, version, submitted_at, client_hash) VALUES (?, '', '', 'queued', 1, ?, '')",
        `d${atSec}`,
        atSec,
      ),
  },
}

for (const [table, { days, write }] of Object.entries(kept)) {
  test(`8.2: ${table} is kept for ${days} days`, async () => {
    const { database, siteIds } = await filled()
    const edgeSec = NOW_SEC - days * DAY_SEC
    for (const atSec of [edgeSec - DAY_SEC, edgeSec - 1, edgeSec, NOW_SEC]) write(database, siteIds[1], atSec)
    prune(database, NOW_SEC)
    expect(database.get(`SELECT count(*) AS n FROM ${table}`)).toEqual({ n: 2 })
  })
}

test('8.2: an open incident is kept however old', async () => {
  const { database, siteIds } = await filled()
  database.run(
    "INSERT INTO incident (site_id, region, started_at, cause, vantages) VALUES (?, 'cn', 1, 'slow', 1)",
    siteIds[0],
  )
  prune(database, NOW_SEC)
  expect(database.get('SELECT count(*) AS n FROM incident')).toEqual({ n: 1 })
})

test('8.2: after 7 days the newest observation of a day stays', async () => {
  const { database, siteIds } = await filled()
  const edgeSec = NOW_SEC - (NOW_SEC % DAY_SEC) - 7 * DAY_SEC
  const ofTheDayBefore = [edgeSec - DAY_SEC, edgeSec - 9, edgeSec - 1]
  const within = [edgeSec, edgeSec + 1, edgeSec + DAY_SEC, edgeSec + DAY_SEC + 1]
  const times = [edgeSec - DAY_SEC - 1, ...ofTheDayBefore, ...within]
  for (const atSec of times) kept.observation.write(database, siteIds[0], atSec)
  for (const atSec of times) kept.observation.write(database, siteIds[1], atSec + 60)
  prune(database, NOW_SEC)
  const left = database.all<{ at: number }>(
    'SELECT at FROM observation WHERE site_id = ? ORDER BY at',
    siteIds[0],
  )
  expect(left.map(({ at }) => at)).toEqual([edgeSec - DAY_SEC - 1, edgeSec - 1, ...within])
})

test('8.2: screenshots are kept for 12 months', async () => {
  const { database, siteIds } = await filled()
  for (const month of ['2025-10', '2025-11', '2026-11'])
    database.run('INSERT INTO screenshot (site_id, month) VALUES (?, ?)', siteIds[0], month)
  prune(database, NOW_SEC)
  expect(database.all('SELECT month FROM screenshot')).toEqual([{ month: '2025-11' }, { month: '2026-11' }])
})

test('8.2: at most 5,000 rows per step, hourly, and the file shrinks', async () => {
  const { database, siteIds } = await filled()
  const rows = 2 * ROWS_PER_STEP + 10
  database.transaction(() => {
    for (let i = 0; i < rows; i++) kept.probe_raw.write(database, siteIds[i % 2], 1_000_000 + i)
  })
  const pages = Number(database.pragma('page_count'))
  const steps = new Prune(database)
  let left = rows
  while (steps.step(NOW_SEC)) {
    const { n } = database.get<{ n: number }>('SELECT count(*) AS n FROM probe_raw')!
    expect(left - n).toBeLessThanOrEqual(ROWS_PER_STEP)
    left = n
  }
  expect(left).toBe(0)
  expect(Number(database.pragma('page_count'))).toBeLessThan(pages / 2)
  kept.probe_raw.write(database, siteIds[0], 1)
  expect([steps.step(NOW_SEC + 3_599), steps.step(NOW_SEC + 3_600)]).toEqual([false, true])
})

test('8.1: 90 days after a site was removed its data is deleted, its slug stays', async () => {
  const { database, siteIds } = await filled()
  for (const { write } of Object.values(kept)) write(database, siteIds[0], NOW_SEC + 90 * DAY_SEC)
  database.run("INSERT INTO model_seen VALUES (?, 'k', 'k', 1, 1, 1, 1)", siteIds[0])
  syncCatalogue(database, [catalogueSite('s1')], NOW_SEC)
  const counts = () =>
    database.get('SELECT (SELECT count(*) FROM probe_raw) + (SELECT count(*) FROM model_seen) AS n')
  prune(database, NOW_SEC + 90 * DAY_SEC)
  expect(counts()).toEqual({ n: 2 })
  prune(database, NOW_SEC + 90 * DAY_SEC + 1)
  expect(counts()).toEqual({ n: 0 })
  expect(database.all('SELECT slug FROM site')).toEqual([{ slug: 's0' }, { slug: 's1' }])
})

test('8.2: pruning seeks, it does not scan the large tables', async () => {
  const { database } = await filled()
  const plan = database.all<{ detail: string }>(
    `EXPLAIN QUERY PLAN SELECT site_id, vantage_id FROM probe_raw WHERE (site_id, vantage_id) > (1, 1)
     ORDER BY site_id, vantage_id LIMIT 1`,
  )
  expect(plan.map(({ detail }) => detail).join()).toBe(
    'SEARCH probe_raw USING PRIMARY KEY ((site_id,vantage_id)>(?,?))',
  )
})

async function filled() {
  const database = await freshDatabase()
  const { ids } = syncCatalogue(database, [catalogueSite('s0'), catalogueSite('s1')], NOW_SEC)
  saveVantage(database, { name: 'main', region: 'cn', country: null })
  return { database, siteIds: Object.values(ids) }
}

function prune(database: Database, nowSec: number): void {
  const steps = new Prune(database)
  while (steps.step(nowSec)) {}
}
