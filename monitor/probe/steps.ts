/**
 * Progress of a full probe (spec 3.5). Steps are reported in their order, each at most twice: running, then its result.
 * Details are fixed words and parsed facts, never text of a body.
 */
import type { Handshake } from '../egress/egress.ts'
import { CERTIFICATE_DAYS_MIN } from '../scoring/score.ts'

// biome-ignore format: in their order
export const STEP_NAMES = [
  'resolve', 'connect', 'tls', 'landing', 'listing', 'fingerprint', 'network', 'summary',
] as const
export type StepName = (typeof STEP_NAMES)[number]
export type StepStatus = 'pending' | 'running' | 'ok' | 'warn' | 'error' | 'skipped'

export interface Step {
  name: StepName
  status: StepStatus
  ms: number | null
  detail: string | null // at most DETAIL_CHARS
}
export type OnStep = (step: Step) => void

const DETAIL_CHARS = 160

export class Steps {
  private readonly onStep: OnStep
  private next = 0 // index of the step that runs now or next

  constructor(onStep: OnStep = () => {}) {
    this.onStep = onStep
  }

  start(name: StepName): void {
    this.skipTo(name)
    this.onStep({ name, status: 'running', ms: null, detail: null })
  }

  end(name: StepName, status: StepStatus, ms: number | null, detail: string | null): void {
    this.skipTo(name)
    this.next++
    const text = detail?.slice(0, DETAIL_CHARS).toWellFormed() ?? null
    this.onStep({ name, status, ms: ms === null ? null : Math.max(0, Math.round(ms)), detail: text })
  }

  /** The three steps of a handshake, reported at once after it. */
  endOpening(handshake: Handshake, isHttps: boolean, nowSec: number): void {
    const { error, timings, addresses, hasIpv6, remoteAddress, certificate } = handshake
    const { dnsMs, connectMs, tlsMs } = timings
    const count = addresses.length === 1 ? '1 address' : `${addresses.length} addresses`
    const isReached = connectMs !== null // through a proxy no address is known
    if (addresses.length === 0 && !isReached) {
      this.end('resolve', 'error', dnsMs ?? timings.totalMs, error)
      return
    }
    if (addresses.length === 0) this.end('resolve', 'skipped', null, 'left to the proxy')
    else this.end('resolve', 'ok', dnsMs, hasIpv6 ? `${count}, IPv6 too` : count)
    if (!isReached) {
      this.end('connect', 'error', connectMs, error)
      return
    }
    this.end('connect', 'ok', connectMs, remoteAddress)
    if (!isHttps) this.end('tls', 'skipped', null, 'plain http')
    else if (error !== null || certificate === null) this.end('tls', 'error', tlsMs, error)
    else {
      const days = Math.floor((certificate.notAfterSec - nowSec) / 86_400)
      const left = days === 1 ? '1 day left' : `${days} days left`
      const facts = [certificate.version, certificate.alpn, left].filter(Boolean).join(', ')
      this.end('tls', days < CERTIFICATE_DAYS_MIN ? 'warn' : 'ok', tlsMs, facts)
    }
  }

  private skipTo(name: StepName): void {
    while (STEP_NAMES[this.next] !== name && this.next < STEP_NAMES.length) {
      this.onStep({ name: STEP_NAMES[this.next++], status: 'skipped', ms: null, detail: null })
    }
  }
}
