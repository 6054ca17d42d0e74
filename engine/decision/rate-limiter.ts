/**
 * What a transport and the engine know of each other, and nothing more.
 *
 *     transport ── decide(request, caller) ──► engine
 *     transport ◄── caller.answer(response) ── engine     or caller.fail(error)
 */
import type { RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'

/**
 * Who waits for one decision. Must not ask for another before it returns from its answer. Exactly one of the two is called, once; it may be before `decide` has returned.
 */
export interface DecisionCallback {
  /** Nobody waits for the answer any more: the call was cancelled, or is past its deadline. Its end is told nevertheless. */
  readonly isCancelled: boolean
  onDecision(response: RateLimitResponse): void
  /** The message goes on the wire (spec 5.4), so it says nothing that a caller must not read. */
  onError(error: Error): void
}

/** Decides requests. A caller that has gone away is answered all the same; its transport drops the answer. */
export interface RateLimiter {
  decide(request: RateLimitRequest, caller: DecisionCallback): void
  /**
   * The same for a request as protobuf bytes, which are read before this returns. Throws MalformedRequest, and calls
   * nobody, when they are no RateLimitRequest.
   */
  decideBytes(bytes: Uint8Array, caller: DecisionCallback): void
}
