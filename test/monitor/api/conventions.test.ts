/** What holds for every answer (spec 1), whatever the resource. */
import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Schema } from '../../../monitor/api/schema/json-schema.ts'
import { components } from '../../../monitor/api/schema/resources.ts'
import { startApi } from './setup.ts'

const GOLDEN = new URL('./golden/', import.meta.url)

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi()
})
afterEach(() => api.close())

/** Every member of every body that the golden files hold. */
function* members(): Generator<[name: string, value: unknown]> {
  for (const file of readdirSync(GOLDEN)) {
    yield* listMembers(JSON.parse(readFileSync(new URL(file, GOLDEN), 'utf8')))
  }
}

function* listMembers(value: unknown): Generator<[name: string, value: unknown]> {
  if (typeof value !== 'object' || value === null) return
  for (const [name, each] of Object.entries(value)) {
    if (!Array.isArray(value)) yield [name, each]
    yield* listMembers(each)
  }
}

/** Every schema of the document, also those within others, with the name of its member. */
function* schemas(): Generator<[name: string, schema: Schema]> {
  const visit = function* (name: string, schema: Schema): Generator<[string, Schema]> {
    yield [name, schema]
    for (const [each, inner] of Object.entries(schema.properties ?? {})) yield* visit(each, inner)
    if (schema.items) yield* visit(name, schema.items)
    for (const inner of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) yield* visit(name, inner)
  }
  const { OpenApi, ...own } = components(true) // the names of a document are those of OpenAPI
  for (const schema of Object.values(own)) yield* visit('', schema)
}

test('M1#1-2: every response below /api/ is JSON, or has neither body nor type', async () => {
  for (const path of ['/api', '/api/', '/api/v1', '/api/v1/sites', '/api/v1/x.html', '/api/v9', '/api/%']) {
    for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']) {
      const response = await api.request(method, path) // holds the type against 1
      expect(response.status).not.toBe(500)
    }
  }
})

test.each(['text/html', 'application/xml;q=1', 'image/*', '*/*;q=0', ''])(
  'M1#3: Accept: %s is ignored',
  async (accept) => {
    expect((await api.get('/api/v1/sites', { headers: { accept } })).status).toBe(200)
  },
)

test('M1#4: a body is UTF-8 without a mark and without white space between its members', async () => {
  for (const path of ['', '/sites', '/sites/alpha', '/leaderboard', '/limits', '/nothing']) {
    const { bytes, json } = await api.get(`/api/v1${path}`)
    expect(bytes.equals(Buffer.from(JSON.stringify(json)))).toBe(true)
  }
})

test('M1#5: times are of UTC, to the second', () => {
  const times = [...members()].filter(([name]) =>
    /^(at|from|to|last_(probed|seen)|first_seen|not_after|.+_at)$/.test(name),
  )
  const dates = [...members()].filter(([name]) => /^(since|.+_on)$/.test(name))
  expect([times.length > 50, dates.length > 2]).toEqual([true, true])
  for (const [name, value] of times)
    if (value !== null)
      expect([name, value]).toEqual([name, expect.stringMatching(/^\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?$/)])
  for (const [name, value] of dates)
    expect([name, value]).toEqual([name, expect.stringMatching(/^\d{4}-\d\d-\d\d$/)])
})

test('M1#6: ratios are from 0 to 1 with at most 4 decimals; unknown ones are null', () => {
  const ratios = [...members()].filter(([name]) => /^(availability.*|confidence|value)$/.test(name))
  expect(ratios.length).toBeGreaterThan(20)
  for (const [name, value] of ratios) {
    if (value === null) continue
    expect([name, Number(value) >= 0 && Number(value) <= 1]).toEqual([name, true])
    expect([name, value]).toEqual([name, Number(Number(value).toFixed(4))])
  }
  expect(ratios.some(([, value]) => value === null)).toBe(true)
})

test('M1#7: durations are whole numbers, and their names end in the unit', () => {
  const durations = [...schemas()].filter(([name]) => /(^ms|_ms|_s|_days)$/.test(name))
  expect(durations.length).toBeGreaterThan(5)
  for (const [name, { type, properties, $ref }] of durations) {
    if (properties || $ref) continue // what it holds is visited, too
    expect([name, [type].flat()[0]]).toEqual([name, 'integer'])
  }
})

test('M1#8: names are snake_case, enumerations lower case except tiers and methods', () => {
  for (const [name, { enum: values }] of schemas()) {
    expect(name).toMatch(/^[a-z0-9_]*$/)
    for (const value of values ?? [])
      if (typeof value === 'string')
        expect([name, value]).toEqual([name, expect.stringMatching(/^([a-z0-9_]+|[SABCD]|GET|POST)$/)])
  }
})

test('M1.3#4: an id sent by the client is ignored', async () => {
  const options = { headers: { 'x-request-id': 'mine0000000000000000' } }
  const ids = [await api.get('/api/v1/sites', options), await api.get('/api/v1/sites', options)].map(
    ({ headers }) => headers['x-request-id'],
  )
  for (const id of ids) expect(id).toMatch(/^(?!mine)[0-9a-z]{16,32}$/)
  expect(ids[0]).not.toBe(ids[1])
})

test('M1.3#5-8 M1.4#4: the headers of every response', async () => {
  for (const path of ['sites', 'nothing']) {
    expect((await api.get(`/api/v1/${path}`)).headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-robots-tag': 'noindex',
      'cross-origin-resource-policy': 'cross-origin',
      'cache-control': expect.any(String),
      vary: 'Accept-Encoding',
      'access-control-allow-origin': '*',
    })
  }
})

test('M9#4: the index leads to the changelog', async () => {
  expect((await api.get('/api/v1')).headers.link).toBe('</api/v1/changelog>; rel="help"')
})
