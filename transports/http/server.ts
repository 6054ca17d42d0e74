/**
 * The HTTP port of a worker (spec 6.1, 6.2): `/json` asks the same engine as gRPC does, `/healthcheck` tells
 * its state.
 *
 *     body ── text ── JSON ── Decider ──► OK 200, OVER_LIMIT 429, with the response as JSON
 *       │        └───────┴───────┴──────► 400 `Bad Request`, whatever went wrong; the cause is only logged
 *       └ longer than HTTP_BODY_MAX_BYTES: 413
 *
 * All workers listen on the same port. uWebSockets.js speaks HTTP/1.1 only: HTTP/1.0 gets its 505, header
 * blocks above 4 KiB its 431, a request not complete after about 12 seconds is closed.
 */
import { posix } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Caller, Decider } from '../../engine/decider.ts'
import { OperatorError } from '../../engine/errors.ts'
import type { Log } from '../../engine/messages.ts'
import { requestFromJson, responseToJson } from '../../proto/json.ts'
import { Code, type RateLimitRequest, type RateLimitResponse } from '../../proto/ratelimit.ts'
import { type HttpRequest, type HttpResponse, openUws, type UwsPort } from '../uws.ts'
import { Body, bodyText } from './body.ts'
import { limitLines } from './log-limiter.ts'

const ERROR_LINES_PER_SEC = 10 // causes of 400 and 413 that reach the log

export interface HttpServerOptions {
  host: string
  port: number // 0 = any free one, which then cannot be shared with other workers
  bodyBytesMax: number
  decider: Decider
  isHealthy: () => boolean
  log: Log
}

interface Answer {
  status: string // the whole line, such as `200 OK`
  type: string // empty = no content type
  body: string
  isError?: boolean
  mustClose?: boolean
}

const TEXT = 'text/plain; charset=utf-8'
const HEALTHY: Answer = { status: '200 OK', type: TEXT, body: 'OK' }
const UNHEALTHY: Answer = { status: '500 Internal Server Error', type: '', body: '' }
const NOT_FOUND: Answer = { status: '404 Not Found', type: TEXT, body: '404 page not found\n', isError: true }
const BAD_REQUEST: Answer = { status: '400 Bad Request', type: TEXT, body: 'Bad Request\n', isError: true }

/** Listens at once, or throws an OperatorError. Must be closed or drained before its thread ends. */
export class HttpServer {
  readonly bodyBytesMax: number
  readonly decider: Decider
  readonly log: Log
  readonly logCause: (cause: string) => void
  private readonly isHealthy: () => boolean
  private readonly uwsPort: UwsPort
  private inFlightCount = 0 // bounded by connections: one request each
  private isDraining = false
  private onIdle: (() => void) | null = null

  constructor({ host, port, bodyBytesMax, decider, isHealthy, log }: HttpServerOptions) {
    this.bodyBytesMax = bodyBytesMax
    this.decider = decider
    this.isHealthy = isHealthy
    this.log = log
    this.logCause = limitLines((cause) => log('warning', `error: ${cause}`), ERROR_LINES_PER_SEC)
    const opened = openUws(host, port, (app) => app.any('/*', (res, req) => this.route(res, req)))
    if (opened === null) {
      throw new OperatorError({
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

  /**
   * Stops listening, answers what is in flight with `Connection: close`, closes; what runs at `timeoutMs` is
   * cut.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.isDraining = true
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
    await nextTurn() // the last answer was given within a callback of the app: that must return before `close`
    this.close()
  }

  /** Cuts everything now. */
  close(): void {
    this.isDraining = true
    this.uwsPort.close()
  }

  begin(): void {
    this.inFlightCount++
  }

  end(): void {
    this.inFlightCount--
    if (this.inFlightCount === 0) this.onIdle?.()
  }

  /** Answers now. HEAD is told how long the body would be, and the library would send the body itself. */
  send(res: HttpResponse, isHead: boolean, { status, type, body, isError, mustClose }: Answer): void {
    const closes = this.isDraining || mustClose === true // says `Connection: close`, and does
    res.cork(() => {
      res.writeStatus(status)
      if (type !== '') res.writeHeader('Content-Type', type)
      if (isError) res.writeHeader('X-Content-Type-Options', 'nosniff') // no guessing at error texts
      if (isHead) {
        // By hand: with a length as its argument the library waits for a body that never comes, and aborts.
        res.writeHeader('Content-Length', String(Buffer.byteLength(body)))
        if (closes) res.writeHeader('Connection', 'close')
        res.endWithoutBody()
      } else res.end(body, closes)
    })
  }

  private route(res: HttpResponse, req: HttpRequest): void {
    const path = req.getUrl()
    const isHead = req.getMethod() === 'head'
    if (path === '/json') JsonCall.start(this, res, isHead, Number(req.getHeader('content-length')))
    else if (path === '/healthcheck') this.send(res, isHead, this.isHealthy() ? HEALTHY : UNHEALTHY)
    else {
      const cleaned = posix.normalize(path)
      if (cleaned === path) this.send(res, isHead, NOT_FOUND)
      else this.redirect(res, cleaned, req.getQuery())
    }
  }

  private redirect(res: HttpResponse, path: string, query: string | undefined): void {
    res.writeStatus('301 Moved Permanently')
    res.writeHeader('Location', query ? `${path}?${query}` : path)
    res.end('', this.isDraining)
  }
}

/** One `/json` request, from its first byte to its answer, or to the moment its client goes away. */
class JsonCall implements Caller {
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

  answer(response: RateLimitResponse): void {
    if (!this.finish()) return
    const status = statusLine(response.overallCode)
    this.server.send(this.res, this.isHead, {
      status,
      type: 'application/json',
      body: responseToJson(response),
    })
  }

  fail(error: Error): void {
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
      this.fail(error as Error)
      return
    }
    try {
      this.server.decider.decide(request, this)
    } catch (error) {
      this.server.log('error', `a decision threw: ${error instanceof Error ? error.stack : error}`)
      this.fail(new Error('internal error'))
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
