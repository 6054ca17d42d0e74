/**
 * The public API of the monitor (spec 1 to 4): a request, from arrival to response.
 *
 *     path ─► method ─► API key ─► quota ─► query ─► handler ─► response
 *      404     405       401        429      400      …             the first failure decides, but 429 precedes all
 *
 * Loads no socket library: the composition opens a port and passes each request below /api to `handle`.
 *
 *     const api = new Api({ limiter, snapshot: () => store.snapshot, details: store, detections, … })
 *     openUws(host, port, (app) => app.any('/*', (res, req) => api.handle(res, req)))
 */

import { isJson } from '../detections/submission.ts'
import { getClientAddress, truncatedClient } from './client-address.ts'
import { ClientKeys, type KeyFinding } from './client-key.ts'
import { ApiError, type Headers, retryAfter, TEXT_CHARS_MAX } from './errors.ts'
import { ForwardingWatch } from './forwarding-watch.ts'
import { Handlers } from './handlers.ts'
import type { ApiOptions } from './options.ts'
import { readQuery } from './query.ts'
import { type Quota, type QuotaClient, type QuotaKind, Quotas } from './quota.ts'
import { type ApiRequest, readRequest } from './request.ts'
import { BODY_BYTES_MAX, RequestBody } from './request-body.ts'
import { ApiResponse, toContent } from './response.ts'
import { findRoute, listMethods, type Route } from './router.ts'
import type { Endpoint } from './schema/endpoints.ts'
import type { HttpRequest, HttpResponse } from './sockets.ts'
import { checkSuccessor, getNotice } from './version.ts'
import { WRONG_KEYS_MAX, WRONG_KEYS_WINDOW_SEC } from './wrong-keys.ts'

