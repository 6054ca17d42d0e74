/**
 * What a descriptor comes to under the rules of the day: everything about it that neither time nor counts change.
 *
 *     user=7 · plan=free  ──►  rule 5/min      key  shop_user_7_plan_free_      statistics  17 … 22
 *                                                 └─ with the window of now: Counter shop_user_7_plan_free_1790000040
 *
 * Made once per descriptor and, where it is met often, kept (descriptor-cache.ts); a hit on one that is kept allocates nothing.
 */
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import type { Rule } from '../config/rules.ts'
import { Counter } from '../stores/counter.ts'
import { unitSec, windowStartSec } from './window.ts'

export class ResolvedDescriptor {
  readonly rule: Rule | null // null = no limit applies
  readonly lengthSec: number // of the rule's window; 0 = nothing is counted: no rule, or an unlimited one
  readonly expirySec: number // how long a store keeps the counter at least
  readonly near: number // hits from here on are near the limit
  readonly statsBase: number // first of the six counters of what is counted; else -1
  readonly missStat: number // counter of requests for a domain without rules; -1 = the domain has some
  readonly hits: number | bigint | null // of the descriptor itself; null = as many as its request says
  private readonly keyBase: string // spec 3.1, without the window
  private readonly isPublic: boolean // as its counters
  private windowStart: number
  private counter: Counter | null // of that window; null = not met yet

  constructor(of: ResolvedDescriptorFields) {
    this.rule = of.rule
    this.lengthSec = of.rule === null || of.rule.isUnlimited ? 0 : unitSec(of.rule.limit.unit)
    this.expirySec = Math.max(this.lengthSec, of.expirySec ?? 0)
    this.near = of.near
    this.statsBase = of.statsBase
    this.missStat = of.missStat
    this.hits = of.hits
    this.keyBase = of.keyBase
    this.isPublic = of.isPublic ?? false
    this.windowStart = of.windowStart ?? -1
    this.counter = of.counter ?? null
  }

  /** Where hits of now are counted. Only where anything is. */
  counterAt(nowSec: number): Counter {
    const start = windowStartSec(nowSec, this.lengthSec)
    if (this.counter === null || start !== this.windowStart) {
      this.windowStart = start
      this.counter = new Counter(this.keyBase + start, -1, this.isPublic)
    }
    return this.counter
  }
}

/** Of descriptors that no limit applies to. */
export const NO_RULE_DESCRIPTOR = new ResolvedDescriptor({
  rule: null,
  near: 0,
  statsBase: -1,
  missStat: -1,
  hits: null,
  keyBase: '',
})

/** How many hits a request brings to a descriptor that does not say: 1 where the request does not say either. */
export function getDefaultHits({ hitsAddend }: Pick<RateLimitRequest, 'hitsAddend'>): number {
  return hitsAddend || 1
}

export interface ResolvedDescriptorFields {
  rule: Rule | null
  near: number
  statsBase: number
  missStat: number
  hits: number | bigint | null
  keyBase: string
  isPublic?: boolean // default false
  expirySec?: number // where that is more than the rule's own window
  windowStart?: number // where the counter of now is known
  counter?: Counter
}
