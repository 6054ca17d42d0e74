/**
 * The line between sockets and services. A frontend speaks HTTP/2 and gRPC framing on sockets it is given; a
 * service sees the bytes of one request and says how the call ends. Neither knows the other, so a frontend
 * can be exchanged.
 *
 *     listener ── socket ──► frontend ── path, bytes, call ──► services ──► engine
 *                            frontend ◄── reply, refuse ────── services
 */
import type { Socket } from 'node:net'
import type { Status } from './status.ts'

/** Bytes of one request message, as gRPC libraries bound it; beyond: RESOURCE_EXHAUSTED. */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024

/** Calls at once on one connection; beyond: the caller's own library queues, or opens another connection. */
export const STREAMS_MAX = 1_000

export interface GrpcFrontend {
  /** Serves a connection from now on and owns it. While draining, the connection is closed at once. */
  accept(socket: Socket): void
  /**
   * Tells every caller to go (GOAWAY), lets running calls end, and is done then; what runs at `timeoutMs` is
   * cut.
   */
  drain(timeoutMs: number): Promise<void>
  /** Cuts everything now. */
  close(): void
}

export interface GrpcFrontendOptions {
  methods: readonly UnaryMethod[]
  connectionAgeMs?: number // GOAWAY after this, give or take 10 %; 0 or absent = no limit
  connectionAgeGraceMs?: number // from that GOAWAY until what still runs is cut; 0 or absent = no limit
  /** Told of each call whose method is served, before it is handled: `ShouldRateLimit`. */
  onCall?: (method: string) => void
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
 * One call as a service sees it. Ending a call whose caller has gone, or whose deadline has passed, does
 * nothing.
 */
export interface UnaryCall {
  readonly deadlineMs: number // epoch milliseconds; Infinity = none
  readonly isCancelled: boolean
  reply(response: Uint8Array): void
  refuse(status: Status, message: string): void
}

/** `/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` is called `ShouldRateLimit`. */
export function methodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
