/**
 * The OpenAPI 3.1 document (spec 10), generated from the tables that the code runs on: endpoints.ts, resources.ts,
 * errors.ts.
 */
import { readFileSync } from 'node:fs'
import { type ApiErrorCode, ERROR_STATUS } from '../errors.ts'
import { ENDPOINTS, type Endpoint, type Parameter } from './endpoints.ts'
import { components, ref, SLUG, UUID_V7 } from './resources.ts'

type Json = Record<string, unknown>

/** Errors of every operation: a malformed query string, a wrong key, a shutdown. */
const ERRORS_OF_ALL: ApiErrorCode[] = [
  ...(['invalid_parameter', 'invalid_api_key', 'version_retired'] as const),
  ...(['rate_limited', 'internal_error', 'not_ready'] as const),
]

/** Errors of no operation: no route was found. */
const ERRORS_ELSEWHERE: Partial<Record<ApiErrorCode, string>> = {
  not_found: 'Any path under /api/ that is not here.',
  unknown_version: 'Any path of a version that is not served.',
  method_not_allowed: 'Any method that a path here does not have; `Allow` tells those it has.',
}

interface Examples {
  bodies: Record<string, Record<string, unknown>> // operationId → status, or `request`
  errors: Record<string, unknown> // code →
}
/** Examples from the golden files of the tests, which compare them. */
const EXAMPLES: Examples = JSON.parse(readFileSync(new URL('./examples.json', import.meta.url), 'utf8'))

const REQUESTS_MAX = 2 ** 32 - 1 // the maximum of a rule, and the value for "unlimited"
const RETRY_SEC_MAX = 31_536_000 // the longest window, a year

const integer = (description: string, maximum: number, minimum = 0) => {
  return { description, schema: { type: 'integer', minimum, maximum } }
}
const text = (description: string, pattern?: string) => ({
  description,
  schema: { type: 'string', ...(pattern && { pattern }) },
})

/** On every response. */
const HEADERS_OF_ALL: Record<string, Json> = {
  'X-RateLimit-Limit': integer('Requests allowed in the window for this class of request.', REQUESTS_MAX),
  'X-RateLimit-Remaining': integer('Requests left after this one.', REQUESTS_MAX),
  'X-RateLimit-Reset': integer('Unix seconds at which the window resets.', Number.MAX_SAFE_INTEGER),
  'X-Request-Id': text('Names this request in our log.', '^[0-9a-z]{16,32}$'),
  'RateLimit-Policy': text('The same limit as the IETF draft writes it; an operator can switch it off.'),
  RateLimit: text('What is left of it, likewise.'),
  Deprecation: text(
    'RFC 9745: since when there is a newer version; absent while there is none.',
    '^@[0-9]+$',
  ),
  Sunset: text('RFC 8594: the day from which this version is no longer served; likewise.'),
  Link: text('RFC 8288: pages of a list, help, or the newer version.'),
}
const OTHER_HEADERS: Record<string, Json> = {
  ETag: text('Weak; equal for equal data.', '^W/"[0-9a-f]{16}"$'),
  Vary: text('Accept-Encoding.'),
  'Cache-Control': text('How long this may be kept, and by whom.'),
  Location: text('Where the detection is to be read.'),
  'Content-Location': text('Where the site is, when it was asked for by an alias.'),
  'Retry-After': integer('Seconds to wait.', RETRY_SEC_MAX, 1),
  'WWW-Authenticate': text('Bearer.'),
  'Accept-Post': text('application/json.'),
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
}

export function openApi({ version, isClosed }: DocumentOptions): Json {
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
      description:
        'Errors are `error` and `code`. What is not parsable HTTP is answered by the parser, not in JSON.',
    },
    servers: [{ url: '/' }],
    security: [{}, { apiKey: [] }, { bearer: [] }],
    paths,
    'x-codes-elsewhere': ERRORS_ELSEWHERE,
    components: {
      schemas: components(isClosed),
      headers: { ...HEADERS_OF_ALL, ...OTHER_HEADERS },
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        bearer: { type: 'http', scheme: 'bearer' },
      },
    },
  }
}

function operation(endpoint: Endpoint): Json {
  const { id, summary, parameters, bodySchema, success, errors } = endpoint
  const responses: Record<string, Json> = {}
  for (const [status, schema] of Object.entries(success)) {
    const example = EXAMPLES.bodies[id]?.[status]
    responses[status] = response(summary, schema, endpoint.successHeaders ?? [], example)
  }
  if (endpoint.successHeaders?.includes('ETag')) {
    responses[304] = { description: 'Not modified.', headers: headers(['ETag', 'Vary', 'Cache-Control']) }
  }
  for (const [status, codes] of byStatus([...errors, ...ERRORS_OF_ALL])) {
    responses[status] = errorResponse(Number(status), codes)
  }
  return {
    operationId: id,
    summary,
    parameters: [...pathParameters(endpoint.path), ...parameters.map(queryParameter)],
    ...(bodySchema && {
      requestBody: { required: true, content: json(ref(bodySchema), EXAMPLES.bodies[id]?.request) },
    }),
    responses,
  }
}

function response(description: string, schema: string, names: readonly string[], example: unknown): Json {
  return { description, headers: headers(names), content: json(ref(schema), example) }
}

function errorResponse(status: number, codes: ApiErrorCode[]): Json {
  return {
    description: codes.map((code) => `\`${code}\``).join(', '),
    headers: headers(STATUS_HEADERS[status] ?? []),
    content: { 'application/json': { schema: ref('Error'), examples: errorExamples(codes) } },
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
  return Object.fromEntries(codes.map((code) => [code, { value: EXAMPLES.errors[code] }]))
}

function queryParameter({ name, schema, description }: Parameter): Json {
  return { name, in: 'query', description, required: false, schema }
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: name === 'slug' ? 'Slug of a site, or one that it had.' : 'Id of a detection, a UUIDv7.',
    schema: { type: 'string', maxLength: 63, pattern: name === 'slug' ? SLUG : UUID_V7 },
  }))
}

function byStatus(codes: ApiErrorCode[]): [string, ApiErrorCode[]][] {
  const found: Record<string, ApiErrorCode[]> = {}
  for (const code of codes) {
    const status = ERROR_STATUS[code]
    found[status] = [...(found[status] ?? []), code]
  }
  return Object.entries(found)
}
