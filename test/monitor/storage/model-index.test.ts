/** The index of models: from rows to snapshots, by news. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import { CLAIMED, ModelIndex, packEntry, VERIFIED } from '../../../monitor/storage/model-index.ts'
import { ModelReader } from '../../../monitor/storage/model-index-delta.ts'
import type { ModelSighting } from '../../../monitor/storage/rows.ts'
import { catalogueSite, freshDatabase, NOW_SEC, openTestStore } from './stores.ts'

const HOUR_SEC = 3_600

/** `gpt+` is claimed and verified, `gpt?` claimed, `gpt` verified. */
function sightings(text: string): ModelSighting[] {
  return text.split(' ').map((word) => {
    const key = word.replace(/[+?]$/, '')
    return { key, id: key, isClaimed: /[+?]$/.test(word), isVerified: !word.endsWith('?') }
  })
}

function write(siteId: number, models: string, atSec = NOW_SEC) {
  const observation = {
    atSec,
    models: [],
    claimed: [],
    listing: 'open',
    profile: {},
    hygiene: {},
    isParked: false,
  }
  return { kind: 'observation', siteId, observation, models: sightings(models) } as never
}

/** The index as a drawing: what each site has, in the order of its entries. */
function drawn(index: ModelIndex, siteIds: number[], nowSec = NOW_SEC): string[] {
  return siteIds.map((id) => {
    const parts: string[] = []
    index.each(id, nowSec, (place, flags) => {
      const mark = flags === CLAIMED + VERIFIED ? '+' : flags === CLAIMED ? '?' : ''
      parts.push(index.names[place] + mark)
    })
    return parts.join(' ')
  })
}

async function filled(namesMax?: number) {
  const database = await freshDatabase()
  syncCatalogue(
    database,
    ['one', 'two'].map((slug) => catalogueSite(slug)),
    NOW_SEC,
  )
  const save = (...writes: never[]) => expect(applyBatch(database, writes, NOW_SEC)).toEqual([])
  return { database, save, reader: new ModelReader(database, namesMax) }
}

test('3.1: the first delta has everything, later ones have the touched sites', async () => {
  const { save, reader } = await filled()
  save(write(1, 'a+ b?'), write(2, 'b c'))
  const first = ModelIndex.NONE.with(reader.read())
  expect(drawn(first, [1, 2])).toEqual(['a+ b?', 'b c'])
  expect(reader.read()).toEqual({ isWhole: false, names: [], sites: [] })

  save(write(2, 'c+ d', NOW_SEC + 1))
  reader.touch(2)
  const news = reader.read()
  expect([news.isWhole, news.names, news.sites.map(([id]) => id)]).toEqual([false, ['d'], [2]])
  const second = first.with(news)
  expect(drawn(second, [1, 2])).toEqual(['a+ b?', 'c+ d'])
  expect(drawn(first, [1, 2])).toEqual(['a+ b?', 'b c']) // an earlier index does not change
  expect([
    second.has(2, second.findModel('d'), NOW_SEC),
    first.has(2, first.findModel('b'), NOW_SEC),
  ]).toEqual([true, true])
  expect([
    second.has(1, second.findModel('d'), NOW_SEC),
    second.has(1, second.findModel('x'), NOW_SEC),
  ]).toEqual([false, false])
})

test('3.1: a full delta replaces all, as after a restart of the writer', async () => {
  const { database, save, reader } = await filled()
  save(write(1, 'z+ a+'), write(2, 'b c'))
  const before = ModelIndex.NONE.with(reader.read())
  save(write(1, 'b+', NOW_SEC + 1))
  const after = before.with(new ModelReader(database).read())
  expect(drawn(after, [1, 2])).toEqual(['b+', 'b c'])
  expect(after.names).toEqual(['b', 'c'])
})

