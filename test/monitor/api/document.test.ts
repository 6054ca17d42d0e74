/** The OpenAPI document as such, and the changelog (spec 9, 10). */
import { describe, expect, test } from 'vitest'
import { parseChangelog, readChangelog } from '../../../monitor/api/changelog.ts'
import { ApiError, ERROR_STATUS } from '../../../monitor/api/errors.ts'
import type { Schema } from '../../../monitor/api/schema/json-schema.ts'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { components } from '../../../monitor/api/schema/resources.ts'

const published = openApi({ version: '1', isClosed: false })
const text = JSON.stringify(published)

interface Operation {
  operationId: string
  parameters: { name: string; schema: Schema }[]
  responses: Record<string, { 'x-codes'?: string[] }>
}
const operations = Object.fromEntries(
  Object.values(published.paths as Record<string, Record<string, Operation>>).flatMap((methods) =>
    Object.values(methods).map((operation) => [operation.operationId, operation]),
  ),
)

/** Any operation: a malformed query, a wrong key, a retired version, over quota, our own fault, not now. */
const CODES_OF_ALL = [
  'invalid_parameter',
  'invalid_api_key',
  'version_retired',
  'rate_limited',
  'internal_error',
  'not_ready',
]

// biome-ignore format: operationIds never change within v1; codes only grow
const OWN_CODES: Record<string, string[]> = {
  getIndex: [],
  listSites: [],
  getSite: ['site_not_found'],
  getSiteScore: ['site_not_found'],
  getSiteHistory: ['site_not_found'],
  getSiteModels: ['site_not_found'],
  getSiteIncidents: ['site_not_found'],
  listModels: [],
  getLeaderboard: [],
  submitDetection: [
    'invalid_request', 'invalid_url', 'request_timeout', 'payload_too_large', 'unsupported_media_type', 'target_not_allowed',
    'too_many_pending', 'target_cooldown', 'queue_full', 'detections_disabled',
  ],
  getDetection: ['detection_not_found', 'detection_expired'],
  getLimits: [],
  getMeta: [],
  getCodes: [],
  getChangelog: [],
  getOpenApi: [],
}

/** Names and defaults: changing one breaks callers, a new one at the end does not. */
const PARAMETERS = [
  'getIndex',
  'listSites tier= region= limit=50 offset=0 sort=rank order= q= software= model= status= include=',
  'getSite slug= history=days',
  'getSiteScore slug=',
  'getSiteHistory slug= days=30 history=hour region=all',
  'getSiteModels slug=',
  'getSiteIncidents slug=',
  'listModels q= limit=50 offset=0',
  'getLeaderboard board=red limit=10',
  'submitDetection',
  'getDetection id= wait=0 since=',
  'getLimits',
  'getMeta',
  'getCodes',
  'getChangelog',
  'getOpenApi',
]

