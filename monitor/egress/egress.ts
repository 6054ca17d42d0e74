/**
 * All outgoing connections of the monitor (spec 5). Nothing else under monitor/ opens a socket or queries DNS, which
 * `npm run check` enforces.
 *
 *     const egress = new Egress({ settings: egressSettings(process.env), version: '1.0.0', ownHosts: ['redis'] })
 *     egress.check('http://10.0.0.1/')                    at submission: static, no DNS, no connection
 *     await egress.visit({ url, purpose: 'catalogue' })   one GET, at most 3 redirects, every limit of spec 5.9
 *     await egress.handshake({ url, purpose })            certificate and ALPN with h2 offered, then closed
 *     await egress.connect({ url, purpose })              a checked TCP connection for another client's bytes
 *     await egress.names('relay.example.com')             CNAME chain and name servers, for CDN and parking marks
 *
 * Network failures are never thrown, except by `connect`: `visit` returns `error`, one of our codes, with everything found before it. Programming
 * errors (a header that is not allowed) are thrown. A status of 400 or more is not an error here. The caller bounds how many
 * visits run at once; each holds one socket and at most 2 MiB.
 */
import type { Socket } from 'node:net'
import type { ErrorCode, Timings } from '../facts.ts'
import { ACCEPT_ENCODING } from './body.ts'
import type { PeerFacts } from './connect.ts'
import { Failure, toFailure } from './failure.ts'
import type { EgressContext, Hop, HopRequest, OnResolved } from './hop.ts'
import { admit, createOpening, open, openSocket, runHop } from './hop.ts'
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
  purpose: 'catalogue' | 'detection' // decides the code of a denial after DNS, and whether its time is hidden (spec 5.3, 5.12)
  method?: 'GET' | 'HEAD'
  headers?: Readonly<Record<string, string>> // of HEADERS only; all but preferences are dropped at another origin
  redirects?: 'follow' | 'none' // none: a redirect is a final response; default follow
  extraPort?: number // of the catalogue entry, on its own host only
  session?: Session // keeps the connection for the next visit
  signal?: AbortSignal // aborts; the current phase ends with its timeout code
  onResolved?: OnResolved // of the first hop
}

/** Except `error`, `url` and `hops`, everything is about the last hop. */
export interface Visit {
  error: ErrorCode | null
  detail: string | null // a fixed word or a system code, never text of the target; for logs
  isOurs: boolean // this host failed (sockets, ports): inconclusive
  hasStalled: boolean // this thread was stalled meanwhile: failures and times are no evidence about the target
  url: string
  status: number | null
  httpVersion: string | null
  headers: ReadonlyMap<string, string> // lower case
  body: Buffer // empty with an error
  timings: Timings // ttfb and total from the start of the hop
  certificate: PeerFacts | null // also when it is not valid
  addresses: string[] // at most 8; none through a proxy
  hasIpv6: boolean
  remoteAddress: string | null // null through a proxy too; `timings.connectMs` is set if it was reached
  triedAddress: string | null // dialled last, successfully or not; null = none, a proxy, or isReused
  isReused: boolean // a kept connection
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

const VISIBLE = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/ // a key with a line feed is the caller's error, not the target's

export class Egress {
  readonly denials = new Map<string, number>() // reason → count, for monitor_egress_denied_total
  readonly userAgent: string
  private readonly context: EgressContext

