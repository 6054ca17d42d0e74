/**
 * What the gRPC port serves, whichever frontend speaks (spec 5.1): decisions, health, reflection.
 *
 *     bytes ──► Decider ──► answer: bytes, status OK
 *       │           └──────► error: UNKNOWN with its message (spec 5.4)
 *       └ not a RateLimitRequest: INTERNAL, as gRPC libraries say it
 */
import type { DecisionCallback, RateLimiter } from '../../engine/decision/rate-limiter.ts'
import { StoreError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { rateLimitedLog } from '../../engine/runtime/rate-limited-log.ts'
import { MalformedRequest } from '../../proto/codec.ts'
import type { RateLimitResponse } from '../../proto/ratelimit.ts'
import { encodeResponse } from '../../proto/response-bytes.ts'
import type { GrpcFrontendOptions, UnaryCall, UnaryMethod } from './frontend.ts'
import type { HealthService } from './health.ts'
import { reflectionMethods } from './reflection.ts'
import { Status } from './status.ts'

const ERROR_LINES_PER_SEC = 1 // of each kind: calls that failed, defects

export const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

/** Everything the port serves. */
export function services(decider: RateLimiter, health: HealthService, log: Log) {
  const methods = [...unaryMethods(decider, log), ...health.methods]
  const paths = [...methods, ...health.streams].map(({ path }) => path)
  const streams = [...health.streams, ...reflectionMethods(paths, log)]
  return { methods, streams } satisfies Partial<GrpcFrontendOptions>
}

/**
 * ShouldRateLimit. A Decider that throws has a defect: that call fails, the rest go on.
 */
export function unaryMethods(decider: RateLimiter, log: Log): UnaryMethod[] {
  const logCause = rateLimitedLog((cause) => log('warning', `error: ${cause}`), ERROR_LINES_PER_SEC)
  const logDefect = rateLimitedLog((what) => log('error', what), ERROR_LINES_PER_SEC)
  return [
    {
      path: SHOULD_RATE_LIMIT,
      handle(bytes, call) {
        const caller = new DecisionCaller(call, logCause)
        try {
          decider.decideBytes(bytes, caller)
        } catch (error) {
          if (error instanceof MalformedRequest) {
            call.refuse(Status.Internal, `the request is not a valid RateLimitRequest: ${error.message}`)
            return
          }
          logDefect(`a decision threw: ${error instanceof Error ? error.stack : error}`)
          caller.onError(new Error('internal error'))
        }
      },
    },
  ]
}

class DecisionCaller implements DecisionCallback {
  private readonly call: UnaryCall
  private readonly logCause: (cause: string) => void
  private isDone = false // only a defect calls twice; the first word stands

  constructor(call: UnaryCall, logCause: (cause: string) => void) {
    this.call = call
    this.logCause = logCause
  }

  get isCancelled(): boolean {
    return this.call.isCancelled
  }

  onDecision(response: RateLimitResponse): void {
    if (this.isDone) return
    this.isDone = true
    if (this.call.isCancelled)
      this.call.refuse(Status.Cancelled, '') // nobody hears it, but the call is over
    else this.call.reply(encodeResponse(response))
  }

  /** What the store did not confirm is the operator's to know; what callers do wrong, theirs. */
  onError(error: Error): void {
    if (this.isDone) return
    this.isDone = true
    if (error instanceof StoreError && !this.call.isCancelled) this.logCause(error.message)
    this.call.refuse(Status.Unknown, error.message)
  }
}
