/**
 * The one way out of the monitor (spec 5). Nothing else under monitor/ opens a socket or asks DNS; `npm run check` sees to it.
 *
 *     const egress = new Egress({ settings: egressSettings(process.env), version: '1.0.0', ownHosts: ['redis'] })
 *     egress.check('http://10.0.0.1/')                    at submission: static, no DNS, nothing leaves
 *     await egress.visit({ url, purpose: 'catalogue' })   one GET, at most 3 redirects, every limit of spec 5.9
 *     await egress.handshake({ url, purpose })            certificate and ALPN with h2 offered, then closed
 *     await egress.names('relay.example.com')             CNAME chain and name servers, for CDN and parking marks
 *
 * What the world does is never thrown: `visit` gives `error`, one of our codes, beside all that was found before it. A
 * mistake of the caller (a header that is not allowed) is thrown. A status of 400 and more is no error here: what it
 * means depends on the question. How many visits run at once is the caller's to bound; each holds one socket and at most
 * 2 MiB.
 */
import type { ErrorCode, Timings } from '../facts.ts'
import { ACCEPT_ENCODING } from './body.ts'
import type { PeerFacts } from './connect.ts'
import { Failure, toFailure } from './failure.ts'
import type { EgressContext, Hop, HopRequest, OnResolved } from './hop.ts'
import { admit, open, takeHop } from './hop.ts'
import type { Response } from './http-connection.ts'
import { isRedirect } from './http-connection.ts'
import type { Limits } from './limits.ts'
import { LIMITS, LISTING_PATHS } from './limits.ts'
import { OwnAddresses } from './own-addresses.ts'
import type { Names } from './resolver.ts'
import { resolveNames } from './resolver.ts'
import type { Session } from './session.ts'
import type { EgressSettings } from './settings.ts'
import { startStallWatch } from './stall-watch.ts'
import type { Refusal, UrlTarget } from './url-policy.ts'
import { checkUrl } from './url-policy.ts'

export { Session } from './session.ts'
export { egressSettings } from './settings.ts'

export interface EgressOptions {
  settings: EgressSettings
  version: string // in the User-Agent
  ownHosts?: readonly string[] // names and addresses of the cache backend
  limits?: Partial<Limits> // tests wait less
  dnsServers?: readonly string[] // `address:port`; default: those of the system
  ca?: string // PEM; default: those of Node
}

export interface VisitRequest {
  url: string
  purpose: 'catalogue' | 'detection' // how a denial after DNS is called, and whether its time is hidden (spec 5.3, 5.12)
  method?: 'GET' | 'HEAD'
  headers?: Readonly<Record<string, string>> // of HEADERS only; what is no preference is dropped at another origin
  redirects?: 'follow' | 'none' // none: a redirect is an answer like others; default follow
  extraPort?: number // of the catalogue entry, on its own host only
  session?: Session // keeps the connection for the next visit
  signal?: AbortSignal // gives up; the phase at hand ends with its timeout
  onResolved?: OnResolved // of the first hop
}

/** What a visit found. Beyond `error`, `url` and `hops` everything is about the last hop. */
export interface Visit {
  error: ErrorCode | null
  detail: string | null // our word or a system code, never the target's; for logs
  isOurs: boolean // this host failed (sockets, ports): inconclusive
  hasStalled: boolean // this thread stood still meanwhile: neither a failure nor times say anything about the target
  url: string
  status: number | null
  httpVersion: string | null
  headers: ReadonlyMap<string, string> // lower case
  body: Buffer // empty with an error
  timings: Timings // ttfb and total from the start of the hop
  certificate: PeerFacts | null // also when it is not valid
  addresses: string[] // at most 8; none through a proxy
  hasIpv6: boolean
  remoteAddress: string | null // null through a proxy too: `timings.connectMs` tells whether anybody was reached
  triedAddress: string | null // dialled at last, whether or not it answered; null = none, a proxy, or isReused
  isReused: boolean // the connection was there already
  hops: VisitHop[] // all, the last included
}

