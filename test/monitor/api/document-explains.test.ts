/**
 * The document explains itself: every member, parameter and header has a description, a range and an example, every number
 * a unit. The walk follows no reference: a component is visited once, under its own name.
 */
import { describe, expect, test } from 'vitest'
import { ENDPOINTS } from '../../../monitor/api/schema/endpoints.ts'
import type { Schema } from '../../../monitor/api/schema/json-schema.ts'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { SchemaOracle } from './schema-oracle.ts'

interface Described {
  description?: string
  schema: Schema
  example?: unknown
}
interface Response {
  description: string
  headers: Record<string, { $ref: string }>
  content?: { 'application/json': { example?: unknown; examples?: Record<string, { value: unknown }> } }
}
interface Operation {
  operationId: string
  tags: string[]
  summary: string
  description: string
  parameters: (Described & { name: string; in: string })[]
  responses: Record<string, Response>
}
interface Document {
  info: { contact: Record<string, string>; license: { identifier: string } }
  servers: { url: string }[]
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, Schema>
    headers: Record<string, Described>
    securitySchemes: Record<string, { description: string }>
  }
}

const toDocument = (more: object = {}) =>
  openApi({ version: '1', isClosed: false, ...more }) as unknown as Document
const { components, paths, tags } = toDocument()
const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
const oracle = new SchemaOracle(components.schemas)

const resolve = (schema: Schema): Schema =>
  schema.$ref === undefined ? schema : components.schemas[schema.$ref.split('/').at(-1)!]

/** A description of at least two words that ends as a sentence does and is not only the name. */
function isDescribed(name: string, description: string | undefined): boolean {
  const words = (description ?? '').toLowerCase().replace(/[^a-z0-9 ]/g, '')
  const isName = words.replaceAll(' ', '') === name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  return /^\S+ .+[.]$|^\(.+[.]$/s.test(description ?? '') && !isName
}

/** What is missing at a schema: one line each. */
function* findGaps(schema: Schema, at: string): Generator<string> {
  const name = at.split(/[.\s]/).at(-1)!
  if (!isDescribed(name, schema.description ?? resolve(schema).description)) yield `${at}: description`
  if (schema.$ref !== undefined) return
  const choices = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]
  if (choices.some(({ $ref }) => $ref !== undefined)) return
  const types = [schema.type ?? choices.map(({ type }) => type!)].flat(2)
  const isClosed = schema.enum !== undefined || schema.const !== undefined
  const has = (keyword: keyof Schema) => [schema, ...choices].some((each) => each[keyword] !== undefined)
  const isNumber = types.includes('integer') || types.includes('number')
  if (isNumber && !has('x-unit')) yield `${at}: unit`
  if (isNumber && !isClosed && !(has('minimum') && has('maximum'))) yield `${at}: range`
  if (types.includes('string') && !isClosed && !has('maxLength')) yield `${at}: length`
  if (types.includes('array') && !has('maxItems')) yield `${at}: items`
  if (types.includes('object') && !has('properties') && !has('maxProperties')) yield `${at}: members`
  const isComposed = schema.properties !== undefined || schema.items?.$ref !== undefined
  if (!isComposed && !schema.examples?.length) yield `${at}: example`
  for (const example of schema.examples ?? []) {
    const violation = oracle.check(schema, example)
    if (violation !== null) yield `${at}: its example: ${violation}`
  }
  for (const [each, inner] of Object.entries(schema.properties ?? {})) yield* findGaps(inner, `${at}.${each}`)
  if (schema.items) yield* findGaps(schema.items, `${at}[]`)
  if (typeof schema.additionalProperties === 'object') yield* findGaps(schema.additionalProperties, `${at}.*`)
}

test('the walk finds what is missing', () => {
  const bad: Schema = {
    type: 'object',
    description: 'An object.',
    properties: {
      some_name: { type: 'string', description: 'Some name.' },
      number: { type: ['integer', 'null'], description: 'A number of things.', examples: ['1'] },
      list: { type: 'array', items: { type: 'boolean', description: 'Right?' } },
    },
  }
  expect([...findGaps(bad, 'Bad')].map((gap) => gap.replace(/(its example).*/, '$1'))).toEqual([
    'Bad.some_name: description',
    'Bad.some_name: length',
    'Bad.some_name: example',
    'Bad.number: unit',
    'Bad.number: range',
    'Bad.number: its example',
    'Bad.list: description',
    'Bad.list: items',
    'Bad.list: example',
    'Bad.list[]: description',
    'Bad.list[]: example',
  ])
})

