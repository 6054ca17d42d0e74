/**
 * A RateLimiter whose behaviour the request's domain chooses, so that transports are tested without an engine.
 *
 *     answer  OK at once          over   OVER_LIMIT at once      fail   the error `no rules today`
 *     wait    when the test says  throw  a defect                twice  answers, then answers again and fails
 */
import type { DecisionCallback, RateLimiter } from '../../engine/decision/rate-limiter.ts'
import { decodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'

export const OK: RateLimitResponse = {
  overallCode: 1,
  statuses: [
    {
      code: 1,
      currentLimit: { name: '', requestsPerUnit: 5, unit: 2 },
      limitRemaining: 4,
      resetSec: 37,
    },
  ],
  responseHeadersToAdd: [],
  dynamicMetadata: null,
}
export const OVER: RateLimitResponse = { ...OK, overallCode: 2 }

export class FakeRateLimiter implements RateLimiter {
  readonly requests: RateLimitRequest[] = []
  readonly waiting: DecisionCallback[] = []
  private onWaiting: (() => void) | null = null

  decide(request: RateLimitRequest, caller: DecisionCallback): void {
    this.requests.push(request)
    if (request.domain === 'fail') caller.onError(new Error('no rules today'))
    else if (request.domain === 'fail oddly') caller.onError(new Error('50 % \ud800 é\n'))
    else if (request.domain === 'throw') throw new Error('a defect')
    else if (request.domain === 'wait') {
      this.waiting.push(caller)
      this.onWaiting?.()
    } else caller.onDecision(request.domain === 'over' ? OVER : OK)
    if (request.domain === 'twice') {
      caller.onDecision(OVER)
      caller.onError(new Error('never seen'))
    }
  }

  decideBytes(bytes: Uint8Array, caller: DecisionCallback): void {
    this.decide(decodeRequest(bytes), caller)
  }

  /** Resolves once `count` callers wait. */
  async untilWaiting(count: number): Promise<void> {
    while (this.waiting.length < count) await new Promise<void>((resolve) => (this.onWaiting = resolve))
  }

  /** Answers all who wait. */
  release(): void {
    for (const caller of this.waiting.splice(0)) caller.onDecision(OK)
  }
}
