/** `history=raw` (spec 3.2): at most the newest 500 probes of the last 48 hours, of all places, out of the real store. */
import { expect, onTestFinished, test } from 'vitest'
import type { Store } from '../../../monitor/storage/store.ts'
import { catalogueSite, openTestStore, probe } from '../storage/stores.ts'
import { NOON } from './fake-store.ts'
import { startApi } from './setup.ts'

const RAW_MAX = 500
const RAW_SEC = 48 * 3_600
const PUBLISHED_SEC = NOON + 6 // of the snapshot; times are counted back from it

interface Point {
  at: string
  window_s: number
}

/** Sites by slug, with a probe at each of the seconds, from one place or alternately from two. */
async function startWith(probes: Record<string, { atSec: number; place: 'cn' | 'overseas' }[]>) {
  const store = await openTestStore()
  const sites = Object.keys(probes).map((slug) => catalogueSite(slug))
  const { ids } = await store.request({ kind: 'sync-catalogue', sites, nowSec: NOON })
  const vantages = {
    cn: await store.request({ kind: 'vantage', name: 'agent', region: 'cn', country: null }),
    overseas: await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null }),
  }
  for (const [slug, all] of Object.entries(probes)) {
    const siteId = ids[slug]
    for (const { atSec, place } of all)
      store.write({ kind: 'probe', siteId, vantageId: vantages[place], probe: probe(atSec) })
    store.write({ kind: 'score', siteId, tier: 'B', tierSinceSec: NOON, score: 70, facts: null })
  }
  await published(store)
  const api = await startApi({ snapshot: () => store.snapshot, details: store })
  onTestFinished(() => api.close())
  return async (path: string): Promise<number[]> => {
    const { json } = await api.get(path)
    const { probe_history: detail, points = detail } = json as { probe_history: Point[]; points?: Point[] }
    expect(new Set(points.map((point) => point.window_s))).toEqual(new Set([0]))
    return points.map(({ at }) => Date.parse(at) / 1_000)
  }
}

async function published(store: Store): Promise<void> {
  await store.flush()
  await store.tick(NOON)
  await store.tick(PUBLISHED_SEC)
  expect(store.snapshot.generatedAtSec).toBe(PUBLISHED_SEC)
}

/** So many, one a minute, the newest at NOON; oldest first. */
const minutely = (count: number) => Array.from({ length: count }, (_, i) => NOON - 60 * (count - 1 - i))

test('3.2: of more than 500 the newest 500, oldest first, whichever place they are from', async () => {
  const seconds = minutely(620)
  const places = ['cn', 'overseas'] as const
  const getTimes = await startWith({
    busy: seconds.map((atSec, i) => ({ atSec, place: places[i % 2] })),
    calm: [{ atSec: NOON - 60, place: 'overseas' }],
  })
  expect(await getTimes('/api/v1/sites/busy?history=raw')).toEqual(seconds.slice(-RAW_MAX))
  expect(await getTimes('/api/v1/sites/busy/history?history=raw')).toEqual(seconds.slice(-RAW_MAX))
  const fromAbroad = seconds.filter((_, i) => places[i % 2] === 'overseas')
  expect(await getTimes('/api/v1/sites/busy/history?history=raw&region=overseas')).toEqual(fromAbroad)
  expect(await getTimes('/api/v1/sites/calm?history=raw')).toEqual([NOON - 60])
})

test('3.2: nothing older than 48 hours or than the requested days', async () => {
  const dayAgo = PUBLISHED_SEC - RAW_SEC / 2
  const oldest = PUBLISHED_SEC - RAW_SEC
  const seconds = [oldest - 1, oldest, dayAgo - 1, dayAgo, NOON]
  const getTimes = await startWith({ calm: seconds.map((atSec) => ({ atSec, place: 'overseas' })) })
  expect(await getTimes('/api/v1/sites/calm?history=raw')).toEqual([oldest, dayAgo - 1, dayAgo, NOON])
  expect(await getTimes('/api/v1/sites/calm/history?history=raw&days=30')).toEqual([
    oldest,
    dayAgo - 1,
    dayAgo,
    NOON,
  ])
  expect(await getTimes('/api/v1/sites/calm/history?history=raw&days=1')).toEqual([dayAgo, NOON])
})
