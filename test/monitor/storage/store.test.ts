import { renameSync, writeFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database } from '../../../monitor/storage/database.ts'
import type { Snapshot } from '../../../monitor/storage/snapshot.ts'
import { openStore, type Store } from '../../../monitor/storage/store.ts'
import { Writer } from '../../../monitor/storage/writer.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { catalogueSite, NOW_SEC, openTestStore, probe } from './stores.ts'

/** A store for tests that look at one site only, which differs from test to test. */
const SHARED_SITES = ['a', 'b', 'c', 'd', 'e']
let shared: { store: Store & { log: string[] }; siteIds: number[]; vantageId: number }
beforeAll(async () => {
  const log: string[] = []
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openStore({ path, log: (level, text) => log.push(`${level}: ${text}`) })
  const sites = SHARED_SITES.map((slug) => catalogueSite(slug))
  const { ids } = await store.request({ kind: 'sync-catalogue', sites, nowSec: NOW_SEC })
  const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  shared = { store: Object.assign(store, { log }), siteIds: Object.values(ids), vantageId }
})
afterAll(() => shared.store.close())

function useSharedStore() {
  const siteId = shared.siteIds.pop()
  if (siteId === undefined) throw new Error('add a name to SHARED_SITES')
  return { ...shared, siteId }
}

test('8.2: a probe is on disk, in its hour and in the next snapshot', async () => {
  const store = await openTestStore()
  const { ids } = await store.request({
    kind: 'sync-catalogue',
    sites: [catalogueSite('one')],
    nowSec: NOW_SEC,
  })
  const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: 'DE' })
  expect(store.snapshot.sites).toEqual([])

  store.write({ kind: 'probe', siteId: ids.one, vantageId, probe: probe(NOW_SEC) })
  store.write({
    kind: 'score',
    siteId: ids.one,
    tier: 'A',
    tierSinceSec: 1,
    score: 81.5,
    facts: { caps: [] },
  })
  await store.flush()
  const range = { siteId: ids.one, region: 'all', windowSec: 3_600, fromSec: 0, toSec: NOW_SEC + 1 } as const
  expect(await store.read('history', range)).toMatchObject([{ atSec: NOW_SEC, up: 1, statuses: { 401: 1 } }])
  expect(await store.read('rawProbes', ids.one, 'all', 0)).toEqual([probe(NOW_SEC)])

  await store.tick(NOW_SEC + 5)
  expect(store.snapshot.sites).toMatchObject([
    { slug: 'one', tier: 'A', score: 81.5, facts: { caps: [] }, state: 'up', lastProbedSec: NOW_SEC },
  ])
  expect(store.metrics()).toEqual({
    queuedRows: 0,
    droppedUps: 0,
    droppedOthers: 0,
    refused: 0,
    isFailing: false,
  })
})

test('8.2: a snapshot is frozen, comes every 5 s if anything changed, and its version grows over restarts', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const seen: Snapshot[] = []
  const store = await openTestStore({ path, onSnapshot: (snapshot) => seen.push(snapshot) })
  const { siteId, vantageId } = await withSite(store)
  const begun = seen.length
  store.write({ kind: 'probe', siteId, vantageId, probe: probe(NOW_SEC) })
  await store.flush()
  await store.tick(NOW_SEC + 4) // 5 s after the catalogue's
  expect(seen.length).toBe(begun)
  await store.tick(NOW_SEC + 5)
  await store.tick(NOW_SEC + 10)
  expect(seen.length).toBe(begun + 1)
  expect(Object.isFrozen(store.snapshot)).toBe(true)
  expect(() => (store.snapshot.sites as unknown[]).push(1)).toThrow(TypeError)
  const versions = seen.map(({ version }) => version)
  expect(versions).toEqual([...versions].sort((a, b) => a - b))
  await store.close()
  const again = await openTestStore({ path })
  expect(again.snapshot.version).toBe(versions.at(-1)! + 1)
  expect(again.snapshot.sites).toEqual(store.snapshot.sites)
})

