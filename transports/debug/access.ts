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

const LOOPBACK = /^((::ffff:)?127\.\d+\.\d+\.\d+|::1|localhost)$/i

/** Whether the request has the token; an empty token admits every request. */
export function mayEnter(
  { authorization, query }: { authorization: string; query: URLSearchParams },
  token: string,
): boolean {
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

const PORT = /^(:\d{0,5})?$/

/** In lower case, without port, brackets and final dot; '' where it is not `host`, `host:port`, `[IPv6]` or `[IPv6]:port`. */
function parseHost(header: string): string {
  const text = header.trim().toLowerCase()
  if (isIP(text) === 6) return text
  const isBracketed = text.startsWith('[')
  const nameEnd = text.indexOf(isBracketed ? ']' : ':')
  const name = nameEnd < 0 ? text : text.slice(isBracketed ? 1 : 0, nameEnd)
  const port = nameEnd < 0 ? '' : text.slice(isBracketed ? nameEnd + 1 : nameEnd)
  if (!PORT.test(port) || (isBracketed && isIP(name) !== 6)) return ''
  return name.endsWith('.') ? name.slice(0, -1) : name
}

interface Headers {
  getHeader(name: string): string // '' = none
  forEach(visit: (name: string, value: string) => void): void
}

/**
 * Whether a page of another origin made a browser send the request. Such a page cannot read the response, but the request has a cost.
 * Browsers send Sec-Fetch-Site to HTTPS and to this machine only, and Origin with requests other than a plain GET.
 */
export function isCrossSite(req: Pick<Headers, 'getHeader'>): boolean {
  const site = req.getHeader('sec-fetch-site')
  return req.getHeader('origin') !== '' || !['', 'none', 'same-origin'].includes(site)
}

/**
 * Whether a browser sent the request, also when its page tries to hide it: a page can change Accept-Language and, in some browsers,
 * User-Agent, but omit neither. Scrapers of metrics send no Accept-Language.
 */
export function isBrowser(req: Headers): boolean {
  let hasLanguage = false
  req.forEach((name) => {
    if (name === 'accept-language') hasLanguage = true
  })
  return hasLanguage || req.getHeader('user-agent').startsWith('Mozilla/')
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
