/**
 * One hop of a visit: the six steps of spec 5, in order, and one request.
 *
 *     checkUrl ─► resolve ─► every address asked ─► dial the address ─► TLS ─► request ─► answer
 *         1, 2        3                  4                 5, 6                      9
 *                     └──────── EGRESS_PROXY: one CONNECT ────────┘
 *
 * A hop never throws for what the world does: it ends as a `Hop` with `failure`, and with all that was found before.
 * `open` is the only way from a URL to a socket; the browser's proxy and the extra handshake go through it too.
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
  denials: Map<string, number> // reason → how many, for the metric
}

export interface HopRequest {
  url: string
  purpose: 'catalogue' | 'detection'
  isRedirect: boolean // policy then answers redirect_refused
  method: 'GET' | 'HEAD'
  headers: Record<string, string>
  isListing: boolean // may be as long as listingBytes
  extraPort?: number
  session?: Session
  signal?: AbortSignal
  onResolved?: OnResolved
}

/**
 * The addresses that may be connected to, before anybody is; never told through a proxy. False: not now; the hop ends as
 * our own failure.
 */
export type OnResolved = (addresses: readonly string[]) => boolean

export interface Hop {
  url: string // as it was asked for, parsed when it could be
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

type Opening = Pick<
  Hop,
  'timings' | 'certificate' | 'addresses' | 'hasIpv6' | 'remoteAddress' | 'triedAddress'
>
type OpenRequest = Pick<HopRequest, 'purpose' | 'isRedirect' | 'signal' | 'onResolved'> & { alpn: string[] }

export async function takeHop(reach: EgressContext, ask: HopRequest): Promise<Hop> {
  await reach.own.refresh()
  const startedAtMs = performance.now()
  const watch = startStallWatch()
  const hop: Hop = {
    url: ask.url,
    failure: null,
    message: null,
    timings: { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null },
    certificate: null,
    addresses: [],
    hasIpv6: false,
    remoteAddress: null,
    triedAddress: null,
    isReused: false,
    hasStalled: false,
  }
  try {
    const target = admit(reach, ask)
    hop.url = target.url.href
    const origin = target.url.origin
    const kept = ask.isRedirect ? undefined : ask.session?.take(origin)
    const isStale = kept !== undefined && !(await exchange(reach, hop, kept, target, ask, startedAtMs))
    if (kept === undefined || isStale) {
      const connection = await open(reach, target, { ...ask, alpn: ['http/1.1'] }, hop)
      await exchange(reach, hop, connection, target, ask, startedAtMs)
    }
  } catch (error) {
    hop.failure = toFailure('http', error)
  }
  hop.timings.totalMs = Math.round(performance.now() - startedAtMs)
  hop.hasStalled = watch.stop() >= reach.limits.stallMs
  return hop
}

/** Steps 1 and 2. */
export function admit(
  reach: EgressContext,
  ask: Pick<HopRequest, 'url' | 'isRedirect' | 'extraPort'>,
): UrlTarget {
  const verdict = checkUrl(ask.url, reach.policy, reach.own.known, ask.extraPort)
  if ('target' in verdict) return verdict.target
  throw denial(reach, verdict.refusal.reason, ask.isRedirect ? 'redirect_refused' : 'target_not_allowed')
}

/** Steps 3 to 6 and TLS. Writes into `found` as it learns, so that a failure keeps what came before it. */
export async function open(
  reach: EgressContext,
  target: UrlTarget,
  ask: OpenRequest,
  found: Opening,
): Promise<Connection> {
  const { limits, proxy } = reach
  const raw = proxy
    ? await openThrough(proxy, reach, target, ask, found)
    : await openDirectly(reach, target, ask, found)
  const { addresses, hasIpv6, remoteAddress } = found
  const connection = { addresses, hasIpv6, remoteAddress }
  if (!target.isTls) return { ...connection, http: new HttpConnection(raw), certificate: null }

  const clock = stopwatch()
  const { host, isLiteral } = target
  const tls = { ms: limits.tlsMs, code: 'tls_timeout', outer: ask.signal } as const
  const options = { host, isLiteral, alpn: ask.alpn, ca: reach.ca }
  const { socket, certificate, failure } = await within(tls, (signal) => secure(raw, options, signal))
  found.timings.tlsMs = clock()
  found.certificate = certificate
  if (failure !== null) {
    socket.destroy()
    throw failure
  }
  return { ...connection, http: new HttpConnection(socket), certificate }
}

async function openDirectly(
  reach: EgressContext,
  target: UrlTarget,
  ask: OpenRequest,
  found: Opening,
): Promise<Socket> {
  const { limits } = reach
  const clock = stopwatch()
  const { addresses, port } = await resolve(reach, target, ask)
  if (!target.isLiteral) found.timings.dnsMs = clock()
  found.addresses = addresses.slice(0, limits.answers)
  found.hasIpv6 = addresses.some((address) => address.includes(':'))
  if (ask.onResolved?.(found.addresses) === false)
    throw new Failure('connect_unreachable', 'put off', { isOurs: true })

  const deadline = { ms: limits.connectMs, code: 'connect_timeout', outer: ask.signal } as const
  const socket = await within(deadline, (signal) =>
    dialAny(addresses.slice(0, limits.connectTries), port, found, signal),
  )
  found.timings.connectMs = clock()
  found.remoteAddress = socket.remoteAddress as string
  return socket
}

/** Steps 3 to 6 are the proxy's. What it forbids is our network's rule: no probe counts it, a detection is told late. */
async function openThrough(
  proxy: ProxyServer,
  reach: EgressContext,
  target: UrlTarget,
  ask: OpenRequest,
  { timings }: Opening,
): Promise<Socket> {
  const { connectMs: ms, headBytes } = reach.limits
  const startedAtMs = performance.now()
  const clock = stopwatch()
  const deadline = { ms, code: 'connect_timeout', outer: ask.signal } as const
  const answer = await within(deadline, (signal) => tunnel(proxy, target, { headBytes, signal }))
  if (answer === 'forbidden') {
    const code = ask.isRedirect ? 'redirect_refused' : 'target_not_allowed'
    await hideTime(reach, ask, startedAtMs)
    throw denial(reach, 'proxy', code, { isOurs: true })
  }
  timings.connectMs = clock()
  return answer
}

/** Steps 3 and 4: all addresses of the name, each of them allowed. */
async function resolve(
  reach: EgressContext,
  target: UrlTarget,
  ask: OpenRequest,
): Promise<{ addresses: string[]; port: number }> {
  const startedAtMs = performance.now()
  const test = reach.testHosts.get(target.host)
  const port = test?.port ?? target.port
  if (target.isLiteral) return { addresses: [target.host], port } // asked in step 2
  const { limits, dnsServers: servers } = reach
  const addresses = test
    ? [test.address]
    : await resolveHost(target.host, { limits, servers, signal: ask.signal })
  const own = reach.own.known
  const interfaces = interfaceAddresses()
  const reason = addresses
    .map((address) => addressDenial(address, reach.policy.addresses, own, interfaces))
    .find((denial) => denial !== null)
  if (!reason) return { addresses, port }
  const code = ask.purpose === 'catalogue' ? 'dns_bogus' : 'target_not_allowed'
  await hideTime(reach, ask, startedAtMs)
  throw denial(reach, reason, ask.isRedirect ? 'redirect_refused' : code)
}

/** A denial to a detection comes at a whole step (spec 5.12), so it does not show what a resolver knew. */
async function hideTime(
  { limits }: EgressContext,
  { purpose, signal }: OpenRequest,
  startedAtMs: number,
): Promise<void> {
  if (purpose !== 'detection') return
  const elapsedMs = performance.now() - startedAtMs
  const steps = Math.ceil(elapsedMs / limits.denialStepMs)
  await wait(steps * limits.denialStepMs - elapsedMs, undefined, { signal }).catch(() => {})
}

/** One after another until one answers; the deadline is that of all together. */
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

/** False when a kept connection turned out to be dead before it answered: the caller opens another, once. */
async function exchange(
  reach: EgressContext,
  hop: Hop,
  connection: Connection,
  target: UrlTarget,
  ask: HopRequest,
  startedAtMs: number,
): Promise<boolean> {
  const { http: line } = connection
  hop.isReused = line.hasAnswered
  hop.certificate = connection.certificate
  hop.addresses = connection.addresses
  hop.hasIpv6 = connection.hasIpv6
  hop.remoteAddress = connection.remoteAddress
  const { limits } = reach
  const isListing = ask.isListing || LISTING_PATHS.some((path) => target.url.pathname.endsWith(path))
  try {
    const message = await line.exchange({
      url: target.url,
      method: ask.method,
      headers: { ...ask.headers, connection: ask.session ? 'keep-alive' : 'close' },
      bodyBytes: isListing ? limits.listingBytes : limits.bodyBytes,
      limits,
      signal: ask.signal,
    })
    hop.message = message
    hop.failure = message.failure
    hop.timings.ttfbMs = Math.round(message.firstByteAtMs - startedAtMs)
    if (ask.session) ask.session.keep(target.url.origin, connection)
    else line.close()
    return true
  } catch (error) {
    const isStale = hop.isReused && error instanceof Failure && error.code === 'http_reset'
    if (!isStale) throw error
    hop.isReused = false
    return false
  }
}

function denial(
  reach: EgressContext,
  reason: string,
  code: ErrorCode,
  options?: { isOurs: boolean },
): Failure {
  reach.denials.set(reason, (reach.denials.get(reason) ?? 0) + 1) // reasons are a closed set
  return new Failure(code, reason, options)
}

/** Each call: whole milliseconds since the one before. */
function stopwatch(): () => number {
  let beforeMs = performance.now()
  return () => {
    const nowMs = performance.now()
    const spentMs = Math.round(nowMs - beforeMs)
    beforeMs = nowMs
    return spentMs
  }
}
