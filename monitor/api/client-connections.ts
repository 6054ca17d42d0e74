/**
 * At most 64 connections from one client address (spec 4.5), and so many in all that the rest of the process, which decides
 * and probes, keeps its files. The next one is closed before it has said anything: an answer would cost what the bound is
 * to save. Trusted proxies are only counted among all, since everybody comes through them.
 *
 *     opened ── below 64 ──► counted ──► request ─► answer ─► request ─► … ──► closed: one less
 *        └───── 64 open ───► closed at once
 *
 * The library tells that a connection has closed, but not which one: its address is gone by then, and each callback gets
 * an object of its own. What it does tell is `onAborted`, to the one handler that a connection has at a time. So there is
 * always one that counts:
 *
 *     opened      the object of `filter` carries it
 *     requested   the request's own handler counts first
 *     answered    the object of the first route carries it: that one was not used for the answer, so it is still good
 *
 * The first route is only there for its object; it yields to the second, which handles. Two routes for everything need
 * two patterns: to the library all that begins with `*` fits any rest of a path. The library answers `Expect: 100-continue` at
 * each route, so here twice; a client has to read any number of interim responses (RFC 9110, 15.2).
 */
import { readFileSync } from 'node:fs'
import { withStrictFraming } from '../../engine/runtime/http-framing.ts'
import { type AddressOptions, getClientAddress, isTrustedPeer } from './client-address.ts'
import type { Connection, HttpRequest, HttpResponse, ServedApp } from './sockets.ts'

const CONNECTIONS_MAX = 64 // of one address
const ALL_MAX = 4_096
const FILES_SHARE = 0.25 // of the files that the process may open
const NOBODY = new Uint8Array(0)

export class ClientConnections {
  refusedCount = 0
  fullCount = 0 // of those: refused since all places were taken
  private readonly options: AddressOptions
  private readonly connectionsMax: number
  readonly allMax: number
  private openCount = 0
  private readonly counts = new Map<string, number>() // by client; none is kept at 0, so no more than connections
  private closedCount = 0

  constructor(options: AddressOptions, connectionsMax = CONNECTIONS_MAX, allMax = placesFor(openFilesMax())) {
    this.options = options
    this.connectionsMax = connectionsMax
    this.allMax = allMax
  }

  /** Instead of `app.any('/*', handle)`. All requests of the app have to come through here. */
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
      connection = res
      // A reset that came with the request: the address is not known any more, but the handler there is knows it.
      if (getPeerBytes(res).length === 0 && !this.options.trustsUnix) res.close()
      else req.setYield(true)
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
        onGone() // closed within `end`: there is nothing left to put a handler on
      else connection.onAborted(onGone)
    }
    const closing = () => {
      const before = this.closedCount
      setImmediate(() => {
        if (this.closedCount === before) connection.close() // else it may have been this one, which must not be touched
      })
    }
    return new CountedResponse(res, onGone, { ending, closing })
  }

  private gone(client: string): void {
    const count = this.getCount(client) - 1
    if (count > 0) this.counts.set(client, count)
    else this.counts.delete(client)
  }

  /** As quotas know it; null = not to be counted. */
  private getClient(connection: Connection): string | null {
    const peer = getPeerBytes(connection)
    if (peer.length === 0 || isTrustedPeer(peer, this.options)) return null
    return getClientAddress({ peer, proxied: NOBODY, forwarded: '' }, this.options)
  }
}

/** Of the monitor, when the process may open so many files. */
export function placesFor(filesMax: number): number {
  return Math.min(ALL_MAX, Math.max(1, Math.floor(filesMax * FILES_SHARE)))
}

/** Node has raised the limit to the highest it may have. Elsewhere than on Linux nobody says. */
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

/** A response that keeps the count: it hears first of its client's going away, and puts the handler back at its end. */
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
