/**
 * The interface between sockets and services. A frontend speaks HTTP/2 and gRPC framing on sockets it is given; a service
 * gets the bytes of one request and ends the call. Neither knows the other, so frontends are exchangeable.
 *
 *     listener ── socket ──► frontend ── path, bytes, call ──► services ──► engine
 *                            frontend ◄── reply, refuse ────── services
 *
 * Decisions are unary calls: one request, one response. Streams have interfaces of their own, so that unary calls pay
 * nothing for them; one request with many responses is a stream, too.
 */
import type { Socket } from 'node:net'
import type { Status } from './status.ts'

/** Bytes of one request message, the default of gRPC libraries; beyond: RESOURCE_EXHAUSTED. */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024

/** From connecting to the client's preface; beyond, the connection is closed, so that silent ones do not fill a listener. */
export const HANDSHAKE_MS = 10_000

/** Concurrent calls per connection; beyond, the client's library queues, or opens another connection. */
export const STREAMS_MAX = 1_000

/** Characters of a header value that services can read; a longer one counts as absent. */
export const HEADER_VALUE_MAX = 512

export interface GrpcFrontend {
  /** Takes ownership of a connection. While draining, it is closed at once. */
  accept(socket: Socket): void
  /**
   * Sends GOAWAY on every connection and resolves when the running calls have ended; at `timeoutMs` the rest is closed.
   * Streams have no natural end, so they end now: queued messages are sent, then UNAVAILABLE.
   */
  drain(timeoutMs: number): Promise<void>
  /** Closes all connections now. */
  close(): void
  /** Current counts; -1 = not counted. */
  load(): { connections: number; calls: number }
}

export interface GrpcFrontendOptions {
  methods: readonly UnaryMethod[]
  streams?: readonly StreamMethod[]
  handshakeMs?: number // default HANDSHAKE_MS
  connectionAgeMs?: number // GOAWAY after this ± 10 %; 0 or absent = no limit
  connectionAgeGraceMs?: number // from that GOAWAY until the connection is closed; 0 or absent = no limit
  /** Called once per unary method with its name, such as `ShouldRateLimit`. The metrics are called for each call. */
  getMetrics?: (method: string) => CallMetrics
  /** Lower-case names of the headers that services read by `CallOrigin.header`. Other headers are not kept. */
  headers?: readonly string[]
}

/** Called for every call of one method: before it is handled, and when it has ended, whatever its status. */
export interface CallMetrics {
  onStart(): number // the argument of `onEnd`
  onEnd(start: number): void
}

export interface UnaryMethod {
  readonly path: string // `/package.Service/Method`
  /**
   * Ends the call exactly once, now or later. The bytes belong to the frontend and are valid until `handle` returns.
   */
  handle(request: Uint8Array, call: UnaryCall): void
}

/**
 * One call as a service sees it. A cancelled call, or one whose deadline has passed, must be ended as well, although
 * nothing is sent: until then it counts against its connection, so that cancelled calls cannot fill the engine.
 */
export interface UnaryCall {
  readonly deadlineMs: number // by performance.now(); Infinity = none
  readonly isCancelled: boolean
  /** Created on demand. */
  origin(): CallOrigin
  reply(response: Uint8Array): void
  refuse(status: Status, message: string): void
}

/** Where a call comes from. */
export interface CallOrigin {
  readonly peer: string // `address:port`; empty = unknown
  /** The value of one of `GrpcFrontendOptions.headers`; '' if absent or longer than HEADER_VALUE_MAX. */
  header(name: string): string
}

export interface StreamMethod {
  readonly path: string
  /** A call begins. It must not be ended before this returns; the handler gets its messages. */
  open(call: StreamCall): StreamHandler
}

/** A service's side of one stream. None of these may throw. */
export interface StreamHandler {
  /** The next message; withheld while the client does not read. The bytes are valid as in `UnaryMethod`. */
  message(request: Uint8Array): void
  /** The client sends no more messages, and may still read. */
  halfClosed(): void
  /** After a `send` that returned false: the queue is empty. */
  writable(): void
  /** The call has ended, by either side. Called once, as the last. */
  closed(): void
}

/** One stream as a service sees it. After its end these do nothing. */
export interface StreamCall {
  /** Queues a message. False: the queue is full, so wait for `writable`. The bytes must not change. */
  send(response: Uint8Array): boolean
  /** Ends the stream with status OK, after all queued messages. */
  end(): void
  refuse(status: Status, message: string): void
}

/** Status message of streams that a drain ends; clients then try another server. */
export const DRAIN_MESSAGE = 'the server is shutting down'

/** `ShouldRateLimit` for `/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`. */
export function getMethodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