describe('10: the document', () => {
  test('10: no component is unused, and none is missing', () => {
    const used = new Set([...text.matchAll(/"#\/components\/(\w+\/[\w-]+)"/g)].map(([, name]) => name))
    const { schemas, headers } = published.components as Record<string, object>
    const existing = [
      ...Object.keys(schemas).map((name) => `schemas/${name}`),
      ...Object.keys(headers).map((name) => `headers/${name}`),
    ]
    expect([...used].sort()).toEqual(existing.sort())
  })

  test('10: every code of 1.2 is in it, where it can occur', () => {
    const listCodes = (id: string) =>
      Object.values(operations[id].responses).flatMap((each) => each['x-codes'] ?? [])
    for (const [id, codes] of Object.entries(OWN_CODES)) {
      expect([id, ...listCodes(id).sort()]).toEqual([id, ...[...codes, ...CODES_OF_ALL].sort()])
    }
    const elsewhere = Object.keys((published as Record<string, object>)['x-codes-elsewhere'])
    const all = new Set([...Object.keys(OWN_CODES).flatMap(listCodes), ...elsewhere])
    expect([...all].sort()).toEqual(Object.keys(ERROR_STATUS).sort())
  })

  test('10: operationIds are what they were, and none is missing above', () => {
    expect(Object.keys(operations)).toEqual(Object.keys(OWN_CODES))
  })

  test('M9#3: parameters are what they were', () => {
    const parameters = Object.entries(operations).map(([id, { parameters }]) => {
      return [id, ...parameters.map(({ name, schema }) => `${name}=${schema.default ?? ''}`)].join(' ')
    })
    expect(parameters).toEqual(PARAMETERS)
  })

  test('10: all numbers have bounds, all texts and lists a length', () => {
    const open: string[] = []
    const visit = (schema: Schema, at: string) => {
      if (schema.enum || schema.const !== undefined) return
      const types = [schema.type].flat()
      if (
        (types.includes('integer') || types.includes('number')) &&
        (schema.minimum === undefined || schema.maximum === undefined)
      )
        open.push(at)
      if (types.includes('string') && schema.maxLength === undefined) open.push(at)
      if (types.includes('array') && schema.maxItems === undefined) open.push(at)
      for (const [name, each] of Object.entries(schema.properties ?? {})) visit(each, `${at}.${name}`)
      if (schema.items) visit(schema.items, `${at}[]`)
      for (const each of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) visit(each, at)
      if (typeof schema.additionalProperties === 'object') visit(schema.additionalProperties, `${at}.*`)
    }
    for (const [name, schema] of Object.entries(components(true))) visit(schema, name)
    expect(open).toEqual([])
  })

  test('M1#9 10: closed in tests; in the document only what the source contract closes', () => {
    const isClosed = (name: string, all: Record<string, Schema>) => all[name].additionalProperties === false
    const names = Object.keys(components(false)).filter((name) => isClosed(name, components(false) as never))
    expect(names).toEqual(
      expect.arrayContaining(['Error', 'Site', 'SiteList', 'SiteDetail', 'Leaderboard', 'LeaderboardEntry']),
    )
    expect(names).not.toContain('Meta')
    expect(isClosed('Meta', components(true) as never)).toBe(true)
  })
})

describe('M9#4: changelog.yaml', () => {
  test('9: what is in the repository keeps the rule of 14 days', () => {
    const v1 = { id: 'v1', announced_on: '2026-11-21', kind: 'added' }
    expect(readChangelog()).toContainEqual(expect.objectContaining(v1))
  })

  const entry = (more: object) => {
    const all = {
      id: 'a',
      announced_on: '2026-01-01',
      effective_on: '2026-01-15',
      kind: 'changed',
      endpoints: [],
      text: 't',
      ...more,
    }
    return JSON.stringify(all)
  }
  const file = (...entries: string[]) => `entries: [${entries.join(', ')}]`

  // biome-ignore format: a table
  const cases: [string, string, RegExp | null][] = [
    ['14 days',          file(entry({})),                                            null],
    ['13 days',          file(entry({ effective_on: '2026-01-14' })),                /a takes effect 13 days/],
    ['fixed at once',    file(entry({ kind: 'fixed', effective_on: '2026-01-01' })), null],
    ['a member more',    file(entry({ x: 1 })),                                      /must not have "x"/],
    ['another kind',     file(entry({ kind: 'improved' })),                          /must be one of/],
    ['no such day',      file(entry({ effective_on: '2026-02-31' })),                /a has a date that does not exist/],
    ['an id twice',      file(entry({}), entry({})),                                 /the id a is not unique/],
  ]
  for (const [what, yaml, complaint] of cases) {
    test(`9: ${what}`, () => {
      if (complaint) expect(() => parseChangelog(yaml)).toThrow(complaint)
      else expect(parseChangelog(yaml).length).toBe(1)
    })
  }

  test('9: newest first', () => {
    const later = entry({ id: 'b', announced_on: '2026-03-01', effective_on: '2026-04-01' })
    expect(parseChangelog(file(entry({}), later)).map(({ id }) => id)).toEqual(['b', 'a'])
  })
})

test('1.2: an error text is at most 300 characters', () => {
  expect(new ApiError('not_found', 'x'.repeat(999)).message.length).toBe(300)
})
