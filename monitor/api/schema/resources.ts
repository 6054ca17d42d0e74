/**
 * Every body that the API sends or accepts, as JSON Schema (spec 2, 3, 10). Validation, tests and the OpenAPI document use them.
 *
 *     exactly({…})   exactly these members, by the source contract
 *     open({…})      members may be added within v1; closed in tests (`components(true)`), open in the document
 */
import { CAPS } from '../../scoring/tier.ts'
import type { Components, Schema } from './json-schema.ts'

const OPEN = Symbol('open')
type Members = Record<string, Schema>
type OpenSchema = Schema & { [OPEN]?: true }

const exactly = (properties: Members, optional: string[] = []): Schema => ({
  type: 'object',
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
  additionalProperties: false,
  properties,
})
const open = (properties: Members): Schema => ({ ...exactly(properties), [OPEN]: true }) as OpenSchema
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })
const nullable = (schema: Schema): Schema => ({ anyOf: [schema, { type: 'null' }] })
const list = (items: Schema, maxItems: number, more: Schema = {}): Schema => ({
  type: 'array',
  maxItems,
  items,
  ...more,
})
const text = (maxLength: number): Schema => ({ type: 'string', maxLength })
const integer = (minimum: number, maximum: number): Schema => ({ type: 'integer', minimum, maximum })
const anyCount = integer(0, 2 ** 53 - 1)
const ratio: Schema = { type: 'number', minimum: 0, maximum: 1 }
const boolean: Schema = { type: 'boolean' }
const date: Schema = { type: 'string', format: 'date', pattern: '^\\d{4}-\\d\\d-\\d\\d$', maxLength: 10 }
const TIMESTAMP = '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$'
const timestamp: Schema = { type: 'string', pattern: TIMESTAMP, maxLength: 20 }
const durationMs = nullable(integer(0, 600_000))
const openEnum = (maxLength = 64): Schema => ({ type: 'string', minLength: 1, maxLength })
const models = list({ type: 'string', minLength: 1, maxLength: 128 }, 10_000, { uniqueItems: true })
export const UUID_V7 = '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
export const SLUG = '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'
const url: Schema = { type: 'string', format: 'uri', minLength: 1, maxLength: 2_048 }
const status: Schema = { enum: ['up', 'degraded', 'down'] }
const checkedAt: Schema = {
  ...nullable(timestamp),
  description: 'End of the newest probe behind the state; up to 24 hours ago while no vantage is online.',
}
const state: Schema = { enum: ['reachable', 'unreachable', 'unknown'] }

const SITE: Members = {
  slug: { type: 'string', pattern: SLUG, minLength: 1, maxLength: 63 },
  name: { type: 'string', minLength: 1, maxLength: 80 },
  tier: ref('Tier'),
  url,
  first_seen: date,
  last_probed: timestamp,
  reachable_cn: boolean,
  reachable_overseas: boolean,
}

const SITES: Components = {
  Error: exactly({
    error: { type: 'string', minLength: 1, maxLength: 300 },
    code: { type: 'string', pattern: '^[a-z][a-z0-9_]{2,40}$', maxLength: 41 },
  }),
  Tier: { enum: ['S', 'A', 'B', 'C', 'D'] },
  Site: exactly(SITE),
  SiteWithSummary: exactly({ ...SITE, summary: ref('SiteSummary') }),
  SiteSummary: open({
    score: { type: 'number', minimum: 0, maximum: 100 },
    availability_7d: nullable(ratio),
    availability_30d: nullable(ratio),
    latency_p50_ms: durationMs,
    status,
    software: openEnum(),
    china_state: state,
    china_checked_at: checkedAt,
    overseas_state: state,
    overseas_checked_at: checkedAt,
    days: list(nullable(ratio), 30, { minItems: 30 }),
  }),
  SiteList: exactly({
    total: anyCount,
    sites: list({ anyOf: [ref('Site'), ref('SiteWithSummary')] }, 200),
  }),
  SiteDetail: exactly({
    ...SITE,
    probe_history: list(ref('ProbePoint'), 721),
    model_list_claimed: models,
    model_list_verified: models,
    network_profile: ref('NetworkProfile'),
    screenshot_url: nullable(text(2_048)),
  }),
  ProbePoint: open({
    at: timestamp,
    window_s: { enum: [0, 3_600, 86_400] },
    status,
    probes: integer(1, 1_000_000_000),
    up: anyCount,
    degraded: anyCount,
    down: anyCount,
    availability: ratio,
    http_status: nullable(integer(100, 999)),
    latency_ms: open({
      dns: durationMs,
      connect: durationMs,
      tls: durationMs,
      ttfb: durationMs,
      total: durationMs,
    }),
    errors: { type: 'object', maxProperties: 64, additionalProperties: integer(1, 1_000_000_000) },
  }),
}

