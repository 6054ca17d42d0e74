/**
 * Spans of a decision (spec 11.3), around a Decider.
 *
 *     gRPC     the server span ─┬─ ShouldRateLimit Execution
 *                               └─ Redis Pipeline Execution, from the end of matching on
 *     /json    the same two and NewJsonHandler Remaining Execution, each the root of a trace of its own
 *
 * What is not sampled is handed on as it came. A sampled gRPC request is read twice, since its text is wanted; the text
 * is written for sampled ones only.
 */
import { type Context, ROOT_CONTEXT, type Span, type Tracer } from '@opentelemetry/api'
import type { DecisionCallback, RateLimiter } from '../../engine/decision/rate-limiter.ts'
import { decodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import { requestToText, responseToText } from '../../proto/text.ts'
import type { StoreSpan } from './store-span.ts'

/** Of the call that is being handed over just now: handling ends before the next call comes. */
export interface Parent {
  context: Context | null // null = the call is not sampled
}

export interface Tracers {
  decision: Tracer
  store: Tracer
  json: Tracer
}

/** Decides as the Decider it is given does; `parent` is asked for each request, while it is handed over. */
export class TracedRateLimiter implements RateLimiter {
  private readonly inner: RateLimiter
  private readonly parent: Readonly<Parent>
  private readonly tracers: Tracers
  private readonly store: StoreSpan | null

  constructor(inner: RateLimiter, parent: Readonly<Parent>, tracers: Tracers, store: StoreSpan | null) {
    this.inner = inner
    this.parent = parent
    this.tracers = tracers
    this.store = store
  }

  decide(request: RateLimitRequest, caller: DecisionCallback): void {
    const { context } = this.parent
    if (context === null) this.inner.decide(request, caller)
    else this.trace(request, caller, context, (traced) => this.inner.decide(request, traced))
  }

  decideBytes(bytes: Uint8Array, caller: DecisionCallback): void {
    const { context } = this.parent
    if (context === null) this.inner.decideBytes(bytes, caller)
    else this.trace(decodeRequest(bytes), caller, context, (traced) => this.inner.decideBytes(bytes, traced))
  }

  private trace(
    request: RateLimitRequest,
    caller: DecisionCallback,
    context: Context,
    decide: (caller: DecisionCallback) => void,
  ): void {
    const decision = this.tracers.decision.startSpan('ShouldRateLimit Execution', {}, context)
    if (decision.isRecording()) {
      decision.setAttributes({ domain: request.domain, 'request string': requestToText(request) })
    }
    const { store, tracers } = this
    const start = () => (store === null ? null : tracers.store.startSpan(store.name, {}, context))
    const traced = new TracedCallback(caller, decision, store, start)
    try {
      decide(traced)
      traced.resolved()
    } catch (error) {
      traced.end() // a defect: whoever catches it tells the caller
      throw error
    }
  }
}

class TracedCallback implements DecisionCallback {
  private readonly caller: DecisionCallback
  private readonly decision: Span
  private readonly store: StoreSpan | null
  private readonly startTrip: () => Span | null
  private trip: Span | null = null
  private isDone = false

  constructor(
    caller: DecisionCallback,
    decision: Span,
    store: StoreSpan | null,
    startTrip: () => Span | null,
  ) {
    this.caller = caller
    this.decision = decision
    this.store = store
    this.startTrip = startTrip
  }

  get isCancelled(): boolean {
    return this.caller.isCancelled
  }

  /** The request has been taken in: unless it is answered, it waits for the store from now on. */
  resolved(): void {
    if (!this.isDone) this.trip = this.startTrip()
  }

  onDecision(response: RateLimitResponse): void {
    if (this.trip !== null) this.trip.setAttributes(this.store!.attributes(response))
    else this.startTrip()?.setAttributes(this.store!.attributes(null)).end() // a trip with nothing to ask
    this.end()
    this.caller.onDecision(response)
  }

  onError(error: Error): void {
    this.end()
    this.caller.onError(error)
  }

  end(): void {
    this.isDone = true
    this.trip?.end()
    this.decision.end()
  }
}

/** On `/json`, where nobody's headers are asked for a parent. */
export class TracedJson implements RateLimiter {
  private readonly inner: RateLimiter
  private readonly tracer: Tracer

  constructor(engine: RateLimiter, tracers: Tracers, store: StoreSpan | null) {
    this.inner = new TracedRateLimiter(engine, { context: ROOT_CONTEXT }, tracers, store)
    this.tracer = tracers.json
  }

  decide(request: RateLimitRequest, caller: DecisionCallback): void {
    this.inner.decide(request, new TracedJsonCallback(caller, this.tracer))
  }

  decideBytes(bytes: Uint8Array, caller: DecisionCallback): void {
    this.inner.decideBytes(bytes, new TracedJsonCallback(caller, this.tracer))
  }
}

class TracedJsonCallback implements DecisionCallback {
  private readonly caller: DecisionCallback
  private readonly tracer: Tracer

  constructor(caller: DecisionCallback, tracer: Tracer) {
    this.caller = caller
    this.tracer = tracer
  }

  get isCancelled(): boolean {
    return this.caller.isCancelled
  }

  onDecision(response: RateLimitResponse): void {
    const span = this.tracer.startSpan('NewJsonHandler Remaining Execution', {}, ROOT_CONTEXT)
    if (span.isRecording()) span.setAttribute('response', responseToText(response))
    this.caller.onDecision(response)
    span.end()
  }

  onError(error: Error): void {
    this.caller.onError(error)
  }
}
