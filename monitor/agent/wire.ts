/**
 * The protocol between an agent and its server (spec 6.5): JSON in snake_case, two calls made by the agent.
 *
 *     POST /agent/v1/poll      PollRequest     ─► PollResponse       every 10 s; the catalogue only when its hash differs
 *     POST /agent/v1/results   ResultsRequest  ─► ResultsResponse    at most 500, gzip or plain
 *
 * The token alone identifies the agent: no message names a vantage to write to. Both sides validate what they receive.
 * An incompatible change needs a new version in the path.
 */
import { createHash } from 'node:crypto'
import type { Schema } from '../api/schema/json-schema.ts'
import { ERROR_CODES, type ErrorCode, type Outcome } from '../facts.ts'

export const POLL_PATH = '/agent/v1/poll'
export const RESULTS_PATH = '/agent/v1/results'
export const POLL_MS = 10_000
export const ONLINE_SEC = 60 // since the last poll
export const RESULTS_MAX = 500 // per request
export const UNPACKED_BYTES_MAX = 4 * 1_024 * 1_024 // of results; 500 are some 120 KiB
export const KEPT_SEC = 86_400 // by an agent whose server is unreachable; older results are dropped
export const SEQUENCE_MAX = 2 ** 48 // reached after nine years of jumps by BUFFERED_ROWS_MAX at the highest request rate
export const BUFFERED_ROWS_MAX = 500_000 // a day of 1,700 sites each five minutes; a larger jump in numbers is refused

const SITES_MAX = 5_000 // in the catalogue
const OPT_OUT_MAX = 100_000
const VANTAGES_MAX = 1_000
const REFUSALS_CHARS_MAX = 200
const ADDRESS_CHARS_MAX = 45 // the longest form of IPv6; results.ts parses it
const MS_MAX = 600_000 // of one phase of a probe; four hops that reach every limit take 136 s
const EPOCH_SEC_MAX = 2 ** 40
const EPOCH_MS_MAX = EPOCH_SEC_MAX * 1_000

export interface PollRequest {
  catalogue: string | null // hash of the agent's catalogue
  clock_ms: number // epoch, the agent's
}

export interface PollResponse {
  vantage: string // the name of the token's vantage
  clock_ms: number // epoch, the server's
  interval_s: number // default for sites without one
  accepted: number // highest sequence number; the next result needs a higher one
  online: string[] // vantages of this region that are online, this one included (scheduler/schedule.ts)
  catalogue: string // hashContent(content)
  content: CatalogueContent | null // null: the agent has it already
}

export interface CatalogueContent {
  sites: WireSite[] // of this region
  opt_out: string[] // host suffixes
}

export interface WireSite {
  slug: string
  url: string
  api_base: string
  extra_port: number | null
  interval_s: number | null
}

export interface ResultsRequest {
  clock_ms: number // epoch, the agent's, when the request is sent
  results: WireResult[]
}

/** One light probe. */
export interface WireResult {
  sequence: number // 1 to SEQUENCE_MAX, above `accepted` by at most BUFFERED_ROWS_MAX; gaps are fine
  slug: string
  at_s: number // epoch, by the agent's clock
  outcome: Outcome
  error: ErrorCode | null
  http_status: number | null
  dns_ms: number | null
  connect_ms: number | null
  tls_ms: number | null
  ttfb_ms: number | null
  total_ms: number | null
  address?: string | null // of a failed connection; older agents do not send it
}

export interface ResultsResponse {
  accepted: number // every number up to here is processed: stored, repeated or refused
  stored: number
  repeated: number
  refused: number
  refusals: { sequence: number; reason: string }[] // one per refused result
}

/** Computed on both sides from the parsed values, so it also detects a damaged catalogue. */
export function hashContent({ sites, opt_out }: CatalogueContent): string {
  return createHash('sha256').update(JSON.stringify({ sites, opt_out })).digest('hex')
}

const SLUG = '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'
const SHA256 = '^[0-9a-f]{64}$'
const integer = (minimum: number, maximum: number): Schema => ({ type: 'integer', minimum, maximum })
const orNull = (schema: Schema): Schema => ({ anyOf: [{ type: 'null' }, schema] })
const text = (maxLength: number): Schema => ({ type: 'string', minLength: 1, maxLength })
const list = (items: Schema, maxItems: number): Schema => ({ type: 'array', items, maxItems })
const closed = (properties: Record<string, Schema>, optional: Record<string, Schema> = {}): Schema => ({
  ...{ type: 'object', properties: { ...properties, ...optional }, additionalProperties: false },
  required: Object.keys(properties),
})

export const POLL_REQUEST = closed({
  catalogue: orNull({ type: 'string', pattern: SHA256 }),
  clock_ms: integer(0, EPOCH_MS_MAX),
})

/** What must hold for the request as a whole; each result is validated with RESULT. */
export const RESULTS_REQUEST = closed({
  clock_ms: integer(0, EPOCH_MS_MAX),
  results: list(
    {
      type: 'object',
      required: ['sequence'],
      properties: { sequence: integer(1, SEQUENCE_MAX) },
    },
    RESULTS_MAX,
  ),
})

const milliseconds: Schema = { type: ['integer', 'null'], minimum: 0, maximum: MS_MAX }

const measured: [Record<string, Schema>, Record<string, Schema>] = [
  {
    slug: { type: 'string', pattern: SLUG },
    at_s: integer(0, EPOCH_SEC_MAX),
    outcome: { enum: ['up', 'degraded', 'down', 'inconclusive'] },
    error: { enum: [...ERROR_CODES, null] },
    http_status: { type: ['integer', 'null'], minimum: 100, maximum: 599 },
    dns_ms: milliseconds,
    connect_ms: milliseconds,
    tls_ms: milliseconds,
    ttfb_ms: milliseconds,
    total_ms: milliseconds,
  },
  { address: orNull(text(ADDRESS_CHARS_MAX)) },
]
export const RESULT = closed({ sequence: integer(1, SEQUENCE_MAX), ...measured[0] }, measured[1])
export const MEASURED = closed(...measured) // a result before it has a number

/** Objects from the server may have unknown members: the server may be newer than the agent. */
const open = (properties: Record<string, Schema>): Schema => ({
  ...{ type: 'object', properties, required: Object.keys(properties) },
})

export const POLL_RESPONSE = open({
  vantage: text(64),
  clock_ms: integer(0, EPOCH_MS_MAX),
  interval_s: integer(1, 86_400),
  accepted: integer(0, SEQUENCE_MAX),
  online: list(text(64), VANTAGES_MAX),
  catalogue: { type: 'string', pattern: SHA256 },
  content: orNull(
    open({
      sites: list(
        open({
          slug: { type: 'string', pattern: SLUG },
          url: { type: 'string', maxLength: 2_048, format: 'uri' },
          api_base: { type: 'string', maxLength: 2_048, format: 'uri' },
          extra_port: orNull(integer(1, 65_535)),
          interval_s: orNull(integer(1, 86_400)),
        }),
        SITES_MAX,
      ),
      opt_out: list(text(253), OPT_OUT_MAX),
    }),
  ),
})

export const RESULTS_RESPONSE = open({
  accepted: integer(0, SEQUENCE_MAX),
  stored: integer(0, RESULTS_MAX),
  repeated: integer(0, RESULTS_MAX),
  refused: integer(0, RESULTS_MAX),
  refusals: list(open({ sequence: integer(1, SEQUENCE_MAX), reason: text(REFUSALS_CHARS_MAX) }), RESULTS_MAX),
})

export function reasonText(reason: string): string {
  return reason.slice(0, REFUSALS_CHARS_MAX)
}