describe('10: the document explains itself', () => {
  test('every schema and each of its members', () => {
    const visited = Object.entries(components.schemas)
    const gaps = visited.flatMap(([name, schema]) => [...findGaps(schema, name)])
    expect(gaps).toEqual([])
    expect(visited.length).toBeGreaterThan(50)
  })

  test('every parameter and header', () => {
    const described = [
      ...operations.flatMap(({ operationId, parameters }) =>
        parameters.map((each) => [`${operationId} ${each.name}`, each] as const),
      ),
      ...Object.entries(components.headers),
    ]
    const gaps = described.flatMap(([at, { schema, description, example }]) => [
      ...findGaps({ ...schema, description, examples: [example] }, at),
    ])
    expect(gaps).toEqual([])
    expect(described.length).toBeGreaterThan(40)
  })

  test('every operation has its tag, summary and description, and every tag is described and used', () => {
    for (const { operationId, tags: own, summary, description } of operations) {
      expect([operationId, own.length, isDescribed(summary, description)]).toEqual([operationId, 1, true])
      expect(tags.map(({ name }) => name)).toContain(own[0])
    }
    const used = new Set(operations.flatMap((each) => each.tags))
    expect([...used].sort()).toEqual(tags.map(({ name }) => name).sort())
    for (const { name, description } of tags) expect(isDescribed(name, description)).toBe(true)
  })

  test('every response has a description, headers and, if it has a body, an example', () => {
    for (const { operationId, responses } of operations) {
      for (const [status, { description, headers, content }] of Object.entries(responses)) {
        expect([operationId, status, isDescribed('', description)]).toEqual([operationId, status, true])
        for (const { $ref } of Object.values(headers)) {
          expect(components.headers).toHaveProperty([$ref.split('/').at(-1)!])
        }
        if (status === '304') expect(content).toBeUndefined()
        else {
          const { example, examples } = content!['application/json']
          expect([operationId, status, example ?? Object.values(examples!)[0].value]).toEqual([
            operationId,
            status,
            expect.any(Object),
          ])
        }
      }
    }
  })

  test('times are date-time, dates are date', () => {
    const found: [string, unknown][] = []
    const visit = (schema: Schema, name: string) => {
      if (/(^at|^from|^to|_at|last_(seen|probed)|not_after)$/.test(name)) found.push([name, schema.format])
      if (/(^since|_on)$/.test(name)) found.push([name, schema.format])
      for (const [each, inner] of Object.entries(schema.properties ?? {})) visit(inner, each)
      if (schema.items) visit(schema.items, name)
    }
    for (const schema of Object.values(components.schemas)) visit(schema, '')
    expect(found.length).toBeGreaterThan(20)
    for (const [name, format] of found)
      expect([name, format]).toEqual([name, /(^since|_on)$/.test(name) ? 'date' : 'date-time'])
  })

  test('a site is one schema: the eight fields are required, the summary is not', () => {
    const { Site, SiteList } = components.schemas
    expect(Site.required).toEqual([
      ...['slug', 'name', 'tier', 'url', 'first_seen', 'last_probed', 'reachable_cn', 'reachable_overseas'],
    ])
    expect(Object.keys(Site.properties!)).toEqual([...Site.required!, 'summary'])
    expect(SiteList.properties!.sites.items).toEqual({ $ref: '#/components/schemas/Site' })
  })

  // biome-ignore format: a table
  const servers: [string, object, string, object][] = [
    ['no settings',     {},                                                                                  '/',                           {}],
    ['both settings',   { publicBaseUrl: 'https://monitor.example.org', supportEmail: 'help@example.org' }, 'https://monitor.example.org', { url: 'https://monitor.example.org/about/probe', email: 'help@example.org' }],
  ]
  test.each(servers)('servers and contact: %s', (_, options, server, contact) => {
    const { servers, info } = toDocument(options)
    expect(servers.map(({ url }) => url)).toEqual([server])
    expect(info.contact).toEqual({ name: 'Operator of this monitor', ...contact })
    expect(info.license.identifier).toBe('Apache-2.0')
  })

  test('both ways to send a key are described', () => {
    const { securitySchemes } = components
    expect(Object.keys(securitySchemes)).toEqual(['apiKey', 'bearer'])
    for (const { description } of Object.values(securitySchemes))
      expect(isDescribed('', description)).toBe(true)
  })

  test('defaults are in range', () => {
    for (const { parameters } of ENDPOINTS)
      for (const { schema } of parameters)
        if (schema.default !== undefined) expect(oracle.check(schema, schema.default)).toBeNull()
  })
})
