/**
 * The order of checks (spec 1.2): a request with two faults is answered for the one that is looked at first. Each fault is
 * made alone, and then with each other that it can stand beside in one request.
 */
import { describe, expect, onTestFinished, test } from 'vitest'
import { loadRules } from '../../../engine/config/load.ts'
import { DEFAULT_RULES } from '../../../monitor/api/default-rules.ts'
import type { ApiErrorCode } from '../../../monitor/api/errors.ts'
import { startApi } from './setup.ts'

// biome-ignore format: the order is the specification
const ORDER = [
  ['version',    'unknown_version'],
  ['path',       'not_found'],
  ['method',     'method_not_allowed'],
  ['API key',    'invalid_api_key'],
  ['quota',      'rate_limited'], // and instead of all before it
  ['media type', 'unsupported_media_type'],
  ['size',       'payload_too_large'],
  ['JSON',       'invalid_request'],
  ['members',    'invalid_request'],
  ['policy',     'target_not_allowed'],
  ['pending',    'too_many_pending'],
  ['queue',      'queue_full'],
] as const
const CLIENT = '127.0.0.1'
const OTHER = '127.0.0.2'
type Fault = (typeof ORDER)[number][0]

/** What is not JSON has no members, so these cannot be made together. */
const APART: [Fault, Fault][] = [
  ['JSON', 'members'],
  ['JSON', 'policy'],
]

describe('1.2: a single fault is reported as itself', () => {
  for (const [fault, code] of ORDER) test(`1.2: ${fault}: ${code}`, async () => response([fault], code))
})

describe('1.2: of two faults the first is reported', () => {
  for (const [i, [first, code]] of ORDER.entries()) {
    for (const [second] of ORDER.slice(i + 1)) {
      if (APART.some(([one, other]) => one === first && other === second)) continue
      const expected = second === 'quota' ? 'rate_limited' : code
      test(`1.2: ${first} and ${second}: ${expected}`, async () => response([first, second], expected))
    }
  }
})

async function response(faults: Fault[], code: ApiErrorCode): Promise<void> {
  const has = (fault: Fault) => faults.includes(fault)
  const api = await startApi({ queueMax: 2 })
  onTestFinished(() => api.close())
  if (has('queue') || has('pending')) {
    const from = has('pending') ? CLIENT : OTHER
    for (const url of ['https://q1.example.com', 'https://q2.example.com']) await api.submit(url, { from })
    if (!has('queue')) api.queue.take() // it runs: still pending, and its place in the queue is free
  }
  if (has('quota')) api.limiter.setRules(await nothingAllowed())
  const response = await api.request(has('method') ? 'PATCH' : 'POST', pathWith(faults), {
    headers: {
      'content-type': has('media type') ? 'text/plain' : 'application/json',
      ...(has('API key') && { 'x-api-key': 'rm_wrong' }),
    },
    body: bodyWith(faults),
    from: CLIENT,
  })
  expect(response.json).toMatchObject({ code })
}

function pathWith(faults: Fault[]): string {
  const version = faults.includes('version') ? 'v7' : 'v1'
  return `/api/${version}/${faults.includes('path') ? 'nothing' : 'detections'}`
}

function bodyWith(faults: Fault[]): string {
  const url = faults.includes('policy') ? 'http://127.0.0.1/' : 'https://a.example.com/'
  const complete = JSON.stringify({ url, ...(faults.includes('members') && { more: 1 }) })
  const body = faults.includes('JSON') ? complete.slice(0, -1) : complete
  return faults.includes('size') ? body.padEnd(4_097) : body
}

async function nothingAllowed() {
  const text = DEFAULT_RULES.replaceAll(/requests_per_unit: \d+/g, 'requests_per_unit: 0')
  const files = [{ name: 'none.yaml', bytes: Buffer.from(text) }]
  const loaded = await loadRules({ from: 'files', files, isMerging: false })
  if (!loaded.ok) throw new Error(loaded.error)
  return loaded.image
}
