/**
 * Every path of v1 with its parameters, bodies and errors (spec 3). The router, the validation of queries and the OpenAPI
 * document use this table.
 */
import type { ApiErrorCode } from '../errors.ts'
import * as build from './build.ts'
import { detectionId } from './detection-schemas.ts'
import { BOARDS, STATUSES } from './enumerations.ts'
import type { Schema } from './json-schema.ts'

export interface Parameter {
  name: string
  schema: Schema // an enum, an integer with bounds, or a text with bounds; with description, example and default
}

export interface Endpoint {
  id: string // operationId, never changed within v1
  method: 'GET' | 'POST'
  path: string // below /api/v1
  tag: Tag
  summary: string
  description: string // Markdown, as in the OpenAPI document
  parameters: readonly Parameter[] // of the query
  bodySchema?: string
  success: Readonly<Record<number, string>> // status → schema
  errors: readonly ApiErrorCode[] // besides those of all (openapi.ts)
  successHeaders?: readonly string[] // besides those of every response
}

export const TAGS = {
  Sites: 'Relay sites: lists, measurements, models, and why a site has its tier.',
  Boards: 'The best sites, and those to be warned of.',
  Detections: 'Probe an address once, on request.',
  Service: 'The service itself: quotas, codes, changes, and this document.',
} as const
export type Tag = keyof typeof TAGS

const choice = (
  name: string,
  values: readonly string[],
  description: string,
  byDefault?: string,
): Parameter => ({
  name,
  schema: {
    ...build.choice(description, values, byDefault),
    ...(byDefault !== undefined && { default: byDefault }),
  },
})
const integer = (
  name: string,
  range: [number, number],
  unit: build.Unit,
  description: string,
  { example, byDefault }: { example?: number; byDefault?: number },
): Parameter => ({
  name,
  schema: {
    ...build.integer(description, unit, range, example ?? byDefault ?? range[0]),
    ...(byDefault !== undefined && { default: byDefault }),
  },
})
const text = (name: string, maxLength: number, example: string, description: string): Parameter => ({
  name,
  schema: build.text(description, example, maxLength, { minLength: 1 }),
})
const pages = (what: string, unit: build.Unit): Parameter[] => [
  integer('limit', [1, 200], unit, `How many ${what} a page has at most.`, { byDefault: 50, example: 20 }),
  integer('offset', [0, 1_000_000], unit, `How many ${what} to skip.`, {
    byDefault: 0,
    example: 40,
  }),
]

/** Of one site; `hour` and `day` are older names of `full` and `days`. */
const SITE_HISTORY = choice(
  'history',
  ['none', 'days', 'full', 'hour', 'day', 'raw'],
  'What `probe_history` holds: `days` one point for each of the last 30 days (at most 31), `full` one for each hour of them (at most 721), `none` an empty array, `raw` the newest 500 single probes of the last 48 hours. `hour` is the same as `full`, `day` the same as `days`.',
  'days',
)

const HISTORY = choice(
  'history',
  ['hour', 'day', 'raw'],
  'One point for each hour, for each day, or for each of the newest 500 single probes of the last 48 hours.',
  'hour',
)

const SITES_QUERY: Parameter[] = [
  choice('tier', ['S', 'A', 'B', 'C', 'D'], 'Only sites of this tier.'),
  choice(
    'region',
    ['cn', 'overseas', 'both'],
    'Only sites that were measured reachable from China, from outside China, or from both.',
  ),
  ...pages('sites', 'sites'),
  choice(
    'sort',
    ['rank', 'name', 'first_seen', 'last_probed', 'availability', 'latency'],
    'What the list is ordered by; ties by slug, unknown values last. `rank` is by tier, then by score; `availability` is that of 30 days, `latency` the median first byte of 7 days.',
    'rank',
  ),
  choice(
    'order',
    ['asc', 'desc'],
    'Direction. Without it each key has its own: best first for `rank`, `availability` and `latency`, newest first for the times, A to Z for `name`.',
  ),
  text('q', 64, 'relay', 'Part of the name, the slug or the host, in any case.'),
  text('software', 128, 'new-api', 'Only sites that run this software, as `software` of a summary names it.'),
  text(
    'model',
    128,
    'gpt-5.4',
    'Only sites that claim or list this model; case, `models/` and `vendor/` before it do not matter.',
  ),
  choice(
    'status',
    STATUSES,
    'Only sites with this status: the better one of the newest probes from China and from outside China.',
  ),
  choice('include', ['summary'], 'Adds the member `summary` to each site.'),
]