test('8.2: commits of another process are in the next snapshot', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openTestStore({ path })
  await store.tick(NOW_SEC)
  const other = new Database(path)
  other.run("INSERT INTO vantage (name, region, country) VALUES ('agent', 'cn', 'CN')")
  other.close()
  await store.tick(NOW_SEC + 5)
  expect(store.snapshot.vantages).toEqual([{ name: 'agent', region: 'cn', country: 'CN', lastSeenSec: null }])
})

test('8.2: an invalid write is refused and logged, others of its batch are written', async () => {
  const { store, siteId, vantageId } = useSharedStore()
  await store.tick(NOW_SEC)
  const refusedBefore = store.metrics().refused
  const good = { kind: 'probe', siteId, vantageId } as const
  store.write({ ...good, probe: probe(NOW_SEC) })
  store.write({ ...good, siteId: 999, probe: probe(NOW_SEC + 1) })
  store.write({ ...good, vantageId: 999, probe: probe(NOW_SEC + 2) })
  store.write({ ...good, probe: probe(NOW_SEC + 3, { httpStatus: 1.5 }) })
  store.write({ ...good, probe: probe(NOW_SEC - 8 * 86_400) })
  store.write({ ...good, probe: probe(NOW_SEC + 3_601) })
  store.write({ ...good, probe: probe(NOW_SEC + 4) })
  await store.flush()
  expect(store.metrics().refused).toBe(refusedBefore + 5)
  expect(store.log.join()).toContain(
    'warning: 5 writes of a batch were refused, the first because: probe: FOREIGN KEY',
  )
  const raw = await store.read('rawProbes', siteId, 'all', 0)
  expect(raw.map(({ atSec }) => atSec)).toEqual([NOW_SEC + 4, NOW_SEC])
  const range = { siteId, region: 'overseas', windowSec: 3_600, fromSec: 0, toSec: NOW_SEC + 9 } as const
  expect(await store.read('history', range)).toMatchObject([{ up: 2 }])
})

test('8.2: a refused write leaves no rows', async () => {
  const { store, siteId } = useSharedStore()
  const refusedBefore = store.metrics().refused
  const row = { siteId, rank: 1, sinceSec: 0, reasons: [] }
  store.write({ kind: 'board', daySec: 0, board: 'red', rows: [row] })
  store.write({
    kind: 'board',
    daySec: 0,
    board: 'red',
    rows: [
      { ...row, rank: 2 },
      { ...row, siteId: 999 },
    ],
  })
  await store.flush()
  expect(store.metrics().refused).toBe(refusedBefore + 1)
  expect(await store.read('board', 'red', 0)).toEqual([row])
})

test('6.5: a repeated probe counts once; an inconclusive one is stored and not counted', async () => {
  const { store, siteId, vantageId } = useSharedStore()
  for (let i = 0; i < 2; i++) store.write({ kind: 'probe', siteId, vantageId, probe: probe(NOW_SEC) })
  const lost = probe(NOW_SEC + 1, { outcome: 'inconclusive', error: 'dns_timeout', httpStatus: null })
  store.write({ kind: 'probe', siteId, vantageId, probe: lost })
  await store.flush()
  const range = { siteId, region: 'overseas', windowSec: 3_600, fromSec: 0, toSec: NOW_SEC + 9 } as const
  expect(await store.read('history', range)).toMatchObject([{ up: 1, down: 0, errors: {} }])
  expect(await store.read('rawProbes', siteId, 'overseas', 0)).toEqual([lost, probe(NOW_SEC)])
  expect(await store.read('rawProbes', siteId, 'cn', 0)).toEqual([])
})

