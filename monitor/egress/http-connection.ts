/**
 * One request and its response over an open, checked socket: HTTP/1.1 by Node's strict parser, and every limit of spec 5.9
 * that comes after the handshake.
 *
 *     request ──► head, within firstByteMs and headBytes ──► body, within bodyMs, bodyBytes and the ratio
 *                  a redirect ends here, its body unread
 *
 * The Agent of a connection has this socket only and never dials. After a complete response the connection may carry the
 * next request of the same origin; after anything else it is destroyed. The specification names undici for this;
 * node:http with one socket gives the same guarantees without a dependency.
 */
import type { IncomingMessage } from 'node:http'
import { Agent, request as httpRequest } from 'node:http'
import type { Socket } from 'node:net'
import { readBody } from './body.ts'
import { within } from './deadline.ts'
import { Failure, toFailure } from './failure.ts'
import type { Limits } from './limits.ts'

export interface HttpRequest {
  url: URL
  method: 'GET' | 'HEAD'
  headers: Record<string, string>
  bodyBytes: number
  limits: Limits
  signal?: AbortSignal
}

export interface Response {
  status: number
  httpVersion: string
  headers: ReadonlyMap<string, string> // lower case; repeated ones joined by `, `
  body: Buffer
  firstByteAtMs: number // performance.now()
  failure: Failure | null // of the body; status and headers stand
}

export class HttpConnection {
  readonly socket: Socket
  private readonly agent: Agent
  hasResponded = false

  constructor(socket: Socket) {
    this.socket = socket
    this.agent = new Agent({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1 })
    this.agent.createConnection = () => socket
  }

  /** Kept alive by both sides and without a request. */
  get isIdle(): boolean {
    const idle = Object.values(this.agent.freeSockets).flat()
    return !this.socket.destroyed && idle.some((socket) => socket === this.socket)
  }

  close(): void {
    this.agent.destroy()
    this.socket.destroy()
  }

  async exchange(ask: HttpRequest): Promise<Response> {
    try {
      const { limits, signal: outer } = ask
      const head = await within({ ms: limits.firstByteMs, code: 'http_timeout', outer }, (signal) =>
        this.head(ask, signal),
      )
      const message = { ...head.message, body: Buffer.alloc(0), failure: null }
      if (isRedirect(head.message)) {
        this.close()
        return message
      }
      try {
        const body = await within({ ms: limits.bodyMs, code: 'http_timeout', outer }, (signal) =>
          readBody(head.response, {
            bytesMax: ask.bodyBytes,
            ratioMax: limits.decompressionRatio,
            isEmpty: ask.method === 'HEAD' || [204, 304].includes(head.message.status),
            signal,
          }),
        )
        this.hasResponded = true
        return { ...message, body }
      } catch (error) {
        this.close()
        return { ...message, failure: head.firstFailure() ?? toFailure('http', error) }
      }
    } catch (error) {
      this.close()
      throw toFailure('http', error)
    }
  }

  private head(ask: HttpRequest, signal: AbortSignal): Promise<Head> {
    return new Promise((resolve, reject) => {
      let firstFailure: Failure | null = null // also while the body is read
      let firstByteAtMs = 0
      const fail = (error: unknown) => {
        firstFailure ??= toFailure('http', error)
        this.socket.destroy()
        reject(firstFailure)
      }
      const { url, limits } = ask
      if (this.socket.destroyed) throw new Failure('http_reset', 'closed')
      const request = httpRequest({
        agent: this.agent,
        host: url.hostname,
        method: ask.method,
        path: url.pathname + url.search,
        headers: { host: url.host, ...ask.headers },
        maxHeaderSize: limits.headBytes,
        insecureHTTPParser: false, // overrides the process's own flag
      })
      const abort = () => fail(signal.reason)
      signal.addEventListener('abort', abort, { once: true })
      request.on('error', fail)
      request.once('close', () => signal.removeEventListener('abort', abort))
      request.on('upgrade', () => fail(new Failure('body_invalid', 'upgrade')))
      request.once('socket', (socket) => {
        let wireBytes = 0
        let isHeadDone = false
        request.once('response', () => {
          isHeadDone = true
        })
        const count = (chunk: Buffer) => {
          if (wireBytes === 0) firstByteAtMs = performance.now()
          const wireBytesMax = limits.headBytes + (isHeadDone ? limits.wirePerBodyByte * ask.bodyBytes : 0)
          if (wireBytes > wireBytesMax) fail(new Failure('too_large', 'wire'))
          wireBytes += chunk.length
        }
        socket.prependListener('data', count) // runs before the parser's listener
        request.once('close', () => {
          socket.off('data', count)
          if (!isHeadDone) fail(new Failure('http_reset', 'closed'))
        })
      })
      request.once('response', (response) => {
        const message = { ...readHead(response), firstByteAtMs }
        resolve({ response, message, firstFailure: () => firstFailure })
      })
      request.end()
    })
  }
}

interface Head {
  response: IncomingMessage
  message: Omit<Response, 'body' | 'failure'>
  firstFailure: () => Failure | null
}

export function isRedirect(message: Pick<Response, 'status' | 'headers'>): boolean {
  return [301, 302, 303, 307, 308].includes(message.status) && message.headers.has('location')
}

function readHead(response: IncomingMessage) {
  const headers = new Map<string, string>()
  for (let i = 0; i < response.rawHeaders.length; i += 2) {
    const name = response.rawHeaders[i].toLowerCase()
    const before = headers.get(name)
    const value = response.rawHeaders[i + 1]
    headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return { status: response.statusCode as number, httpVersion: response.httpVersion, headers }
}
