/**
 * One connection as the loops of `loop.ts` see it, and what it tells them. Times are `performance.now()`.
 *
 *     loop ── start(intended) ... flush() ──►  connection ──► server
 *          ◄── answered, failed, settled ───              ◄──
 */
export interface Connection {
  /** The server has said enough for calls to start. */
  readonly isOpen: boolean
  /** Calls that may start now. */
  readonly free: number
  readonly inFlight: number
  /** Puts one call into the output; `intendedMs` is handed back with its answer. Only while `free` is above 0. */
  start(intendedMs: number): void
  /** Sends what `start` put there. */
  flush(): void
  /** At once; calls in flight are forgotten. */
  close(): void
}

export interface Listener {
  /** `code` is a Code of the protocol, perhaps with LIMITED. */
  answered(intendedMs: number, nowMs: number, code: number): void
  /** The answer was no decision, or wrong, or will not come. */
  failed(intendedMs: number, reason: string): void
  /** The server said that it has not begun this call: no harm done, ask again. */
  refused(intendedMs: number): void
  /** The end of a read: calls may start; they are flushed right after. */
  settled(connection: Connection, nowMs: number): void
  /** Gone, or going: it takes no more calls, and its own are failed or will be answered. */
  leaving(connection: Connection, reason: string): void
}
