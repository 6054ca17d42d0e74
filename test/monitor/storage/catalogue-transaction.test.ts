import { expect, test } from 'vitest'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import type { Database } from '../../../monitor/storage/database.ts'
import { catalogueSite, freshDatabase, NOW_SEC } from './stores.ts'

const MOVED = { url: 'https://moved.example.com', apiBase: 'https://moved.example.com' }

test('8.1: first_seen is the day of the first load unless the catalogue knows better', async () => {
  const database = await freshDatabase()
  sync(database, [catalogueSite('one'), catalogueSite('two', { firstSeen: '2026-03-01' })])
  sync(database, [catalogueSite('one'), catalogueSite('two')], NOW_SEC + 5 * 86_400)
  expect(database.all('SELECT slug, first_seen FROM site')).toEqual([
    { slug: 'one', first_seen: '2026-11-20' },
    { slug: 'two', first_seen: '2026-03-01' },
  ])
})

test('8.1: a site without an entry is removed at once, and has its data again when it returns', async () => {
  const database = await freshDatabase()
  const { ids } = sync(database, [catalogueSite('one'), catalogueSite('two')])
  expect(sync(database, [catalogueSite('one')])).toMatchObject({
    ids: { one: ids.one },
    removed: ['two'],
    added: [],
  })
  expect(sync(database, [catalogueSite('one')]).removed).toEqual([])
  expect(sync(database, [catalogueSite('two')])).toMatchObject({
    ids: { two: ids.two },
    removed: ['one'],
    refused: [],
  })
})

test('2.1: a slug is never reused for another address', async () => {
  const database = await freshDatabase()
  sync(database, [catalogueSite('one')])
  expect(sync(database, [catalogueSite('one', MOVED)]).refused).toEqual([]) // the same site moves
  sync(database, [])
  const { refused, ids } = sync(database, [catalogueSite('one'), catalogueSite('two')])
  expect(refused).toEqual([
    { slug: 'one', why: `the slug belongs to ${MOVED.url}, which was removed; choose a new one` },
  ])
  expect(Object.keys(ids)).toEqual(['two'])
})

test('8.1: a site whose former slug is an alias keeps its history; the former slug is never free again', async () => {
  const database = await freshDatabase()
  const { ids } = sync(database, [catalogueSite('old')])
  const renamed = sync(database, [catalogueSite('new', { aliases: ['old'] })])
  expect(renamed).toMatchObject({ ids: { new: ids.old }, renamed: ['new'], added: [], removed: [] })
  expect(sync(database, [catalogueSite('new'), catalogueSite('old', MOVED)]).refused).toEqual([
    { slug: 'old', why: 'the slug was that of another site; choose a new one' },
  ])
  const back = sync(database, [catalogueSite('old', { aliases: ['new'] })])
  expect(back).toMatchObject({ ids: { old: ids.old }, renamed: ['old'], refused: [] })
  expect(database.all('SELECT * FROM alias')).toEqual([
    { alias: 'new', site_id: ids.old, is_listed: 1, was_slug: 1 },
  ])
})

test('8.1: aliases follow the catalogue', async () => {
  const database = await freshDatabase()
  const { ids } = sync(database, [catalogueSite('one', { aliases: ['x', 'y'] }), catalogueSite('two')])
  sync(database, [catalogueSite('one', { aliases: ['x'] }), catalogueSite('two', { aliases: ['y'] })])
  expect(database.all('SELECT alias, site_id FROM alias')).toEqual([
    { alias: 'x', site_id: ids.one },
    { alias: 'y', site_id: ids.two },
  ])
})

test('8.1: an error in the middle changes nothing', async () => {
  const database = await freshDatabase()
  sync(database, [catalogueSite('one')])
  const broken = [catalogueSite('two'), catalogueSite('three', { name: null as never })]
  expect(() => sync(database, broken)).toThrow('NOT NULL')
  expect(database.all('SELECT slug, removed_at FROM site')).toEqual([{ slug: 'one', removed_at: null }])
})

function sync(database: Database, sites: Parameters<typeof syncCatalogue>[1], nowSec = NOW_SEC) {
  return syncCatalogue(database, sites, nowSec)
}
