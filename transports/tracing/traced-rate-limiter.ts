/**
 * Spans of a decision (spec 11.3), around a RateLimiter.
 *
 *     gRPC     the server span ─┬─ ShouldRateLimit Execution
 *                               └─ Redis Pipeline Execution, from the end of matching
 *     /json    the same two and NewJsonHandler Remaining Execution, each the root of its own trace
 *
 * Unsampled requests are passed on unchanged. A sampled gRPC request is decoded twice, since the span has its text.
 */
import { type Context, ROOT_CONTEXT, type Span, type Tracer } from '@opentelemetry/api'
import type { StoreErrorPolicy } from '../../engine/config/rules.ts'
import type { DecisionCallback, RateLimiter } from '../../engine/decision/rate-limiter.ts'
import { decodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import { requestToText, responseToText } from '../../proto/text.ts'
import type { StoreSpan } from './store-span.ts'

/** The span of the call that is being passed on; this ends before the next call begins. */
export interface Parent {
  context: Context | null // null = the call is not sampled
}

export interface Tracers {
  decision: Tracer
  store: Tracer
  json: Tracer
}

/** Reads `parent` for each request while it is passed on. */
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

  decide(request: RateLimitRequest, callback: DecisionCallback): void {
    const { context } = this.parent
    if (context === null) this.inner.decide(request, callback)
    else this.trace(request, callback, context, (traced) => this.inner.decide(request, traced))
  }

  decideBytes(bytes: Uint8Array, callback: DecisionCallback): void {
    const { context } = this.parent
    if (context === null) this.inner.decideBytes(bytes, callback)
    else
      this.trace(decodeRequest(bytes), callback, context, (traced) => this.inner.decideBytes(bytes, traced))
  }

  private trace(
    request: RateLimitRequest,
    callback: DecisionCallback,
    context: Context,
    decide: (callback: DecisionCallback) => void,
  ): void {
    const decision = this.tracers.decision.startSpan('ShouldRateLimit Execution', {}, context)
    if (decision.isRecording()) {
      decision.setAttributes({ domain: request.domain, 'request string': requestToText(request) })
    }
    const { store, tracers } = this
    const start = () => (store === null ? null : tracers.store.startSpan(store.name, {}, context))
    const traced = new TracedCallback(callback, decision, store, start)
    try {
      decide(traced)
      traced.onMatched()
    } catch (error) {
      traced.end() // a defect; its catcher responds
      throw error
    }
  }
}

class TracedCallback implements DecisionCallback {
  private readonly callback: DecisionCallback
  private readonly decision: Span
  private readonly store: StoreSpan | null
  private readonly startStoreSpan: () => Span | null
  private storeSpan: Span | null = null
  private isDone = false

  constructor(
    callback: DecisionCallback,
    decision: Span,
    store: StoreSpan | null,
    startStoreSpan: () => Span | null,
  ) {
    this.callback = callback
    this.decision = decision
    this.store = store
    this.startStoreSpan = startStoreSpan
  }

  get isCancelled(): boolean {
    return this.callback.isCancelled
  }

  get deadlineMs(): number | undefined {
    return this.callback.deadlineMs
  }

  /** Matching has ended: unless there is a response, the request waits for the store from now on. */
  onMatched(): void {
    if (!this.isDone) this.storeSpan = this.startStoreSpan()
  }

  onDegraded(policy: StoreErrorPolicy): void {
    this.decision.setAttribute('degraded', policy)
    this.callback.onDegraded?.(policy)
  }

  onDecision(response: RateLimitResponse): void {
    if (this.storeSpan !== null) this.storeSpan.setAttributes(this.store!.attributes(response))
    else this.startStoreSpan()?.setAttributes(this.store!.attributes(null)).end() // no access to the store
    this.end()
    this.callback.onDecision(response)
  }

  onError(error: Error): void {
    this.end()
    this.callback.onError(error)
  }

  end(): void {
    this.isDone = true
    this.storeSpan?.end()
    this.decision.end()
  }
}

/** For `/json`, where headers are not read for a parent. */
export class TracedJson implements RateLimiter {
  private readonly inner: RateLimiter
  private readonly tracer: Tracer

  constructor(engine: RateLimiter, tracers: Tracers, store: StoreSpan | null) {
    this.inner = new TracedRateLimiter(engine, { context: ROOT_CONTEXT }, tracers, store)
    this.tracer = tracers.json
  }

  decide(request: RateLimitRequest, callback: DecisionCallback): void {
    this.inner.decide(request, new TracedJsonCallback(callback, this.tracer))
  }

  decideBytes(bytes: Uint8Array, callback: DecisionCallback): void {
    this.inner.decideBytes(bytes, new TracedJsonCallback(callback, this.tracer))
  }
}

class TracedJsonCallback implements DecisionCallback {
  private readonly callback: DecisionCallback
  private readonly tracer: Tracer

  constructor(callback: DecisionCallback, tracer: Tracer) {
    this.callback = callback
    this.tracer = tracer
  }

  get isCancelled(): boolean {
    return this.callback.isCancelled
  }

  get deadlineMs(): number | undefined {
    return this.callback.deadlineMs
  }

  onDegraded(policy: StoreErrorPolicy): void {
    this.callback.onDegraded?.(policy)
  }

  onDecision(response: RateLimitResponse): void {
    const span = this.tracer.startSpan('NewJsonHandler Remaining Execution', {}, ROOT_CONTEXT)
    if (span.isRecording()) span.setAttribute('response', responseToText(response))
    this.callback.onDecision(response)
    span.end()
  }

  onError(error: Error): void {
    this.callback.onError(error)
  }
}