export interface VisitHop {
  url: string
  status: number | null
  location: string | null // of a redirect, also one that was not followed
  remoteAddress: string | null
  timings: Timings
}

export type Handshake = Pick<
  Visit,
  | 'error'
  | 'detail'
  | 'isOurs'
  | 'hasStalled'
  | 'timings'
  | 'certificate'
  | 'addresses'
  | 'hasIpv6'
  | 'remoteAddress'
  | 'triedAddress'
>

const PREFERENCES = new Set(['accept', 'accept-language'])
const HEADERS = new Set([...PREFERENCES, 'authorization', 'x-api-key', 'x-goog-api-key', 'anthropic-version'])

const VISIBLE = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/ // a key with a line feed is our mistake, not the target's

export class Egress {
  readonly denials = new Map<string, number>() // reason → count, for monitor_egress_denied_total
  readonly userAgent: string
  readonly #context: EgressContext

  constructor({ settings, version, ownHosts = [], limits, dnsServers, ca }: EgressOptions) {
    const ownNames = [settings.publicBaseUrl?.hostname.replace(/^\[|\]$|\.$/g, ''), settings.proxy?.host]
    const own = ownNames.filter((name) => name !== undefined)
    this.#context = {
      policy: {
        ports: settings.ports,
        addresses: { deny: settings.deny, nat64: settings.nat64, testAllow: settings.testAllow },
        ownNames: new Set(own),
        optOut: new Set(),
      },
      limits: { ...LIMITS, ...limits },
      own: new OwnAddresses([...own, ...ownHosts]),
      proxy: settings.proxy,
      testHosts: settings.testHosts,
      dnsServers,
      ca,
      denials: this.denials,
    }
    const home = settings.publicBaseUrl
    this.userAgent = `RelayMonitor/${version}${home ? ` (+${home.href.replace(/\/$/, '')}/about/probe)` : ''}`
  }

  /** Hosts that are not to be probed, with everything below them; replaces the list before. */
  set optOut(suffixes: Iterable<string>) {
    this.#context.policy.optOut = new Set(Array.from(suffixes, (suffix) => suffix.toLowerCase()))
  }

  /** The static checks: what can be said without asking anyone. */
  check(url: string, extraPort?: number): { target: UrlTarget } | { refusal: Refusal } {
    return checkUrl(url, this.#context.policy, this.#context.own.known, extraPort)
  }

  async visit(request: VisitRequest): Promise<Visit> {
    const hops: Hop[] = []
    let ask = this.#firstAsk(request)
    for (;;) {
      const hop = await takeHop(this.#context, ask)
      hops.push(hop)
      const isLast = hop.message === null || hop.failure !== null || !isRedirect(hop.message)
      if (isLast || request.redirects === 'none') return toVisit(hops)
      try {
        ask = nextAsk(hops, ask, request, this.#context.limits)
      } catch (error) {
        hop.failure = toFailure('http', error)
        return toVisit(hops)
      }
    }
  }

  async handshake(
    request: Pick<VisitRequest, 'url' | 'purpose' | 'extraPort' | 'signal' | 'onResolved'>,
  ): Promise<Handshake> {
    await this.#context.own.refresh()
    const startedAtMs = performance.now()
    const watch = startStallWatch()
    const timings: Timings = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null }
    const found: Omit<Handshake, 'error' | 'detail' | 'isOurs' | 'hasStalled'> = {
      timings,
      certificate: null,
      addresses: [],
      hasIpv6: false,
      remoteAddress: null,
      triedAddress: null,
    }
    let failure: Failure | null = null
    try {
      const ask = { ...request, isRedirect: false, alpn: ['h2', 'http/1.1'] }
      const connection = await open(this.#context, admit(this.#context, ask), ask, found)
      connection.http.close()
    } catch (error) {
      failure = toFailure('tls', error)
    }
    timings.totalMs = Math.round(performance.now() - startedAtMs)
    const hasStalled = watch.stop() >= this.#context.limits.stallMs
    return { ...found, ...logRefusal(failure), hasStalled }
  }

  /** Neither a name that may not be visited is asked for, nor any where DNS is the proxy's: both lists are empty then. */
  async names(host: string, signal?: AbortSignal): Promise<Names & Pick<Visit, 'hasStalled'>> {
    const { limits, dnsServers: servers, proxy } = this.#context
    const verdict = this.check(`https://${host}/`, 443)
    if (proxy || !('target' in verdict) || verdict.target.isLiteral) {
      return { cnames: [], nameservers: [], hasStalled: false }
    }
    const watch = startStallWatch()
    const names = await resolveNames(verdict.target.host, { limits, servers, signal })
    return { ...names, hasStalled: watch.stop() >= limits.stallMs }
  }

  #firstAsk(request: VisitRequest): HopRequest {
    const { url, purpose, method = 'GET', extraPort, session, signal, onResolved } = request
    const headers: Record<string, string> = {
      'user-agent': this.userAgent,
      'accept-encoding': ACCEPT_ENCODING,
      accept: '*/*',
    }
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (!HEADERS.has(name)) throw new TypeError(`header ${name} is not sent to targets`)
      if (!VISIBLE.test(value)) throw new TypeError(`header ${name} has characters that are not visible`)
      headers[name] = value
    }
    const more = { extraPort, session, signal, onResolved }
    return { url, purpose, isRedirect: false, method, headers, isListing: false, ...more }
  }
}

