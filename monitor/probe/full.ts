/**
 * The full probe: everything that a single probe can find (spec 6.1, 6.2).
 *
 *     handshake ─► listing ─► landing ─► listing with key ─► status ─► pricing ─► own paths ─► port 80, CNAME, NS
 *     h2 offered   on a new connection, the others on the same, one after another; at most REQUESTS_MAX
 *
 * Every site gets five requests (four without a key); the remaining one or two go to paths that only some programs serve,
 * chosen after each response (next-path.ts). The listing goes first, though its step is reported after the landing page's: on a
 * new connection its times compare with those of a light probe. A failed handshake ends the probe, and so do a challenge, 429,
 * no response and a broken redirect: a site that refuses is not sent five more requests. Port 80 and DNS are not among the six.
 */
import type { Handshake, Visit, VisitRequest } from '../egress/egress.ts'
import { Session } from '../egress/egress.ts'
import type { Certificate, Observation } from '../facts.ts'
import { detectCdn } from './cdn.ts'
import { isChallenge, isParkedName, isParkedPage } from './challenge-pages.ts'
import { LANDING_PATH, LISTING_PATH, PRICING_PATH, STATUS_PATH } from './fingerprints.ts'
import { checkHygiene } from './hygiene.ts'
import type { Listing } from './listing.ts'
import { claimsIn, parseListing } from './listing.ts'
import { selectNextPath } from './next-path.ts'
import type { ProbeAttempt, ProbeContext, ProbeTarget } from './probe.ts'
import { toProbeAttempt, urlBelow } from './probe.ts'
import type { ProbeResponse } from './probe-response.ts'
import { toProbeResponse } from './probe-response.ts'
import { detectSoftware, readNotices } from './software.ts'
import type { OnStep, StepStatus } from './steps.ts'
import { Steps } from './steps.ts'

export interface FullProbeResult extends ProbeAttempt {
  observation: Observation | null // null = not reached, a failure of this host, or isIncomplete
  isIncomplete: boolean // a request failed while this thread was stalled: what it would have shown is unknown
  landingStatus: number | null
}

const REQUESTS_MAX = 6
const REFUSED = /^(http_(timeout|reset|429)|redirect_\w+|challenge|(dns|connect|tls)_\w+|target_not_allowed)$/
const NO_LISTING: Listing = { auth: 'absent', models: null, error: null }

export async function fullProbe(
  context: ProbeContext,
  target: ProbeTarget,
  { onStep, signal }: { onStep?: OnStep; signal?: AbortSignal } = {},
): Promise<FullProbeResult> {
  const run = new FullProbe(context, target, new Steps(onStep), signal)
  try {
    return await run.run()
  } finally {
    run.session.close()
  }
}

class FullProbe {
  readonly session = new Session()
  private readonly context: ProbeContext
  private readonly target: ProbeTarget
  private readonly steps: Steps
  private readonly signal?: AbortSignal
  private readonly base: URL
  private readonly responses: ProbeResponse[] = []
  private requestsCount = 0
  private isIncomplete = false

  constructor(context: ProbeContext, target: ProbeTarget, steps: Steps, signal?: AbortSignal) {
    this.context = context
    this.target = target
    this.steps = steps
    this.signal = signal
    this.base = new URL(target.apiBase)
  }

  async run(): Promise<FullProbeResult> {
    const { purpose, extraPort, apiBase, onResolved } = this.target
    const isHttps = this.base.protocol === 'https:'
    this.steps.start('resolve')
    const handshake = await this.context.egress.handshake({
      url: apiBase,
      purpose,
      extraPort,
      onResolved,
      signal: this.signal,
    })
    this.steps.endOpening(handshake, isHttps, this.nowSec())
    if (handshake.error !== null) return this.end(handshake, toFailedVisit(apiBase, handshake), null, null)

    this.steps.start('landing')
    const visit = await this.request(LISTING_PATH, urlBelow(apiBase, LISTING_PATH))
    const listing = parseListing(visit)
    const isRefused = listing.error !== null && REFUSED.test(listing.error)
    const landing = isRefused ? null : await this.request(LANDING_PATH, this.target.url)
    this.reportLanding(landing)
    const keyed = isRefused ? null : await this.requestWithKey()
    this.reportListing(visit, listing, keyed)
    if (!isRefused) await this.fingerprint()
    return this.end(handshake, visit, keyed, landing)
  }