test('M6.4#4 8.2: while the disk refuses, writes wait, the snapshot is served, ups are dropped at the bound', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openTestStore({ path, queueRowsMax: 100 })
  const { siteId, vantageId } = await withSite(store)
  const other = new Database(path)
  other.raw.exec('ALTER TABLE probe_raw RENAME TO hidden') // like a full disk: nothing can be written, and it may pass
  const { snapshot } = store
  for (let i = 0; i < 150; i++) {
    const outcome = i % 2 ? 'up' : 'down'
    store.write({ kind: 'probe', siteId, vantageId, probe: probe(NOW_SEC + i, { outcome }) })
  }
  expect(store.metrics()).toMatchObject({ queuedRows: 100, droppedUps: 50, droppedOthers: 0 })
  expect(store.snapshot).toBe(snapshot)
  await eventually(() => expect(store.log.join()).toContain('cannot write'))
  expect(store.metrics()).toMatchObject({ isFailing: true })
  other.raw.exec('ALTER TABLE hidden RENAME TO probe_raw')
  await eventually(() => expect(store.log.at(-1)).toContain('can write')) // by itself
  expect(store.metrics()).toMatchObject({ isFailing: false })
  await store.flush()
  const raw = await store.read('rawProbes', siteId, 'all', 0)
  expect([raw.filter(({ outcome }) => outcome === 'up').length, raw.length]).toEqual([25, 100])
  other.close()
})

test('8.2: a backup is a whole database, made while others write', async () => {
  const { store, siteId, vantageId } = useSharedStore()
  for (let i = 0; i < 600; i++) store.write({ kind: 'probe', siteId, vantageId, probe: probe(NOW_SEC + i) })
  await store.flush()
  const path = await store.request({ kind: 'backup', path: `${makeMemoryFolder()}/copy.db` })
  const copy = new Database(path)
  expect([
    copy.get('SELECT count(*) AS count FROM probe_raw WHERE site_id = ?', siteId),
    copy.pragma('integrity_check'),
  ]).toEqual([{ count: 600 }, 'ok'])
  copy.close()
})

test('7.2: history for the score includes the running hour', async () => {
  const { store, siteId, vantageId } = useSharedStore()
  for (const hoursAgo of [30, 3, 2, 0]) {
    const outcome = hoursAgo === 3 ? 'down' : 'up'
    store.write({ kind: 'probe', siteId, vantageId, probe: probe(NOW_SEC - hoursAgo * 3_600, { outcome }) })
  }
  await store.flush()
  await store.tick(NOW_SEC + 60)
  const history = await store.read('scoreHistory', siteId, NOW_SEC + 60)
  expect(history).toMatchObject({ a24h: 2 / 3, a7d: 3 / 4, a30d: 3 / 4, probes: 4, downSec: 0 })
})

test('8.2: closing writes what is queued', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openTestStore({ path })
  const { siteId, vantageId } = await withSite(store)
  for (let i = 0; i < 1_700; i++) store.write({ kind: 'probe', siteId, vantageId, probe: probe(NOW_SEC + i) })
  expect(await store.close()).toBe(0)
  await expect(store.read('scores')).rejects.toThrow('closed')
  await expect(store.request({ kind: 'backup', path })).rejects.toThrow('not open')
  const database = new Database(path)
  expect(database.get('SELECT count(*) AS count FROM probe_raw')).toEqual({ count: 1_700 })
  database.close()
})

test('8.2: a writer thread that ends is restarted, and its current batch is written', async () => {
  const log: string[] = []
  const path = `${makeMemoryFolder()}/monitor.db`
  const writer = new Writer(
    { path, isRunner: false },
    { log: (level, text) => log.push(`${level}: ${text}`), snapshot: () => {} },
  )
  await writer.start()
  for (let i = 0; i < 700; i++) writer.add({ kind: 'meta', key: `k${i}`, value: '' })
  await terminateThread(writer)
  await writer.flush()
  expect(log).toEqual([
    expect.stringContaining("error: the monitor's writer thread ended and restarts in 100 ms"),
  ])
  expect(await writer.close()).toBe(0)
  const database = new Database(path)
  expect(database.get("SELECT count(*) AS count FROM meta WHERE key LIKE 'k%'")).toEqual({ count: 700 })
  database.close()
})

