/**
 * The interface between transports and the engine.
 *
 *     transport ── decide(request, callback) ──────► engine
 *     transport ◄── callback.onDecision(response) ── engine     or callback.onError(error)
 */

import type { RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import type { StoreErrorPolicy } from '../config/rules.ts'

/**
 * Receives one decision. Exactly one of the two methods is called, once, possibly before `decide` returns. It must not
 * start another decision before it returns.
 */
export interface DecisionCallback {
  /** The call was cancelled or is past its deadline. One of the methods is called nevertheless. */
  readonly isCancelled: boolean
  /** When the caller gives up, by performance.now(); absent or Infinity = never. */
  readonly deadlineMs?: number
  onDecision(response: RateLimitResponse): void
  /** Called before onDecision if a policy answered for hits that the store could not count (store-errors.ts). */
  onDegraded?(policy: StoreErrorPolicy): void
  /** The message is sent to the client (spec 5.4) and must not disclose internals. */
  onError(error: Error): void
}

/** Decides requests. A cancelled call gets a decision too; its transport drops it. */
export interface RateLimiter {
  decide(request: RateLimitRequest, callback: DecisionCallback): void
  /**
   * The same for a request as protobuf bytes, which are read before this returns. Throws MalformedRequest, without calling
   * the callback, if they are not a RateLimitRequest.
   */
  decideBytes(bytes: Uint8Array, callback: DecisionCallback): void
}
