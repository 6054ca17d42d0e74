import { expect, test } from 'vitest'
import type { ErrorCode, Outcome } from '../../../monitor/facts.ts'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import { Reader } from '../../../monitor/storage/reader.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { saveVantage } from '../../../monitor/storage/vantages.ts'
import { catalogueSite, freshDatabase, NOW_SEC, probe } from './stores.ts'

test('8.2: a batch is not written at all while the disk is full, and is written once there is room', async () => {
  const database = await freshDatabase()
  const { ids } = syncCatalogue(database, [catalogueSite('one')], NOW_SEC)
  const vantageId = saveVantage(database, { name: 'main', region: 'cn', country: null })
  const batch = Array.from({ length: 500 }, (_, i): Write => {
    return { kind: 'probe', siteId: ids.one, vantageId, probe: probe(NOW_SEC + i) }
  })
  const counts = () =>
    database.get(
      'SELECT (SELECT count(*) FROM probe_raw) AS raw, (SELECT sum(probes) FROM probe_hour) AS counted',
    )
  database.raw.exec(`PRAGMA max_page_count=${database.pragma('page_count')}`)
  expect(() => applyBatch(database, batch, NOW_SEC)).toThrow('database or disk is full')
  expect(counts()).toEqual({ raw: 0, counted: null })

  database.raw.exec('PRAGMA max_page_count=100000')
  expect(applyBatch(database, batch, NOW_SEC)).toEqual([])
  expect(applyBatch(database, batch, NOW_SEC)).toEqual([]) // as after a lost response
  expect(counts()).toEqual({ raw: 500, counted: 500 })
})

test('6.5: an address is kept with a connection that failed, and with nothing else', async () => {
  const database = await freshDatabase()
  const { ids } = syncCatalogue(database, [catalogueSite('one')], NOW_SEC)
  const vantageId = saveVantage(database, { name: 'main', region: 'cn', country: null })
  const address = '2001:db8::7'
  // biome-ignore format: the columns are the specification
  const cases: [Outcome, ErrorCode | null, string | null][] = [
    ['down',         'connect_timeout', address],
    ['down',         'tls_reset',       address],
    ['down',         'http_5xx',        null],
    ['degraded',     'slow',            null],
    ['up',           null,              null],
    ['inconclusive', 'connect_timeout', null], // not counted
  ]
  const writes = cases.map(([outcome, error], i): Write => {
    const found = probe(NOW_SEC - i, { outcome, error, address })
    return { kind: 'probe', siteId: ids.one, vantageId, probe: found }
  })
  expect(applyBatch(database, writes, NOW_SEC)).toEqual([])
  const kept = new Reader(database).readProbes(ids.one, vantageId, 0, 10)
  expect(kept.map((each) => [each.outcome, each.error, each.address])).toEqual(cases)
})
