/** Orders, texts and hosts of a snapshot: right, and made once however many questions are asked. */
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import type { Query } from '../../../monitor/api/query.ts'
import { siteIndex } from '../../../monitor/api/site-index.ts'
import { siteList } from '../../../monitor/api/site-list.ts'
import type { SiteState } from '../../../monitor/storage/snapshot.ts'
import { createSnapshot, site } from './fake-store.ts'
import { startApi } from './setup.ts'

const SITES = 300
const SORTS = ['rank', 'name', 'first_seen', 'last_probed', 'availability', 'latency']

/** Sites that count how often what has to be parsed or folded is looked at. */
function countedSites() {
  const reads = { name: 0, url: 0, facts: 0 }
  const sites = Array.from({ length: SITES }, (_, i) => {
    const slug = `site-${String((i * 7) % SITES).padStart(3, '0')}`
    const plain = site(i, slug, { facts: { availability30d: (i % 17) / 17, p50Ms: (i * 31) % 101 } })
    const { name, url, facts } = plain
    return Object.defineProperties(plain, {
      name: counted(reads, 'name', name),
      url: counted(reads, 'url', url),
      facts: counted(reads, 'facts', facts),
    })
  })
  return { sites, reads }
}

function counted(reads: Record<string, number>, key: string, value: unknown): PropertyDescriptor {
  return {
    enumerable: true,
    get: () => {
      reads[key]++
      return value
    },
  }
}

test('a site by its slug, and the software of all sites, are looked up in the snapshot once', () => {
  const { sites, reads } = countedSites()
  const index = siteIndex(createSnapshot(sites))
  expect(index.bySlug('site-007')).toBe(sites[1])
  expect(index.bySlug('nobody')).toBeUndefined()
  expect(index.bySlug('constructor')).toBeUndefined()
  for (let i = 0; i < 3; i++) expect(index.software()).toEqual(['unknown'])
  expect(reads.facts).toBe(SITES)
})

const listSites = (snapshot: ReturnType<typeof createSnapshot>, more: Query) =>
  siteList(snapshot, { sort: 'rank', limit: 1, offset: 0, ...more })

test('3.1: a sort reads each site once, not once per comparison', () => {
  for (const [sort, key] of [
    ['name', 'name'],
    ['availability', 'facts'],
    ['latency', 'facts'],
  ] as const) {
    const { sites, reads } = countedSites()
    listSites(createSnapshot(sites), { sort })
    expect(reads[key]).toBeLessThanOrEqual(SITES + 2) // and the site that is shown
  }
})

test('3.1: any number of searches and orders folds and parses a snapshot once', () => {
  const { sites, reads } = countedSites()
  const snapshot = createSnapshot(sites)
  let questions = 0
  for (const sort of SORTS) {
    for (const order of ['asc', 'desc']) {
      for (let i = 0; i < 10; i++, questions++) listSites(snapshot, { sort, order, q: `site-${i}` })
    }
  }
  expect(reads.url).toBeLessThanOrEqual(SITES + 2 * questions)
  expect(reads.name).toBeLessThanOrEqual(3 * SITES + 2 * questions) // the search, and the order both ways
  expect(reads.facts).toBeLessThanOrEqual(4 * SITES + 2 * questions)
})

test('3.5: detections parse the URLs of a snapshot once', async () => {
  const { sites, reads } = countedSites()
  const api = await startApi()
  onTestFinished(() => api.close())
  api.state.snapshot = createSnapshot(sites)
  const { json } = await api.submit('https://site-299.example.com/')
  const { id } = json as { id: string }
  for (let i = 0; i < 10; i++) {
    const response = await api.get(`/api/v1/detections/${id}`)
    expect(response.json).toMatchObject({ id, site_slug: 'site-299' })
  }
  expect(reads.url).toBeLessThanOrEqual(SITES)
})

const names = fc.constantFrom('Größe', 'ｇröße', 'relay', 'RELAY', '站', 'a', 'B', 'b ')
const numbers = fc.option(fc.integer({ min: 0, max: 3 }))
const someSites = fc
  .uniqueArray(
    fc.record({ slug: fc.stringMatching(/^[a-z]{1,2}$/), name: names, p50Ms: numbers, at: fc.nat(3) }),
    {
      selector: ({ slug }) => slug,
      maxLength: 20,
    },
  )
  .map((all) =>
    all.map(({ slug, name, p50Ms, at }, i) => {
      const more = { name, lastProbedSec: at, score: at, tier: (['S', 'B'] as const)[at % 2] }
      return site(i, slug, { ...more, facts: { p50Ms } })
    }),
  )

test('3.1: every order is total, ends with the slug, and sorts unknown values last', () => {
  const fold = (text: string) => text.normalize('NFKC').toLowerCase()
  const keys: Record<string, (each: SiteState) => (number | string | null)[]> = {
    name: ({ name }) => [fold(name)],
    last_probed: ({ lastProbedSec }) => [lastProbedSec],
    latency: ({ facts }) => [(facts as { p50Ms: number | null }).p50Ms],
    rank: ({ tier, score }) => ['SABCD'.indexOf(tier), -score],
  }
  fc.assert(
    fc.property(someSites, fc.constantFrom('asc', 'desc', undefined), (sites, order) => {
      for (const [sort, keysOf] of Object.entries(keys)) {
        const isFalling = order === undefined ? sort === 'last_probed' : order === 'desc'
        const ordered = siteIndex(createSnapshot(sites)).ordered(sort, order as 'asc' | 'desc' | undefined)
        expect([...ordered].sort(bySlug)).toEqual([...sites].sort(bySlug))
        for (const [i, next] of ordered.slice(1).entries())
          expect(
            isBefore([...keysOf(ordered[i])], [...keysOf(next)], isFalling) ?? bySlug(ordered[i], next) < 0,
          ).toBe(true)
      }
    }),
  )
})

/** null: equal. */
function isBefore(
  a: (number | string | null)[],
  b: (number | string | null)[],
  isFalling: boolean,
): boolean | null {
  for (const [i, one] of a.entries()) {
    const other = b[i]
    if (one === other) continue
    if (one === null || other === null) return other === null
    return isFalling ? one > other : one < other
  }
  return null
}

const bySlug = (a: SiteState, b: SiteState) => (a.slug < b.slug ? -1 : 1)

test('3.1: a search finds name, slug and host, folded, and never across two of them', () => {
  const one = site(1, 'one', { name: 'ＧＲÖSSE', url: 'https://api.example.net:8443/x' })
  const snapshot = createSnapshot([one])
  const finds = (q: string) => (listSites(snapshot, { q }) as { total: number }).total
  for (const q of ['grösse', 'GRÖSSE', 'one', 'api.example', ':8443', 'NET'])
    expect([q, finds(q)]).toEqual([q, 1])
  for (const q of ['/x', 'grösseone', 'sse\none', 'https']) expect([q, finds(q)]).toEqual([q, 0])
})