test('7.1: what was verified more than 72 hours ago is only claimed, or not there', async () => {
  const { save, reader } = await filled()
  save(write(1, 'a+ b? c'))
  const index = ModelIndex.NONE.with(reader.read())
  const has = (nowSec: number) => ['a', 'b', 'c'].map((key) => index.has(1, index.findModel(key), nowSec))
  expect(drawn(index, [1], NOW_SEC + 72 * HOUR_SEC)).toEqual(['a+ c b?'])
  expect(has(NOW_SEC + 72 * HOUR_SEC)).toEqual([true, true, true])
  expect(drawn(index, [1], NOW_SEC + 72 * HOUR_SEC + 1)).toEqual(['a? b?'])
  expect(has(NOW_SEC + 72 * HOUR_SEC + 1)).toEqual([true, true, false])
})

test('8.2: names beyond the bound are left out, known ones stay', async () => {
  const { save, reader } = await filled(2)
  save(write(1, 'a+ b+ c+'), write(2, 'c b'))
  expect(drawn(ModelIndex.NONE.with(reader.read()), [1, 2])).toEqual(['a+ b+', 'b'])
})

test('8.2: changes that could not be read come with the next snapshot', async () => {
  const { database, save, reader } = await filled()
  save(write(1, 'a'))
  const index = ModelIndex.NONE.with(reader.read())
  save(write(1, 'b', NOW_SEC + 1), write(2, 'c', NOW_SEC + 1))
  for (const id of [1, 2]) reader.touch(id)
  const { all } = database
  let reads = 0
  database.all = (...args) => {
    if (reads++ === 1) throw new Error('disk I/O error')
    return all.apply(database, args) as never
  }
  expect(() => reader.read()).toThrow('disk I/O error')
  expect(drawn(index.with(reader.read()), [1, 2])).toEqual(['b', 'c'])
})

test('8.2: the store publishes models with its snapshots, and only what has changed', async () => {
  const store = await openTestStore()
  expect(store.snapshot.models.names).toEqual([])
  const sites = ['one', 'two'].map((slug) => catalogueSite(slug))
  const { ids } = await store.request({ kind: 'sync-catalogue', sites, nowSec: NOW_SEC })
  store.write(write(ids.one, 'a+ b?'))
  await store.flush()
  await store.tick(NOW_SEC + 10)
  const first = store.snapshot
  expect(drawn(first.models, [ids.one, ids.two])).toEqual(['a+ b?', ''])
  store.write({ kind: 'meta', key: 'x', value: 'y' })
  await store.flush()
  await store.tick(NOW_SEC + 20)
  await nextTurn()
  expect(store.snapshot.version).toBeGreaterThan(first.version)
  expect(store.snapshot.models).toBe(first.models)
})

test('8.2: an entry holds any place and both flags', () => {
  const place = 99_999
  const entries = Uint32Array.of(packEntry(place, true, false), packEntry(place - 1, false, true))
  const names = Array.from({ length: place + 1 }, (_, i) => `m${i}`)
  const index = ModelIndex.NONE.with({ isWhole: true, names, sites: [[7, { entries, seenSec: NOW_SEC }]] })
  expect(drawn(index, [7])).toEqual(['m99999? m99998'])
})

test('7.1: claims of the catalogue exist before any probe and follow it; those of a site last a week', async () => {
  const { database, save, reader } = await filled()
  const claiming = (...modelsClaimed: string[]) =>
    syncCatalogue(database, [{ ...catalogueSite('one'), modelsClaimed }, catalogueSite('two')], NOW_SEC)
  expect(claiming('OpenAI/GPT-5.4', 'b').claimsChanged).toEqual([1])
  expect(claiming('OpenAI/GPT-5.4', 'b').claimsChanged).toEqual([])
  save(write(1, 'a? c'), write(2, 'b'))
  const first = ModelIndex.NONE.with(reader.read())
  expect(drawn(first, [1, 2])).toEqual(['c a? gpt-5.4? b?', 'b'])
  expect(drawn(first, [1], NOW_SEC + 100 * HOUR_SEC)).toEqual(['a? gpt-5.4? b?'])
  expect(drawn(first, [1], NOW_SEC + 8 * 24 * HOUR_SEC)).toEqual(['gpt-5.4? b?'])

  claiming('c')
  reader.touch(1)
  expect(drawn(first.with(reader.read()), [1])).toEqual(['c+ a?'])
})
