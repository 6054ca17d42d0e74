/**
 * The line between sockets and services. A frontend speaks HTTP/2 and gRPC framing on sockets it is given; a
 * service sees the bytes of one request and says how the call ends. Neither knows the other, so a frontend
 * can be exchanged.
 *
 *     listener ── socket ──► frontend ── path, bytes, call ──► services ──► engine
 *                            frontend ◄── reply, refuse ────── services
 *
 * Decisions are unary calls: one request, one answer, nothing in between. Streams are the rare kind with a shape of
 * its own, so that unary calls pay nothing for it; one message and many answers is a stream, too.
 */
import type { Socket } from 'node:net'
import type { Status } from './status.ts'

/** Bytes of one request message, as gRPC libraries bound it; beyond: RESOURCE_EXHAUSTED. */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024

/** From connecting to the end of HTTP/2's hello; beyond: the connection is closed, so silent ones fill no listener. */
export const HANDSHAKE_MS = 10_000

/** Calls at once on one connection; beyond: the caller's own library queues, or opens another connection. */
export const STREAMS_MAX = 1_000

/** Characters of a header kept for services; a longer one counts as not sent. */
export const HEADER_KEPT_MAX = 512

export interface GrpcFrontend {
  /** Serves a connection from now on and owns it. While draining, the connection is closed at once. */
  accept(socket: Socket): void
  /**
   * Tells every caller to go (GOAWAY), lets running calls end, and is done then; what runs at `timeoutMs` is
   * cut. Streams would run on for ever, so they end now: what they have sent arrives, then UNAVAILABLE.
   */
  drain(timeoutMs: number): Promise<void>
  /** Cuts everything now. */
  close(): void
  /** How much there is of it just now; -1 = not counted. */
  load(): { connections: number; calls: number }
}

export interface GrpcFrontendOptions {
  methods: readonly UnaryMethod[]
  streams?: readonly StreamMethod[]
  handshakeMs?: number // default HANDSHAKE_MS
  connectionAgeMs?: number // GOAWAY after this, give or take 10 %; 0 or absent = no limit
  connectionAgeGraceMs?: number // from that GOAWAY until what still runs is cut; 0 or absent = no limit
  /** Asked once per method that is served, by its name: `ShouldRateLimit`. Unary calls of it are told to the meter. */
  getMetrics?: (method: string) => CallMetrics
  /** Names, lower case, that services ask for by `CallOrigin.header`. Of other headers nothing is kept. */
  headers?: readonly string[]
}

/** Told of every call of one method: before it is handled, and when it has ended, whatever came of it. */
export interface CallMetrics {
  onStart(): number // what `ended` is to be given
  onEnd(onStart: number): void
}

export interface UnaryMethod {
  readonly path: string // `/package.Service/Method`
  /**
   * Ends the call exactly once, now or later. The bytes are the frontend's and valid only until `handle`
   * returns.
   */
  handle(request: Uint8Array, call: UnaryCall): void
}

/**
 * One call as a service sees it. Ending a call whose caller has gone, or whose deadline has passed, says nothing to
 * anybody, but has to be done: until then the call counts against its connection, so that callers who take their calls
 * back cannot fill the engine.
 */
export interface UnaryCall {
  readonly deadlineMs: number // epoch milliseconds; Infinity = none
  readonly isCancelled: boolean
  /** For the few who ask: made when called. */
  origin(): CallOrigin
  reply(response: Uint8Array): void
  refuse(status: Status, message: string): void
}

/** Where a call comes from. */
export interface CallOrigin {
  readonly peer: string // `address:port`; empty = not known
  /** What came under one of `GrpcFrontendOptions.headers`, if not longer than HEADER_KEPT_MAX; else ''. */
  header(name: string): string
}

export interface StreamMethod {
  readonly path: string
  /** A call begins. Must not end it yet: what is returned hears of its messages first. */
  open(call: StreamCall): StreamHandler
}

/** What a service does with one stream. None of these may throw. */
export interface StreamHandler {
  /** The caller's next message; withheld while the caller is behind with reading. Bytes as in `UnaryMethod`. */
  message(request: Uint8Array): void
  /** The caller sends no more, and may still read. */
  halfClosed(): void
  /** After a `send` that said false: the caller has caught up. */
  writable(): void
  /** The call is over, whoever ended it. Called once, and nothing else after it. */
  closed(): void
}

/** One stream as a service sees it. After its end, all of these do nothing. */
export interface StreamCall {
  /** Queues a message. False: the caller is behind, so send no more before `writable`. The bytes must not change. */
  send(response: Uint8Array): boolean
  /** Status OK, after everything sent. */
  end(): void
  refuse(status: Status, message: string): void
}

/** How a drain ends streams; callers go to another server then. */
export const DRAIN_MESSAGE = 'the server is shutting down'

/** `/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` is called `ShouldRateLimit`. */
export function methodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
