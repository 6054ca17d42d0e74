import { writeFileSync } from 'node:fs'
import { expect, onTestFinished, test, vi } from 'vitest'
import { CatalogueSync, type PlacedSite } from '../../../monitor/service/catalogue-sync.ts'
import type { Store } from '../../../monitor/storage/store.ts'
import { catalogueOf, folderWith, siteLines } from '../catalogue/catalogues.ts'
import { NOW_SEC, openTestStore, probe } from '../storage/stores.ts'

test('8.1: a catalogue that the store does not take is tried again until it does', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const store = await openTestStore()
  let isFull = true
  const { keeper, told, log } = keeperOf({
    read: store.read,
    ask: (question) => (isFull ? Promise.reject(new Error('database or disk is full')) : store.ask(question)),
  })
  await keeper.start()
  expect(told).toEqual([])
  expect(keeper.catalogue).toBeNull()
  expect(log.at(-1)).toContain('in 10 s it is tried again: database or disk is full')
  isFull = false
  await vi.advanceTimersByTimeAsync(10_000)
  await vi.waitFor(() => expect(told).toMatchObject([[{ slug: 'one' }]]))
  expect(keeper.findSlug('one.example.com')).toBe('one')
})

test('6.4: whoever begins anew is told what has been seen since', async () => {
  const store = await openTestStore()
  const { keeper, told } = keeperOf(store)
  await keeper.start()
  expect(told.at(-1)).toMatchObject([{ slug: 'one', downs: 0 }])
  const { siteId } = told[0][0]
  const vantageId = await store.ask({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  for (const atSec of [NOW_SEC, NOW_SEC + 60])
    store.write({
      kind: 'probe',
      siteId,
      vantageId,
      probe: { ...probe(atSec), outcome: 'down', error: 'http_5xx' },
    })
  await store.flush()
  keeper.renew()
  await vi.waitFor(() => expect(told.at(-1)).toMatchObject([{ downs: 2, downSinceSec: NOW_SEC }]))
})

test('8.1: hosts follow the catalogue', async () => {
  const { keeper, told, path } = keeperOf(await openTestStore())
  await keeper.start()
  writeFileSync(path, catalogueOf(siteLines('two')))
  await vi.waitFor(() => expect(told.at(-1)).toMatchObject([{ slug: 'two' }]))
  expect([keeper.findSlug('one.example.com'), keeper.findSlug('two.example.com')]).toEqual([null, 'two'])
})

function keeperOf(store: Pick<Store, 'ask' | 'read'>) {
  const path = folderWith({ 'catalogue.yaml': catalogueOf(siteLines('one')) })
  const told: PlacedSite[][] = []
  const log: string[] = []
  const keeper = new CatalogueSync({
    ...{ store, path, ports: [443], nowSec: () => NOW_SEC },
    log: (level, text) => log.push(`${level}: ${text}`),
    onSites: (sites) => told.push(sites),
  })
  onTestFinished(() => keeper.close())
  return { keeper, told, log, path }
}
