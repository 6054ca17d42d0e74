/**
 * A span per gRPC call (spec 11.3): of kind server, with the name of the method; its parent is in the headers of the call.
 *
 *     traceparent, tracestate │ b3 │ x-b3-* ──► parent ──► span ──► the method
 *                                                            └── rpc.grpc.status_code, when the call has ended
 *
 * W3C baggage is not read: the service makes no calls to pass it to.
 */
import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  type TextMapPropagator,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { CallOrigin, UnaryCall, UnaryMethod } from '../grpc/frontend.ts'
import { Status } from '../grpc/status.ts'
import type { Parent } from './traced-rate-limiter.ts'

/** The headers with the parent. */
export const TRACE_HEADERS = [
  'traceparent',
  'tracestate',
  'b3',
  'x-b3-traceid',
  'x-b3-spanid',
  'x-b3-sampled',
  'x-b3-flags',
]

const HEADERS: TextMapGetter<CallOrigin> = {
  get: (origin, name) => origin.header(name) || undefined,
  keys: () => TRACE_HEADERS,
}

/** Statuses that are errors of the server; others are caused by the client. */
const SERVER_FAULTS: readonly Status[] = [
  Status.Unknown,
  Status.DeadlineExceeded,
  Status.Unimplemented,
  Status.Internal,
  Status.Unavailable,
  Status.DataLoss,
]

export interface MethodTracing {
  tracer: Tracer
  propagator: TextMapPropagator
  parent: Parent // set while a call is passed on
}

export function tracedMethod(
  method: UnaryMethod,
  { tracer, propagator, parent }: MethodTracing,
): UnaryMethod {
  const name = method.path.slice(1)
  const [service, rpc] = name.split('/')
  const attributes = { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': rpc }
  return {
    path: method.path,
    handle(bytes, call) {
      const origin = call.origin()
      const remote = propagator.extract(ROOT_CONTEXT, origin, HEADERS)
      const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, remote)
      if (!span.isRecording()) {
        method.handle(bytes, call)
        return
      }
      span.setAttributes(peerAttributes(origin.peer))
      parent.context = trace.setSpan(remote, span)
      try {
        method.handle(bytes, new TracedCall(call, span))
      } finally {
        parent.context = null
      }
    },
  }
}

class TracedCall implements UnaryCall {
  private readonly call: UnaryCall
  private readonly span: Span

  constructor(call: UnaryCall, span: Span) {
    this.call = call
    this.span = span
  }

  get deadlineMs(): number {
    return this.call.deadlineMs
  }

  get isCancelled(): boolean {
    return this.call.isCancelled
  }

  origin(): CallOrigin {
    return this.call.origin()
  }

  reply(response: Uint8Array): void {
    this.call.reply(response)
    this.end(Status.Ok)
  }

  refuse(status: Status, message: string): void {
    this.call.refuse(status, message)
    if (SERVER_FAULTS.includes(status)) this.span.setStatus({ code: SpanStatusCode.ERROR, message })
    this.end(status)
  }

  private end(status: Status): void {
    this.span.setAttribute('rpc.grpc.status_code', status)
    this.span.end()
  }
}

/** Of `127.0.0.1:40000`; empty for a unix socket. */
function peerAttributes(peer: string): Attributes {
  const colon = peer.lastIndexOf(':')
  if (colon < 0) return {}
  return { 'net.sock.peer.addr': peer.slice(0, colon), 'net.sock.peer.port': Number(peer.slice(colon + 1)) }
}
