/** Writes histories for the tests of the checker: rules, statuses, calls of one descriptor with the value `a`. */
import { Code, type DescriptorStatus, Unit } from '../../proto/ratelimit.ts'
import type { Answer } from './answer.ts'
import { type Call, History, type HistoryOptions, type Now } from './history.ts'
import type { FaultRule } from './model.ts'
import type { Invariant } from './violations.ts'

export const DAY_SEC = 86_400
export const LIMIT = 10
export const START_MS = 1_790_000_000_000 // within a day, at the start of a second

export const rule = (policy: FaultRule['policy'], rest: Partial<FaultRule> = {}): FaultRule => ({
  key: policy,
  unit: 'day',
  unitSec: DAY_SEC,
  limits: [LIMIT],
  policy,
  localShare: 50,
  ...rest,
})
export const ERROR = rule('error')
export const ALLOW = rule('allow')
export const DENY = rule('deny')
export const LOCAL = rule('local')
export const SECOND = rule('error', { key: 'second', unit: 'second', unitSec: 1 })

export const at = (ms: number): Now => ({ ms, wallMs: START_MS + ms })

/** A status with so many hits remaining; -1 = over the limit. */
export function status(remaining: number, rest: Partial<DescriptorStatus> = {}): DescriptorStatus {
  const currentLimit = { name: '', requestsPerUnit: LIMIT, unit: Unit.Day }
  const code = remaining < 0 ? Code.OverLimit : Code.Ok
  return { code, currentLimit, limitRemaining: Math.max(0, remaining), resetSec: 1, ...rest }
}

export function answer(statuses: DescriptorStatus[], degraded = ''): Answer {
  const isOver = statuses.some(({ code }) => code === Code.OverLimit)
  const overallCode = isOver ? Code.OverLimit : Code.Ok
  return { kind: 'answered', overallCode, statuses, degraded, policies: null }
}

export class Script {
  readonly history: History
  nowMs = 0

  constructor(options: HistoryOptions = {}) {
    this.history = new History(options)
  }

  begin(of: FaultRule | FaultRule[] = ERROR, hits = 1, deadlineMs?: number): Call {
    const rules = Array.isArray(of) ? of : [of]
    const items = rules.map((each) => ({ rule: each, value: 'a', hits }))
    return this.history.begin(0, items, deadlineMs, at(this.nowMs))
  }

  end(call: Call, remaining: number | number[], degraded = ''): void {
    const list = Array.isArray(remaining) ? remaining : [remaining]
    this.history.end(
      call,
      answer(
        list.map((each) => status(each)),
        degraded,
      ),
      at(this.nowMs),
    )
  }

  /** A call that ends before anything else happens. */
  ask(remaining: number | number[], of: FaultRule | FaultRule[] = ERROR, hits = 1, degraded = ''): void {
    this.end(this.begin(of, hits), remaining, degraded)
  }

  fail(call: Call, reason = '2 redis: no reply'): void {
    this.history.end(call, { kind: 'failed', reason }, at(this.nowMs))
  }

  get broken(): Invariant[] {
    return this.history.violations.map(({ invariant }) => invariant)
  }
}
