/** What the golden files need besides the sites of fake-store.ts: three detections, and a way to each error. */

import { networkView } from '../../../monitor/api/site-detail.ts'
import { PENDING_STEPS, STEPS } from '../../../monitor/detections/detection.ts'
import { pointOfProbe } from '../../../monitor/scoring/probe-point.ts'
import type { DetectionRow } from '../../../monitor/storage/rows.ts'
import { NETWORK, NOON, SITES } from './fake-store.ts'
import type { RequestOptions, startApi } from './setup.ts'

const timings = { dnsMs: 4, connectMs: 38, tlsMs: 44, ttfbMs: 212, totalMs: 230 }
const probe = { atSec: NOON, kind: 'full', outcome: 'up', error: null, httpStatus: 401, timings } as const

export const RESULT = {
  ...{ verdict: 'relay', confidence: 0.9, status: 'up', estimated_tier: 'B', probe: pointOfProbe(probe) },
  ...{ models: ['gpt-5.4'], models_total: 1, listing_auth: 'open' },
  network_profile: { ...networkView(NETWORK, SITES[0].regions, NOON), observed_at: '2025-11-20T12:00:00Z' },
  ...{ notices: ['single_vantage'], vantage: 'main' },
}

const done = STEPS.map((name, i) => ({
  name,
  status: 'ok',
  ms: 10 * i,
  detail: i === 0 ? '104.16.0.1' : null,
}))

function row(last: string, more: Partial<DetectionRow>): DetectionRow {
  const id = `${uuidStart(NOON)}-7000-8000-00000000000${last}`
  const url = 'https://alpha.example.com/api'
  return {
    ...{ id, targetKey: url, url, status: 'queued', version: 1, submittedAtSec: NOON, startedAtSec: null },
    ...{ finishedAtSec: null, clientHash: '0'.repeat(32), errorCode: null },
    resultJson: JSON.stringify({ steps: PENDING_STEPS, result: null }),
    ...more,
  }
}

/** Queued, done, failed. */
export const DETECTIONS: readonly DetectionRow[] = [
  row('1', {}),
  row('2', {
    ...{ status: 'done', version: 9, startedAtSec: NOON + 1, finishedAtSec: NOON + 4 },
    resultJson: JSON.stringify({ steps: done, result: RESULT }),
  }),
  row('3', {
    ...{ status: 'failed', version: 3, startedAtSec: NOON + 1, finishedAtSec: NOON + 2 },
    ...{
      targetKey: 'http://inside.example.net',
      url: 'http://inside.example.net',
      errorCode: 'target_not_allowed',
    },
  }),
]

function uuidStart(atSec: number): string {
  const hex = (atSec * 1_000).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}`
}

type Start = typeof startApi
type Options = NonNullable<Parameters<Start>[0]>
type Api = Awaited<ReturnType<Start>>

const json = { 'content-type': 'application/json' }
const KEPT = { connection: 'keep-alive' } // without it node itself asks for the end of the connection
const post = (body: string, headers: RequestOptions['headers'] = json) =>
  ['POST', '/detections', { body, headers }] as const
const submission = (url: string) => post(JSON.stringify({ url }))
const A = 'https://a.example.com'
const YEAR_SEC = 366 * 86_400

interface Way {
  request: readonly [method: string, path: string, more?: RequestOptions]
  before?: readonly (readonly [method: string, path: string, more?: RequestOptions])[]
  options?: Options
  prepare?: (api: Api) => void
}

const WAYS: Record<string, Way> = {
  invalid_parameter: { request: ['GET', '/sites?limit=201'] },
  invalid_request: { request: post('[]') },
  invalid_url: { request: submission('ftp://a.example.com') },
  invalid_api_key: { request: ['GET', '/sites', { headers: { 'x-api-key': 'x' } }] },
  not_found: { request: ['GET', '/nothing'] },
  unknown_version: { request: ['GET', '/../v7/sites'] },
  site_not_found: { request: ['GET', '/sites/nobody'] },
  detection_not_found: { request: ['GET', '/detections/1'] },
  method_not_allowed: { request: ['DELETE', '/sites'] },
  request_timeout: {
    request: post('{', { ...json, ...KEPT, 'content-length': '20' }),
    options: { bodyTimeoutMs: 20 },
  },
  detection_expired: { request: ['GET', `/detections/${uuidStart(NOON - YEAR_SEC)}-7000-8000-000000000001`] },
  version_retired: {
    request: ['GET', '/sites'],
    options: { successor: { releasedSec: NOON - 2 * YEAR_SEC, sunsetSec: NOON } },
  },
  payload_too_large: { request: post(' '.repeat(5_000), { ...json, ...KEPT }) },
  unsupported_media_type: { request: post('{}', { 'content-type': 'text/plain' }) },
  target_not_allowed: { request: submission('https://private.example.com') },
  rate_limited: {
    request: ['GET', '/sites'],
    before: Array.from({ length: 120 }, () => ['GET', '/meta'] as const),
  },
  too_many_pending: {
    request: submission('https://c.example.com'),
    before: [submission(A), submission('https://b.example.com')],
  },
  target_cooldown: { request: submission(`${A}/b`), before: [submission(`${A}/a`)] },
  internal_error: {
    request: ['GET', '/sites/alpha'],
    prepare: (api) => {
      api.store.failure = new Error('the disk is dead')
    },
  },
  queue_full: { request: submission(A), options: { queueMax: 0 } },
  detections_disabled: { request: submission(A), options: { hasDetections: false } },
  not_ready: {
    request: ['GET', '/sites'],
    prepare: (api) => {
      api.state.snapshot = null
    },
  },
}

/** The text of the default limit; the test uses a shorter one. */
function eightSeconds(body: { error: string; code: string }) {
  return { ...body, error: body.error.replace('0.02 s', '8 s') }
}

/** The response with this error, from a separate service that the test closes. */
export async function requestFor(code: string, start: Start) {
  const { request, before = [], options, prepare } = WAYS[code]
  const api = await start(options)
  prepare?.(api)
  for (const [method, path, more] of before) await api.request(method, `/api/v1${path}`, more)
  const [method, path, more] = request
  const fullPath = path.startsWith('/../') ? `/api${path.slice(3)}` : `/api/v1${path}`
  return { method, path: fullPath, response: await api.request(method, fullPath, more), close: api.close }
}

/** Code → body, each from a separate service. */
export async function collectErrors(start: Start): Promise<Record<string, unknown>> {
  const errors: Record<string, unknown> = {}
  for (const code of Object.keys(WAYS)) {
    const { response, close } = await requestFor(code, start)
    close()
    errors[code] = code === 'request_timeout' ? eightSeconds(response.json) : response.json
  }
  return errors
}