test('8.2: a store that cannot be opened rejects and leaves nothing running', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  writeFileSync(path, 'not a database, but long enough to be read as one '.repeat(100))
  await expect(openTestStore({ path })).rejects.toThrow(
    /monitor\.db: cannot be used .* Check MONITOR_DATA_DIR and its rights/,
  )
})

function terminateThread(writer: Writer): Promise<number> {
  const { supervisor } = writer as unknown as { supervisor: { worker: Worker } }
  return supervisor.worker.terminate()
}

async function withSite(store: Store) {
  const { ids } = await store.request({
    kind: 'sync-catalogue',
    sites: [catalogueSite('one')],
    nowSec: NOW_SEC,
  })
  const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  return { siteId: ids.one, vantageId }
}

test('8.2: only one monitor runs on a database; commands are not locked out', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openTestStore({ path, isRunner: true })
  await expect(openTestStore({ path, isRunner: true })).rejects.toThrow(
    /a monitor runs on it already.*\[STORE_IN_USE\]/s,
  )
  const command = new Database(path)
  command.run("INSERT INTO meta (key, value) VALUES ('by', 'a command')")
  command.close()
  await store.close()
  await (await openTestStore({ path, isRunner: true })).close()
})

test('8.2: a writer thread that ends releases its lock', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const writer = new Writer({ path, isRunner: true }, { log: () => {}, snapshot: () => {} })
  await writer.start()
  await terminateThread(writer)
  writer.add({ kind: 'meta', key: 'after', value: '' })
  await writer.flush()
  expect(await writer.close()).toBe(0)
})

test('8.2: a folder that cannot be created is an error, without retries', async () => {
  await expect(openTestStore({ path: '/proc/none/of/these/monitor.db' })).rejects.toThrow(/ENOENT/)
})

test('8.2: after a clock was set back, snapshots and last times follow it', async () => {
  const store = await openTestStore()
  const { siteId, vantageId } = await withSite(store)
  const DAY_SEC = 86_400
  store.write({ kind: 'score', siteId, tier: 'A', tierSinceSec: 1, score: 81.5, facts: {} })
  const writeAndTick = async (nowSec: number) => {
    store.write({ kind: 'probe', siteId, vantageId, probe: probe(nowSec - 1) })
    store.write({ kind: 'vantage-seen', vantageId, atSec: nowSec })
    await store.flush()
    await store.tick(nowSec)
  }
  await store.tick(NOW_SEC + DAY_SEC)
  await writeAndTick(NOW_SEC + DAY_SEC + 10)
  const before = store.snapshot
  expect(before.vantages).toMatchObject([{ lastSeenSec: NOW_SEC + DAY_SEC + 10 }])
  await store.tick(NOW_SEC + 20)
  await writeAndTick(NOW_SEC + 30)
  expect(store.snapshot.version).toBeGreaterThan(before.version)
  expect(store.snapshot).toMatchObject({
    generatedAtSec: NOW_SEC + 30,
    vantages: [{ lastSeenSec: NOW_SEC + 30 }],
    sites: [{ lastProbedSec: NOW_SEC + 29 }],
  })
})

test('8.2: a file removed under a running monitor is logged once', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openTestStore({ path })
  await store.tick(NOW_SEC)
  expect(store.log).toEqual([])
  renameSync(path, `${path}.away`)
  for (const sec of [5, 10]) await store.tick(NOW_SEC + sec)
  expect(store.log).toEqual([expect.stringContaining('monitor.db was removed or replaced')])
})

test('8.2: a folder that cannot be written is an error with its path', async () => {
  await expect(openTestStore({ path: '/proc/monitor.db', isRunner: true })).rejects.toThrow(
    /\/proc\/monitor\.db.*STORE_UNUSABLE/s,
  )
})
