/**
 * The OpenAPI 3.1 document (spec 10), generated from the tables that the code runs on: endpoints.ts, resources.ts,
 * errors.ts.
 */
import { readFileSync } from 'node:fs'
import { CODES } from '../codes.ts'
import { type ApiErrorCode, ERROR_STATUS } from '../errors.ts'
import * as build from './build.ts'
import { ENDPOINTS, type Endpoint, PATH_PARAMETERS, type Parameter, TAGS } from './endpoints.ts'
import type { Schema } from './json-schema.ts'
import { components } from './resources.ts'

type Json = Record<string, unknown>

/** Errors of every operation: a malformed query string, a wrong key, a shutdown. */
const ERRORS_OF_ALL: ApiErrorCode[] = [
  ...(['invalid_parameter', 'invalid_api_key', 'version_retired'] as const),
  ...(['rate_limited', 'internal_error', 'not_ready'] as const),
]

/** Errors of no operation: no route was found. */
const ERRORS_ELSEWHERE: Partial<Record<ApiErrorCode, string>> = {
  not_found: 'Any path under `/api/` that is not here.',
  unknown_version: 'Any path of a version that is not served.',
  method_not_allowed: 'Any method that a path here does not have; `Allow` lists those it has.',
}

interface Examples {
  bodies: Record<string, Record<string, unknown>> // operationId → status, or `request`
  errors: Record<string, unknown> // code →
}
/** Examples from the golden files of the tests, which compare them. */
const EXAMPLES: Examples = JSON.parse(readFileSync(new URL('./examples.json', import.meta.url), 'utf8'))

const LINE_CHARS_MAX = 1_024
const EPOCH_SEC = 1_795_194_360

export interface HeaderObject {
  description: string
  schema: Schema
  example: unknown
}

/** A header has its description beside its schema. */
function header({ description = '', examples, ...schema }: Schema): HeaderObject {
  return { description, schema, example: examples?.[0] }
}
const integer = (description: string, unit: build.Unit, range: [number, number], example: number) =>
  header(build.integer(description, unit, range, example))
const text = (description: string, example: string, pattern?: string) =>
  header(build.text(description, example, LINE_CHARS_MAX, pattern === undefined ? {} : { pattern }))

// biome-ignore format: a header each
/** On every response. */
export const HEADERS_OF_ALL: Record<string, HeaderObject> = {
  'X-RateLimit-Limit': integer('Requests allowed in the window for this class of request.', 'requests', [0, build.REQUESTS_MAX], 120),
  'X-RateLimit-Remaining': integer('Requests left in the window after this one.', 'requests', [0, build.REQUESTS_MAX], 118),
  'X-RateLimit-Reset': integer('When the window ends and the quota is whole again.', 'unix seconds', [0, build.COUNT_MAX], EPOCH_SEC),
  'X-Request-Id': text('Identifies this request in the log of the service; give it when you report a problem.', '6f1d0c3e9a5b4c7d8e2f1a0b3c4d5e6f', '^[0-9a-z]{16,32}$'),
  'RateLimit-Policy': text('The quota in the form of the IETF draft: class, requests `q`, window `w` in seconds. An operator can switch it off.', '"read";q=120;w=60'),
  RateLimit: text('What is left of it in the form of the IETF draft: requests `r`, seconds `t` to the end of the window.', '"read";r=118;t=42'),
  Deprecation: text('Since when there is a newer version (RFC 9745), in unix seconds; absent while there is none.', '@1795194360', '^@[0-9]+$'),
  Sunset: text('Date on which this version ends (RFC 8594); absent while it is the newest.', 'Sat, 20 Nov 2027 17:06:00 GMT'),
  Link: text('Related addresses (RFC 8288): pages of a list, help, or the newer version.', '</api/v1/changelog>; rel="help"'),
}
// biome-ignore format: a header each
export const OTHER_HEADERS: Record<string, HeaderObject> = {
  ETag: text('Weak validator; equal for equal data. Send it as `If-None-Match` to get 304 while nothing has changed.', 'W/"0f1e2d3c4b5a6978"', '^W/"[0-9a-f]{16}"$'),
  Vary: text('Request headers that the response depends on.', 'Accept-Encoding'),
  'Cache-Control': text('How long the response may be kept, and by whom.', 'private, max-age=15'),
  Location: text('Where the detection can be read.', '/api/v1/detections/019aa122-be00-7000-8000-000000000002'),
  'Content-Location': text('Present path of the site, if a former slug was asked for.', '/api/v1/sites/example-relay'),
  'Retry-After': integer('How long to wait before the next request.', 'seconds', [1, build.YEAR_SEC], 42),
  'WWW-Authenticate': text('Scheme by which a key can be sent.', 'Bearer'),
  'Accept-Post': text('Media type that the path accepts.', 'application/json'),
}

/** Further headers of a status. */
const STATUS_HEADERS: Record<number, string[]> = {
  401: ['WWW-Authenticate'],
  415: ['Accept-Post'],
  429: ['Retry-After'],
  503: ['Retry-After'],
}

export interface DocumentOptions {
  version: string
  isClosed: boolean // as tests want it (resources.ts)
  publicBaseUrl?: string // without a final slash; default: empty, the server is that of the document
  supportEmail?: string // default: empty, no address
}

