/** A copy of one request: the object of uWebSockets.js is invalid after its callback. */
import type { AddressOptions } from './client-address.ts'
import type { HttpRequest, HttpResponse } from './sockets.ts'

// biome-ignore format: one per line would hide that this is all
const HEADERS = [
  'accept-encoding', 'accept-language', 'authorization', 'content-length', 'content-type', 'host', 'if-none-match',
  'origin', 'sec-fetch-site', 'x-api-key',
] as const
type Known = (typeof HEADERS)[number]

export interface ApiRequest {
  method: string // as sent; GET is not get
  path: string // raw
  query: string // raw, without `?`
  headers: Readonly<Record<Known, string>> // empty = absent
  forwarded: string // all lines of CLIENT_IP_HEADER; empty = absent, or no proxy is trusted
  peer: Uint8Array // of the socket: 4 or 16 bytes, 0 on a Unix socket
  proxied: Uint8Array // of a PROXY v2 header; 0 without one
}

export function readRequest(req: HttpRequest, res: HttpResponse, address: AddressOptions): ApiRequest {
  return {
    method: req.getCaseSensitiveMethod(),
    path: req.getUrl(),
    query: req.getQuery() ?? '',
    headers: Object.fromEntries(HEADERS.map((name) => [name, req.getHeader(name)])) as Record<Known, string>,
    forwarded: hasTrusted(address) ? readLines(req, address.header) : '',
    peer: new Uint8Array(res.getRemoteAddress()).slice(),
    proxied: new Uint8Array(res.getProxiedRemoteAddress()).slice(),
  }
}

function hasTrusted({ trusted, trustsUnix }: AddressOptions): boolean {
  return trusted.length > 0 || trustsUnix
}

/**
 * Lines of one name form one list (RFC 9110, 5.3). `getHeader` returns the first line only, which is the client's own if a
 * proxy adds a line instead of appending to it.
 */
function readLines(req: HttpRequest, name: string): string {
  const lines: string[] = []
  req.forEach((key, value) => {
    if (key === name) lines.push(value)
  })
  return lines.join(',')
}
