/**
 * The HTTP port of a worker (spec 6.1, 6.2): `/json` uses the same engine as gRPC, `/healthcheck` reports health.
 *
 *     body ── text ── JSON ── engine ──► OK 200, OVER_LIMIT 429, with the response as JSON
 *       │        └───────┴───────┴─────► 400 `Bad Request` for any error; the cause is only logged
 *       └ longer than HTTP_BODY_MAX_BYTES: 413
 *
 * All workers listen on the same port. uWebSockets.js supports HTTP/1.1 only and rejects malformed requests itself: 505 for
 * HTTP/1.0 and for a target that is not a path (`*`, `http://…`), 431 for header blocks above 16 KiB, 400 for a missing Host,
 * invalid lengths and invalid chunks. engine/runtime/http-framing.ts refuses other requests that could hide a second one. A
 * request that is incomplete after about 12 seconds is closed. Requests may be pipelined while each is decided immediately
 * (memory store); one that arrives while another waits for Redis ends the connection.
 */
import { posix } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { DecisionCallback, RateLimiter } from '../../engine/decision/rate-limiter.ts'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { HealthState } from '../../engine/runtime/health.ts'
import { withStrictFraming } from '../../engine/runtime/http-framing.ts'
import { endHeadResponse, endResponse } from '../../engine/runtime/http-response.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { rateLimitedLog } from '../../engine/runtime/rate-limited-log.ts'
import { requestFromJson } from '../../proto/json.ts'
import { responseToJson } from '../../proto/json-response.ts'
import { Code, type RateLimitRequest, type RateLimitResponse } from '../../proto/ratelimit.ts'
import { type HttpRequest, type HttpResponse, openUws, type UwsPort } from '../uws.ts'
import { Body, bodyText } from './body.ts'

const ERROR_LINES_PER_SEC = 10 // causes of 400 and 413 that reach the log
const DEFECT_LINES_PER_SEC = 1 // a defect that each request meets must not fill the disk with stacks

export interface HttpServerOptions {
  host: string
  port: number // 0 = any free port, which cannot be shared with other workers
  bodyBytesMax: number
  limiter: RateLimiter
  health: HealthState // the initial state
  log: Log
}

interface Reply {
  status: string // with its text, such as `200 OK`
  type: string // empty = no content type
  body: string
  isError?: boolean
  mustClose?: boolean
}

const LINGER_MS = 100 // without a request, before keep-alive connections are closed
const LINGER_MS_MAX = 2_000

const TEXT = 'text/plain; charset=utf-8'
const HEALTHY: Reply = { status: '200 OK', type: TEXT, body: 'OK' }
const UNHEALTHY: Reply = { status: '500 Internal Server Error', type: '', body: '' }
const NOT_FOUND: Reply = { status: '404 Not Found', type: TEXT, body: '404 page not found\n', isError: true }
const VERSION_NOT_SUPPORTED: Reply = {
  status: '500 Internal Server Error',
  type: TEXT,
  body: 'Internal Server Error\n',
  isError: true,
}
const BAD_REQUEST: Reply = { status: '400 Bad Request', type: TEXT, body: 'Bad Request\n', isError: true }

/** Listens immediately or throws a ConfigurationError. Must be closed or drained before its thread ends. */
export class HttpServer {
  readonly bodyBytesMax: number
  readonly limiter: RateLimiter
  readonly logCause: (cause: string) => void
  readonly logDefect: (what: string) => void
  health: HealthState
  private readonly uwsPort: UwsPort
  private inFlightCount = 0 // at most one per connection
  private requestsCount = 0
  private isEnding = false // responses have `Connection: close`
  private onIdle: (() => void) | null = null

