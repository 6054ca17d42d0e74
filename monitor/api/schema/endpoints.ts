/**
 * Every path of v1 with its parameters, bodies and errors (spec 3). The router, the validation of queries and the OpenAPI
 * document use this table.
 */
import type { ApiErrorCode } from '../errors.ts'
import type { Schema } from './json-schema.ts'

export interface Parameter {
  name: string
  schema: Schema // an enum, an integer with bounds, or a text with bounds
  description: string
}

export interface Endpoint {
  id: string // operationId, never changed within v1
  method: 'GET' | 'POST'
  path: string // below /api/v1
  summary: string
  parameters: readonly Parameter[] // of the query
  bodySchema?: string
  success: Readonly<Record<number, string>> // status → schema
  errors: readonly ApiErrorCode[] // besides those of all (openapi.ts)
  successHeaders?: readonly string[] // besides those of every response
}

const choice = (name: string, values: string[], description: string, byDefault?: string): Parameter => ({
  name,
  schema: { type: 'string', enum: values, ...(byDefault && { default: byDefault }) },
  description,
})
const integer = (
  name: string,
  [minimum, maximum]: [number, number],
  description: string,
  byDefault?: number,
): Parameter => ({
  name,
  schema: { type: 'integer', minimum, maximum, ...(byDefault !== undefined && { default: byDefault }) },
  description,
})
const text = (name: string, maxLength: number, description: string): Parameter => ({
  name,
  schema: { type: 'string', minLength: 1, maxLength },
  description,
})

export const HISTORY = choice(
  'history',
  ['hour', 'day', 'raw'],
  'Points of an hour, of a day, or single probes of the last 48 hours.',
  'hour',
)

const SITES_QUERY: Parameter[] = [
  choice('tier', ['S', 'A', 'B', 'C', 'D'], 'Only sites of this tier.'),
  choice('region', ['cn', 'overseas', 'both'], 'Only sites measured reachable from there.'),
  integer('limit', [1, 200], 'At most so many sites.', 50),
  integer('offset', [0, 1_000_000], 'So many sites are left out first.', 0),
  choice(
    'sort',
    ['rank', 'name', 'first_seen', 'last_probed', 'availability', 'latency'],
    'What the list is ordered by; equals by slug.',
    'rank',
  ),
  choice('order', ['asc', 'desc'], 'Default: best, first or newest come first.'),
  text('q', 64, 'Part of the name, the slug or the host, in any case.'),
  text('software', 128, 'Only sites that run this software.'),
  text('model', 128, 'Only sites that claim or list this model, in any spelling of it.'),
  choice('status', ['up', 'degraded', 'down'], 'Only sites whose newest probe found this.'),
  choice('include', ['summary'], 'Adds an object `summary` to each site.'),
]

const siteEndpoint: ApiErrorCode[] = ['site_not_found']

const SUBMIT_ERRORS: ApiErrorCode[] = [
  ...(['invalid_request', 'invalid_url', 'request_timeout', 'payload_too_large'] as const),
  ...(['unsupported_media_type', 'target_not_allowed', 'too_many_pending', 'target_cooldown'] as const),
  ...(['queue_full', 'detections_disabled'] as const),
]

const get = (
  id: string,
  path: string,
  summary: string,
  schema: string,
  more: Partial<Endpoint> = {},
): Endpoint => ({
  id,
  method: 'GET',
  path,
  summary,
  parameters: [],
  success: { 200: schema },
  errors: [],
  ...more,
})

const CACHED = ['ETag', 'Vary', 'Cache-Control']

export const ENDPOINTS: readonly Endpoint[] = [
  get('getIndex', '/', 'All endpoints', 'Index', { successHeaders: [...CACHED, 'Link'] }),
  get('listSites', '/sites', 'Relay sites, best first', 'SiteList', {
    parameters: SITES_QUERY,
    successHeaders: [...CACHED, 'Link'],
  }),
  get('getSite', '/sites/{slug}', 'One site with its history', 'SiteDetail', {
    parameters: [HISTORY],
    errors: siteEndpoint,
    successHeaders: [...CACHED, 'Content-Location'],
  }),
  get('getSiteScore', '/sites/{slug}/score', 'Why a site has its tier', 'SiteScore', {
    errors: siteEndpoint,
    successHeaders: CACHED,
  }),
  get('getSiteHistory', '/sites/{slug}/history', 'Probes of a site, by region', 'SiteHistory', {
    parameters: [
      integer('days', [1, 30], 'How far back.', 30),
      HISTORY,
      choice('region', ['cn', 'overseas', 'all'], 'From where; `all` is the better one of both.', 'all'),
    ],
    errors: siteEndpoint,
    successHeaders: CACHED,
  }),
  get('getSiteModels', '/sites/{slug}/models', 'Models of a site, and which came and went', 'SiteModels', {
    errors: siteEndpoint,
    successHeaders: CACHED,
  }),
  get('getSiteIncidents', '/sites/{slug}/incidents', 'When a site was down', 'SiteIncidents', {
    errors: siteEndpoint,
    successHeaders: CACHED,
  }),
  get('listModels', '/models', 'Models, and how many sites claim or list each', 'ModelList', {
    parameters: [
      text('q', 64, 'Part of the id, in any case.'),
      integer('limit', [1, 200], 'At most so many models.', 50),
      integer('offset', [0, 1_000_000], 'So many models are left out first.', 0),
    ],
    successHeaders: [...CACHED, 'Link'],
  }),
  get('getLeaderboard', '/leaderboard', 'The best sites, or those to be warned of', 'Leaderboard', {
    parameters: [
      choice('board', ['red', 'black'], '`red` for the best, `black` as a warning.', 'red'),
      integer('limit', [1, 100], 'At most so many entries.', 10),
    ],
    successHeaders: CACHED,
  }),
  {
    id: 'submitDetection',
    method: 'POST',
    path: '/detections',
    summary: 'Submit a URL to be probed',
    parameters: [],
    bodySchema: 'DetectionRequest',
    success: { 200: 'Detection', 202: 'Detection' },
    errors: SUBMIT_ERRORS,
    successHeaders: ['Location', 'Retry-After', 'Cache-Control'],
  },
  get('getDetection', '/detections/{id}', 'How far a detection is, and what it found', 'Detection', {
    parameters: [
      integer('wait', [0, 25], 'Holds the answer for so many seconds, until there is news.', 0),
      integer('since', [0, 999_999_999], 'News is a version above this one; default the one there is.'),
    ],
    errors: ['detection_not_found', 'detection_expired'],
    successHeaders: ['Retry-After', 'Cache-Control'],
  }),
  get('getLimits', '/limits', 'What is left of your quotas; costs nothing', 'Limits', {
    successHeaders: ['Cache-Control'],
  }),
  get('getMeta', '/meta', 'The service itself', 'Meta', { successHeaders: CACHED }),
  get('getChangelog', '/changelog', 'What changed, and what will', 'Changelog', { successHeaders: CACHED }),
  get('getOpenApi', '/openapi.json', 'This document', 'OpenApi', { successHeaders: CACHED }),
]