  private async request(path: string, url: string, headers?: Record<string, string>): Promise<Visit> {
    const { purpose, extraPort } = this.target
    this.requestsCount++
    const { session } = this
    const signal = this.signal
    const visit = await this.visit({ url, purpose, extraPort, session, signal, headers })
    const response = toProbeResponse(path, visit)
    const isPublic = headers === undefined // an error that repeats the operator's key to its sender is not a leak
    if (response !== null && isPublic) this.responses.push(response)
    return visit
  }

  private async visit(request: VisitRequest): Promise<Visit> {
    const visit = await this.context.egress.visit(request)
    this.isIncomplete ||= visit.hasStalled && visit.error !== null
    return visit
  }

  /** Over https only: the key must not be readable on the way. */
  private async requestWithKey(): Promise<Listing | null> {
    const { key, apiBase } = this.target
    if (!key || this.base.protocol !== 'https:') return null
    const headers = { authorization: `Bearer ${key}` }
    return parseListing(await this.request(LISTING_PATH, urlBelow(apiBase, LISTING_PATH), headers))
  }

  private async fingerprint(): Promise<void> {
    this.steps.start('fingerprint')
    const startedAtMs = this.context.nowMs()
    const request = (path: string) => this.request(path, new URL(path, this.base.origin).href)
    await request(STATUS_PATH)
    await request(PRICING_PATH)
    const requested = new Set<string>() // also those without a response
    while (this.requestsCount < REQUESTS_MAX) {
      const path = selectNextPath(this.responses, requested)
      if (path === null) break
      requested.add(path)
      await request(path)
    }
    const { name, version, confidence } = detectSoftware(this.responses)
    const detail = name === 'unknown' ? name : `${[name, version].filter(Boolean).join(' ')}, ${confidence}`
    const ms = this.context.nowMs() - startedAtMs
    this.steps.end('fingerprint', name === 'unknown' ? 'warn' : 'ok', ms, detail)
  }

  private async end(
    handshake: Handshake,
    visit: Visit,
    keyed: Listing | null,
    landing: Visit | null,
  ): Promise<FullProbeResult> {
    const isReached = handshake.timings.connectMs !== null && !handshake.isOurs && !visit.isOurs
    const hasResponse = visit.status !== null
    const listing = handshake.error === null ? parseListing(visit) : { ...NO_LISTING, error: handshake.error }
    const network = hasResponse ? await this.network(visit, landing) : null
    const hasNoListing = listing.auth === 'absent' && listing.error !== 'challenge' && hasResponse
    const isParked = hasNoListing && (network?.hasParkedName || this.responses.some(isParkedPage))
    const hasStalled = handshake.hasStalled || visit.hasStalled
    const attempt = toProbeAttempt('full', { ...visit, hasStalled }, listing, this.context, { isParked })
    this.isIncomplete ||= handshake.hasStalled && handshake.error !== null
    const { outcome, error, atSec } = attempt.probe
    this.steps.end('summary', STATUS_OF[outcome], null, error === null ? outcome : `${outcome}, ${error}`)

    const traces = { headers: visit.headers, cnames: network?.cnames ?? [], address: visit.remoteAddress }
    const observation: Observation = {
      atSec,
      models: keyed?.models ?? listing.models,
      listing: listing.auth,
      claimed: claimsIn(this.responses),
      profile: {
        cdn: detectCdn(traces),
        asn: this.context.asn.find(visit.remoteAddress ?? ''),
        ips: handshake.addresses,
        hasIpv6: handshake.hasIpv6,
        tls: toCertificate(handshake),
        software: detectSoftware(this.responses),
      },
      hygiene: checkHygiene(this.base, this.responses, network?.insecure ?? null),
      isParked,
      notices: readNotices(this.responses),
    }
    return {
      ...attempt,
      observation: isReached && !this.isIncomplete ? observation : null,
      isIncomplete: this.isIncomplete,
      landingStatus: landing?.status ?? null,
    }
  }

