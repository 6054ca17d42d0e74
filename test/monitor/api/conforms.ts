/** Holds a response against the OpenAPI document, closed: a member, a header or a code that is not in it fails the test. */
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect } from 'vitest'
import type { Components, Schema } from '../../../monitor/api/schema/json-schema.ts'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { SchemaOracle } from './schema-oracle.ts'
import type { ReceivedResponse } from './setup.ts'

interface Operation {
  responses: Record<
    string,
    {
      headers: Record<string, { $ref: string }>
      content?: { 'application/json': { schema: Schema } }
      'x-codes'?: string[]
    }
  >
}
interface Document {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Components; headers: Record<string, { schema: Schema }> }
}

export const DOCUMENT = openApi({ version: 'test', isClosed: true }) as unknown as Document
export const ORACLE = new SchemaOracle(DOCUMENT.components.schemas)

// biome-ignore format: spec 1.3, 1.5
const ALWAYS = {
  'x-ratelimit-limit': /^\d+$/, 'x-ratelimit-remaining': /^\d+$/, 'x-ratelimit-reset': /^\d+$/,
  'x-request-id': /^[0-9a-z]{16,32}$/, 'x-content-type-options': /^nosniff$/, 'x-robots-tag': /^noindex$/,
  'cross-origin-resource-policy': /^cross-origin$/, 'access-control-allow-origin': /^\*$/,
  'access-control-expose-headers': /X-Request-Id/, 'cache-control': /./, date: /GMT$/, vary: /^Accept-Encoding$/,
}

export function conforms(method: string, path: string, received: ReceivedResponse): void {
  const { status, headers } = received
  for (const [name, pattern] of Object.entries(ALWAYS))
    expect(headers[name], `${method} ${path}: ${name}`).toMatch(pattern)
  const [plainPath] = path.split('?')
  if (status === 204 || status === 304) {
    expect([received.bytes.length, headers['content-type']], `${status} has no body`).toEqual([0, undefined])
    if (status === 204) return
  } else expect(headers['content-type']).toBe('application/json; charset=utf-8')
  if (status === 429 || status === 503) expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1)
  const operation = findOperation(method, plainPath)
  const response = operation?.responses[status]
  if (operation && operation !== UNKNOWN)
    expect(response, `${method} ${path}: ${status} is in the document`).toBeDefined()
  if (method === 'HEAD' || status === 304) return
  const body = JSON.parse(text(received))
  const schema = response?.content?.['application/json'].schema ?? ERROR
  expect(ORACLE.check(schema, body), `${method} ${path}: ${status}`).toBeNull()
  if (status >= 400 && response) expect(response['x-codes'], `${method} ${path}`).toContain(body.code)
  for (const name of Object.keys(response?.headers ?? {})) {
    const value = headers[name.toLowerCase()]
    const described = DOCUMENT.components.headers[name].schema
    if (value === undefined) continue
    const typed = described.type === 'integer' ? Number(value) : value
    expect(ORACLE.check(described, typed), name).toBeNull()
  }
}

const ERROR: Schema = { $ref: '#/components/schemas/Error' }
const UNKNOWN: Operation = { responses: {} }

/** HEAD as GET; for a method or a path that is not there, one that knows nothing: then only the error's shape counts. */
function findOperation(method: string, path: string): Operation {
  const wanted = path.replace(/\/$/, '').split('/')
  for (const [pattern, methods] of Object.entries(DOCUMENT.paths)) {
    const segments = pattern.split('/')
    const isMatch =
      segments.length === wanted.length && segments.every((s, i) => s.startsWith('{') || s === wanted[i])
    if (isMatch) return methods[method === 'HEAD' ? 'get' : method.toLowerCase()] ?? UNKNOWN
  }
  return UNKNOWN
}

function text({ bytes, headers }: ReceivedResponse): string {
  if (headers['content-encoding'] === 'br') return brotliDecompressSync(bytes).toString()
  if (headers['content-encoding'] === 'gzip') return gunzipSync(bytes).toString()
  return bytes.toString()
}
