/**
 * A RateLimiter whose response depends on the domain of the request, to test transports without an engine.
 *
 *     answer  OK at once                over   OVER_LIMIT at once      fail   the error `no rules today`
 *     wait    OK after `release`        throw  a defect                twice  OK, then a second response and an error
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

  decide(request: RateLimitRequest, callback: DecisionCallback): void {
    this.requests.push(request)
    if (request.domain === 'fail') callback.onError(new Error('no rules today'))
    else if (request.domain === 'fail oddly') callback.onError(new Error('50 % \ud800 é\n'))
    else if (request.domain === 'throw') throw new Error('a defect')
    else if (request.domain === 'wait') {
      this.waiting.push(callback)
      this.onWaiting?.()
    } else callback.onDecision(request.domain === 'over' ? OVER : OK)
    if (request.domain === 'twice') {
      callback.onDecision(OVER)
      callback.onError(new Error('never seen'))
    }
  }

  decideBytes(bytes: Uint8Array, callback: DecisionCallback): void {
    this.decide(decodeRequest(bytes), callback)
  }

  /** Resolves when `count` requests wait. */
  async untilWaiting(count: number): Promise<void> {
    while (this.waiting.length < count) await new Promise<void>((resolve) => (this.onWaiting = resolve))
  }

  /** Responds to all waiting requests. */
  release(): void {
    for (const callback of this.waiting.splice(0)) callback.onDecision(OK)
  }
}