const PREFLIGHT: Headers = [
  ['Access-Control-Allow-Methods', 'GET, HEAD, POST, OPTIONS'],
  ['Access-Control-Allow-Headers', 'Accept, Authorization, Content-Type, If-None-Match, X-API-Key'],
  ['Access-Control-Max-Age', '86400'],
]
const KNOWN_METHODS = ['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'PATCH', 'DELETE'] // others are `other` in logs

/** The route of a request, found before its quota is taken. */
interface MatchedRoute {
  route: Route | null
  endpoint: Endpoint | null // null: OPTIONS, or an error
  error: ApiError | null
}

export class Api {
  private readonly options: ApiOptions
  private readonly quotas: Quotas
  private readonly handlers: Handlers
  private readonly keys = new ClientKeys()
  private readonly forwarding: ForwardingWatch
  private isEnding = false
  private inFlightCount = 0 // bounded by connections: one request each
  private onIdle: (() => void) | null = null

  constructor(options: ApiOptions) {
    this.options = options
    if (options.successor) checkSuccessor(options.successor)
    const { limiter, onQuotaFailure: onFailure } = options
    this.quotas = new Quotas({ limiter, nowSec: () => this.nowSec(), onFailure })
    this.handlers = new Handlers(options, this.quotas)
    this.forwarding = new ForwardingWatch(options.address, options.log)
  }

  /** Handles one request; must be called within the callback of uWebSockets.js. */
  handle(res: HttpResponse, req: HttpRequest): void {
    const startMs = performance.now()
    const request = readRequest(req, res, this.options.address)
    this.forwarding.see(req, request.peer)
    const reply = new ApiResponse(res, request, this.options.hasDraftFields)
    const notice = getNotice(this.options.successor ?? null, request.path, this.nowSec())
    reply.versionHeaders = notice.headers
    const way = matchRoute(request, notice.isRetired)
    const isSubmission = request.method === 'POST' && way.endpoint !== null
    const length = Number(request.headers['content-length'] || Number.NaN)
    const requestBody = isSubmission ? new RequestBody(res, length, this.options.bodyTimeoutMs) : null
    const ip = getClientAddress(request, this.options.address)
    this.inFlightCount++
    reply.onEnd = () => {
      requestBody?.cancel()
      this.ended(reply, way, request, ip, performance.now() - startMs)
    }
    if (this.isEnding) reply.mustClose = true
    if (requestBody === null && length > BODY_BYTES_MAX) reply.mustClose = true // the body is not read
    try {
      this.admit({ request, reply, route: way, requestBody, ip })
    } catch (error) {
      reply.fail(error, this.options.log) // an exception must not reach the library: the request would hang
    }
  }

  /** Answers 503 from now on; held requests are answered at once. */
  beginShutdown(): void {
    this.isEnding = true
    this.options.detections.close()
  }

  /** Resolves when nothing is in flight, at the latest after `timeoutMs`. The caller closes the port. */
  async drain(timeoutMs: number): Promise<void> {
    this.beginShutdown()
    if (this.inFlightCount === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs)
      this.onIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  private admit(arrival: Arrival): void {
    const { request, reply, route: way, ip } = arrival
    const nowSec = this.nowSec()
    const isOptions = request.method === 'OPTIONS' && way.error === null
    const finding: KeyFinding = isOptions
      ? { kind: 'none' }
      : this.keys.find(request, ip, this.options.snapshot(), nowSec)
    const client: QuotaClient = { ip, key: finding.kind === 'valid' ? finding.grant : null }
    const isWrong = finding.kind === 'wrong' || finding.kind === 'blocked'
    // A page of another site can send a body, but not as JSON without asking first: its 415 must not cost a submission.
    const isSubmission = arrival.requestBody !== null && isJson(request.headers['content-type'])
    const kind: QuotaKind = isSubmission && !isWrong ? 'submit' : 'read'
    const isFree = isOptions || (way.endpoint?.id === 'getLimits' && !isWrong)
    const decided = (quota: Quota) => {
      reply.quota = quota
      if (finding.kind === 'blocked') reply.quota = blockedQuota(finding.untilSec, nowSec)
      try {
        this.decided(arrival, client, isFree ? { ...quota, isOver: false } : quota, finding, kind)
      } catch (error) {
        reply.fail(error, this.options.log)
      }
    }
    if (isFree) this.quotas.peek(kind, client, decided)
    else this.quotas.take(kind, client, decided)
  }

  private decided(
    { request, reply, route: way, requestBody }: Arrival,
    client: QuotaClient,
    quota: Quota,
    finding: KeyFinding,
    kind: QuotaKind,
  ): void {
    if (reply.isDone) return
    if (quota.isOver || finding.kind === 'blocked') {
      this.options.onLimited?.(reply.quota!.class)
      throw new ApiError(
        'rate_limited',
        this.withContact('too many requests; see Retry-After'),
        retryAfter(reply.quota!.afterSec),
      )
    }
    if (this.isEnding) throw new ApiError('not_ready', 'the service is shutting down')
    if (way.error) throw way.error
    if (finding.kind === 'wrong')
      throw new ApiError('invalid_api_key', this.withContact('the API key is not valid'))
    if (quota.hasFailed && kind === 'submit') {
      throw new ApiError('not_ready', 'the quota cannot be determined now; try again')
    }
    if (way.endpoint === null) {
      reply.send(toContent(null, { headers: [['Allow', listMethods(way.route!)], ...PREFLIGHT] }))
      return
    }
    const query = readQuery(request.query, way.endpoint.parameters)
    const call = { request, reply, query, argument: way.route!.argument, client, requestBody }
    const answered = this.handlers.byId[way.endpoint.id](call)
    if (!(answered instanceof Promise)) reply.send(answered)
    else answered.then((each) => reply.send(each)).catch((error) => reply.fail(error, this.options.log))
  }

  /** Appends the support address, if there is one and the text has room for it. */
  private withContact(text: string): string {
    const { supportEmail } = this.options
    const whole = `${text}; for an API key with a higher quota write to ${supportEmail}`
    return supportEmail === '' || whole.length > TEXT_CHARS_MAX ? text : whole
  }

  private ended(
    { requestId, status }: ApiResponse,
    { route }: MatchedRoute,
    { method }: ApiRequest,
    ip: string,
    ms: number,
  ): void {
    this.inFlightCount--
    if (this.inFlightCount === 0) this.onIdle?.()
    this.options.onRequest?.({
      requestId,
      client: truncatedClient(ip),
      route: route?.pattern ?? 'none',
      method: KNOWN_METHODS.includes(method) ? method : 'other',
      status,
      ms: Math.round(ms),
    })
  }

  private nowSec(): number {
    return Math.floor(this.options.nowMs() / 1_000)
  }
}

interface Arrival {
  request: ApiRequest
  reply: ApiResponse
  route: MatchedRoute
  requestBody: RequestBody | null
  ip: string
}

/** OPTIONS is answered after the sunset, too: without it no page of another origin could read the 410. */
function matchRoute({ path, method }: ApiRequest, isRetired: boolean): MatchedRoute {
  let route: Route | null = null
  try {
    if (isRetired && method !== 'OPTIONS') throw new ApiError('version_retired', 'v1 has ended; use /api/v2')
    route = findRoute(path)
    if (method === 'OPTIONS') return { route, endpoint: null, error: null }
    const wanted = method === 'HEAD' ? 'GET' : method
    const endpoint = route.endpoints.find((each) => each.method === wanted) ?? null
    if (endpoint) return { route, endpoint, error: null }
    const allow = listMethods(route)
    const text = `this path supports ${allow}`
    return { route, endpoint, error: new ApiError('method_not_allowed', text, [['Allow', allow]]) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return { route, endpoint: null, error }
  }
}

/** The bound on wrong API keys (spec 4.4) as a quota, for the headers. */
function blockedQuota(resetSec: number, nowSec: number): Quota {
  const afterSec = Math.max(1, resetSec - nowSec)
  const values = {
    limit: WRONG_KEYS_MAX,
    remaining: 0,
    windowSec: WRONG_KEYS_WINDOW_SEC,
    resetSec,
    afterSec,
  }
  return { class: 'wrong_key', isOver: true, hasFailed: false, ...values }
}
