/**
 * Warns once of a proxy that TRUSTED_PROXIES does not name. While that setting is empty, forwarding headers are ignored, so
 * all clients behind a proxy share one quota. A private peer that sends such a header is taken for a proxy; a public one is
 * not, since anyone may send it.
 */
import type { Log } from '../../engine/runtime/messages.ts'
import { contains, parseRange, type Range } from '../egress/address.ts'
import { type AddressOptions, addressText, plain } from './client-address.ts'
import type { HttpRequest } from './sockets.ts'

const HEADERS = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'cf-connecting-ip'] as const

// Loopback, RFC 1918, shared (RFC 6598), link-local and unique local addresses.
// biome-ignore format: a table
const PRIVATE = [
  '127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '169.254.0.0/16',
  '::1', 'fe80::/10', 'fc00::/7',
].map((text) => parseRange(text) as Range)

export class ForwardingWatch {
  private isWatching: boolean
  private readonly log: Log

  constructor({ trusted, trustsUnix }: AddressOptions, log: Log) {
    this.isWatching = trusted.length === 0 && !trustsUnix
    this.log = log
  }

  /** Must be called within the callback of uWebSockets.js. `peer` is the address of the socket. */
  see(req: Pick<HttpRequest, 'getHeader'>, peer: Uint8Array): void {
    if (!this.isWatching) return
    const address = plain(peer)
    if (!PRIVATE.some((range) => contains(range, address))) return
    const header = HEADERS.find((name) => req.getHeader(name) !== '')
    if (header === undefined) return
    this.isWatching = false
    const proxy = addressText(address)
    this.log(
      'warning',
      `requests come from ${proxy} with the header ${header}, but TRUSTED_PROXIES is empty: all clients behind that address ` +
        `share one quota. If it is your proxy, set TRUSTED_PROXIES=${proxy} and CLIENT_IP_HEADER=${header}.`,
    )
  }
}