const NETWORK: Components = {
  NetworkProfile: open({
    cdn: open({
      detected: boolean,
      provider: nullable(openEnum()),
      evidence: list(text(128), 64),
    }),
    asn: open({
      number: nullable(integer(0, 4_294_967_295)),
      name: nullable(text(128)),
      country: nullable({ type: 'string', pattern: '^[A-Z]{2}$', maxLength: 2 }),
    }),
    ips: list(text(45), 8),
    ipv6: boolean,
    china: ref('RegionState'),
    overseas: ref('RegionState'),
    tls: nullable(ref('Certificate')),
    software: open({ name: openEnum(), version: nullable(text(64)), confidence: ratio }),
    observed_at: timestamp,
  }),
  RegionState: open({
    reachable: boolean,
    state,
    blocking: { enum: ['none', 'dns', 'tcp', 'tls', 'http', 'unknown'] },
    vantages: integer(0, 10_000),
    agreeing: integer(0, 10_000),
    checked_at: checkedAt,
  }),
  Certificate: open({
    version: text(16),
    issuer: text(256),
    not_after: timestamp,
    valid: boolean,
    days_left: integer(-1_000_000, 1_000_000),
    alpn: nullable(text(32)),
  }),
}

const SUB_RESOURCES: Components = {
  SiteScore: open({
    score: { type: 'number', minimum: 0, maximum: 100 },
    tier: ref('Tier'),
    provisional: boolean,
    components: list(
      open({
        key: openEnum(),
        weight: { type: 'number', minimum: 0, maximum: 100 },
        value: nullable(ratio),
        inputs: {
          type: 'object',
          maxProperties: 32,
          additionalProperties: nullable({ type: 'number', minimum: 0, maximum: 1e9 }),
        },
      }),
      16,
    ),
    caps: list(open({ code: openEnum(), max_tier: ref('Tier') }), Object.keys(CAPS).length),
    availability_peak_30d: nullable(ratio),
    computed_at: timestamp,
    method: openEnum(),
  }),
  SiteHistory: open({ from: timestamp, to: timestamp, points: list(ref('ProbePoint'), 721) }),
  SiteModels: open({
    models: list(
      open({
        id: openEnum(128),
        claimed: boolean,
        verified: boolean,
        source: list(openEnum(), 3),
        first_seen: timestamp,
        last_seen: timestamp,
      }),
      10_000,
    ),
    changes: list(open({ at: timestamp, change: { enum: ['added', 'removed'] }, id: openEnum(128) }), 1_000),
  }),
  SiteIncidents: open({
    incidents: list(
      open({
        id: anyCount,
        started_at: timestamp,
        ended_at: nullable(timestamp),
        duration_s: anyCount,
        region: { enum: ['cn', 'overseas', 'all'] },
        cause: openEnum(),
        vantages: integer(0, 10_000),
      }),
      1_000,
    ),
  }),
  ModelList: open({
    total: anyCount,
    models: list(
      open({
        id: {
          ...openEnum(128),
          description: 'The form in which models are compared: lower case, without `models/` and `vendor/`.',
        },
        sites: integer(1, 100_000),
        verified_sites: list({ type: 'string', pattern: SLUG, maxLength: 63 }, 50),
      }),
      200,
    ),
  }),
  Leaderboard: exactly({
    board: { enum: ['red', 'black'] },
    generated_at: timestamp,
    window_days: { const: 30 },
    total: anyCount,
    entries: list(ref('LeaderboardEntry'), 100),
  }),
  LeaderboardEntry: exactly(
    {
      ...SITE,
      rank: integer(1, 100_000),
      rank_change: nullable(integer(-100_000, 100_000)),
      score: { type: 'number', minimum: 0, maximum: 100 },
      availability_7d: nullable(ratio),
      availability_30d: nullable(ratio),
      latency_p50_ms: durationMs,
      models_claimed: integer(0, 10_000),
      models_verified: integer(0, 10_000),
      since: date,
      reasons: list(openEnum(), 32, { minItems: 1 }),
      evidence_url: { ...text(2_048), description: 'Black board only: the evidence for the warning.' },
      appeal_url: {
        ...nullable(text(512)),
        description: 'Black board only: where to report a mistake; null if the operator gives no address.',
      },
    },
    ['evidence_url', 'appeal_url'],
  ),
}

