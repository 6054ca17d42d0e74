/**
 * Bounds connections: 64 per client address (spec 4.5), and in all a quarter of the files that the process may open. A
 * connection beyond is closed without a response. Trusted proxies count among all only, since they carry many clients.
 *
 *     opened ── below 64 ──► counted ──► request ─► response ─► request ─► … ──► closed: one less
 *        └───── 64 open ───► closed at once
 *
 * uWebSockets.js reports that a connection has closed, but not which one: its address is unknown by then, and each callback
 * gets an object of its own. It does call `onAborted`, of the one handler that a connection has at a time. Therefore one
 * object always carries a handler that decrements the count:
 *
 *     opened      the object of `filter`
 *     requested   the object of the request; CountedResponse calls its own handler first
 *     answered    the object of the first route, which was not used for the response and is still valid
 *
 * The first route exists for its object only and yields to the second; a request that is not counted (of a trusted proxy) is
 * handled by the first. Two routes for every path need two patterns; the library matches any pattern that begins with `*`
 * against the rest of a path. The library itself responds to `Expect: 100-continue` at each route that it visits, so counted
 * clients receive two interim responses, which they must accept (RFC 9110, 15.2), and trusted proxies one.
 */
import { readFileSync } from 'node:fs'
import { withStrictFraming } from '../../engine/runtime/http-framing.ts'
import { type AddressOptions, getClientAddress, isTrustedPeer } from './client-address.ts'
import type { Connection, HttpRequest, HttpResponse, ServedApp } from './sockets.ts'

const CONNECTIONS_MAX = 64 // of one address
const ALL_MAX = 4_096
const FILES_SHARE = 0.25 // of the files that the process may open; the rest is for decisions and probes
const NO_ADDRESS = new Uint8Array(0)

export class ClientConnections {
  refusedCount = 0
  fullCount = 0 // of those: refused because of allMax
  private readonly options: AddressOptions
  private readonly connectionsMax: number
  readonly allMax: number
  private openCount = 0
  private readonly counts = new Map<string, number>() // by client; entries at 0 are deleted, so at most allMax
  private closedCount = 0

  constructor(options: AddressOptions, connectionsMax = CONNECTIONS_MAX, allMax = placesFor(openFilesMax())) {
    this.options = options
    this.connectionsMax = connectionsMax
    this.allMax = allMax
  }

  /** Replaces `app.any('/*', handle)`. All requests of the app must pass through here. */
  serve(app: ServedApp, handle: (res: HttpResponse, req: HttpRequest) => void): void {
    const changed = (connection: Connection, count: unknown) => {
      if (Number(count) > 0) {
        this.openCount++
        this.opened(connection)
      } else {
        this.openCount--
        this.closedCount++
      }
    }
    app.filter(changed)
    const handleFramed = withStrictFraming(handle, 'taken')
    let connection: Connection
    app.any('/*connection', (res, req) => {
      // Reset together with the request: the address is unknown, but the handler already set knows it.
      if (getPeerBytes(res).length === 0 && !this.options.trustsUnix) res.close()
      else if (this.getClient(res) === null) handleFramed(res, req)
      else {
        connection = res
        req.setYield(true)
      }
    })
    app.any('/*', (res, req) => handleFramed(this.counted(res, connection), req))
  }

  getCount(client: string): number {
    return this.counts.get(client) ?? 0
  }

  private opened(connection: Connection): void {
    if (this.openCount > this.allMax) {
      this.fullCount++
      this.refusedCount++
      connection.close()
      return
    }
    const client = this.getClient(connection)
    if (client === null) return
    const count = this.getCount(client)
    if (count >= this.connectionsMax) {
      this.refusedCount++
      connection.close()
      return
    }
    this.counts.set(client, count + 1)
    connection.onAborted(() => this.gone(client))
  }

  private counted(res: HttpResponse, connection: Connection): HttpResponse {
    const client = this.getClient(connection)
    if (client === null) return res
    const onGone = () => this.gone(client)
    const ending = (end: () => void) => {
      const before = this.closedCount
      end()
      if (this.closedCount !== before)
        onGone() // closed within `end`: no object left for a handler
      else connection.onAborted(onGone)
    }
    const closing = () => {
      const before = this.closedCount
      setImmediate(() => {
        if (this.closedCount === before) connection.close() // else this one may be closed, and must not be touched
      })
    }
    return new CountedResponse(res, onGone, { ending, closing })
  }

  private gone(client: string): void {
    const count = this.getCount(client) - 1
    if (count > 0) this.counts.set(client, count)
    else this.counts.delete(client)
  }

  /** The address that quotas count; null = not counted. */
  private getClient(connection: Connection): string | null {
    const peer = getPeerBytes(connection)
    if (peer.length === 0 || isTrustedPeer(peer, this.options)) return null
    return getClientAddress({ peer, proxied: NO_ADDRESS, forwarded: '' }, this.options)
  }
}

/** The maximum of connections when the process may open `filesMax` files. */
export function placesFor(filesMax: number): number {
  return Math.min(ALL_MAX, Math.max(1, Math.floor(filesMax * FILES_SHARE)))
}

/** Node has raised the soft limit to the hard limit. Infinity on systems other than Linux. */
function openFilesMax(): number {
  try {
    return Number(
      /^Max open files\s+([0-9]+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity,
    )
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

function getPeerBytes(connection: Connection): Uint8Array {
  return new Uint8Array(connection.getRemoteAddress())
}

/** A response that keeps the count: `onAborted` decrements it first, and the end of a response sets the next handler. */
class CountedResponse implements HttpResponse {
  private readonly res: HttpResponse
  private readonly onGone: () => void
  private readonly ending: (end: () => void) => void
  private readonly closing: () => void

  constructor(
    res: HttpResponse,
    onGone: () => void,
    { ending, closing }: { ending: (end: () => void) => void; closing: () => void },
  ) {
    this.res = res
    this.onGone = onGone
    this.ending = ending
    this.closing = closing
  }

  onAborted(handler: () => void): void {
    this.res.onAborted(() => {
      this.onGone()
      handler()
    })
  }

  end(body: string | Uint8Array, mustClose: boolean): void {
    this.ending(() => this.res.end(body, mustClose))
  }

  endWithoutBody(): void {
    this.ending(() => this.res.endWithoutBody())
  }

  close(): void {
    this.res.close()
  }

  closeSoon(): void {
    this.closing()
  }

  tryEnd(rest: string | Uint8Array, totalBytes: number): [hasRoom: boolean, isDone: boolean] {
    let result: [hasRoom: boolean, isDone: boolean] = [false, false]
    this.ending(() => {
      result = this.res.tryEnd(rest, totalBytes)
    })
    return result
  }

  onWritable(handler: (offset: number) => boolean): void {
    this.res.onWritable(handler)
  }

  writeStatus(line: string): void {
    this.res.writeStatus(line)
  }

  writeHeader(name: string, value: string): void {
    this.res.writeHeader(name, value)
  }

  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): void {
    this.res.onData(handler)
  }

  cork(write: () => void): void {
    this.res.cork(write)
  }

  getRemoteAddress(): ArrayBuffer {
    return this.res.getRemoteAddress()
  }

  getProxiedRemoteAddress(): ArrayBuffer {
    return this.res.getProxiedRemoteAddress()
  }
}
