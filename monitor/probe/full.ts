/**
 * The full probe: all that one look can find (spec 6.1, 6.2).
 *
 *     handshake ─► listing ─► landing ─► listing with key ─► status ─► pricing ─► own paths ─► port 80, CNAME, NS
 *     h2 offered   on a new connection, the others on the same, one after another; at most REQUESTS_MAX
 *
 * Five are asked of every site (four where no key is configured), so nobody's price list is lost; what is left of the six,
 * one or two, goes to paths that only some programs have. Which, is chosen anew after each answer (next-path.ts): those of
 * the program whose marks or hints show, else down the table; a program that is sure is asked only for what it still owes.
 * The listing goes first, though its step is told after the landing page's: on a new connection its times are measured as
 * those of a light probe are. A handshake that fails ends it, and so do a challenge, 429, no answer and a redirect to
 * nowhere: whoever does not want to be asked is not asked five times more. Port 80 and DNS come on top of the six, as the handshake does.
 */
import type { Handshake, Visit, VisitRequest } from '../egress/egress.ts'
import { Session } from '../egress/egress.ts'
import type { Certificate, Observation } from '../facts.ts'
import { detectCdn } from './cdn.ts'
import { isChallenge, isParkedName, isParkedPage } from './challenge-pages.ts'
import { LANDING_PATH, PRICING_PATH, STATUS_PATH } from './fingerprints.ts'
import { checkHygiene } from './hygiene.ts'
import type { Listing } from './listing.ts'
import { LISTING_PATH, parseListing } from './listing.ts'
import { selectNextPath } from './next-path.ts'
import { claimsIn } from './pricing.ts'
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
const UNWILLING =
  /^(http_(timeout|reset|429)|redirect_\w+|challenge|(dns|connect|tls)_\w+|target_not_allowed)$/
const NO_LISTING: Listing = { auth: 'absent', models: null, error: null }

export async function fullProbe(
  context: ProbeContext,
  target: ProbeTarget,
  { onStep, signal }: { onStep?: OnStep; signal?: AbortSignal } = {},
): Promise<FullProbeResult> {
  const look = new FullProbe(context, target, new Steps(onStep), signal)
  try {
    return await look.take()
  } finally {
    look.session.close()
  }
}

/** One full probe under way. */
class FullProbe {
  readonly session = new Session()
  readonly #context: ProbeContext
  readonly #target: ProbeTarget
  readonly #steps: Steps
  readonly #signal?: AbortSignal
  readonly #base: URL
  readonly #responses: ProbeResponse[] = []
  #requests = 0
  #isIncomplete = false

  constructor(context: ProbeContext, target: ProbeTarget, steps: Steps, signal?: AbortSignal) {
    this.#context = context
    this.#target = target
    this.#steps = steps
    this.#signal = signal
    this.#base = new URL(target.apiBase)
  }

