/**
 * An HTTP proxy on a random port of 127.0.0.1 through which a browser reaches public addresses and nothing else (spec 8.3):
 * every CONNECT and every request passes all checks of spec 5, is connected to exactly the address that was checked, and
 * needs a one-time password.
 *
 *     browser ── CONNECT relay.example.com:443 ──┐                      ┌─► 407 without the password
 *             ── GET http://relay.example.com/ ──┴► password ─► policy ─┼─► 403 denied by policy    502 not reachable
 *                                                                       └─► bytes, up to `bytesMax` in all
 *
 * Serves one session of one browser. Beyond `bytesMax`, after `ms` and at `close` all its connections are destroyed; nothing
 * is accepted from then on.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Egress } from './egress.ts'
import { Failure } from './failure.ts'

export const PROXY_LIMITS = {
  bytesMax: 8 * 1_024 * 1_024, // both directions, TLS included; heads of plain requests are not counted
  ms: 20_000, // from `listen` on
  connections: 64, // of the browser at once; further ones are closed
  requests: 256, // plain ones and CONNECTs; further ones get 503
  headBytes: 32_768, // of one request or response; larger ones are refused
}
export type ProxyLimits = typeof PROXY_LIMITS

export interface FilteringProxyOptions {
  egress: Pick<Egress, 'connect'>
  extra?: { host: string; port: number } // the additional port that a catalogue entry may name, on its own host only
  limits?: Partial<ProxyLimits>
}

export const PROXY_USER = 'sluice'
const AUTHORITY = /^[^/?#@\\\s]{1,300}:[0-9]{1,5}$/
const PASSWORD_BYTES = 32
const REFUSED_MAX = 256

// Hop-by-hop fields (RFC 9110, 7.6.1) are not passed on; each request has its own connection to the target.
// biome-ignore format: a list
const HOP_BY_HOP = new Set([
  'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer',
  'transfer-encoding', 'upgrade',
])

export class FilteringProxy {
  readonly password = randomBytes(PASSWORD_BYTES).toString('hex')
  /** Called once, when connections are cut because the session has used up its bytes. */
  onOverBytes = () => {}
  port = 0 // set by listen
  /** Hosts that policy refused in this session, at most 256. */
  readonly refusedHosts = new Set<string>()
  private readonly options: FilteringProxyOptions
  private readonly limits: ProxyLimits
  private readonly expected: Buffer // digest of Proxy-Authorization
  private readonly server: Server
  private readonly sockets = new Set<Duplex>()
  private readonly closing = new AbortController()
  private readonly timer: NodeJS.Timeout
  private bytes = 0
  private requests = 0

  /** Resolves when it listens. */
  static async listen(options: FilteringProxyOptions): Promise<FilteringProxy> {
    const proxy = new FilteringProxy(options)
    await new Promise<void>((resolve, reject) => {
      proxy.server.once('error', reject)
      proxy.server.listen(0, '127.0.0.1', resolve)
    }).catch((error) => {
      proxy.destroy()
      throw error
    })
    proxy.port = (proxy.server.address() as AddressInfo).port
    return proxy
  }

  private constructor(options: FilteringProxyOptions) {
    this.options = options
    this.limits = { ...PROXY_LIMITS, ...options.limits }
    const credentials = Buffer.from(`${PROXY_USER}:${this.password}`).toString('base64')
    this.expected = digest(`Basic ${credentials}`)
    const { headBytes, ms, connections } = this.limits
    this.server = createServer({ maxHeaderSize: headBytes, insecureHTTPParser: false, requestTimeout: ms })
    this.server.maxConnections = connections
    this.server.on('connection', (socket) => this.track(socket))
    this.server.on('clientError', (_, socket) => socket.destroy())
    this.server.on('upgrade', (_, socket) => socket.destroy()) // browsers open WebSockets by CONNECT
    this.server.on('connect', (request, socket, head) => void this.tunnel(request, socket as Socket, head))
    this.server.on('request', (request, response) => void this.forward(request, response))
    this.timer = setTimeout(() => this.destroy(), ms)
  }

  /** Whether connections were cut because the session used up its bytes. */
  get isOverBytes(): boolean {
    return this.bytes > this.limits.bytesMax
  }

  /** Destroys every connection; resolves when the port is closed. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()))
    this.destroy()
    await closed
  }

  private destroy(): void {
    clearTimeout(this.timer)
    this.closing.abort()
    this.server.close()
    for (const socket of this.sockets) socket.destroy()
  }

  private async tunnel(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    socket.on('error', () => {}) // the server no longer handles it
    const refuse = (line: string, fields = '') => {
      socket.end(`HTTP/1.1 ${line}\r\n${fields}Content-Length: 0\r\nConnection: close\r\n\r\n`)
    }
    const authority = request.url ?? ''
    if (!this.isAuthorized(request)) return refuse(...CHALLENGE)
    if (this.isOverRequests()) return refuse('503 Service Unavailable')
    if (!AUTHORITY.test(authority)) return refuse('400 Bad Request')
    const target = await this.connect(`https://${authority}/`)
    if (typeof target === 'number') return refuse(target === 403 ? '403 Forbidden' : '502 Bad Gateway')
    this.count(target)
    this.count(socket)
    target.once('close', () => socket.destroy())
    socket.once('close', () => target.destroy())
    if (socket.destroyed) return void target.destroy()
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
    if (head.length > 0) socket.unshift(head)
    socket.pipe(target)
    target.pipe(socket)
  }

  private async forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = (status: number, fields: Record<string, string> = {}) => {
      request.resume()
      response.writeHead(status, { 'content-length': '0', connection: 'close', ...fields }).end()
    }
    const url = request.url ?? ''
    if (!this.isAuthorized(request)) return answer(407, { 'proxy-authenticate': REALM })
    if (this.isOverRequests()) return answer(503)
    if (!/^http:/i.test(url)) return answer(400) // TLS is the browser's, by CONNECT
    const target = await this.connect(url)
    if (typeof target === 'number') return answer(target)
    response.once('close', () => target.destroy())
    if (response.destroyed) return void target.destroy()
    const { pathname, search, host } = new URL(url)
    const outgoing = httpRequest({
      createConnection: () => target,
      method: request.method,
      path: pathname + search,
      headers: [...removeHopByHop(request.rawHeaders, ['host']), 'Host', host, 'Connection', 'close'],
      maxHeaderSize: this.limits.headBytes,
      insecureHTTPParser: false,
    })
    this.count(request)
    outgoing.on('error', () => (response.headersSent ? response.destroy() : answer(502)))
    outgoing.once('response', (incoming) => {
      this.count(incoming)
      incoming.on('error', () => response.destroy())
      try {
        response.writeHead(incoming.statusCode!, removeHopByHop(incoming.rawHeaders))
        incoming.pipe(response)
      } catch {
        response.destroy() // header fields that Node reads but does not write
      }
    })
    request.pipe(outgoing)
  }

  /** A connection to the target, 403 if policy refuses it, or 502. */
  private async connect(url: string): Promise<Socket | 403 | 502> {
    const { egress, extra } = this.options
    const host = URL.canParse(url) ? new URL(url).hostname : ''
    try {
      const socket = await egress.connect({
        url,
        purpose: 'catalogue',
        extraPort: host === extra?.host ? extra.port : undefined,
        signal: this.closing.signal,
      })
      this.track(socket)
      return socket
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      const isRefused = error.code === 'target_not_allowed' || error.code === 'dns_bogus'
      if (isRefused && this.refusedHosts.size < REFUSED_MAX) this.refusedHosts.add(host)
      return isRefused ? 403 : 502
    }
  }

  private isAuthorized({ headers }: IncomingMessage): boolean {
    return timingSafeEqual(digest(headers['proxy-authorization'] ?? ''), this.expected)
  }

  private isOverRequests(): boolean {
    return ++this.requests > this.limits.requests || this.closing.signal.aborted
  }

  private track(socket: Duplex): void {
    this.sockets.add(socket)
    socket.once('close', () => this.sockets.delete(socket))
    if (this.closing.signal.aborted) socket.destroy()
  }

  /** Counts what a stream delivers. To be called in the same turn as its `pipe`, since it makes the stream flow. */
  private count(stream: NodeJS.ReadableStream): void {
    stream.on('data', (chunk: Buffer) => {
      if (this.isOverBytes) return
      this.bytes += chunk.length
      if (!this.isOverBytes) return
      this.destroy()
      this.onOverBytes()
    })
  }
}

const REALM = 'Basic realm="screenshots"'
const CHALLENGE = ['407 Proxy Authentication Required', `Proxy-Authenticate: ${REALM}\r\n`] as const

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** Names and values in turns, without hop-by-hop fields and those that Connection names. */
function removeHopByHop(raw: readonly string[], without: readonly string[] = []): string[] {
  const pairs = raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1]]] : []))
  const named = pairs
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.toLowerCase().split(','))
  const dropped = new Set([...HOP_BY_HOP, ...without, ...named.map((name) => name.trim())])
  return pairs.filter(([name]) => !dropped.has(name.toLowerCase())).flat()
}
