/**
 * What a call is for: a method that is served, or a refusal that is known from its headers alone.
 *
 *     not POST ──► 405   not application/grpc ──► 415   path unknown, encoding unknown ──► UNIMPLEMENTED
 *     too many headers ──► RESOURCE_EXHAUSTED           grpc-timeout not understood ──► INTERNAL, 0 ──► DEADLINE_EXCEEDED
 */
import {
  type CallMetrics,
  type GrpcFrontendOptions,
  methodName,
  type StreamMethod,
  type UnaryMethod,
} from '../frontend.ts'
import { Status } from '../status.ts'
import { HEADER_LIST_BYTES_MAX } from './bounds.ts'
import { httpStatus, literalFields, type Output } from './output.ts'
import type { RequestHead } from './request-head.ts'

/** One of the three is there. */
export interface Route {
  readonly unary: UnaryMethod | null
  readonly meter: CallMetrics | null // of a unary method, if anybody wants to know
  readonly stream: StreamMethod | null
  readonly plain: Plain | null
}

/** An answer to what is not gRPC, given when the request has ended. */
export interface Plain {
  readonly fields: Buffer
  readonly text: Buffer
}

/** Writes the whole answer to a call that is not served, at once: some callers send nothing more before it. */
export type Refusal = (output: Output, id: number) => void

const CONTENT_TYPE = /^application\/grpc(?:$|[+;])/
const ACCEPTED_ENCODINGS = literalFields({ 'grpc-accept-encoding': 'identity,gzip' })
const TEXT = { 'content-type': 'text/plain; charset=utf-8' }
const NOT_POST_FIELDS = httpStatus(405, { ...TEXT, allow: 'POST', 'grpc-status': String(Status.Internal) })
const NOT_POST = plain(NOT_POST_FIELDS, 'gRPC calls are POST requests.\n')
const NOT_POST_HEAD: Refusal = (output, id) => output.plainHeadOnly(id, NOT_POST_FIELDS)
const NOT_GRPC = plain(
  httpStatus(415, { ...TEXT, 'grpc-status': String(Status.InvalidArgument) }),
  'This port speaks gRPC: send content-type application/grpc.\n',
)
const MS_MIN = 1 // of a grpc-timeout: what is shorter has passed
const SHOWN_MAX = 200 // characters of the caller's own text in a message

export class Routes {
  private readonly routes = new Map<string, Route>()

  constructor({
    methods,
    streams = [],
    getMetrics,
  }: Pick<GrpcFrontendOptions, 'methods' | 'streams' | 'getMetrics'>) {
    for (const unary of methods) {
      const meter = getMetrics?.(methodName(unary.path)) ?? null
      this.routes.set(unary.path, { unary, meter, stream: null, plain: null })
    }
    for (const stream of streams)
      this.routes.set(stream.path, { unary: null, meter: null, stream, plain: null })
  }

  find(head: RequestHead): Route | Refusal {
    if (head.isTooLarge) {
      return refusal(Status.ResourceExhausted, `the headers are longer than ${HEADER_LIST_BYTES_MAX} bytes`)
    }
    if (head.method === 'HEAD') return NOT_POST_HEAD
    if (head.method !== 'POST') return NOT_POST
    if (head.contentType !== 'application/grpc' && !CONTENT_TYPE.test(head.contentType)) {
      return NOT_GRPC
    }
    const route = this.routes.get(head.path)
    if (route === undefined) {
      return refusal(Status.Unimplemented, `The server does not implement the method ${shown(head.path)}`)
    }
    if (Number.isNaN(head.timeoutMs)) {
      return refusal(Status.Internal, `Invalid grpc-timeout value "${shown(head.timeoutText)}"`)
    }
    if (head.timeoutMs < MS_MIN) return refusal(Status.DeadlineExceeded, 'Deadline exceeded')
    if (head.encoding !== '' && head.encoding !== 'identity' && head.encoding !== 'gzip') {
      const message = `Received message compressed with unsupported encoding "${shown(head.encoding)}"`
      return refusal(Status.Unimplemented, message, ACCEPTED_ENCODINGS)
    }
    return route
  }
}

export function refusal(status: Status, message: string, more?: Buffer): Refusal {
  return (output, id) => output.trailersOnly(id, status, message, more)
}

function plain(fields: Buffer, text: string): Route {
  return { unary: null, meter: null, stream: null, plain: { fields, text: Buffer.from(text) } }
}

function shown(text: string): string {
  return text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX)}...`
}
