/**
 * Quotas, decided by the same engine that decides for everybody (spec 4.1, 4.2): one descriptor per request.
 *
 *     read, submit, page              class=read │ ip=203.0.113.7
 *     the same with an API key        class=key_read │ tier=partner │ key=k_1
 *
 *     answer ─► its status: Limit, Remaining, Reset     none, or unlimited ─► 2^32-1 until the end of the minute
 *     error, or none within 20 ms ─► read and page pass, submit does not
 *
 * The 20 ms are those of a running event loop: four ticks of one timer, at most one tick per turn of the loop. A thread that
 * stood still finds its timers due before it has read the answers that came meanwhile, and would let everybody pass.
 * Nothing is computed here: the engine's window is told on.
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
const BUDGET_TICKS = 5 // four whole ones, and what is left of the one a question begins in: 20 to 25 ms
const UNLIMITED = 4_294_967_295
const MINUTE_SEC = 60

export const QUOTA_KINDS = ['read', 'submit', 'page'] as const
export type QuotaKind = (typeof QUOTA_KINDS)[number]

/** Who is counted: an address, or a key. */
export interface QuotaClient {
  ip: string
  key: { id: string; tier: string } | null
}

export interface Quota {
  class: string // as in the descriptor
  isOver: boolean
  hasFailed: boolean // the engine gave no answer; the figures are those of the rule
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
  private readonly waiting = new Set<QuotaDecision>() // oldest first; as many as there are requests under way
  private ticks = 0
  private isTicking = false

  constructor(options: QuotaOptions) {
    this.options = options
  }

  /** Counts one request, and calls back once: mostly before this returns. */
  take(kind: QuotaKind, client: QuotaClient, done: (quota: Quota) => void): void {
    this.ask(kind, client, null, done)
  }

  /** The same without counting. */
  peek(kind: QuotaKind, client: QuotaClient, done: (quota: Quota) => void): void {
    this.ask(kind, client, 0, done)
  }

  private ask(
    kind: QuotaKind,
    client: QuotaClient,
    hitsAddend: 0 | null,
    done: (quota: Quota) => void,
  ): void {
    const name = getQuotaClass(kind, client)
    const descriptor = { entries: toEntries(name, client), limit: null, hitsAddend }
    const request = { domain: DOMAIN, descriptors: [descriptor], hitsAddend: 1 }
    const question = new QuotaDecision(this.options.limiter, request, (response) => {
      this.waiting.delete(question)
      if (response === null) this.options.onFailure?.(kind)
      done(response === null ? this.failed(name, descriptor) : this.toQuota(name, response))
    })
    question.ask()
    if (question.isCancelled) return
    question.lastTick = this.ticks + BUDGET_TICKS
    this.waiting.add(question)
    if (this.isTicking) return
    this.isTicking = true
    setTimeout(this.tick, TICK_MS)
  }

  private readonly tick = () => {
    this.ticks++
    for (const question of this.waiting) {
      if (question.lastTick > this.ticks) break
      question.onError()
    }
    this.isTicking = this.waiting.size > 0
    if (this.isTicking) setImmediate(this.tickLater) // a turn later, so sockets are read between two ticks
  }

  private readonly tickLater = () => {
    setTimeout(this.tick, TICK_MS)
  }

  private toQuota(name: string, { overallCode, statuses }: RateLimitResponse): Quota {
    const nowSec = this.options.nowSec()
    const [status] = statuses // one descriptor was asked about
    const isOver = overallCode === Code.OverLimit
    if (status.currentLimit === null) return this.full(name, null, { isOver, hasFailed: false })
    const windowSec = unitSec(status.currentLimit.unit)
    const limit = status.currentLimit.requestsPerUnit
    // The engine read its clock a moment ago; its windows are aligned, so rounding gives its very second.
    const resetSec = Math.round((nowSec + status.resetSec) / windowSec) * windowSec
    const remaining = isOver ? 0 : status.limitRemaining
    const afterSec = Math.max(1, resetSec - nowSec)
    return { class: name, isOver, hasFailed: false, limit, remaining, windowSec, resetSec, afterSec }
  }

  private failed(name: string, descriptor: Descriptor): Quota {
    const limit = this.options.limiter.findLimit(DOMAIN, descriptor)
    return this.full(name, limit, { isOver: false, hasFailed: true })
  }

  /** All of a limit is left; null = there is none. */
  private full(name: string, limit: RateLimit | null, is: Pick<Quota, 'isOver' | 'hasFailed'>): Quota {
    const requests = limit === null ? UNLIMITED : limit.requestsPerUnit
    const windowSec = limit === null ? MINUTE_SEC : unitSec(limit.unit)
    const figures = { limit: requests, remaining: requests, windowSec }
    return { class: name, ...is, ...figures, ...windowEnd(this.options.nowSec(), windowSec) }
  }
}

export function windowEnd(nowSec: number, windowSec: number): { resetSec: number; afterSec: number } {
  const afterSec = windowSec - (nowSec % windowSec)
  return { resetSec: nowSec + afterSec, afterSec }
}

export function getQuotaClass(kind: QuotaKind, { key }: QuotaClient): string {
  return key === null || kind === 'page' ? kind : `key_${kind}`
}

export function toEntries(name: string, { ip, key }: QuotaClient): Entry[] {
  const first = { key: 'class', value: name }
  if (key === null || !name.startsWith('key_')) return [first, { key: 'ip', value: ip }]
  return [first, { key: 'tier', value: key.tier }, { key: 'key', value: key.id }]
}

/** One question to the engine, answered once; null = it failed, or took longer than its budget. */
class QuotaDecision implements DecisionCallback {
  isCancelled = false
  lastTick = 0 // fails then
  private readonly decider: QuotaEngine
  private readonly request: Parameters<QuotaEngine['decide']>[0]
  private readonly done: (response: RateLimitResponse | null) => void

  constructor(
    decider: QuotaEngine,
    request: Parameters<QuotaEngine['decide']>[0],
    done: (response: RateLimitResponse | null) => void,
  ) {
    this.decider = decider
    this.request = request
    this.done = done
  }

  /** May be answered before this returns. */
  ask(): void {
    try {
      this.decider.decide(this.request, this)
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
