/** What the golden files need besides the sites of fake-store.ts: three detections, and a way to each error. */

import { networkView } from '../../../monitor/api/site-detail.ts'
import { PENDING_STEPS, STEPS } from '../../../monitor/detections/detection.ts'
import { pointOfProbe } from '../../../monitor/scoring/probe-point.ts'
import type { DetectionRow } from '../../../monitor/storage/rows.ts'
import { NETWORK, NOON, SITES } from './fake-store.ts'
import type { Ask, startApi } from './setup.ts'

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
const post = (body: string, headers: Ask['headers'] = json) =>
  ['POST', '/detections', { body, headers }] as const
const submission = (url: string) => post(JSON.stringify({ url }))
const A = 'https://a.example.com'
const YEAR_SEC = 366 * 86_400

interface Way {
  ask: readonly [method: string, path: string, more?: Ask]
  before?: readonly (readonly [method: string, path: string, more?: Ask])[]
  options?: Options
  prepare?: (api: Api) => void
}

const WAYS: Record<string, Way> = {
  invalid_parameter: { ask: ['GET', '/sites?limit=201'] },
  invalid_request: { ask: post('[]') },
  invalid_url: { ask: submission('ftp://a.example.com') },
  invalid_api_key: { ask: ['GET', '/sites', { headers: { 'x-api-key': 'x' } }] },
  not_found: { ask: ['GET', '/nothing'] },
  unknown_version: { ask: ['GET', '/../v7/sites'] },
  site_not_found: { ask: ['GET', '/sites/nobody'] },
  detection_not_found: { ask: ['GET', '/detections/1'] },
  method_not_allowed: { ask: ['DELETE', '/sites'] },
  request_timeout: {
    ask: post('{', { ...json, ...KEPT, 'content-length': '20' }),
    options: { bodyTimeoutMs: 20 },
  },
  detection_expired: { ask: ['GET', `/detections/${uuidStart(NOON - YEAR_SEC)}-7000-8000-000000000001`] },
  version_retired: {
    ask: ['GET', '/sites'],
    options: { successor: { releasedSec: NOON - 2 * YEAR_SEC, sunsetSec: NOON } },
  },
  payload_too_large: { ask: post(' '.repeat(5_000), { ...json, ...KEPT }) },
  unsupported_media_type: { ask: post('{}', { 'content-type': 'text/plain' }) },
  target_not_allowed: { ask: submission('https://private.example.com') },
  rate_limited: {
    ask: ['GET', '/sites'],
    before: Array.from({ length: 120 }, () => ['GET', '/meta'] as const),
  },
  too_many_pending: {
    ask: submission('https://c.example.com'),
    before: [submission(A), submission('https://b.example.com')],
  },
  target_cooldown: { ask: submission(`${A}/b`), before: [submission(`${A}/a`)] },
  internal_error: {
    ask: ['GET', '/sites/alpha'],
    prepare: (api) => {
      api.store.failure = new Error('the disk is dead')
    },
  },
  queue_full: { ask: submission(A), options: { queueMax: 0 } },
  detections_disabled: { ask: submission(A), options: { hasDetections: false } },
  not_ready: {
    ask: ['GET', '/sites'],
    prepare: (api) => {
      api.state.snapshot = null
    },
  },
}

/** As it reads with the usual limit: nobody waits here for as long. */
function eightSeconds(body: { error: string; code: string }) {
  return { ...body, error: body.error.replace('0.02 s', '8 s') }
}

/** The answer with this error, from a service of its own, which the caller closes. */
export async function answerWith(code: string, start: Start) {
  const { ask, before = [], options, prepare } = WAYS[code]
  const api = await start(options)
  prepare?.(api)
  for (const [method, path, more] of before) await api.ask(method, `/api/v1${path}`, more)
  const [method, path, more] = ask
  const whole = path.startsWith('/../') ? `/api${path.slice(3)}` : `/api/v1${path}`
  return { told: await api.ask(method, whole, more), close: api.close }
}

/** Code → body, each from a request to a service of its own. */
export async function errorsOf(start: Start): Promise<Record<string, unknown>> {
  const errors: Record<string, unknown> = {}
  for (const code of Object.keys(WAYS)) {
    const { told, close } = await answerWith(code, start)
    close()
    errors[code] = code === 'request_timeout' ? eightSeconds(told.json) : told.json
  }
  return errors
}
