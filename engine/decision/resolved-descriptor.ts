/**
 * A descriptor resolved under the current rules: everything about it that depends on neither time nor counts.
 *
 *     user=7 · plan=free  ──►  rule 5/min      key  shop_user_7_plan_free_      statistics  17 … 22
 *                                                 └─ with the current window: Counter shop_user_7_plan_free_1790000040
 *
 * Made once per descriptor and cached if it is frequent (descriptor-cache.ts). A hit on a cached one allocates nothing.
 */
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import type { Rule } from '../config/rules.ts'
import { Counter } from '../stores/counter.ts'
import { unitSec, windowStartSec } from './window.ts'

export class ResolvedDescriptor {
  readonly rule: Rule | null // null = no limit applies
  readonly lengthSec: number // of the rule's window; 0 = nothing is counted (no rule, or unlimited)
  readonly expirySec: number // shortest time a store must keep the counter
  readonly near: number // hits from here on are near the limit
  readonly statsBase: number // first of the six statistics of the rule; -1 = none
  readonly missStat: number // statistic of a domain without rules; -1 = the domain has rules
  readonly hits: number | bigint | null // of the descriptor itself; null = those of the request
  private readonly keyBase: string // spec 3.1, without the window
  private readonly isPublic: boolean // as Counter.isPublic
  private windowStart: number
  private counter: Counter | null // of that window; null = not used yet

  constructor(fields: ResolvedDescriptorFields) {
    this.rule = fields.rule
    this.lengthSec = fields.rule === null || fields.rule.isUnlimited ? 0 : unitSec(fields.rule.limit.unit)
    this.expirySec = Math.max(this.lengthSec, fields.expirySec ?? 0)
    this.near = fields.near
    this.statsBase = fields.statsBase
    this.missStat = fields.missStat
    this.hits = fields.hits
    this.keyBase = fields.keyBase
    this.isPublic = fields.isPublic ?? false
    this.windowStart = fields.windowStart ?? -1
    this.counter = fields.counter ?? null
  }

  /** The counter of the window that holds `nowSec`. Requires lengthSec above 0. */
  counterAt(nowSec: number): Counter {
    const start = windowStartSec(nowSec, this.lengthSec)
    if (this.counter === null || start !== this.windowStart) {
      this.windowStart = start
      this.counter = new Counter(this.keyBase + start, -1, this.isPublic)
    }
    return this.counter
  }
}

/** For descriptors to which no limit applies. */
export const NO_RULE_DESCRIPTOR = new ResolvedDescriptor({
  rule: null,
  near: 0,
  statsBase: -1,
  missStat: -1,
  hits: null,
  keyBase: '',
})

/** The hits of a descriptor without hits of its own: those of the request, by default 1. */
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
  expirySec?: number // if longer than the rule's own window
  windowStart?: number // if the current counter is known
  counter?: Counter
}