  async take(): Promise<FullProbeResult> {
    const { purpose, extraPort, apiBase, onResolved } = this.#target
    const isHttps = this.#base.protocol === 'https:'
    this.#steps.start('resolve')
    const handshake = await this.#context.egress.handshake({
      url: apiBase,
      purpose,
      extraPort,
      onResolved,
      signal: this.#signal,
    })
    this.#steps.endOpening(handshake, isHttps, this.#nowSec())
    if (handshake.error !== null) return this.#end(handshake, visitOfNone(apiBase, handshake), null, null)

    this.#steps.start('landing')
    const visit = await this.#ask(LISTING_PATH, urlBelow(apiBase, LISTING_PATH))
    const listing = parseListing(visit)
    const isUnwilling = listing.error !== null && UNWILLING.test(listing.error)
    const landing = isUnwilling ? null : await this.#ask(LANDING_PATH, this.#target.url)
    this.#reportLanding(landing)
    const keyed = isUnwilling ? null : await this.#askWithKey()
    this.#reportListing(visit, listing, keyed)
    if (!isUnwilling) await this.#fingerprint()
    return this.#end(handshake, visit, keyed, landing)
  }

  async #ask(path: string, url: string, headers?: Record<string, string>): Promise<Visit> {
    const { purpose, extraPort } = this.#target
    this.#requests++
    const { session } = this
    const signal = this.#signal
    const visit = await this.#visit({ url, purpose, extraPort, session, signal, headers })
    const answer = toProbeResponse(path, visit)
    const isJudged = headers === undefined // an error that repeats the operator's own key back to us is no leak
    if (answer !== null && isJudged) this.#responses.push(answer)
    return visit
  }

  async #visit(request: VisitRequest): Promise<Visit> {
    const visit = await this.#context.egress.visit(request)
    this.#isIncomplete ||= visit.hasStalled && visit.error !== null
    return visit
  }

  /** The key is not for everyone on the way, so it needs https. */
  async #askWithKey(): Promise<Listing | null> {
    const { key, apiBase } = this.#target
    if (!key || this.#base.protocol !== 'https:') return null
    const headers = { authorization: `Bearer ${key}` }
    return parseListing(await this.#ask(LISTING_PATH, urlBelow(apiBase, LISTING_PATH), headers))
  }

  async #fingerprint(): Promise<void> {
    this.#steps.start('fingerprint')
    const startedAtMs = this.#context.nowMs()
    const ask = (path: string) => this.#ask(path, new URL(path, this.#base.origin).href)
    await ask(STATUS_PATH)
    await ask(PRICING_PATH)
    const asked = new Set<string>() // not only answered: silence is not asked again
    while (this.#requests < REQUESTS_MAX) {
      const path = selectNextPath(this.#responses, asked)
      if (path === null) break
      asked.add(path)
      await ask(path)
    }
    const { name, version, confidence } = detectSoftware(this.#responses)
    const detail = name === 'unknown' ? name : `${[name, version].filter(Boolean).join(' ')}, ${confidence}`
    const ms = this.#context.nowMs() - startedAtMs
    this.#steps.end('fingerprint', name === 'unknown' ? 'warn' : 'ok', ms, detail)
  }

  async #end(
    handshake: Handshake,
    visit: Visit,
    keyed: Listing | null,
    landing: Visit | null,
  ): Promise<FullProbeResult> {
    const isReached = handshake.timings.connectMs !== null && !handshake.isOurs && !visit.isOurs
    const isAnswered = visit.status !== null
    const listing = handshake.error === null ? parseListing(visit) : { ...NO_LISTING, error: handshake.error }
    const network = isAnswered ? await this.#network(visit, landing) : null
    const isSilent = listing.auth === 'absent' && listing.error !== 'challenge' && isAnswered
    const isParked = isSilent && (network?.hasParkedName || this.#responses.some(isParkedPage))
    const hasStalled = handshake.hasStalled || visit.hasStalled
    const tried = toProbeAttempt('full', { ...visit, hasStalled }, listing, this.#context, { isParked })
    this.#isIncomplete ||= handshake.hasStalled && handshake.error !== null
    const { outcome, error, atSec } = tried.probe
    this.#steps.end('summary', STATUS_OF[outcome], null, error === null ? outcome : `${outcome}, ${error}`)

    const traces = { headers: visit.headers, cnames: network?.cnames ?? [], address: visit.remoteAddress }
    const observation: Observation = {
      atSec,
      models: keyed?.models ?? listing.models,
      listing: listing.auth,
      claimed: claimsIn(this.#responses),
      profile: {
        cdn: detectCdn(traces),
        asn: this.#context.asn.find(visit.remoteAddress ?? ''),
        ips: handshake.addresses,
        hasIpv6: handshake.hasIpv6,
        tls: toCertificate(handshake),
        software: detectSoftware(this.#responses),
      },
      hygiene: checkHygiene(this.#base, this.#responses, network?.insecure ?? null),
      isParked,
      notices: readNotices(this.#responses),
    }
    return {
      ...tried,
      observation: isReached && !this.#isIncomplete ? observation : null,
      isIncomplete: this.#isIncomplete,
      landingStatus: landing?.status ?? null,
    }
  }

  async #network(visit: Visit, landing: Visit | null) {
    this.#steps.start('network')
    const startedAtMs = this.#context.nowMs()
    const { egress, asn } = this.#context
    const signal = this.#signal
    const { cnames, nameservers, hasStalled } = await egress.names(this.#base.hostname, signal)
    this.#isIncomplete ||= hasStalled // a look-up that failed shows as an empty list
    const insecureUrl = `http://${this.#base.hostname}/`
    const { purpose } = this.#target
    const insecure =
      this.#base.protocol === 'https:'
        ? await this.#visit({ url: insecureUrl, purpose, redirects: 'none', signal })
        : landing
    const { provider } = detectCdn({ headers: visit.headers, cnames, address: visit.remoteAddress })
    const { number, name } = asn.find(visit.remoteAddress ?? '')
    const network = number === null ? null : `AS${number} ${name ?? ''}`.trim()
    const detail = [provider ?? 'no CDN seen', network].filter(Boolean).join(', ')
    this.#steps.end('network', 'ok', this.#context.nowMs() - startedAtMs, detail)
    return { cnames, insecure, hasParkedName: isParkedName([...cnames, ...nameservers]) }
  }

  #reportLanding(landing: Visit | null): void {
    if (landing === null) {
      this.#steps.end('landing', 'skipped', null, null)
      return
    }
    const { error, status, timings } = landing
    const answer = toProbeResponse(LANDING_PATH, landing)
    const wall =
      answer && isChallenge(answer) ? 'challenge' : answer && isParkedPage(answer) ? 'parked' : null
    const isFine = error === null && wall === null && (status as number) < 400
    const detail = [status, error, wall].filter((part) => part !== null).join(', ')
    this.#steps.end('landing', isFine ? 'ok' : 'warn', timings.totalMs, detail)
  }

  #reportListing({ status, timings }: Visit, { auth, models, error }: Listing, keyed: Listing | null): void {
    this.#steps.start('listing')
    const parts = [status, auth, models && `${models.length} models`, error]
    if (keyed !== null) parts.push(keyed.models ? `${keyed.models.length} with key` : 'key not accepted')
    const detail = parts.filter((part) => part !== null).join(', ')
    this.#steps.end('listing', auth === 'absent' ? 'error' : 'ok', timings.totalMs, detail)
  }

  #nowSec(): number {
    return Math.floor(this.#context.nowMs() / 1_000)
  }
}

const STATUS_OF: Record<ProbeAttempt['probe']['outcome'], StepStatus> = {
  up: 'ok',
  degraded: 'warn',
  down: 'error',
  inconclusive: 'warn',
}

/** As of the handshake that offers h2 too; without the names it covers, which nobody stores. */
function toCertificate({ certificate }: Handshake): Certificate | null {
  if (certificate === null) return null
  const { version, issuer, notAfterSec, isValid, alpn } = certificate
  return { version, issuer, notAfterSec, isValid, alpn }
}

/** A visit that was not made, because the handshake failed. */
function visitOfNone(url: string, handshake: Handshake): Visit {
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
