/** `history` of a site: what each value holds, that equal ones share a body, and that none reads nothing. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startApi } from './setup.ts'

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
})
afterEach(() => api.close())

interface Detail {
  probe_history: { at: string; window_s: number }[]
}
const get = async (query: string, headers: Record<string, string> = {}) => {
  const response = await api.get(`/api/v1/sites/alpha${query}`, { headers })
  return { ...response, points: (response.json as Detail | null)?.probe_history ?? [] }
}

// biome-ignore format: a table
const cases: [query: string, count: number, windowSec: number | undefined][] = [
  ['',               31,  86_400],
  ['?history=days',  31,  86_400],
  ['?history=day',   31,  86_400],
  ['?history=full', 721,   3_600],
  ['?history=hour', 721,   3_600],
  ['?history=raw',    2,       0],
  ['?history=none',   0, undefined],
]
test.each(cases)('M2.2#1: %s has %i points of %s seconds, oldest first', async (query, count, windowSec) => {
  const { points } = await get(query)
  expect([points.length, points[0]?.window_s]).toEqual([count, windowSec])
  const times = points.map(({ at }) => at)
  expect(times).toEqual([...times].sort())
})

test('each value differs in its history alone', async () => {
  const details = await Promise.all(cases.map(async ([query]) => (await get(query)).json as Detail))
  const rest = details.map(({ probe_history, ...others }) => others)
  for (const each of rest) expect(each).toEqual(rest[0])
  expect(Object.keys(details[0])).toHaveLength(13)
})

test('M1.4#1: equal values have one ETag, others their own; each is answered with 304', async () => {
  const etags = await Promise.all(cases.map(async ([query]) => (await get(query)).headers.etag))
  const [byDefault, days, day, full, hour, raw, none] = etags
  expect([days, day, hour]).toEqual([byDefault, byDefault, full])
  expect(new Set([days, full, raw, none]).size).toBe(4)
  for (const [i, [query]] of cases.entries()) {
    expect((await get(query, { 'if-none-match': etags[i] })).status).toBe(304)
    expect((await get(query, { 'if-none-match': etags[(i + 3) % cases.length] })).status).toBe(200)
  }
})

test('values with two names are built once; none reads no history', async () => {
  const reads = async (query: string) => {
    const before = api.store.reads
    await get(query)
    return api.store.reads - before
  }
  const none = await reads('?history=none')
  const days = await reads('')
  expect(days).toBe(none + 1)
  expect(await reads('?history=day')).toBe(0)
  expect(await reads('?history=days')).toBe(0)
  expect(await reads('?history=full')).toBe(days)
  expect(await reads('?history=hour')).toBe(0)
})

test('an alias takes it, too', async () => {
  const response = await api.get('/api/v1/sites/old-alpha?history=none')
  expect(response.headers['content-location']).toBe('/api/v1/sites/alpha')
  expect((response.json as Detail).probe_history).toEqual([])
})