/** The next hop of a redirect, or a Failure. The address policy is asked again when it is taken. */
function nextAsk(hops: Hop[], ask: HopRequest, request: VisitRequest, limits: Limits): HopRequest {
  const from = new URL(hops[hops.length - 1].url)
  const location = hops[hops.length - 1].message?.headers.get('location') ?? ''
  if (!URL.canParse(location, from.href)) throw new Failure('redirect_refused', 'location')
  const to = new URL(location, from)
  to.hash = ''
  if (from.protocol === 'https:' && to.protocol === 'http:')
    throw new Failure('redirect_refused', 'downgrade')
  if (hops.some((hop) => hop.url === to.href)) throw new Failure('redirect_loop', 'seen before')
  if (hops.length > limits.redirects) throw new Failure('redirect_loop', 'too many')

  const isSameOrigin = from.origin === to.origin
  const kept = Object.entries(ask.headers).filter(([name]) => {
    return isSameOrigin || PREFERENCES.has(name) || !HEADERS.has(name)
  })
  const first = new URL(hops[0].url)
  return {
    ...ask,
    onResolved: undefined,
    url: to.href,
    isRedirect: true,
    headers: Object.fromEntries(kept),
    isListing: LISTING_PATHS.some((path) => first.pathname.endsWith(path)),
    extraPort: to.hostname === first.hostname ? request.extraPort : undefined,
  }
}

function toVisit(hops: Hop[]): Visit {
  const hop = hops[hops.length - 1]
  return {
    ...logRefusal(hop.failure),
    hasStalled: hop.hasStalled,
    url: hop.url,
    status: hop.message?.status ?? null,
    httpVersion: hop.message?.httpVersion ?? null,
    headers: hop.message?.headers ?? new Map(),
    body: hop.message?.body ?? Buffer.alloc(0),
    timings: hop.timings,
    certificate: hop.certificate,
    addresses: hop.addresses,
    hasIpv6: hop.hasIpv6,
    remoteAddress: hop.remoteAddress,
    triedAddress: hop.triedAddress,
    isReused: hop.isReused,
    hops: hops.map(({ url, message, remoteAddress, timings }) => ({
      url,
      status: message?.status ?? null,
      location: message && isRedirect(message) ? getLocation(message) : null,
      remoteAddress,
      timings,
    })),
  }
}

function getLocation({ headers }: Response): string {
  return (headers.get('location') as string).slice(0, LIMITS.urlChars)
}

function logRefusal(failure: Failure | null): Pick<Visit, 'error' | 'detail' | 'isOurs'> {
  if (failure === null) return { error: null, detail: null, isOurs: false }
  return { error: failure.code, detail: failure.detail, isOurs: failure.isOurs }
}