const DESCRIPTION = `Public measurements of relay sites of AI APIs. Reading needs no key.

- **Times** are \`YYYY-MM-DDThh:mm:ssZ\`, dates \`YYYY-MM-DD\`, both UTC. **Durations** are whole numbers; names end in \`_ms\` or \`_s\`. **Ratios** are from 0 to 1. **Unknown** values are null.
- **Errors** have \`error\` for people and \`code\` for programs; \`/api/v1/codes\` has the meaning of every code. What is not parsable HTTP is answered by the HTTP parser, not in JSON.
- **Query parameters** that an endpoint does not have, that are empty or that come twice are refused with 400.
- **Quotas** are counted by address, or by API key; every response has \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\`, and 429 and 503 have \`Retry-After\`.
- **Growth**: within v1, endpoints, optional parameters, members of objects and codes may be added. Clients ignore members that they do not know. All changes but corrections are announced at least 14 days ahead in \`/api/v1/changelog\`.
- HEAD works wherever GET does; OPTIONS answers preflights of other origins.`

export function openApi(options: DocumentOptions): Json {
  const { version, isClosed, publicBaseUrl = '', supportEmail = '' } = options
  const paths: Record<string, Json> = {}
  for (const endpoint of ENDPOINTS) {
    const path = endpoint.path === '/' ? '/api/v1' : `/api/v1${endpoint.path}`
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Relay site monitor',
      version,
      summary: 'Public, read-only measurements of relay sites.',
      description: DESCRIPTION,
      contact: {
        name: 'Operator of this monitor',
        ...(publicBaseUrl !== '' && { url: `${publicBaseUrl}/about/probe` }),
        ...(supportEmail !== '' && { email: supportEmail }),
      },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: publicBaseUrl || '/', description: 'This monitor' }],
    security: [{}, { apiKey: [] }, { bearer: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    externalDocs: { url: `${publicBaseUrl}/docs`, description: 'Reference with a form for each endpoint' },
    paths,
    'x-codes-elsewhere': ERRORS_ELSEWHERE,
    components: {
      schemas: components(isClosed),
      headers: { ...HEADERS_OF_ALL, ...OTHER_HEADERS },
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description: 'Optional: an API key of the operator, for a higher quota.',
        },
        bearer: { type: 'http', scheme: 'bearer', description: 'The same key as a bearer token.' },
      },
    },
  }
}

/** Bodies that have no golden file, shortened. */
const SHORT_EXAMPLES: Record<string, unknown> = {
  getCodes: { codes: CODES.slice(0, 2) },
  getOpenApi: {
    openapi: '3.1.0',
    info: { title: 'Relay site monitor', version: '0.1.0' },
    servers: [{ url: '/' }],
    security: [{}],
    tags: [],
    externalDocs: { url: '/docs' },
    paths: {},
    'x-codes-elsewhere': {},
    components: {},
  },
}

function operation(endpoint: Endpoint): Json {
  const { id, tag, summary, description, parameters, bodySchema, success, errors } = endpoint
  const responses: Record<string, Json> = {}
  for (const [status, schema] of Object.entries(success)) {
    const example = SHORT_EXAMPLES[id] ?? EXAMPLES.bodies[id]?.[status]
    const words = `${SUCCESS[Number(status)]} ${summary}.`
    responses[status] = response(words, schema, endpoint.successHeaders ?? [], example)
  }
  if (endpoint.successHeaders?.includes('ETag')) {
    responses[304] = {
      description: 'Not modified: the copy that `If-None-Match` names is current. No body.',
      headers: headers(['ETag', 'Vary', 'Cache-Control']),
    }
  }
  for (const [status, codes] of byStatus([...errors, ...ERRORS_OF_ALL])) {
    responses[status] = errorResponse(Number(status), codes)
  }
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    parameters: [...pathParameters(endpoint.path), ...parameters.map(queryParameter)],
    ...(bodySchema && {
      requestBody: {
        description: 'The address to probe.',
        required: true,
        content: json(build.ref(bodySchema), EXAMPLES.bodies[id]?.request),
      },
    }),
    responses,
  }
}

const SUCCESS: Record<number, string> = { 200: 'OK.', 202: 'Accepted, not finished.' }

function response(description: string, schema: string, names: readonly string[], example: unknown): Json {
  return { description, headers: headers(names), content: json(build.ref(schema), example) }
}

function errorResponse(status: number, codes: ApiErrorCode[]): Json {
  return {
    description: codes.map((code) => `\`${code}\`: ${getMeaning(code)}`).join(' '),
    headers: headers(STATUS_HEADERS[status] ?? []),
    content: { 'application/json': { schema: build.ref('Error'), examples: errorExamples(codes) } },
    'x-codes': codes, // which of them this status can have here
  }
}

function headers(names: readonly string[]): Json {
  const all = [...Object.keys(HEADERS_OF_ALL), 'Cache-Control', ...names]
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

const json = (schema: unknown, example?: unknown): Json => {
  return { 'application/json': example === undefined ? { schema } : { schema, example } }
}

function errorExamples(codes: ApiErrorCode[]): Json {
  return Object.fromEntries(
    codes.map((code) => [code, { summary: getMeaning(code), value: EXAMPLES.errors[code] }]),
  )
}

function getMeaning(code: ApiErrorCode): string {
  return CODES.find((each) => each.kind === 'error' && each.code === code)!.meaning
}

function queryParameter({ name, schema }: Parameter): Json {
  return parameter(name, 'query', schema)
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => parameter(name, 'path', PATH_PARAMETERS[name]))
}

function parameter(
  name: string,
  place: 'query' | 'path',
  { description, examples, ...schema }: Schema,
): Json {
  return { name, in: place, description, required: place === 'path', schema, example: examples?.[0] }
}

function byStatus(codes: ApiErrorCode[]): [string, ApiErrorCode[]][] {
  const found: Record<string, ApiErrorCode[]> = {}
  for (const code of codes) {
    const status = ERROR_STATUS[code]
    found[status] = [...(found[status] ?? []), code]
  }
  return Object.entries(found)
}
