/**
 * Access to the debug port: requests need DEBUG_TOKEN or, if none is set, a `Host` that belongs to this machine.
 *
 *     curl -H 'Authorization: Bearer <token>' …/stats        go tool pprof '…/debug/pprof/profile?token=<token>'
 *
 * The query parameter is for tools that cannot send headers; a token in a URL may end up in logs of proxies. Host names are
 * checked against DNS rebinding: otherwise a web page could read the port through an operator's browser.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import type { Exchange } from './exchange.ts'

const LOOPBACK = /^((::ffff:)?127\.\d+\.\d+\.\d+|::1|localhost)$/i

/** Whether the request has the token; an empty token admits every request. */
export function mayEnter({ authorization, query }: Exchange, token: string): boolean {
  if (token === '') return true
  const bearer = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  return [bearer, query.get('token')].some((shown) => shown != null && isSame(shown, token))
}

const NAME_CHARS_MAX = 253 // of a DNS name

/**
 * Whether the `Host` header is a name that cannot be registered on the internet: an IP address, a name without a dot (localhost,
 * a host of the local network, a service of Docker Compose), `*.localhost`, or one of `names` (lower case; `*` is any).
 */
export function isOwnHost(header: string, names: ReadonlySet<string>): boolean {
  if (names.has('*')) return true
  const host = parseHost(header)
  if (host === '' || host.length > NAME_CHARS_MAX) return false
  return !host.includes('.') || isIP(host) !== 0 || host.endsWith('.localhost') || names.has(host)
}

/** Normalized names for `isOwnHost`. */
export function ownNames(...names: string[]): ReadonlySet<string> {
  return new Set(names.map((name) => parseHost(name)).filter(Boolean))
}

/** In lower case, without port, brackets and final dot. */
function parseHost(header: string): string {
  const text = header.trim().toLowerCase()
  if (text.startsWith('[')) return text.slice(1, Math.max(1, text.indexOf(']')))
  if (isIP(text) === 6) return text
  const colon = text.indexOf(':')
  const name = colon < 0 ? text : text.slice(0, colon)
  return name.endsWith('.') ? name.slice(0, -1) : name
}

/** Constant-time comparison. */
function isSame(shown: string, token: string): boolean {
  return timingSafeEqual(sha256(shown), sha256(token))
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest() // equal lengths, as timingSafeEqual requires
}

/** A warning for the start if other machines can reach the port without a token; null = none. */
export function accessWarning(host: string, token: string): string | null {
  if (token !== '' || LOOPBACK.test(host)) return null
  return (
    `the debug port listens on ${host} without a token: every client that can reach it sees rules and statistics and can start ` +
    'profiles. Set DEBUG_TOKEN, or DEBUG_HOST=127.0.0.1.'
  )
}