  constructor({ settings, version, ownHosts = [], limits, dnsServers, ca }: EgressOptions) {
    const ownNames = [settings.publicBaseUrl?.hostname.replace(/^\[|\]$|\.$/g, ''), settings.proxy?.host]
    const own = ownNames.filter((name) => name !== undefined)
    this.context = {
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
    const about = settings.publicBaseUrl
    this.userAgent = `RelayMonitor/${version}${about ? ` (+${about.href.replace(/\/$/, '')}/about/probe)` : ''}`
  }

  /** Hosts that must not be probed, with all their subdomains; replaces the list. */
  set optOut(suffixes: Iterable<string>) {
    this.context.policy.optOut = new Set(Array.from(suffixes, (suffix) => suffix.toLowerCase()))
  }

  /** The static checks: no DNS, no connection. */
  check(url: string, extraPort?: number): { target: UrlTarget } | { refusal: Refusal } {
    return checkUrl(url, this.context.policy, this.context.own.known, extraPort)
  }

  async visit(request: VisitRequest): Promise<Visit> {
    const hops: Hop[] = []
    let hopRequest = this.firstRequest(request)
    for (;;) {
      const hop = await runHop(this.context, hopRequest)
      hops.push(hop)
      const isLast = hop.message === null || hop.failure !== null || !isRedirect(hop.message)
      if (isLast || request.redirects === 'none') return toVisit(hops)
      try {
        hopRequest = toNextRequest(hops, hopRequest, request, this.context.limits)
      } catch (error) {
        hop.failure = toFailure('http', error)
        return toVisit(hops)
      }
    }
  }

  async handshake(
    request: Pick<VisitRequest, 'url' | 'purpose' | 'extraPort' | 'signal' | 'onResolved'>,
  ): Promise<Handshake> {
    await this.context.own.refresh()
    const startedAtMs = performance.now()
    const watch = startStallWatch()
    const found = createOpening()
    let failure: Failure | null = null
    try {
      const hopRequest = { ...request, isRedirect: false, alpn: ['h2', 'http/1.1'] }
      const connection = await open(this.context, admit(this.context, hopRequest), hopRequest, found)
      connection.http.close()
    } catch (error) {
      failure = toFailure('tls', error)
    }
    found.timings.totalMs = Math.round(performance.now() - startedAtMs)
    const hasStalled = watch.stop() >= this.context.limits.stallMs
    return { ...found, ...toFailureFields(failure), hasStalled }
  }

  /**
   * A TCP connection to the host and port of a URL, after every check of spec 5, for bytes of another client: the browser
   * behind `filtering-proxy.ts`, which does its own TLS. Throws a Failure. The caller destroys the socket.
   */
  async connect(request: Pick<VisitRequest, 'url' | 'purpose' | 'extraPort' | 'signal'>): Promise<Socket> {
    await this.context.own.refresh()
    const found = createOpening()
    const hopRequest = { ...request, isRedirect: false }
    return openSocket(this.context, admit(this.context, hopRequest), hopRequest, found)
  }

  /** Both lists are empty for a name that may not be visited, and behind a proxy, which resolves names itself. */
  async names(host: string, signal?: AbortSignal): Promise<Names & Pick<Visit, 'hasStalled'>> {
    const { limits, dnsServers: servers, proxy } = this.context
    const checked = this.check(`https://${host}/`, 443)
    if (proxy || !('target' in checked) || checked.target.isLiteral) {
      return { cnames: [], nameservers: [], hasFailed: false, hasStalled: false }
    }
    const watch = startStallWatch()
    const names = await resolveNames(checked.target.host, { limits, servers, signal })
    return { ...names, hasStalled: watch.stop() >= limits.stallMs }
  }

  private firstRequest(request: VisitRequest): HopRequest {
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

/** The next hop of a redirect; throws a Failure. Its address is checked when the hop is taken. */
function toNextRequest(
  hops: Hop[],
  hopRequest: HopRequest,
  request: VisitRequest,
  limits: Limits,
): HopRequest {
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
  const kept = Object.entries(hopRequest.headers).filter(([name]) => {
    return isSameOrigin || PREFERENCES.has(name) || !HEADERS.has(name)
  })
  const first = new URL(hops[0].url)
  return {
    ...hopRequest,
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
    ...toFailureFields(hop.failure),
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

function toFailureFields(failure: Failure | null): Pick<Visit, 'error' | 'detail' | 'isOurs'> {
  if (failure === null) return { error: null, detail: null, isOurs: false }
  return { error: failure.code, detail: failure.detail, isOurs: failure.isOurs }
}