  private async network(visit: Visit, landing: Visit | null) {
    this.steps.start('network')
    const startedAtMs = this.context.nowMs()
    const { egress, asn } = this.context
    const signal = this.signal
    const { cnames, nameservers, hasFailed, hasStalled } = await egress.names(this.base.hostname, signal)
    this.isIncomplete ||= hasStalled && hasFailed
    const insecureUrl = `http://${this.base.hostname}/`
    const { purpose } = this.target
    const insecure =
      this.base.protocol === 'https:'
        ? await this.visit({ url: insecureUrl, purpose, redirects: 'none', signal })
        : landing
    const { provider } = detectCdn({ headers: visit.headers, cnames, address: visit.remoteAddress })
    const { number, name } = asn.find(visit.remoteAddress ?? '')
    const network = number === null ? null : `AS${number} ${name ?? ''}`.trim()
    const detail = [provider ?? 'no CDN seen', network].filter(Boolean).join(', ')
    this.steps.end('network', 'ok', this.context.nowMs() - startedAtMs, detail)
    return { cnames, insecure, hasParkedName: isParkedName([...cnames, ...nameservers]) }
  }

  private reportLanding(landing: Visit | null): void {
    if (landing === null) {
      this.steps.end('landing', 'skipped', null, null)
      return
    }
    const { error, status, timings } = landing
    const response = toProbeResponse(LANDING_PATH, landing)
    const obstacle =
      response && isChallenge(response) ? 'challenge' : response && isParkedPage(response) ? 'parked' : null
    const isFine = error === null && obstacle === null && (status as number) < 400
    const detail = [status, error, obstacle].filter((part) => part !== null).join(', ')
    this.steps.end('landing', isFine ? 'ok' : 'warn', timings.totalMs, detail)
  }

  private reportListing(
    { status, timings }: Visit,
    { auth, models, error }: Listing,
    keyed: Listing | null,
  ): void {
    this.steps.start('listing')
    const count = models && (models.length === 1 ? '1 model' : `${models.length} models`)
    const parts = [status, auth, count, error]
    if (keyed !== null) parts.push(keyed.models ? `${keyed.models.length} with key` : 'key not accepted')
    const detail = parts.filter((part) => part !== null).join(', ')
    this.steps.end('listing', auth === 'absent' ? 'error' : 'ok', timings.totalMs, detail)
  }

  private nowSec(): number {
    return Math.floor(this.context.nowMs() / 1_000)
  }
}

const STATUS_OF: Record<ProbeAttempt['probe']['outcome'], StepStatus> = {
  up: 'ok',
  degraded: 'warn',
  down: 'error',
  inconclusive: 'warn',
}

/** From the handshake, which offers h2 too; without the names of the certificate, which are not stored. */
function toCertificate({ certificate }: Handshake): Certificate | null {
  if (certificate === null) return null
  const { version, issuer, notAfterSec, isValid, alpn } = certificate
  return { version, issuer, notAfterSec, isValid, alpn }
}

/** Stands for the visit that was not made because the handshake failed. */
function toFailedVisit(url: string, handshake: Handshake): Visit {
  return {
    ...handshake,
    url,
    status: null,
    httpVersion: null,
    headers: new Map(),
    body: Buffer.alloc(0),
    isReused: false,
    hops: [],
  }
}
