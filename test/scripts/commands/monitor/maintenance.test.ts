/** `sluice monitor backup, prune, recompute` beside a monitor that writes (monitor spec 8.1, 8.2). */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { applyBatch } from '../../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../../monitor/storage/catalogue-transaction.ts'
import { Database } from '../../../../monitor/storage/database.ts'
import { saveVantage } from '../../../../monitor/storage/vantages.ts'
import { siteLines, toCatalogue } from '../../../monitor/catalogue/catalogues.ts'
import { catalogueSite, probe } from '../../../monitor/storage/stores-plain.ts'
import { monitorIn } from './command.ts'

const DAY_SEC = 86_400
const ROWS = 16_000 // 32 MB: a copy that begins anew with each commit does not end within the time of a test
const nowSec = Math.floor(Date.now() / 1_000)

const countRows = (database: Database, table: string) =>
  database.get<{ count: number }>(`SELECT count(*) AS count FROM ${table}`)!.count

/** Probes of one site every 5 minutes, the newest now. */
function fill(database: Database, count: number): void {
  const { ids } = syncCatalogue(database, [catalogueSite('one')], nowSec)
  const vantageId = saveVantage(database, { name: 'main', region: 'overseas', country: null })
  const writes = Array.from({ length: count }, (_, i) => {
    return { kind: 'probe', siteId: ids.one, vantageId, probe: probe(nowSec - 300 * i) } as const
  })
  applyBatch(database, writes, nowSec)
}

test('8.1: as a process: backup makes a consistent copy while another process writes all the time', async () => {
  const monitor = monitorIn()
  const database = await monitor.openDatabase()
  database.exec('CREATE TABLE bulk (text TEXT)')
  database.transaction(() => {
    for (let i = 0; i < ROWS; i++) database.run('INSERT INTO bulk VALUES (?)', 'x'.repeat(2_000))
  })
  let isWriting = true
  const writing = (async () => {
    while (isWriting) {
      database.run("INSERT INTO meta VALUES ('n', '1') ON CONFLICT DO UPDATE SET value = value + 1")
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  })()
  const { code, out, err } = await monitor.spawn('backup', 'copy.sqlite')
  isWriting = false
  await writing
  expect({ code, out, err }).toEqual({ code: 0, out: '', err: `copied ${monitor.path} to copy.sqlite\n` })
  const copy = new Database(join(monitor.folder, 'copy.sqlite'))
  try {
    expect(copy.pragma('integrity_check')).toBe('ok')
    expect(countRows(copy, 'bulk')).toBe(ROWS)
  } finally {
    copy.close()
  }
})

test('8.1: backup overwrites no file, and leaves none after an error', async () => {
  const monitor = monitorIn({ 'kept.sqlite': 'kept' })
  fill(await monitor.openDatabase(), 3)
  for (const target of ['kept.sqlite', monitor.path]) {
    const { code, err } = await monitor.run('backup', target)
    expect(code).toBe(1)
    expect(err).toBe(
      `sluice: ${target}: already exists. Choose another name, or remove it. [BACKUP_EXISTS]\n`,
    )
  }
  expect(monitor.read('kept.sqlite')).toBe('kept')
  const { code, err } = await monitor.run('backup', 'nowhere/copy.sqlite')
  expect(code).toBe(1)
  expect(err).toMatch(/^sluice: nowhere\/copy\.sqlite: could not be written: .*\[BACKUP_FAILED\]\n$/)
  expect(readdirSync(monitor.folder).sort()).toEqual(['data', 'kept.sqlite'])
})

test('8.1: a backup can replace the database', async () => {
  const monitor = monitorIn()
  const created = JSON.parse((await monitor.run('keys', 'create', '--json')).out)
  await monitor.run('backup', 'copy.sqlite')
  expect(readdirSync(join(monitor.folder, 'data'))).toEqual(['monitor.sqlite']) // no log beside it that would be older
  const other = monitorIn()
  await (await other.openDatabase()).close()
  writeFileSync(other.path, readFileSync(join(monitor.folder, 'copy.sqlite')))
  expect((await other.run('keys', 'list')).out).toContain(created.id)
})

test('8.2: prune deletes rows past their retention, prints their number and returns the space', async () => {
  const monitor = monitorIn()
  const database = await monitor.openDatabase()
  fill(database, 1)
  database.transaction(() => {
    for (let i = 0; i < 20_000; i++) {
      const atSec = nowSec - 8 * DAY_SEC - i
      database.run(
        "INSERT INTO probe_raw (site_id, vantage_id, at, kind, outcome) VALUES (1, 1, ?, 'light', 'up')",
        atSec,
      )
    }
  })
  database.raw.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  const bytesBefore = statSync(monitor.path).size
  expect(await monitor.run('prune')).toEqual({ code: 0, out: '', err: '20000 rows deleted\n' })
  expect(countRows(database, 'probe_raw')).toBe(1)
  expect(database.pragma('freelist_count')).toBe(0)
  database.raw.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  expect(statSync(monitor.path).size).toBeLessThan(bytesBefore - 400_000)
  expect((await monitor.run('prune')).err).toBe('0 rows deleted\n')
})

test('7.2: recompute evaluates every site without a running monitor', async () => {
  const monitor = monitorIn({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
  const database = await monitor.openDatabase()
  fill(database, 2 * 288)
  const read = () => database.get("SELECT tier, score IS NOT NULL AS isScored FROM site WHERE slug = 'one'")
  expect({ ...read() }).toEqual({ tier: null, isScored: 0 })
  expect(await monitor.run('recompute')).toEqual({ code: 0, out: '', err: '1 sites evaluated\n' })
  expect({ ...read() }).toEqual({ tier: 'B', isScored: 1 }) // up all the time, but with little history
  expect((await monitor.run('list')).out).toMatch(/^one +B +[0-9.]+ +up /m)
})

test('a file that is not a database is an error and unchanged', async () => {
  const monitor = monitorIn()
  await (await monitor.openDatabase()).close()
  writeFileSync(monitor.path, 'not a database, only some text that is long enough to be opened'.repeat(20))
  const bytes = statSync(monitor.path).size
  const { code, err } = await monitor.run('keys', 'list')
  expect(code).toBe(1)
  expect(err).toMatch(
    /^sluice: .*monitor\.sqlite: cannot be used as the monitor's database: file is not a database\./,
  )
  expect(statSync(monitor.path).size).toBe(bytes)
})
