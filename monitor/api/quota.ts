/**
 * Quotas of the API, decided by an engine of the service (spec 4.1, 4.2): one descriptor per request.
 *
 *     read, submit, page              class=read │ ip=203.0.113.7
 *     the same with an API key        class=key_read │ tier=partner │ key=k_1
 *
 *     decision ─► its status: Limit, Remaining, Reset     no rule, or unlimited ─► 2^32-1 until the end of the minute
 *     error, or no decision within 20 ms ─► read and page pass, submit does not
 *
 * The 20 ms are four ticks of a timer, at most one per turn of the event loop. After a stall, timers fire before the replies
 * that have arrived are read; a plain timeout would let every request pass then. Limits and windows are the engine's.
 */
import type { Engine } from '../../engine/decision/engine.ts'
import type { DecisionCallback } from '../../engine/decision/rate-limiter.ts'
import { unitSec } from '../../engine/decision/window.ts'
import {
  Code,
  type Descriptor,
  type Entry,
  type RateLimit,
  type RateLimitResponse,
} from '../../proto/ratelimit.ts'
import { DOMAIN } from './default-rules.ts'

const TICK_MS = 5
const BUDGET_TICKS = 5 // four whole ticks and the rest of the current one: 20 to 25 ms
const UNLIMITED = 4_294_967_295
const MINUTE_SEC = 60

export const QUOTA_KINDS = ['read', 'submit', 'page'] as const
export type QuotaKind = (typeof QUOTA_KINDS)[number]

/** As in the descriptor; `wrong_key` is counted by wrong-keys.ts, and has no rule. */
export type QuotaClass = QuotaKind | 'key_read' | 'key_submit' | 'wrong_key'

/** The client that is counted: an address, or a key. */
export interface QuotaClient {
  ip: string
  key: { id: string; tier: string } | null
}

export interface Quota {
  class: QuotaClass
  isOver: boolean
  hasFailed: boolean // the engine did not decide; the values are those of the rule
  limit: number
  remaining: number
  windowSec: number
  resetSec: number // epoch second
  afterSec: number // from now to then, at least 1
}

/** The engine, as far as quotas need it. */
export type QuotaEngine = Pick<Engine, 'decide' | 'findLimit'>

export interface QuotaOptions {
  limiter: QuotaEngine
  nowSec: () => number
  onFailure?: (kind: QuotaKind) => void
}

export class Quotas {
  private readonly options: QuotaOptions
  private readonly waiting = new Set<QuotaDecision>() // oldest first; bounded by the requests in flight
  private ticks = 0
  private isTicking = false

  constructor(options: QuotaOptions) {
    this.options = options
  }

  /** Counts one request. Calls back once, mostly before it returns. */
  take(kind: QuotaKind, client: QuotaClient, done: (quota: Quota) => void): void {
    this.decide(kind, client, null, done)
  }

  /** The same without counting. */
  peek(kind: QuotaKind, client: QuotaClient, done: (quota: Quota) => void): void {
    this.decide(kind, client, 0, done)
  }

  private decide(
    kind: QuotaKind,
    client: QuotaClient,
    hitsAddend: 0 | null,
    done: (quota: Quota) => void,
  ): void {
    const name = getQuotaClass(kind, client)
    const descriptor = { entries: toEntries(name, client), limit: null, hitsAddend }
    const request = { domain: DOMAIN, descriptors: [descriptor], hitsAddend: 1 }
    const decision = new QuotaDecision(this.options.limiter, request, (response) => {
      this.waiting.delete(decision)
      if (response === null) this.options.onFailure?.(kind)
      done(response === null ? this.failed(name, descriptor) : this.toQuota(name, response))
    })
    decision.start()
    if (decision.isCancelled) return
    decision.lastTick = this.ticks + BUDGET_TICKS
    this.waiting.add(decision)
    if (this.isTicking) return
    this.isTicking = true
    setTimeout(this.tick, TICK_MS)
  }

  private readonly tick = () => {
    this.ticks++
    for (const decision of this.waiting) {
      if (decision.lastTick > this.ticks) break
      decision.onError()
    }
    this.isTicking = this.waiting.size > 0
    if (this.isTicking) setImmediate(this.tickLater) // one turn later, so that sockets are read between two ticks
  }

  private readonly tickLater = () => {
    setTimeout(this.tick, TICK_MS)
  }

  private toQuota(name: QuotaClass, { overallCode, statuses }: RateLimitResponse): Quota {
    const nowSec = this.options.nowSec()
    const [status] = statuses // of the only descriptor
    const isOver = overallCode === Code.OverLimit
    if (status.currentLimit === null) return this.full(name, null, { isOver, hasFailed: false })
    const windowSec = unitSec(status.currentLimit.unit)
    const limit = status.currentLimit.requestsPerUnit
    // The engine read its clock slightly earlier; windows are aligned, so rounding gives the exact second.
    const resetSec = Math.round((nowSec + status.resetSec) / windowSec) * windowSec
    const remaining = isOver ? 0 : status.limitRemaining
    const afterSec = Math.max(1, resetSec - nowSec)
    return { class: name, isOver, hasFailed: false, limit, remaining, windowSec, resetSec, afterSec }
  }

  private failed(name: QuotaClass, descriptor: Descriptor): Quota {
    const limit = this.options.limiter.findLimit(DOMAIN, descriptor)
    return this.full(name, limit, { isOver: false, hasFailed: true })
  }

  /** A quota with its whole limit left; null = no limit. */
  private full(name: QuotaClass, limit: RateLimit | null, is: Pick<Quota, 'isOver' | 'hasFailed'>): Quota {
    const requests = limit === null ? UNLIMITED : limit.requestsPerUnit
    const windowSec = limit === null ? MINUTE_SEC : unitSec(limit.unit)
    const values = { limit: requests, remaining: requests, windowSec }
    return { class: name, ...is, ...values, ...windowEnd(this.options.nowSec(), windowSec) }
  }
}

export function windowEnd(nowSec: number, windowSec: number): { resetSec: number; afterSec: number } {
  const afterSec = windowSec - (nowSec % windowSec)
  return { resetSec: nowSec + afterSec, afterSec }
}

export function getQuotaClass(kind: QuotaKind, { key }: QuotaClient): QuotaClass {
  return key === null || kind === 'page' ? kind : `key_${kind}`
}

export function toEntries(name: string, { ip, key }: QuotaClient): Entry[] {
  const first = { key: 'class', value: name }
  if (key === null || !name.startsWith('key_')) return [first, { key: 'ip', value: ip }]
  return [first, { key: 'tier', value: key.tier }, { key: 'key', value: key.id }]
}

/** One call of the engine. `done` is called once; null = the engine failed or exceeded the budget. */
class QuotaDecision implements DecisionCallback {
  isCancelled = false
  lastTick = 0 // fails then
  private readonly limiter: QuotaEngine
  private readonly request: Parameters<QuotaEngine['decide']>[0]
  private readonly done: (response: RateLimitResponse | null) => void

  constructor(
    limiter: QuotaEngine,
    request: Parameters<QuotaEngine['decide']>[0],
    done: (response: RateLimitResponse | null) => void,
  ) {
    this.limiter = limiter
    this.request = request
    this.done = done
  }

  /** May call `done` before it returns. */
  start(): void {
    try {
      this.limiter.decide(this.request, this)
    } catch {
      this.end(null)
    }
  }

  onDecision(response: RateLimitResponse): void {
    this.end(response)
  }

  onError(): void {
    this.end(null)
  }

  private end(response: RateLimitResponse | null): void {
    if (this.isCancelled) return
    this.isCancelled = true
    this.done(response)
  }
}
