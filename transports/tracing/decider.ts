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
import type { Caller, Decider } from '../../engine/decider.ts'
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
export class TracedDecider implements Decider {
  private readonly inner: Decider
  private readonly parent: Readonly<Parent>
  private readonly tracers: Tracers
  private readonly store: StoreSpan | null

  constructor(inner: Decider, parent: Readonly<Parent>, tracers: Tracers, store: StoreSpan | null) {
    this.inner = inner
    this.parent = parent
    this.tracers = tracers
    this.store = store
  }

  decide(request: RateLimitRequest, caller: Caller): void {
    const { context } = this.parent
    if (context === null) this.inner.decide(request, caller)
    else this.trace(request, caller, context, (traced) => this.inner.decide(request, traced))
  }

  decideBytes(bytes: Uint8Array, caller: Caller): void {
    const { context } = this.parent
    if (context === null) this.inner.decideBytes(bytes, caller)
    else this.trace(decodeRequest(bytes), caller, context, (traced) => this.inner.decideBytes(bytes, traced))
  }

  private trace(
    request: RateLimitRequest,
    caller: Caller,
    context: Context,
    decide: (caller: Caller) => void,
  ): void {
    const decision = this.tracers.decision.startSpan('ShouldRateLimit Execution', {}, context)
    if (decision.isRecording()) {
      decision.setAttributes({ domain: request.domain, 'request string': requestToText(request) })
    }
    const { store, tracers } = this
    const start = () => (store === null ? null : tracers.store.startSpan(store.name, {}, context))
    const traced = new TracedCaller(caller, decision, store, start)
    try {
      decide(traced)
      traced.asked()
    } catch (error) {
      traced.end() // a defect: whoever catches it tells the caller
      throw error
    }
  }
}

class TracedCaller implements Caller {
  private readonly caller: Caller
  private readonly decision: Span
  private readonly store: StoreSpan | null
  private readonly startTrip: () => Span | null
  private trip: Span | null = null
  private isDone = false

  constructor(caller: Caller, decision: Span, store: StoreSpan | null, startTrip: () => Span | null) {
    this.caller = caller
    this.decision = decision
    this.store = store
    this.startTrip = startTrip
  }

  get isGone(): boolean {
    return this.caller.isGone
  }

  /** The request has been taken in: unless it is answered, it waits for the store from now on. */
  asked(): void {
    if (!this.isDone) this.trip = this.startTrip()
  }

  answer(response: RateLimitResponse): void {
    if (this.trip !== null) this.trip.setAttributes(this.store!.attributes(response))
    else this.startTrip()?.setAttributes(this.store!.attributes(null)).end() // a trip with nothing to ask
    this.end()
    this.caller.answer(response)
  }

  fail(error: Error): void {
    this.end()
    this.caller.fail(error)
  }

  end(): void {
    this.isDone = true
    this.trip?.end()
    this.decision.end()
  }
}

/** On `/json`, where nobody's headers are asked for a parent. */
export class TracedJson implements Decider {
  private readonly inner: Decider
  private readonly tracer: Tracer

  constructor(engine: Decider, tracers: Tracers, store: StoreSpan | null) {
    this.inner = new TracedDecider(engine, { context: ROOT_CONTEXT }, tracers, store)
    this.tracer = tracers.json
  }

  decide(request: RateLimitRequest, caller: Caller): void {
    this.inner.decide(request, new JsonCaller(caller, this.tracer))
  }

  decideBytes(bytes: Uint8Array, caller: Caller): void {
    this.inner.decideBytes(bytes, new JsonCaller(caller, this.tracer))
  }
}

class JsonCaller implements Caller {
  private readonly caller: Caller
  private readonly tracer: Tracer

  constructor(caller: Caller, tracer: Tracer) {
    this.caller = caller
    this.tracer = tracer
  }

  get isGone(): boolean {
    return this.caller.isGone
  }

  answer(response: RateLimitResponse): void {
    const span = this.tracer.startSpan('NewJsonHandler Remaining Execution', {}, ROOT_CONTEXT)
    if (span.isRecording()) span.setAttribute('response', responseToText(response))
    this.caller.answer(response)
    span.end()
  }

  fail(error: Error): void {
    this.caller.fail(error)
  }
}
