import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { migrate } from '../../../monitor/storage/migrate.ts'
import { MIGRATIONS } from '../../../monitor/storage/schema.ts'
import { saveVantage } from '../../../monitor/storage/vantages.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { specRows } from '../../helpers/spec.ts'
import { catalogueSite, freshDatabase, NOW_SEC } from './stores.ts'

test('8.2: the pragmas', async () => {
  const database = await freshDatabase()
  const names = ['journal_mode', 'synchronous', 'foreign_keys', 'busy_timeout', 'auto_vacuum', 'user_version']
  expect(names.map((name) => database.pragma(name))).toEqual(['wal', 1, 1, 5_000, 2, MIGRATIONS.length])
})

test('8.2: every table is STRICT, the large ones are in the order of their key', async () => {
  const database = await freshDatabase()
  const tables = database.all<{ name: string; strict: number; wr: number }>('PRAGMA table_list')
  const ownTables = tables.filter(({ name }) => !name.startsWith('sqlite_'))
  expect(ownTables.filter(({ strict }) => strict === 0)).toEqual([])
  expect(ownTables.filter(({ wr }) => wr === 1).map(({ name }) => name)).toEqual(
    expect.arrayContaining(['probe_raw', 'probe_hour', 'probe_day']),
  )
})

// Spec 8.2, the table of tables.
// biome-ignore format: the columns are the specification
const tables: Record<string, string> = {
  site: 'id slug name url api_base first_seen state tier tier_since score score_json last_probed last_full catalogue_json removed_at',
  alias: 'alias site_id',
  vantage: 'id name region country token_hash last_seen revoked_at',
  probe_raw: 'site_id vantage_id at kind outcome error http_status dns_ms connect_ms tls_ms ttfb_ms total_ms',
  probe_hour: 'site_id region at probes up degraded down hist status_json errors_json',
  probe_day: 'site_id region at probes up degraded down hist status_json errors_json',
  observation: 'site_id at profile_json claimed_json verified_json',
  model_seen: 'site_id model_key model_id claimed verified first_seen last_seen',
  model_change: 'id site_id at change model_id',
  region_state: 'site_id region state blocking since checked_at pending_state pending_count',
  incident: 'id site_id region started_at ended_at cause vantages',
  board_day: 'day board site_id rank since',
  detection: 'id target_key url status version submitted_at started_at finished_at client_hash result_json error_code',
  screenshot: 'site_id month path sha256 width height taken_at error',
  api_key: 'id hash tier note created_at expires_at revoked_at',
  meta: 'key value',
}

test.each(specRows('M8.2'))('$id: the tables of the row, with their columns', async ({ cells }) => {
  const database = await freshDatabase()
  const [names, described] = cells
  for (const table of names.split(', ')) {
    const columns = tables[table].split(' ')
    expect(described.match(/\w+/g)).toEqual(expect.arrayContaining(columns)) // the list above is the specification's
    const there = database.all<{ name: string }>(`PRAGMA table_info(${table})`).map(({ name }) => name)
    expect(there, table).toEqual(expect.arrayContaining(columns))
  }
})

test('8.2: a file of the first version keeps its probes; they have no address', async () => {
  const { database, files } = opened()
  await migrate(database, MIGRATIONS.slice(0, 1))
  const { ids } = syncCatalogue(database, [catalogueSite('one')], NOW_SEC)
  const vantageId = saveVantage(database, { name: 'main', region: 'cn', country: null })
  database.run(
    `INSERT INTO probe_raw (site_id, vantage_id, at, kind, outcome, error, total_ms)
     VALUES (?, ?, ?, 'light', 'down', 'connect_timeout', 5)`,
    ...[ids.one, vantageId, NOW_SEC],
  )
  await migrate(database)
  expect(files()).toEqual(['m.db.before-2'])
  const rows = database.all('SELECT at, error, total_ms, address FROM probe_raw')
  expect(rows).toEqual([{ at: NOW_SEC, error: 'connect_timeout', total_ms: 5, address: null }])
})

const FIRST = 'CREATE TABLE one (a INTEGER) STRICT; INSERT INTO one VALUES (1);'
const SECOND = 'ALTER TABLE one ADD COLUMN b INTEGER; UPDATE one SET b = a + 1;'

test('8.2: forward step by step, with a backup once the file has data', async () => {
  const { database, files } = opened()
  expect(await migrate(database, [FIRST])).toBeNull()
  expect(files()).toEqual([])
  const saved = await migrate(database, [FIRST, SECOND])
  expect(files()).toEqual(['m.db.before-2'])
  expect(database.all('SELECT * FROM one')).toEqual([{ a: 1, b: 2 }])
  const before = new Database(saved!)
  expect([before.pragma('user_version'), before.all('SELECT * FROM one')]).toEqual([1, [{ a: 1 }]])
  before.close()
  expect(await migrate(database, [FIRST, SECOND])).toBeNull()
})

test('8.2: a step that fails leaves the file as it was, and may be tried again', async () => {
  const { database } = opened()
  await migrate(database, [FIRST])
  await expect(migrate(database, [FIRST, `${SECOND} SELECT nonsense FROM one;`])).rejects.toThrow('nonsense')
  expect([database.pragma('user_version'), database.all('SELECT * FROM one')]).toEqual([1, [{ a: 1 }]])
  await migrate(database, [FIRST, SECOND])
  expect(database.all('SELECT * FROM one')).toEqual([{ a: 1, b: 2 }])
})

test('8.2: a file of a newer version is refused and not touched', async () => {
  const { database, files } = opened()
  await migrate(database, [FIRST, SECOND])
  await expect(migrate(database, [FIRST])).rejects.toThrow(
    /m\.db: was written by a newer version \(schema 2, this version supports 1\)\. Start that version again.*\[STORE_NEWER\]/,
  )
  expect([database.pragma('user_version'), files()]).toEqual([2, []])
})

test('8.2: the error for a file that is not a database has a remedy', () => {
  const path = join(makeMemoryFolder(), 'missing', 'm.db')
  expect(() => new Database(path)).toThrow(
    /m\.db: cannot be used as the monitor's database: .* \[STORE_UNUSABLE\]/,
  )
})

function opened() {
  const database = new Database(join(makeMemoryFolder(), 'm.db'))
  onTestFinished(() => database.close())
  const files = () => readdirSync(dirname(database.path)).filter((name) => name.includes('before'))
  return { database, files }
}
