/**
 * Connections kept between the visits of one probe (spec 6.1: one connection where possible, one request after another).
 * Each stays bound to the checked address it was opened to; it belongs to one origin and one session.
 *
 *     const session = new Session()
 *     await egress.visit({ url, session, … })   // opens
 *     await egress.visit({ url: other, session, … })   // same origin: same connection, if both sides kept it
 *     session.close()
 */
import type { PeerFacts } from './connect.ts'
import type { HttpConnection } from './http-connection.ts'
import { LIMITS } from './limits.ts'

/** An open connection and what was found while it was opened. */
export interface Connection {
  http: HttpConnection
  certificate: PeerFacts | null
  addresses: string[] // of the host, all checked, at most LIMITS.addressesReported
  hasIpv6: boolean
  remoteAddress: string | null // null = through a proxy
}

export class Session {
  private readonly kept = new Map<string, Connection>() // origin → connection, oldest first
  private isClosed = false

  /** Removes the connection from the session; the caller keeps it again. */
  take(origin: string): Connection | undefined {
    const connection = this.kept.get(origin)
    this.kept.delete(origin)
    if (connection?.http.isIdle) return connection
    connection?.http.close()
    return undefined
  }

  /** A closed connection is dropped when it is taken or the session ends. */
  keep(origin: string, connection: Connection): void {
    if (this.isClosed) {
      connection.http.close()
      return
    }
    this.kept.get(origin)?.http.close()
    this.kept.set(origin, connection)
    for (const [oldest, { http }] of this.kept) {
      if (this.kept.size <= LIMITS.sessionConnections) break
      this.kept.delete(oldest)
      http.close()
    }
  }

  close(): void {
    this.isClosed = true
    for (const { http } of this.kept.values()) http.close()
    this.kept.clear()
  }
}
