/**
 * The interface between a connection and the loop of `loop.ts`. Times are `performance.now()`.
 *
 *     loop ── start(due) ... flush() ─────────────►  connection ──► server
 *          ◄── onResponse, onFailure, onReadEnd ───              ◄──
 */
export interface Connection {
  /** The server's SETTINGS have arrived, so calls can start. */
  readonly isOpen: boolean
  /** Calls that may start now. */
  readonly free: number
  readonly inFlight: number
  /** Puts one call into the output; `dueMs` is returned with its response. Only while `free` is above 0. */
  start(dueMs: number): void
  /** Sends the output. */
  flush(): void
  /** Closes at once; calls in flight are discarded. */
  close(): void
}

export interface Listener {
  /** `code` is a Code of the protocol, perhaps with LIMITED and DEGRADED. */
  onResponse(dueMs: number, nowMs: number, code: number): void
  /** The response was not a decision, was invalid, or will not come. */
  onFailure(dueMs: number, reason: string): void
  /** The server has not begun this call, so it may be repeated. */
  onRefused(dueMs: number): void
  /** The end of a read: calls may start; they are flushed afterwards. */
  onReadEnd(connection: Connection, nowMs: number): void
  /** Closed or closing: no more calls can start; those in flight fail or get their responses. */
  onClosing(connection: Connection, reason: string): void
}
