/**
 * What the parts of a connection see of it. `Connection` implements both; the parts import no more than this, so that
 * imports point one way: server, connection, receiver, stream.
 */
import type { CallOrigin } from '../frontend.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import type { Deadline } from './deadlines.ts'
import type { ErrorCode } from './frames.ts'
import type { Inflater } from './inflater.ts'
import type { Output } from './output.ts'

/** A stream as its connection sees it. */
export interface ConnectionStream extends Deadline {
  readonly id: number
  /** Sends what the windows allow. */
  sendQueued(): void
}

/** For streams. */
export interface StreamConnection {
  readonly output: Output
  readonly quota: ConnectionQuota
  readonly server: { readonly inflater: Inflater }
  readonly blockedStreams: Set<ConnectionStream> // with a window of their own, which wait for the connection's
  readonly nowMs: number // performance.now() of the last read
  readonly initialStreamWindow: number
  sendWindow: number
  origin(headerValues: readonly string[] | null): CallOrigin
  resetStream(id: number, code: ErrorCode): void
  sendReset(id: number, code: ErrorCode): void
  sendWindowUpdate(id: number, bytes: number): void
  addQueuedBytes(bytes: number): void
  scheduleFlush(): void
  removeStream(stream: ConnectionStream): void
}

/** For the lifetime. */
export interface TimedConnection {
  readonly server: {
    readonly options: {
      readonly handshakeMs: number
      readonly connectionAgeMs: number
      readonly connectionAgeGraceMs: number
      readonly pingIdleMs: number
      readonly pingTimeoutMs: number
      readonly stalledMs: number
    }
  }
  readonly nowMs: number
  sendPing(payload: Buffer): void
  sendLastGoaway(): void
  /** `isServer`: the whole server drains, which ends streams too. */
  drain(isServer: boolean): void
  destroy(): void
}
