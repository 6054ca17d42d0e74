/**
 * The HTTP port of a worker (spec 6.1, 6.2): `/json` asks the same engine as gRPC does, `/healthcheck` tells
 * its state.
 *
 *     body ── text ── JSON ── Decider ──► OK 200, OVER_LIMIT 429, with the response as JSON
 *       │        └───────┴───────┴──────► 400 `Bad Request`, whatever went wrong; the cause is only logged
 *       └ longer than HTTP_BODY_MAX_BYTES: 413
 *
 * All workers listen on the same port. uWebSockets.js speaks HTTP/1.1 only and answers what breaks its rules by itself:
 * HTTP/1.0 and a target that is no path (`*`, `http://…`) with 505, header blocks above 16 KiB with 431, no Host, lengths
 * and chunks that are none with 400; engine/runtime/http-framing.ts refuses other requests that could hide a second one. A request
 * not complete after about 12 seconds is closed. Requests of one connection may come one behind the other as long as each
 * is decided at once (memory store); one that comes while another still waits for Redis ends the connection.
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
  port: number // 0 = any free one, which then cannot be shared with other workers
  bodyBytesMax: number
  decider: RateLimiter
  health: HealthState // until another one is set
  log: Log
}

interface Answer {
  status: string // the whole line, such as `200 OK`
  type: string // empty = no content type
  body: string
  isError?: boolean
  mustClose?: boolean
}

const LINGER_MS = 100 // without a request, before connections that are kept alive are cut
const LINGER_MS_MAX = 2_000

const TEXT = 'text/plain; charset=utf-8'
const HEALTHY: Answer = { status: '200 OK', type: TEXT, body: 'OK' }
const UNHEALTHY: Answer = { status: '500 Internal Server Error', type: '', body: '' }
const NOT_FOUND: Answer = { status: '404 Not Found', type: TEXT, body: '404 page not found\n', isError: true }
const VERSION_NOT_SUPPORTED: Answer = {
  status: '500 Internal Server Error',
  type: TEXT,
  body: 'Internal Server Error\n',
  isError: true,
}
const BAD_REQUEST: Answer = { status: '400 Bad Request', type: TEXT, body: 'Bad Request\n', isError: true }

/** Listens at once, or throws an ConfigurationError. Must be closed or drained before its thread ends. */
export class HttpServer {
  readonly bodyBytesMax: number
  readonly decider: RateLimiter
  readonly logCause: (cause: string) => void
  readonly logDefect: (what: string) => void
  health: HealthState
  private readonly uwsPort: UwsPort
  private inFlightCount = 0 // bounded by connections: one request each
  private requestsCount = 0
  private isEnding = false // answers say `Connection: close`
  private onIdle: (() => void) | null = null

  constructor({ host, port, bodyBytesMax, decider, health, log }: HttpServerOptions) {
    this.bodyBytesMax = bodyBytesMax
    this.decider = decider
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

  /** Requests that have not been answered. */
  get inFlight(): number {
    return this.inFlightCount
  }

  /** From now on each answer ends its connection, so that clients have moved before `drain`. */
  beginShutdown(): void {
    this.isEnding = true
  }

  /**
   * Stops listening, answers what is in flight with `Connection: close`, closes; what runs at `timeoutMs` is
   * cut.
   */
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
    await this.untilQuiet(timeoutMs)
    await nextTurn() // the last answer was given within a callback of the app: that must return before `close`
    this.close()
  }

  /** A connection that is kept alive may just be sending its next request: that one gets its answer, too. */
  private async untilQuiet(timeoutMs: number): Promise<void> {
    const untilMs = performance.now() + Math.min(timeoutMs, LINGER_MS_MAX)
    let seen = -1
    while (seen !== this.requestsCount && performance.now() < untilMs) {
      seen = this.requestsCount
      await sleep(LINGER_MS)
    }
  }

  /** Cuts everything now. */
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

  send(res: HttpResponse, isHead: boolean, { status, type, body, isError, mustClose }: Answer): void {
    res.cork(() => {
      res.writeStatus(status)
      if (type !== '') res.writeHeader('Content-Type', type)
      if (isError) res.writeHeader('X-Content-Type-Options', 'nosniff') // no guessing at error texts
      if (isHead) endHeadResponse(res, Buffer.byteLength(body))
      else endResponse(res, body, this.isEnding || mustClose === true)
    })
  }

  private route(res: HttpResponse, req: HttpRequest): void {
    this.requestsCount++
    const path = req.getUrl()
    const isHead = req.getMethod() === 'head'
    if (path === '/json') JsonCall.start(this, res, isHead, Number(req.getHeader('content-length')))
    else if (path === '/healthcheck') this.send(res, isHead, this.healthAnswer(req.getQuery()))
    else {
      const cleaned = posix.normalize(path)
      if (cleaned === path) this.send(res, isHead, NOT_FOUND)
      else this.redirect(res, cleaned, req.getQuery())
    }
  }

  /** Spec 6.1; `?verbose` tells more, with the same status. */
  private healthAnswer(query: string | undefined): Answer {
    const { isHealthy, report } = this.health
    const answer = isHealthy ? HEALTHY : UNHEALTHY
    return query === 'verbose' ? { ...answer, type: TEXT, body: report } : answer
  }

  private redirect(res: HttpResponse, path: string, query: string | undefined): void {
    res.writeStatus('301 Moved Permanently')
    const location = path.replaceAll('\\', '%5C') // browsers take `/\` for `//`, which is another host
    res.writeHeader('Location', query ? `${location}?${query}` : location)
    endResponse(res, '', false)
  }
}

/** One `/json` request, from its first byte to its answer, or to the moment its client goes away. */
class JsonCall implements DecisionCallback {
  private readonly server: HttpServer
  private readonly res: HttpResponse
  private readonly isHead: boolean
  private body: Body | null = null // only for a body of several chunks
  private isDone = false // answered or gone: `res` must not be touched any more

  /** Reads the body; the answer follows by itself. `length` is what the header says: 0 or NaN without one. */
  static start(server: HttpServer, res: HttpResponse, isHead: boolean, length: number): void {
    const call = new JsonCall(server, res, isHead)
    server.begin()
    res.onAborted(() => call.finish())
    if (length > 2 * server.bodyBytesMax) call.refuseTooLong(true)
    else res.onData((chunk, isLast) => call.read(chunk, isLast))
  }

  private constructor(server: HttpServer, res: HttpResponse, isHead: boolean) {
    this.server = server
    this.res = res
    this.isHead = isHead
  }

  get isCancelled(): boolean {
    return this.isDone
  }

  onDecision(response: RateLimitResponse): void {
    if (!this.finish()) return
    let answer = VERSION_NOT_SUPPORTED
    try {
      const body = responseToJson(response)
      answer = { status: statusLine(response.overallCode), type: 'application/json', body }
    } catch (error) {
      this.server.logDefect(`a response cannot be written as JSON: ${(error as Error).message}`)
    }
    this.server.send(this.res, this.isHead, answer)
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
    if (body.isHopeless) this.refuseTooLong(!isLast)
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
      this.server.decider.decide(request, this)
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

  /** True for the first who calls: that one may answer. */
  private finish(): boolean {
    if (this.isDone) return false
    this.isDone = true
    this.server.end()
    return true
  }
}

function statusLine(overallCode: Code): string {
  if (overallCode === Code.Ok) return '200 OK'
  if (overallCode === Code.OverLimit) return '429 Too Many Requests'
  return '500 Internal Server Error' // no decision yields it
}
