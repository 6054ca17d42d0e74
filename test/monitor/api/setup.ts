/**
 * The API on a port of its own, with the real engine and memory store behind it, on a clock that stands still. Every
 * response that passes through `ask` is held against the OpenAPI document (conforms.ts).
 */
import { request as httpRequest } from 'node:http'
import type { Engine } from '../../../engine/decision/engine.ts'
import { Api } from '../../../monitor/api/api.ts'
import { DIRECT } from '../../../monitor/api/client-address.ts'
import { defaultRules, quotaRules } from '../../../monitor/api/default-rules.ts'
import type { ApiOptions, RequestLine } from '../../../monitor/api/options.ts'
import { DetectionQueue, type DetectionQueueOptions } from '../../../monitor/detections/detection-queue.ts'
import { checkUrl } from '../../../monitor/egress/url-policy.ts'
import type { Snapshot } from '../../../monitor/storage/snapshot.ts'
import { openUws } from '../../../transports/uws.ts'
import { engine } from '../../engine/harness.ts'
import { conforms } from './conforms.ts'
import { createSnapshot, FakeStore, NOON } from './fake-store.ts'

export interface ReceivedResponse {
  status: number
  headers: Record<string, string>
  bytes: Buffer
  json: never // whatever the test expects
}

export interface RequestOptions {
  headers?: Record<string, string>
  body?: string | Buffer
  from?: string // of 127.0.0.0/8; a client of its own
}

export async function startApi(
  options: Partial<ApiOptions & DetectionQueueOptions> & { limiter?: Engine } = {},
) {
  const clock = { ms: NOON * 1_000 }
  const nowMs = () => clock.ms
  const own = engine(null, { nowSec: () => Math.floor(clock.ms / 1_000) })
  const limiter = options.limiter ?? own.engine
  if (!options.limiter) limiter.setRules(quotaRules(null, await defaultRules()))
  const store = new FakeStore()
  const state = { snapshot: createSnapshot() as Snapshot | null }
  const queue = new DetectionQueue({ store, nowMs, reuseSec: 600, queueMax: 100, runningMax: 4, ...options })
  const lines: RequestLine[] = []
  const logged: string[] = []
  const policy = {
    ports: new Set([80, 443, 8080]),
    addresses: { deny: [], nat64: null, testAllow: [] },
    ownNames: new Set(['monitor.example.org']),
    optOut: new Set(['private.example.com']),
  }
  const api = new Api({
    limiter,
    nowMs,
    snapshot: () => state.snapshot,
    details: store,
    detections: queue,
    checkUrl: (text) => checkUrl(text, policy, []),
    address: DIRECT,
    version: '0.1.0',
    hasDetections: true,
    hasDraftFields: true,
    isSharedCache: false,
    supportEmail: 'help@example.org',
    publicBaseUrl: '',
    probeIntervalSec: 300,
    log: (_, message) => logged.push(message),
    onRequest: (line) => lines.push(line),
    ...options,
  })
  const opened = openUws('127.0.0.1', 0, (app) => app.any('/*', (res, req) => api.handle(res, req)))!
  const request = async (
    method: string,
    path: string,
    more: RequestOptions = {},
  ): Promise<ReceivedResponse> => {
    const response = await send(opened.port, method, path, more)
    conforms(method, path, response)
    return response
  }
  return {
    ...{ api, clock, store, state, queue, lines, logged, request, limiter },
    port: opened.port,
    get: (path: string, more: RequestOptions = {}) => request('GET', path, more),
    submit: (url: unknown, more: RequestOptions = {}) =>
      request('POST', '/api/v1/detections', {
        body: JSON.stringify({ url }),
        ...more,
        headers: { 'content-type': 'application/json', ...more.headers },
      }),
    close: () => opened.close(),
  }
}

export function send(
  port: number,
  method: string,
  path: string,
  { headers, body, from }: RequestOptions,
): Promise<ReceivedResponse> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const request = httpRequest({
      ...{ host: '127.0.0.1', port, method, path, localAddress: from, agent: false },
      headers: { ...length, ...headers },
    })
    request.on('error', reject)
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const bytes = Buffer.concat(chunks)
        const isPlain = bytes.length > 0 && !response.headers['content-encoding']
        resolve({
          status: response.statusCode!,
          headers: response.headers as Record<string, string>,
          bytes,
          json: (isPlain ? JSON.parse(bytes.toString()) : null) as never,
        })
      })
    })
    request.end(body)
  })
}
