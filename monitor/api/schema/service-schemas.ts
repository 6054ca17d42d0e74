/** Errors, codes, quotas, the service itself, its changelog and its index, as JSON Schema (spec 1.2, 3.6). */
import {
  boolean,
  CODE,
  choice,
  count,
  date,
  exactly,
  integer,
  link,
  list,
  nullable,
  open,
  REQUESTS_MAX,
  ref,
  text,
  timestamp,
  YEAR_SEC,
} from './build.ts'
import type { Components, Schema } from './json-schema.ts'

const contact = text('Address of the operator; empty if there is none.', 'help@example.org', 254)
const keptDays = (what: string, example: number) =>
  integer(`How long ${what} are kept.`, 'days', [0, 100_000], example)
const part = (description: string, example: object): Schema => ({
  type: 'object',
  description,
  maxProperties: 1_000,
  additionalProperties: true, // stated, because generators take an object without it for a closed one
  examples: [example],
})
const measured = (place: string) => ref('MeasuredRegion', `Whether there are measurements from ${place}.`)

export const SERVICE_SCHEMAS: Components = {
  Error: exactly('An error: for people, and for programs.', {
    error: text(
      'What is wrong, in English; names the parameter. Not stable: programs use `code`.',
      'limit must be an integer from 1 to 200',
      300,
      { minLength: 1 },
    ),
    code: ref('ErrorCode'),
  }),
  CodeList: open('All codes that the API can return.', {
    codes: list('The codes, by kind.', ref('CodeEntry'), 1_000),
  }),
  CodeEntry: open('A code, its meaning, and what to do.', {
    kind: ref('CodeKind'),
    code: text('The code, unique within its kind.', 'invalid_parameter', 41, { pattern: CODE }),
    http_status: nullable(
      integer('HTTP status of the error; null for codes of other kinds.', 'number', [400, 599], 400),
    ),
    meaning: text('What the code says.', 'No endpoint has this path.', 300, { minLength: 1 }),
    action: text('What to do.', 'Take a path from the index at `/api/v1`.', 300, { minLength: 1 }),
  }),
  Limits: open('Quotas of this client.', {
    client: text('Address of the client as the service sees it, IPv6 by its prefix.', '203.0.113.7', 64),
    key: nullable(text('Identifier of the API key; null without one.', 'k_7f3a', 64)),
    limits: list('The quotas.', ref('QuotaState'), 8),
    contact,
  }),
  QuotaState: open('What is left of one quota.', {
    class: ref('QuotaClass'),
    limit: integer(
      'Requests allowed in the window; 4294967295 means no limit.',
      'requests',
      [0, REQUESTS_MAX],
      120,
    ),
    remaining: integer('Requests left in the window.', 'requests', [0, REQUESTS_MAX], 118),
    window_s: integer('Length of the window.', 'seconds', [1, YEAR_SEC], 60),
    reset: count('When the window ends and the quota is whole again.', 'unix seconds', 1_795_194_360),
  }),
  Meta: open('The service itself.', {
    service: text('Name of the service.', 'relay-site-monitor', 64),
    version: text('Version of the service.', '0.1.0', 64),
    data_version: count('Number of the published data; grows with each publication.', 'number', 7),
    generated_at: timestamp('When the data was published.', '2026-11-20T17:00:00Z'),
    sites: count('Published sites.', 'sites', 214),
    vantages: list('Places that probe.', ref('Vantage'), 1_000),
    regions: ref('MeasuredRegions'),
    probe_interval_s: integer(
      'Time between two probes of a site from one vantage.',
      'seconds',
      [60, 3_600],
      300,
    ),
    screenshots: ref('Screenshots'),
    retention: ref('Retention'),
    contact,
    methodology_url: link(
      'How scores, tiers and boards are made.',
      'https://monitor.example.org/methodology',
    ),
  }),
  Vantage: open('A place that probes.', {
    name: text('Name of the vantage.', 'main', 64),
    region: choice('Region that it counts for.', ['cn', 'overseas'], 'overseas'),
    country: nullable(text('Its country, ISO 3166-1 alpha-2; null if the operator does not say.', 'DE', 2)),
    online: boolean('Whether it reported within the last 60 seconds.'),
    last_seen: nullable(timestamp('When it last reported; null if never.')),
  }),
  MeasuredRegions: open('Regions with measurements.', {
    cn: measured('China'),
    overseas: measured('outside China'),
  }),
  MeasuredRegion: open('Whether a region is measured.', {
    measured: boolean(
      'Whether a vantage was seen there within 24 hours; if not, states of this region are `unknown`.',
    ),
  }),
  Screenshots: open('Monthly pictures of landing pages.', {
    enabled: boolean('Whether pictures are taken: they are switched on, and a usable browser was found.'),
  }),
  Retention: open('How long data is kept.', {
    raw: keptDays('single probes', 7),
    hours: keptDays('hourly measurements', 32),
    days: keptDays('daily measurements', 400),
    incidents: keptDays('incidents', 400),
    detections: keptDays('detections', 7),
  }),
  Changelog: open('Changes of the API, past and announced.', {
    entries: list('The changes, newest first.', ref('ChangelogEntry'), 1_000),
  }),
  ChangelogEntry: open('A change of the API.', {
    id: text('Identifier of the entry, never used again.', 'v1', 64, { minLength: 1 }),
    announced_on: date('Day on which the change was announced.', '2026-11-21'),
    effective_on: date(
      'Day on which it takes effect; at least 14 days later, except for `fixed`.',
      '2026-12-06',
    ),
    kind: ref('ChangeKind'),
    endpoints: list('Paths that it is about.', text('A path.', '/api/v1/sites', 128), 64),
    text: text('The change, in one or two sentences.', 'First version of the API.', 2_000, { minLength: 1 }),
  }),
  Index: open('All endpoints.', {
    endpoints: list('The endpoints.', ref('IndexEntry'), 64),
  }),
  IndexEntry: open('An endpoint.', {
    method: choice('Method of the endpoint; HEAD works where GET does.', ['GET', 'POST']),
    path: text('Path with its parameters in braces.', '/api/v1/sites/{slug}', 128),
    summary: text('What it returns.', 'One site with its history', 200),
  }),
  OpenApi: open('An OpenAPI 3.1 document; the OpenAPI Initiative has its whole schema.', {
    openapi: text('Version of the format.', '3.1.0', 16, { pattern: '^3\\.1\\.[0-9]{1,3}$' }),
    info: part('Title, version, description, contact and licence.', {
      title: 'Relay site monitor',
      version: '0.1.0',
    }),
    servers: list('Where the API is served.', part('A server.', { url: '/' }), 8),
    security: list('Ways to authenticate, each of them optional.', part('A way.', { apiKey: [] }), 8),
    tags: list('Groups of operations.', part('A group.', { name: 'Sites', description: 'Relay sites.' }), 64),
    externalDocs: part('The reference for people.', { url: '/docs' }),
    paths: part('The operations, by path and method.', { '/api/v1/meta': {} }),
    'x-codes-elsewhere': part('Error codes of requests that reach no operation.', {
      not_found: 'Any path under `/api/` that is not here.',
    }),
    components: part('Schemas, headers and security schemes that the rest refers to.', { schemas: {} }),
  }),
}