  constructor({ host, port, bodyBytesMax, limiter, health, log }: HttpServerOptions) {
    this.bodyBytesMax = bodyBytesMax
    this.limiter = limiter
    this.health = health
    this.logCause = rateLimitedLog((cause) => log('warning', `error: ${cause}`), ERROR_LINES_PER_SEC)
    this.logDefect = rateLimitedLog((what) => log('error', what), DEFECT_LINES_PER_SEC)
    const route = (res: HttpResponse, req: HttpRequest) => this.route(res, req)
    const opened = openUws(host, port, (app) => app.any('/*', withStrictFraming(route, 'taken')))
    if (opened === null) {
      throw new ConfigurationError({
        code: 'PORT_IN_USE',
        where: `${host}:${port}`,
        what: 'cannot listen for HTTP: the port is taken, or the address is not of this machine.',
        fix: 'Stop that program, or set PORT to a free port and HOST to an address of this machine.',
      })
    }
    this.uwsPort = opened
  }

  get port(): number {
    return this.uwsPort.port
  }

  /** Requests without a response. */
  get inFlight(): number {
    return this.inFlightCount
  }

  /** From now on each response ends its connection, so that clients have moved before `drain`. */
  beginShutdown(): void {
    this.isEnding = true
  }

  /** Stops listening, responds to requests in flight with `Connection: close`, and closes at `timeoutMs` at the latest. */
  async drain(timeoutMs: number): Promise<void> {
    this.isEnding = true
    this.uwsPort.stopListening()
    if (this.inFlightCount > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs)
        this.onIdle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    await this.waitUntilQuiet(timeoutMs)
    await nextTurn() // the last response was sent in a callback of the app, which must return before `close`
    this.close()
  }

  /** A keep-alive connection may be sending its next request, which then gets its response too. */
  private async waitUntilQuiet(timeoutMs: number): Promise<void> {
    const untilMs = performance.now() + Math.min(timeoutMs, LINGER_MS_MAX)
    let lastCount = -1
    while (lastCount !== this.requestsCount && performance.now() < untilMs) {
      lastCount = this.requestsCount
      await sleep(LINGER_MS)
    }
  }

  /** Closes all connections immediately. */
  close(): void {
    this.isEnding = true
    this.uwsPort.close()
  }

  begin(): void {
    this.inFlightCount++
  }

  end(): void {
    this.inFlightCount--
    if (this.inFlightCount === 0) this.onIdle?.()
  }

  send(res: HttpResponse, isHead: boolean, { status, type, body, isError, mustClose }: Reply): void {
    res.cork(() => {
      res.writeStatus(status)
      if (type !== '') res.writeHeader('Content-Type', type)
      if (isError) res.writeHeader('X-Content-Type-Options', 'nosniff')
      if (isHead) endHeadResponse(res, Buffer.byteLength(body))
      else endResponse(res, body, this.isEnding || mustClose === true)
    })
  }

  private route(res: HttpResponse, req: HttpRequest): void {
    this.requestsCount++
    const path = req.getUrl()
    const isHead = req.getMethod() === 'head'
    if (path === '/json') JsonCall.start(this, res, isHead, req)
    else if (path === '/healthcheck') this.send(res, isHead, this.getHealthReply(req.getQuery()))
    else {
      const cleaned = posix.normalize(path)
      if (cleaned === path) this.send(res, isHead, NOT_FOUND)
      else this.redirect(res, cleaned, req.getQuery())
    }
  }

  /** Spec 6.1. `?verbose` adds a report, with the same status. */
  private getHealthReply(query: string | undefined): Reply {
    const { isHealthy, report } = this.health
    const reply = isHealthy ? HEALTHY : UNHEALTHY
    return query === 'verbose' ? { ...reply, type: TEXT, body: report } : reply
  }

  private redirect(res: HttpResponse, path: string, query: string | undefined): void {
    res.writeStatus('301 Moved Permanently')
    const location = path.replaceAll('\\', '%5C') // browsers treat `/\` as `//`, which names another host
    res.writeHeader('Location', query ? `${location}?${query}` : location)
    endResponse(res, '', false)
  }
}

