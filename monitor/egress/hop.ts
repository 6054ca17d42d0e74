/**
 * One hop of a visit: the steps of spec 5, in order, and one request; the numbers are those of spec 5.
 *
 *     checkUrl ─► resolve ─► check every address ─► dial the address ─► TLS ─► request ─► response
 *         1, 2        3                  4                 5, 6                      9
 *                     └──────── EGRESS_PROXY: one CONNECT ────────┘
 *
 * A hop never throws for network failures: it ends as a `Hop` with `failure`, and with everything found before. `open` is
 * the only way from a URL to a socket; the extra handshake uses it too.
 */
import type { Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { ErrorCode, Timings } from '../facts.ts'
import { addressDenial, interfaceAddresses } from './address-policy.ts'
import type { PeerFacts } from './connect.ts'
import { dial, secure } from './connect.ts'
import { within } from './deadline.ts'
import { Failure, toFailure } from './failure.ts'
import type { Response } from './http-connection.ts'
import { HttpConnection } from './http-connection.ts'
import type { Limits } from './limits.ts'
import { LISTING_PATHS } from './limits.ts'
import type { OwnAddresses } from './own-addresses.ts'
import { tunnel } from './proxy.ts'
import { resolveHost } from './resolver.ts'
import type { Connection, Session } from './session.ts'
import type { Endpoint, ProxyServer } from './settings.ts'
import { startStallWatch } from './stall-watch.ts'
import type { UrlPolicy, UrlTarget } from './url-policy.ts'
import { checkUrl } from './url-policy.ts'

/** What all hops of a process share. */
export interface EgressContext {
  policy: UrlPolicy
  limits: Limits
  own: OwnAddresses
  proxy: ProxyServer | null
  testHosts: ReadonlyMap<string, Endpoint>
  dnsServers?: readonly string[]
  ca?: string
  denials: Map<string, number> // reason → count, for the metric
}

export interface HopRequest {
  url: string
  purpose: 'catalogue' | 'detection'
  isRedirect: boolean // denials are redirect_refused then
  method: 'GET' | 'HEAD'
  headers: Record<string, string>
  isListing: boolean // the body may have listingBytes
  extraPort?: number
  session?: Session
  signal?: AbortSignal
  onResolved?: OnResolved
}

/**
 * Called with the addresses before the first connection; never called behind a proxy. False postpones the hop, which then
 * ends as a failure of this host.
 */
export type OnResolved = (addresses: readonly string[]) => boolean

export interface Hop {
  url: string // normalised if it could be parsed
  failure: Failure | null
  message: Response | null
  timings: Timings
  certificate: PeerFacts | null
  addresses: string[]
  hasIpv6: boolean
  remoteAddress: string | null
  triedAddress: string | null
  isReused: boolean
  hasStalled: boolean
}

export type Opening = Pick<
  Hop,
  'timings' | 'certificate' | 'addresses' | 'hasIpv6' | 'remoteAddress' | 'triedAddress'
>

export function createOpening(): Opening {
  return {
    timings: { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null },
    certificate: null,
    addresses: [],
    hasIpv6: false,
    remoteAddress: null,
    triedAddress: null,
  }
}

type DialRequest = Pick<HopRequest, 'purpose' | 'isRedirect' | 'signal' | 'onResolved'>
type OpenRequest = DialRequest & { alpn: string[] }

export async function runHop(context: EgressContext, request: HopRequest): Promise<Hop> {
  await context.own.refresh()
  const startedAtMs = performance.now()
  const watch = startStallWatch()
  const hop: Hop = {
    url: request.url,
    failure: null,
    message: null,
    ...createOpening(),
    isReused: false,
    hasStalled: false,
  }
  try {
    const target = admit(context, request)
    hop.url = target.url.href
    const origin = target.url.origin
    const kept = request.isRedirect ? undefined : request.session?.take(origin)
    const isStale = kept !== undefined && !(await exchange(context, hop, kept, target, request, startedAtMs))
    if (kept === undefined || isStale) {
      const connection = await open(context, target, { ...request, alpn: ['http/1.1'] }, hop)
      await exchange(context, hop, connection, target, request, startedAtMs)
    }
  } catch (error) {
    hop.failure = toFailure('http', error)
  }
  hop.timings.totalMs = Math.round(performance.now() - startedAtMs)
  hop.hasStalled = watch.stop() >= context.limits.stallMs
  return hop
}

/** Steps 1 and 2. */
export function admit(
  context: EgressContext,
  request: Pick<HopRequest, 'url' | 'isRedirect' | 'extraPort'>,
): UrlTarget {
  const checked = checkUrl(request.url, context.policy, context.own.known, request.extraPort)
  if ('target' in checked) return checked.target
  throw countDenial(
    context,
    checked.refusal.reason,
    request.isRedirect ? 'redirect_refused' : 'target_not_allowed',
  )
}

/** Steps 3 to 6 and TLS. Writes into `found` step by step, so that a failure keeps what was found before it. */
export async function open(
  context: EgressContext,
  target: UrlTarget,
  request: OpenRequest,
  found: Opening,
): Promise<Connection> {
  const { limits } = context
  const raw = await openSocket(context, target, request, found)
  const { addresses, hasIpv6, remoteAddress } = found
  const connection = { addresses, hasIpv6, remoteAddress }
  if (!target.isTls) return { ...connection, http: new HttpConnection(raw), certificate: null }

  const clock = stopwatch()
  const { host, isLiteral } = target
  const tls = { ms: limits.tlsMs, code: 'tls_timeout', outer: request.signal } as const
  const options = { host, isLiteral, alpn: request.alpn, ca: context.ca }
  const { socket, certificate, failure } = await within(tls, (signal) => secure(raw, options, signal))
  found.timings.tlsMs = clock()
  found.certificate = certificate
  if (failure !== null) {
    socket.destroy()
    throw failure
  }
  return { ...connection, http: new HttpConnection(socket), certificate }
}

/** Steps 3 to 6: a connected socket without TLS. */
export function openSocket(
  context: EgressContext,
  target: UrlTarget,
  request: DialRequest,
  found: Opening,
): Promise<Socket> {
  const { proxy } = context
  return proxy
    ? openThrough(proxy, context, target, request, found)
    : openDirectly(context, target, request, found)
}

async function openDirectly(
  context: EgressContext,
  target: UrlTarget,
  request: DialRequest,
  found: Opening,
): Promise<Socket> {
  const { limits } = context
  const clock = stopwatch()
  const { addresses, port } = await resolve(context, target, request)
  if (!target.isLiteral) found.timings.dnsMs = clock()
  found.addresses = addresses.slice(0, limits.addressesReported)
  found.hasIpv6 = addresses.some((address) => address.includes(':'))
  if (request.onResolved?.(found.addresses) === false)
    throw new Failure('connect_unreachable', 'postponed', { isOurs: true })

  const deadline = { ms: limits.connectMs, code: 'connect_timeout', outer: request.signal } as const
  const socket = await within(deadline, (signal) =>
    dialAny(addresses.slice(0, limits.connectTries), port, found, signal),
  )
  found.timings.connectMs = clock()
  found.remoteAddress = socket.remoteAddress as string
  return socket
}

/** Steps 3 to 6 by the proxy. What it forbids is a local rule: no probe counts it, and a detection learns it late. */
async function openThrough(
  proxy: ProxyServer,
  context: EgressContext,
  target: UrlTarget,
  request: DialRequest,
  { timings }: Opening,
): Promise<Socket> {
  const { connectMs: ms, headBytes } = context.limits
  const startedAtMs = performance.now()
  const clock = stopwatch()
  const deadline = { ms, code: 'connect_timeout', outer: request.signal } as const
  const tunnelled = await within(deadline, (signal) => tunnel(proxy, target, { headBytes, signal }))
  if (tunnelled === 'forbidden') {
    const code = request.isRedirect ? 'redirect_refused' : 'target_not_allowed'
    await hideTime(context, request, startedAtMs)
    throw countDenial(context, 'proxy', code, { isOurs: true })
  }
  timings.connectMs = clock()
  return tunnelled
}

/** Steps 3 and 4: all addresses of the name, each of them allowed. */
async function resolve(
  context: EgressContext,
  target: UrlTarget,
  request: DialRequest,
): Promise<{ addresses: string[]; port: number }> {
  const startedAtMs = performance.now()
  const test = context.testHosts.get(target.host)
  const port = test?.port ?? target.port
  if (target.isLiteral) return { addresses: [target.host], port } // checked in step 2
  const { limits, dnsServers: servers } = context
  const addresses = test
    ? [test.address]
    : await resolveHost(target.host, { limits, servers, signal: request.signal })
  const own = context.own.known
  const interfaces = interfaceAddresses()
  const reason = addresses
    .map((address) => addressDenial(address, context.policy.addresses, own, interfaces))
    .find((denial) => denial !== null)
  if (!reason) return { addresses, port }
  const code = request.purpose === 'catalogue' ? 'dns_bogus' : 'target_not_allowed'
  await hideTime(context, request, startedAtMs)
  throw countDenial(context, reason, request.isRedirect ? 'redirect_refused' : code)
}

/** Delays the denial of a detection to a whole step (spec 5.12), so that its time does not show what a resolver knew. */
async function hideTime(
  { limits }: EgressContext,
  { purpose, signal }: DialRequest,
  startedAtMs: number,
): Promise<void> {
  if (purpose !== 'detection') return
  const elapsedMs = performance.now() - startedAtMs
  const steps = Math.ceil(elapsedMs / limits.denialStepMs)
  await wait(steps * limits.denialStepMs - elapsedMs, undefined, { signal }).catch(() => {})
}

/** Dials one address after another; the deadline is for all together. */
async function dialAny(addresses: string[], port: number, found: Opening, signal: AbortSignal) {
  let failure: Failure | null = null
  for (const address of addresses) {
    found.triedAddress = address
    try {
      return await dial({ address, port }, signal)
    } catch (error) {
      failure = toFailure('connect', error)
      if (signal.aborted || failure.code === 'target_not_allowed') break
    }
  }
  throw failure ?? new Failure('dns_error', 'no address')
}

/** False if a kept connection turned out to be closed before it responded: the caller opens another, once. */
async function exchange(
  context: EgressContext,
  hop: Hop,
  connection: Connection,
  target: UrlTarget,
  request: HopRequest,
  startedAtMs: number,
): Promise<boolean> {
  const { http } = connection
  hop.isReused = http.hasResponded
  hop.certificate = connection.certificate
  hop.addresses = connection.addresses
  hop.hasIpv6 = connection.hasIpv6
  hop.remoteAddress = connection.remoteAddress
  const { limits } = context
  const isListing = request.isListing || LISTING_PATHS.some((path) => target.url.pathname.endsWith(path))
  try {
    const message = await http.exchange({
      url: target.url,
      method: request.method,
      headers: { ...request.headers, connection: request.session ? 'keep-alive' : 'close' },
      bodyBytes: isListing ? limits.listingBytes : limits.bodyBytes,
      limits,
      signal: request.signal,
    })
    hop.message = message
    hop.failure = message.failure
    hop.timings.ttfbMs = Math.round(message.firstByteAtMs - startedAtMs)
    if (request.session) request.session.keep(target.url.origin, connection)
    else http.close()
    return true
  } catch (error) {
    const isStale = hop.isReused && error instanceof Failure && error.code === 'http_reset'
    if (!isStale) throw error
    hop.isReused = false
    return false
  }
}

function countDenial(
  context: EgressContext,
  reason: string,
  code: ErrorCode,
  options?: { isOurs: boolean },
): Failure {
  context.denials.set(reason, (context.denials.get(reason) ?? 0) + 1) // reasons are a closed set
  return new Failure(code, reason, options)
}

/** Each call returns whole milliseconds since the previous one. */
function stopwatch(): () => number {
  let beforeMs = performance.now()
  return () => {
    const nowMs = performance.now()
    const spentMs = Math.round(nowMs - beforeMs)
    beforeMs = nowMs
    return spentMs
  }
}