export const PATH_PARAMETERS: Readonly<Record<string, Schema>> = {
  slug: build.slug('Slug of a site, as in the list; former slugs of a site work, too.'),
  id: detectionId,
}

const siteEndpoint: ApiErrorCode[] = ['site_not_found']

const SUBMIT_ERRORS: ApiErrorCode[] = [
  ...(['invalid_request', 'invalid_url', 'request_timeout', 'payload_too_large'] as const),
  ...(['unsupported_media_type', 'target_not_allowed', 'too_many_pending', 'target_cooldown'] as const),
  ...(['queue_full', 'detections_disabled'] as const),
]

const CACHED = ['ETag', 'Vary', 'Cache-Control']

const get = (
  id: string,
  tag: Tag,
  path: string,
  schema: string,
  { summary, description, ...more }: Pick<Endpoint, 'summary' | 'description'> & Partial<Endpoint>,
): Endpoint => ({
  ...{ id, tag, method: 'GET', path, summary, description },
  ...{ parameters: [], success: { 200: schema }, errors: [], successHeaders: CACHED, ...more },
})

export const ENDPOINTS: readonly Endpoint[] = [
  get('getIndex', 'Service', '/', 'Index', {
    summary: 'All endpoints',
    description: 'The endpoints of this version. `Link: rel="help"` leads to the changelog.',
    successHeaders: [...CACHED, 'Link'],
  }),
  get('listSites', 'Sites', '/sites', 'SiteList', {
    summary: 'Relay sites, best first',
    description:
      'Published sites that match all filters, one page at a time. Pages never overlap within one data version; `Link` names the others. Without `include`, a site has exactly the eight members that are required.',
    parameters: SITES_QUERY,
    successHeaders: [...CACHED, 'Link'],
  }),
  get('getSite', 'Sites', '/sites/{slug}', 'SiteDetail', {
    summary: 'One site with its history',
    description:
      'A site with its measurements, models and network. A former slug answers with the site, too; `Content-Location` then has its present path.',
    parameters: [SITE_HISTORY],
    errors: siteEndpoint,
    successHeaders: [...CACHED, 'Content-Location'],
  }),
  get('getSiteScore', 'Sites', '/sites/{slug}/score', 'SiteScore', {
    summary: 'Why a site has its tier',
    description:
      'The parts of the score with what they were computed from, and the caps that limit the tier.',
    errors: siteEndpoint,
  }),
  get('getSiteHistory', 'Sites', '/sites/{slug}/history', 'SiteHistory', {
    summary: 'Probes of a site, by region',
    description: 'Measurements of a span of choice, from one region or from the better one of both.',
    parameters: [
      integer('days', [1, 30], 'days', 'How far back the span reaches.', { byDefault: 30, example: 7 }),
      HISTORY,
      choice(
        'region',
        ['cn', 'overseas', 'all'],
        'From where: China, outside China, or for each period the better one of both.',
        'all',
      ),
    ],
    errors: siteEndpoint,
  }),
  get('getSiteModels', 'Sites', '/sites/{slug}/models', 'SiteModels', {
    summary: 'Models of a site, and which came and went',
    description:
      'Every model that was ever observed, whether it is claimed and listed now, and the changes of the last 90 days.',
    errors: siteEndpoint,
  }),
  get('getSiteIncidents', 'Sites', '/sites/{slug}/incidents', 'SiteIncidents', {
    summary: 'When a site was down',
    description: 'Incidents of the last 400 days with their cause, newest first.',
    errors: siteEndpoint,
  }),
  get('listModels', 'Sites', '/models', 'ModelList', {
    summary: 'Models, and how many sites claim or list each',
    description: 'Models of all published sites, those of most sites first, one page at a time.',
    parameters: [text('q', 64, 'gpt', 'Part of the identifier, in any case.'), ...pages('models', 'items')],
    successHeaders: [...CACHED, 'Link'],
  }),
  get('getLeaderboard', 'Boards', '/leaderboard', 'Leaderboard', {
    summary: 'The best sites, or those to be warned of',
    description:
      'One of the two boards, with the reasons for each entry. A site is on at most one of them. Entries of the black board link their evidence and where to report a mistake.',
    parameters: [
      choice('board', BOARDS, '`red` for the best sites, `black` for warnings.', 'red'),
      integer('limit', [1, 100], 'sites', 'How many entries to return at most.', { byDefault: 10 }),
    ],
  }),
  {
    id: 'submitDetection',
    method: 'POST',
    path: '/detections',
    tag: 'Detections',
    summary: 'Submit a URL to be probed',
    description:
      'Queues a probe of the address and answers at once with 202; follow it at `Location`. The same address again, while its probe is unfinished or for 10 minutes after it, unless the operator set another time, returns the same detection: 200 with the result if it has ended, else 202. So a repeat is safe. The address is checked without DNS here; a name that resolves to an address that is not public fails the detection later.',
    parameters: [],
    bodySchema: 'DetectionRequest',
    success: { 200: 'Detection', 202: 'Detection' },
    errors: SUBMIT_ERRORS,
    successHeaders: ['Location', 'Retry-After', 'Cache-Control'],
  },
  get('getDetection', 'Detections', '/detections/{id}', 'Detection', {
    summary: 'How far a detection is, and what it found',
    description:
      'The detection as it is now, or as soon as it changes: with `wait` the answer is held until `version` is above `since`. At most 2 requests of a client are held; a third is answered at once. Unfinished detections have `Retry-After`.',
    parameters: [
      integer('wait', [0, 25], 'seconds', 'How long to hold the answer at most, until the version changes.', {
        byDefault: 0,
        example: 20,
      }),
      integer(
        'since',
        [0, 999_999_999],
        'number',
        'The `version` that the client knows; news is a higher one. Without it, the version at the arrival of the request.',
        { example: 3 },
      ),
    ],
    errors: ['detection_not_found', 'detection_expired'],
    successHeaders: ['Retry-After', 'Cache-Control'],
  }),
  get('getLimits', 'Service', '/limits', 'Limits', {
    summary: 'What is left of your quotas; costs nothing',
    description: 'The quotas of this client, by address or by API key. The request itself is not counted.',
    successHeaders: ['Cache-Control'],
  }),
  get('getMeta', 'Service', '/meta', 'Meta', {
    summary: 'The service itself',
    description: 'Version, age of the data, vantages, which regions are measured, and how long data is kept.',
  }),
  get('getCodes', 'Service', '/codes', 'CodeList', {
    summary: 'What each code means, and what to do',
    description:
      'Every code of this version: of errors, causes, caps, reasons, notices and quotas. The list grows within v1; nothing in it is removed or renamed.',
  }),
  get('getChangelog', 'Service', '/changelog', 'Changelog', {
    summary: 'What changed, and what will',
    description:
      'Changes of the API. All but corrections are announced at least 14 days before they take effect.',
  }),
  get('getOpenApi', 'Service', '/openapi.json', 'OpenApi', {
    summary: 'This document',
    description: 'The API as an OpenAPI 3.1 document.',
  }),
]