/** One `/json` request, until its response is sent or its client disconnects. */
class JsonCall implements DecisionCallback {
  private readonly server: HttpServer
  private readonly res: HttpResponse
  private readonly isHead: boolean
  readonly deadlineMs: number // by performance.now(); Infinity = none
  private body: Body | null = null // only for a body of several chunks
  private isDone = false // responded or aborted: `res` must not be used any more

  /** Reads the body, then decides and responds. */
  static start(server: HttpServer, res: HttpResponse, isHead: boolean, req: HttpRequest): void {
    const length = Number(req.getHeader('content-length')) // 0 or NaN without one
    const call = new JsonCall(server, res, isHead, readDeadline(req.getHeader('request-timeout')))
    server.begin()
    res.onAborted(() => call.finish())
    if (length > 2 * server.bodyBytesMax) call.refuseTooLong(true)
    else res.onData((chunk, isLast) => call.read(chunk, isLast))
  }

  private constructor(server: HttpServer, res: HttpResponse, isHead: boolean, deadlineMs: number) {
    this.server = server
    this.res = res
    this.isHead = isHead
    this.deadlineMs = deadlineMs
  }

  get isCancelled(): boolean {
    return this.isDone
  }

  onDecision(response: RateLimitResponse): void {
    if (!this.finish()) return
    let reply = VERSION_NOT_SUPPORTED
    try {
      const body = responseToJson(response)
      reply = { status: statusLine(response.overallCode), type: 'application/json', body }
    } catch (error) {
      this.server.logDefect(`a response cannot be written as JSON: ${(error as Error).message}`)
    }
    this.server.send(this.res, this.isHead, reply)
  }

  onError(error: Error): void {
    this.server.logCause(error.message)
    if (this.finish()) this.server.send(this.res, this.isHead, BAD_REQUEST)
  }

  private read(chunk: ArrayBuffer, isLast: boolean): void {
    if (this.isDone) return
    if (this.body === null && isLast && chunk.byteLength <= this.server.bodyBytesMax) {
      this.decide(() => bodyText(Buffer.from(chunk)))
      return
    }
    this.body ??= new Body(this.server.bodyBytesMax)
    const { body } = this
    body.add(chunk)
    if (body.mustRefuse) this.refuseTooLong(!isLast)
    else if (isLast && body.isTooLong) this.refuseTooLong(false)
    else if (isLast) this.decide(() => body.text())
  }

  private decide(readText: () => string): void {
    let request: RateLimitRequest
    try {
      request = requestFromJson(readText())
    } catch (error) {
      this.onError(error as Error)
      return
    }
    try {
      this.server.limiter.decide(request, this)
    } catch (error) {
      this.server.logDefect(`a decision threw: ${error instanceof Error ? error.stack : error}`)
      this.onError(new Error('internal error'))
    }
  }

  private refuseTooLong(mustClose: boolean): void {
    const text = `the body is longer than ${this.server.bodyBytesMax} bytes (HTTP_BODY_MAX_BYTES)`
    this.server.logCause(text)
    if (!this.finish()) return
    const status = '413 Content Too Large'
    this.server.send(this.res, this.isHead, {
      status,
      type: TEXT,
      body: `${text}\n`,
      isError: true,
      mustClose,
    })
  }

  /** True for the first call, which may respond. */
  private finish(): boolean {
    if (this.isDone) return false
    this.isDone = true
    this.server.end()
    return true
  }
}

/** `Request-Timeout: 20`, in milliseconds as a grpc-timeout of 20m. 0 and other texts are ignored: the header belongs to no standard. */
function readDeadline(text: string): number {
  return /^\d{1,8}$/.test(text) && Number(text) > 0
    ? performance.now() + Number(text)
    : Number.POSITIVE_INFINITY
}

function statusLine(overallCode: Code): string {
  if (overallCode === Code.Ok) return '200 OK'
  if (overallCode === Code.OverLimit) return '429 Too Many Requests'
  return '500 Internal Server Error' // no decision yields it
}
