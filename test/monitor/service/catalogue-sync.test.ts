import { writeFileSync } from 'node:fs'
import { expect, onTestFinished, test, vi } from 'vitest'
import { CatalogueSync } from '../../../monitor/service/catalogue-sync.ts'
import type { PlacedSite } from '../../../monitor/service/sites.ts'
import type { Store } from '../../../monitor/storage/store.ts'
import { eventually } from '../../helpers/eventually.ts'
import { folderWith, siteLines, toCatalogue } from '../catalogue/catalogues.ts'
import { NOW_SEC, openTestStore, probe } from '../storage/stores.ts'

test('8.1: a catalogue that the store refuses is tried again until it is stored', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const store = await openTestStore()
  let isFull = true
  const { sync, received, log } = createSync({
    read: store.read,
    request: (request) =>
      isFull ? Promise.reject(new Error('database or disk is full')) : store.request(request),
  })
  await sync.start()
  expect(received).toEqual([])
  expect(sync.catalogue).toBeNull()
  expect(log.at(-1)).toContain('retry in 10 s: database or disk is full')
  isFull = false
  await vi.advanceTimersByTimeAsync(10_000)
  await eventually(() => expect(received).toMatchObject([[{ slug: 'one' }]]))
  expect(sync.findSlug('one.example.com')).toBe('one')
})

test('6.4: renew passes the sites with results measured since', async () => {
  const store = await openTestStore()
  const { sync, received } = createSync(store)
  await sync.start()
  expect(received.at(-1)).toMatchObject([{ slug: 'one', downs: 0 }])
  const { siteId } = received[0][0]
  const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  for (const atSec of [NOW_SEC, NOW_SEC + 60])
    store.write({
      kind: 'probe',
      siteId,
      vantageId,
      probe: { ...probe(atSec), outcome: 'down', error: 'http_5xx' },
    })
  await store.flush()
  sync.renew()
  await eventually(() => expect(received.at(-1)).toMatchObject([{ downs: 2, downSinceSec: NOW_SEC }]))
})

test('8.1: hosts follow the catalogue', async () => {
  const { sync, received, path } = createSync(await openTestStore())
  await sync.start()
  writeFileSync(path, toCatalogue(siteLines('two')))
  await eventually(() => expect(received.at(-1)).toMatchObject([{ slug: 'two' }]))
  expect([sync.findSlug('one.example.com'), sync.findSlug('two.example.com')]).toEqual([null, 'two'])
})

function createSync(store: Pick<Store, 'request' | 'read'>) {
  const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('one')) })
  const received: PlacedSite[][] = []
  const log: string[] = []
  const sync = new CatalogueSync({
    ...{ store, path, ports: [443], nowSec: () => NOW_SEC },
    log: (level, text) => log.push(`${level}: ${text}`),
    onSites: (sites) => received.push(sites),
  })
  onTestFinished(() => sync.close())
  return { sync, received, log, path }
}
