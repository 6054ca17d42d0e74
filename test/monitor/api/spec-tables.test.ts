/**
 * The tables of the specification against a running API: every row of errors, endpoints and fields as it stands there.
 * What a field means is asserted where its logic is tested; here it is there, with the type that the table gives it.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { specRows } from '../../helpers/spec.ts'
import { DOCUMENT } from './conforms.ts'
import { DETECTIONS, requestFor } from './golden-cases.ts'
import { startApi } from './setup.ts'

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
  for (const row of DETECTIONS) api.store.detections.set(row.id, row)
})
afterEach(() => api.close())

type Json = Record<string, unknown>
const isText = (value: unknown) => typeof value === 'string'
const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
const isTimestamp = (value: unknown) => isText(value) && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(`${value}`)

const TYPES: Record<string, (value: unknown) => boolean> = {
  string: isText,
  boolean: (value) => typeof value === 'boolean',
  integer: Number.isInteger,
  number: Number.isFinite,
  array: Array.isArray,
  'array of string': (value) => Array.isArray(value) && value.every(isText),
  'array of ProbePoint': (value) => Array.isArray(value) && value.every(isObject),
  object: isObject,
  NetworkProfile: isObject,
  RegionState: isObject,
  Result: isObject,
  timestamp: isTimestamp,
}

/** The fields of a row (`probes, up`) in a body, each of the row's type. */
function hasFields(body: unknown, [names, type]: string[]): void {
  const [first, orNull] = type.split(' or ')
  for (const name of names.split(', ')) {
    expect(body).toHaveProperty(name)
    const value = (body as Json)[name]
    if (value === null) expect([name, orNull]).toEqual([name, 'null'])
    else expect([name, value, TYPES[first](value)]).toEqual([name, value, true])
  }
}

function listFields(rows: { cells: string[] }[]): string[] {
  return rows.flatMap(({ cells }) => cells[0].split(', '))
}

describe('errors', () => {
  test.each(specRows('M1.2'))('$id: the error of the row', async ({ cells }) => {
    const [status, code, , headers] = cells
    const { response, close } = await requestFor(code, startApi)
    close()
    expect(response.status).toBe(Number(status))
    expect(Object.keys(response.json)).toEqual(['error', 'code'])
    expect(response.json).toMatchObject({ code, error: expect.any(String) })
    if (!headers) return
    const [, name, value = ''] = /^([\w-]+)(?:: (.+))?$/.exec(headers)!
    expect(response.headers[name.toLowerCase()].toLowerCase()).toContain(value.toLowerCase())
  })
})

describe('M1.1#1: endpoints', () => {
  test.each(specRows('M3'))('$id: the document has it, and it responds', async ({ cells }) => {
    const [method, paths] = cells
    const [first, ...more] = paths.split(', ')
    for (const path of [first, ...more.map((last) => first.replace(/\/\w+$/, last))]) {
      expect(Object.keys(DOCUMENT.paths[path] ?? {}), path).toContain(method.toLowerCase())
      const known = path.replace('{slug}', 'alpha').replace('{id}', DETECTIONS[1].id)
      const response =
        method === 'POST' ? await api.submit('https://a.example.com') : await api.request(method, known)
      expect([path, response.status]).toEqual([path, method === 'POST' ? 202 : 200])
    }
  })
})

describe('a site', () => {
  const listed = async () => ((await api.get('/api/v1/sites')).json as { sites: Json[] }).sites[1]
  const detailed = async () => (await api.get('/api/v1/sites/alpha')).json as Json
  const rows = specRows('M2.2')
  const own = rows.slice(0, 5)
  const point = rows.slice(5, 13)
  const network = rows.slice(13)

  test.each(specRows('M2.1'))('$id: the field of a list item', async ({ cells }) => {
    hasFields(await listed(), cells)
  })
  test.each(own)('$id: the field of a detail', async ({ cells }) => hasFields(await detailed(), cells))
  test.each(point)('$id: the field of a probe point', async ({ cells }) => {
    const points = (await detailed()).probe_history as Json[]
    for (const each of points) hasFields(each, cells)
  })
  test.each(network)('$id: the field of the network profile', async ({ cells }) => {
    hasFields((await detailed()).network_profile, cells)
  })

  test('has no other fields', async () => {
    const detail = await detailed()
    expect(Object.keys(await listed())).toEqual(listFields(specRows('M2.1')))
    expect(Object.keys(detail)).toEqual([...listFields(specRows('M2.1')), ...listFields(own)])
    expect(Object.keys((detail.probe_history as Json[])[0])).toEqual(listFields(point))
    expect(Object.keys(detail.network_profile as Json)).toEqual(listFields(network))
  })
})

describe('a board', () => {
  const rows = specRows('M3.3').slice(2)

  // biome-ignore format: a table
  const values: Record<string, unknown> = {
    board: 'black', generated_at: '2025-11-20T12:00:00Z', window_days: 30, total: 1, entries: [expect.objectContaining({ slug: 'down' })],
  }
  test.each(rows)('$id: the field of the response', async ({ cells: [field] }) => {
    expect((await api.get('/api/v1/leaderboard?board=black')).json).toHaveProperty(field, values[field])
  })
  test('has no other fields', async () => {
    expect(Object.keys((await api.get('/api/v1/leaderboard')).json)).toEqual(listFields(rows))
  })
})

describe('a detection', () => {
  test.each(specRows('M3.5'))('$id: the field, in each state', async ({ cells }) => {
    for (const { id } of DETECTIONS) hasFields((await api.get(`/api/v1/detections/${id}`)).json, cells)
  })
  test('has no other fields', async () => {
    for (const { id } of DETECTIONS)
      expect(Object.keys((await api.get(`/api/v1/detections/${id}`)).json)).toEqual(
        listFields(specRows('M3.5')),
      )
  })
})
