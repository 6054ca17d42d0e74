/**
 * What a call is for: a method that is served, or a refusal that follows from its headers alone.
 *
 *     not POST ──► 405   not application/grpc ──► 415   unknown path or encoding ──► UNIMPLEMENTED
 *     too many headers ──► RESOURCE_EXHAUSTED           invalid grpc-timeout ──► INTERNAL, 0 ──► DEADLINE_EXCEEDED
 */
import {
  type CallMetrics,
  type GrpcFrontendOptions,
  getMethodName,
  type StreamMethod,
  type UnaryMethod,
} from '../frontend.ts'
import { Status } from '../status.ts'
import { HEADER_LIST_BYTES_MAX } from './bounds.ts'
import { encodeFields, encodeStatusFields, type Output } from './output.ts'
import type { RequestHead } from './request-head.ts'

/** Exactly one of `unary`, `stream` and `plain` is set. */
export interface Route {
  readonly unary: UnaryMethod | null
  readonly metrics: CallMetrics | null // of a unary method, if measured
  readonly stream: StreamMethod | null
  readonly plain: PlainResponse | null
}

/** The response to a request that is not gRPC, sent when the request has ended. */
export interface PlainResponse {
  readonly fields: Buffer
  readonly text: Buffer
}

/** Writes the whole response to a refused call at once: some clients send nothing more before they have it. */
export type Refusal = (output: Output, id: number) => void

const CONTENT_TYPE = /^application\/grpc(?:$|[+;])/
const ACCEPTED_ENCODINGS = encodeFields({ 'grpc-accept-encoding': 'identity,gzip' })
const TEXT = { 'content-type': 'text/plain; charset=utf-8' }
const NOT_POST_FIELDS = encodeStatusFields(405, {
  ...TEXT,
  allow: 'POST',
  'grpc-status': String(Status.Internal),
})
const NOT_POST = createPlainRoute(NOT_POST_FIELDS, 'gRPC calls are POST requests.\n')
const NOT_POST_HEAD: Refusal = (output, id) => output.writePlainHeadersOnly(id, NOT_POST_FIELDS)
const NOT_GRPC = createPlainRoute(
  encodeStatusFields(415, { ...TEXT, 'grpc-status': String(Status.InvalidArgument) }),
  'This port speaks gRPC: send content-type application/grpc.\n',
)
const MS_MIN = 1 // of a grpc-timeout: a shorter one has passed
const SHOWN_CHARS_MAX = 200 // of a request header quoted in a message

export class Routes {
  private readonly routes = new Map<string, Route>()

  constructor({
    methods,
    streams = [],
    getMetrics,
  }: Pick<GrpcFrontendOptions, 'methods' | 'streams' | 'getMetrics'>) {
    for (const unary of methods) {
      const metrics = getMetrics?.(getMethodName(unary.path)) ?? null
      this.routes.set(unary.path, { unary, metrics, stream: null, plain: null })
    }
    for (const stream of streams)
      this.routes.set(stream.path, { unary: null, metrics: null, stream, plain: null })
  }

  find(head: RequestHead): Route | Refusal {
    if (head.isTooLarge) {
      return createRefusal(
        Status.ResourceExhausted,
        `the headers are longer than ${HEADER_LIST_BYTES_MAX} bytes`,
      )
    }
    if (head.method === 'HEAD') return NOT_POST_HEAD
    if (head.method !== 'POST') return NOT_POST
    if (head.contentType !== 'application/grpc' && !CONTENT_TYPE.test(head.contentType)) {
      return NOT_GRPC
    }
    const route = this.routes.get(head.path)
    if (route === undefined) {
      return createRefusal(
        Status.Unimplemented,
        `The server does not implement the method ${truncate(head.path)}`,
      )
    }
    if (Number.isNaN(head.timeoutMs)) {
      return createRefusal(Status.Internal, `Invalid grpc-timeout value "${truncate(head.timeoutText)}"`)
    }
    if (head.timeoutMs < MS_MIN) return createRefusal(Status.DeadlineExceeded, 'Deadline exceeded')
    if (head.encoding !== '' && head.encoding !== 'identity' && head.encoding !== 'gzip') {
      const message = `Received message compressed with unsupported encoding "${truncate(head.encoding)}"`
      return createRefusal(Status.Unimplemented, message, ACCEPTED_ENCODINGS)
    }
    return route
  }
}

export function createRefusal(status: Status, message: string, extraFields?: Buffer): Refusal {
  return (output, id) => output.writeTrailersOnly(id, status, message, extraFields)
}

function createPlainRoute(fields: Buffer, text: string): Route {
  return { unary: null, metrics: null, stream: null, plain: { fields, text: Buffer.from(text) } }
}

function truncate(text: string): string {
  return text.length <= SHOWN_CHARS_MAX ? text : `${text.slice(0, SHOWN_CHARS_MAX)}...`
}
