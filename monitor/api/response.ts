/**
 * One response, from the arrival of its request to its last byte, or until its client disconnects.
 *
 *     common headers (spec 1.3, 1.5) + quota + those of this response ──► one write, in a cork
 *
 * Applies the rules of uWebSockets.js: nothing is touched after `onAborted`, and 204 and 304 have no body headers.
 */
import { randomUUID } from 'node:crypto'
import { endHeadResponse, endResponse } from '../../engine/runtime/http-response.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { Body, isMatch, preferredCoding } from './bodies.ts'
import { ApiError, type Headers, retryAfter } from './errors.ts'
import type { Quota } from './quota.ts'
import type { ApiRequest } from './request.ts'
import type { HttpResponse } from './sockets.ts'

const JSON_TYPE = 'application/json; charset=utf-8'

// biome-ignore format: the phrases of RFC 9110
const REASONS: Record<number, string> = {
  200: 'OK', 202: 'Accepted', 204: 'No Content', 303: 'See Other', 304: 'Not Modified', 308: 'Permanent Redirect', 400: 'Bad Request', 401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found', 405: 'Method Not Allowed', 408: 'Request Timeout', 410: 'Gone', 413: 'Content Too Large',
  415: 'Unsupported Media Type', 422: 'Unprocessable Content', 429: 'Too Many Requests', 500: 'Internal Server Error',
  503: 'Service Unavailable',
}

/** What a handler returns. */
export interface ResponseContent {
  status: number
  body: Body | null // null: 204
  cacheControl: string
  hasEtag: boolean
  headers: Headers
  type?: string // default JSON
}

const EXPOSED = [
  ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'RateLimit', 'RateLimit-Policy'],
  ...['Retry-After', 'Location', 'ETag', 'Link', 'Deprecation', 'Sunset', 'X-Request-Id'],
].join(', ')

/** On every response of the API. */
const API_HEADERS: Headers = [
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Robots-Tag', 'noindex'],
  ['Cross-Origin-Resource-Policy', 'cross-origin'],
  ['Access-Control-Allow-Origin', '*'],
  ['Access-Control-Expose-Headers', EXPOSED],
  ['Vary', 'Accept-Encoding'],
]

export class ApiResponse {
  readonly requestId = randomUUID().replaceAll('-', '')
  isDone = false // sent, or the client disconnected
  status = 0 // as sent; 0 = the client disconnected first
  quota: Quota | null = null
  mustClose = false // close the connection, at any status
  versionHeaders: Headers = [] // version.ts
  onEnd: (() => void) | null = null // called once, when isDone is set
  onGone: (() => void) | null = null // the same, while the request is held
  private readonly res: HttpResponse
  private readonly request: ApiRequest
  private readonly hasDraftFields: boolean
  private readonly commonHeaders: Headers

  constructor(
    res: HttpResponse,
    request: ApiRequest,
    hasDraftFields: boolean,
    commonHeaders: Headers = API_HEADERS,
  ) {
    this.res = res
    this.request = request
    this.hasDraftFields = hasDraftFields
    this.commonHeaders = commonHeaders
    res.onAborted(() => this.finish(0))
  }

  error(error: ApiError): void {
    const headers =
      error.status === 503 && !hasRetry(error) ? [...error.headers, ...retryAfter(5)] : error.headers
    if (error.mustClose) this.mustClose = true
    const { status } = error
    const body = new Body(error.body())
    this.send({ status, body, cacheControl: 'no-store', hasEtag: false, headers })
  }

  /** An error other than ApiError is a defect: logged with the request's id, and sent as `internal_error` without details. */
  fail(error: unknown, log: Log): void {
    if (this.isDone) return
    if (error instanceof ApiError) {
      this.error(error)
      return
    }
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    log('error', `monitor request ${this.requestId} failed: ${text}`)
    this.error(new ApiError('internal_error', 'internal server error'))
  }

  send(content: ResponseContent): void {
    const { body, hasEtag } = content
    const { method, headers } = this.request
    const isRead = method === 'GET' || method === 'HEAD'
    if (body !== null && hasEtag && isRead && headers['if-none-match'] !== '') {
      if (isMatch(headers['if-none-match'], body.etag)) {
        this.write({ ...content, status: 304 }, null, 'identity')
        return
      }
    }
    if (body === null) {
      this.write(content, null, 'identity')
      return
    }
    const coding = body.codingFor(preferredCoding(headers['accept-encoding']))
    const form = body.form(coding)
    if (form instanceof Uint8Array) {
      this.write(content, form, coding)
      return
    }
    form.then(
      (bytes) => this.write(content, bytes, coding),
      () => this.write(content, body.plain, 'identity'), // compression failed
    )
  }

  private write(content: ResponseContent, bytes: Uint8Array | null, coding: string): void {
    if (this.isDone) return
    const { res } = this
    const isHead = this.request.method === 'HEAD'
    res.cork(() => {
      res.writeStatus(`${content.status} ${REASONS[content.status] ?? 'Unknown'}`)
      for (const [name, value] of this.buildHeaders(content)) res.writeHeader(name, value)
      if (bytes === null) {
        // 304 costs quota; OPTIONS does not, so its connection is closed
        const mustClose = this.mustClose || this.request.method === 'OPTIONS'
        if (mustClose) res.writeHeader('Connection', 'close')
        res.endWithoutBody()
        if (mustClose) res.closeSoon?.()
        return
      }
      res.writeHeader('Content-Type', content.type ?? JSON_TYPE)
      if (coding !== 'identity') res.writeHeader('Content-Encoding', coding)
      if (isHead) endHeadResponse(res, bytes.length)
      else endResponse(res, bytes, this.mustClose)
    })
    this.finish(content.status)
  }

  private *buildHeaders({
    body,
    cacheControl,
    hasEtag,
    headers,
  }: ResponseContent): Generator<readonly [string, string]> {
    yield* this.commonHeaders
    yield ['X-Request-Id', this.requestId]
    yield ['Cache-Control', cacheControl]
    if (body !== null && hasEtag) yield ['ETag', body.etag]
    if (this.quota !== null) yield* this.quotaHeaders(this.quota)
    yield* this.versionHeaders
    yield* headers
  }

  private *quotaHeaders(quota: Quota): Generator<readonly [string, string]> {
    yield ['X-RateLimit-Limit', String(quota.limit)]
    yield ['X-RateLimit-Remaining', String(quota.remaining)]
    yield ['X-RateLimit-Reset', String(quota.resetSec)]
    if (!this.hasDraftFields) return
    yield ['RateLimit-Policy', `"${quota.class}";q=${quota.limit};w=${quota.windowSec}`]
    yield ['RateLimit', `"${quota.class}";r=${quota.remaining};t=${quota.afterSec}`]
  }

  private finish(status: number): void {
    if (this.isDone) return
    this.isDone = true
    this.status = status
    this.onGone?.()
    this.onEnd?.()
  }
}

function hasRetry({ headers }: ApiError): boolean {
  return headers.some(([name]) => name === 'Retry-After')
}

export function toContent(body: Body | null, more: Partial<ResponseContent> = {}): ResponseContent {
  return {
    status: body === null ? 204 : 200,
    body,
    cacheControl: 'no-store',
    hasEtag: false,
    headers: [],
    ...more,
  }
}