const DETECTIONS: Components = {
  DetectionRequest: exactly({ url: { type: 'string', minLength: 1, maxLength: 2_048 } }),
  Detection: open({
    id: { type: 'string', pattern: UUID_V7, maxLength: 36 },
    url,
    status: { enum: ['queued', 'running', 'done', 'failed'] },
    version: integer(1, 1_000_000),
    submitted_at: timestamp,
    started_at: nullable(timestamp),
    finished_at: nullable(timestamp),
    expires_at: timestamp,
    queue_position: nullable(integer(1, 100_000)),
    steps: list(ref('DetectionStep'), 16),
    result: nullable(ref('DetectionResult')),
    error: nullable(open({ code: openEnum(), message: text(300) })),
    site_slug: nullable({ type: 'string', pattern: SLUG, maxLength: 63 }),
  }),
  DetectionStep: open({
    name: { enum: ['resolve', 'connect', 'tls', 'landing', 'listing', 'fingerprint', 'network', 'summary'] },
    status: { enum: ['pending', 'running', 'ok', 'warn', 'error', 'skipped'] },
    ms: durationMs,
    detail: nullable(text(160)),
  }),
  DetectionResult: open({
    verdict: { enum: ['relay', 'compatible_api', 'not_relay', 'blocked', 'unreachable'] },
    confidence: ratio,
    status,
    estimated_tier: nullable({ enum: ['B', 'C', 'D'] }),
    probe: ref('ProbePoint'),
    models: list({ type: 'string', minLength: 1, maxLength: 128 }, 2_000, { uniqueItems: true }),
    models_total: integer(0, 1_000_000),
    listing_auth: { enum: ['open', 'key_required', 'absent'] },
    network_profile: ref('NetworkProfile'),
    notices: list(openEnum(), 32),
    vantage: text(64),
  }),
}

const SMALL: Components = {
  Limits: open({
    client: text(64),
    key: nullable(text(64)),
    limits: list(
      open({
        class: openEnum(),
        limit: integer(0, 4_294_967_295),
        remaining: integer(0, 4_294_967_295),
        window_s: integer(1, 31_536_000),
        reset: anyCount,
      }),
      8,
    ),
    contact: text(254),
  }),
  Meta: open({
    service: text(64),
    version: text(64),
    data_version: anyCount,
    generated_at: timestamp,
    sites: anyCount,
    vantages: list(
      open({
        name: text(64),
        region: { enum: ['cn', 'overseas'] },
        country: nullable(text(2)),
        online: boolean,
        last_seen: nullable(timestamp),
      }),
      1_000,
    ),
    regions: open({ cn: open({ measured: boolean }), overseas: open({ measured: boolean }) }),
    probe_interval_s: integer(60, 3_600),
    screenshots: open({ enabled: boolean }),
    retention: { type: 'object', maxProperties: 32, additionalProperties: integer(0, 100_000) },
    contact: text(254),
    methodology_url: text(2_048),
  }),
  Changelog: open({ entries: list(ref('ChangelogEntry'), 1_000) }),
  ChangelogEntry: open({
    id: openEnum(),
    announced_on: date,
    effective_on: date,
    kind: { enum: ['added', 'changed', 'deprecated', 'removed', 'fixed'] },
    endpoints: list(text(128), 64),
    text: { type: 'string', minLength: 1, maxLength: 2_000 },
  }),
  Index: open({ endpoints: list(open({ method: text(8), path: text(128), summary: text(200) }), 64) }),
  OpenApi: { type: 'object', required: ['openapi', 'info', 'paths', 'components'] },
}

const ALL = { ...SITES, ...NETWORK, ...SUB_RESOURCES, ...DETECTIONS, ...SMALL }

/** `isClosed`: additional members are errors, as in the tests. */
export function components(isClosed: boolean): Components {
  return Object.fromEntries(
    Object.entries(ALL).map(([name, schema]) => [name, isClosed ? schema : opened(schema)]),
  )
}

function opened(schema: OpenSchema): Schema {
  const { properties, items, anyOf } = schema
  const copy: OpenSchema = { ...schema }
  delete copy[OPEN]
  if (schema[OPEN]) delete copy.additionalProperties
  if (properties) {
    copy.properties = Object.fromEntries(
      Object.entries(properties).map(([name, each]) => [name, opened(each)]),
    )
  }
  if (items) copy.items = opened(items)
  if (anyOf) copy.anyOf = anyOf.map(opened)
  return copy
}
