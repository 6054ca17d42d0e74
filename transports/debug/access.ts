/**
 * Who may use the debug port: whoever shows DEBUG_TOKEN or, if none is set, whoever reaches it by a name of its own.
 *
 *     curl -H 'Authorization: Bearer <token>' …/stats        go tool pprof '…/debug/pprof/profile?token=<token>'
 *
 * The second way is for tools that cannot send headers; a token in a URL may end up in logs of proxies. Names are checked
 * since a web page could otherwise read the port through the browser of an operator, by a name of the page's author that is
 * made to lead to this machine (DNS rebinding).
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import type { Exchange } from './exchange.ts'

const LOOPBACK = /^((::ffff:)?127\.\d+\.\d+\.\d+|::1|localhost)$/i

/** Whether the request shows the token; an empty one is shown by everybody. */
export function mayEnter({ authorization, query }: Exchange, token: string): boolean {
  if (token === '') return true
  const bearer = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  return [bearer, query.get('token')].some((shown) => shown != null && isSame(shown, token))
}

const NAME_CHARS_MAX = 253 // of a DNS name

/**
 * Whether the `Host` header holds a name that no stranger can own: an IP address, a name without a dot (localhost, a host of the
 * local network, a service of Docker Compose), `*.localhost`, or one of `names`, which are in lower case; `*` is any.
 */
export function isOwnHost(header: string, names: ReadonlySet<string>): boolean {
  if (names.has('*')) return true
  const host = parseHost(header)
  if (host === '' || host.length > NAME_CHARS_MAX) return false
  return !host.includes('.') || isIP(host) !== 0 || host.endsWith('.localhost') || names.has(host)
}

/** The names of the debug port: of this machine, of DEBUG_HOST, of DEBUG_ALLOWED_HOSTS. */
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
 * Whether a page of another origin has a browser ask. Such a page cannot read the answer, but asking has a cost. Browsers send
 * Sec-Fetch-Site to HTTPS and to this machine alone, and Origin with what is not a plain GET.
 */
export function isCrossSite(req: Pick<Headers, 'getHeader'>): boolean {
  const site = req.getHeader('sec-fetch-site')
  return req.getHeader('origin') !== '' || !['', 'none', 'same-origin'].includes(site)
}

/**
 * Whether a browser asks, also for a page that hides it: a page can change Accept-Language and, in some browsers, User-Agent, but
 * leave out neither. What scrapes metrics sends no Accept-Language.
 */
export function isBrowser(req: Headers): boolean {
  let hasLanguage = false
  req.forEach((name) => {
    if (name === 'accept-language') hasLanguage = true
  })
  return hasLanguage || req.getHeader('user-agent').startsWith('Mozilla/')
}

/** Takes the same time wherever they differ. */
function isSame(shown: string, token: string): boolean {
  return timingSafeEqual(sha256(shown), sha256(token))
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest() // of one length, as the comparison wants it
}

/** What to say at the start about a port that strangers may reach; null = nothing. */
export function accessWarning(host: string, token: string): string | null {
  if (token !== '' || LOOPBACK.test(host)) return null
  return (
    `the debug port listens on ${host} without a token: whoever reaches it sees rules and statistics and can start ` +
    'profiles. Set DEBUG_TOKEN, or DEBUG_HOST=127.0.0.1.'
  )
}
