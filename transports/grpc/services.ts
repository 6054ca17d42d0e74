/**
 * What the gRPC port serves, with either frontend (spec 5.1): decisions, health, reflection.
 *
 *     bytes ──► RateLimiter ──► response: bytes, status OK
 *       │           └─────────► error: UNKNOWN with its message (spec 5.4)
 *       └ not a RateLimitRequest: INTERNAL, as in gRPC libraries
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
import { createReflectionMethods } from './reflection.ts'
import { Status } from './status.ts'

const ERROR_LINES_PER_SEC = 1 // of each kind: calls that failed, defects

export const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

/** All methods of the port. */
export function createServices(limiter: RateLimiter, health: HealthService, log: Log) {
  const methods = [...createUnaryMethods(limiter, log), ...health.methods]
  const paths = [...methods, ...health.streams].map(({ path }) => path)
  const streams = [...health.streams, ...createReflectionMethods(paths, log)]
  return { methods, streams } satisfies Partial<GrpcFrontendOptions>
}

/** ShouldRateLimit. A limiter that throws has a defect: that call fails, others continue. */
export function createUnaryMethods(limiter: RateLimiter, log: Log): UnaryMethod[] {
  const logCause = rateLimitedLog((cause) => log('warning', `error: ${cause}`), ERROR_LINES_PER_SEC)
  const logDefect = rateLimitedLog((what) => log('error', what), ERROR_LINES_PER_SEC)
  return [
    {
      path: SHOULD_RATE_LIMIT,
      handle(bytes, call) {
        const callback = new GrpcDecisionCallback(call, logCause)
        try {
          limiter.decideBytes(bytes, callback)
        } catch (error) {
          if (error instanceof MalformedRequest) {
            call.refuse(Status.Internal, `the request is not a valid RateLimitRequest: ${error.message}`)
            return
          }
          logDefect(`a decision threw: ${error instanceof Error ? error.stack : error}`)
          callback.onError(new Error('internal error'))
        }
      },
    },
  ]
}

class GrpcDecisionCallback implements DecisionCallback {
  private readonly call: UnaryCall
  private readonly logCause: (cause: string) => void
  private isDone = false // a second call is a defect; the first one counts

  constructor(call: UnaryCall, logCause: (cause: string) => void) {
    this.call = call
    this.logCause = logCause
  }

  get isCancelled(): boolean {
    return this.call.isCancelled
  }

  get deadlineMs(): number {
    return this.call.deadlineMs
  }

  onDecision(response: RateLimitResponse): void {
    if (this.isDone) return
    this.isDone = true
    if (this.call.isCancelled)
      this.call.refuse(Status.Cancelled, '') // nothing is sent, but the call must be ended
    else this.call.reply(encodeResponse(response))
  }

  /** Store errors are logged for the operator; invalid requests are reported to the client only. */
  onError(error: Error): void {
    if (this.isDone) return
    this.isDone = true
    if (error instanceof StoreError && !this.call.isCancelled) this.logCause(error.message)
    this.call.refuse(Status.Unknown, error.message)
  }
}
