/**
 * The interface of a counter store: add a batch of hits, get the counts before them.
 *
 *     batch   key      hits           previous count
 *      slot 0 shop_a_  3       ─►     14
 *      slot 1 shop_b_  1       ─►     error "WRONGTYPE …"
 *
 * The memory store calls `done` before `add` returns, the others later.
 */
import type { Diagnostic } from '../runtime/inspection/messages.ts'
import type { Batch } from './batch.ts'

export interface CounterStore {
  /** True if `add` always calls `done` before it returns; then collecting more hits first gains nothing. */
  readonly isSynchronous: boolean

  /**
   * False while the maximum number of batches is in flight: keep collecting and check again after the next `done`, which
   * turns it true. A batch added nevertheless fails. True also while hits would fail immediately, so that callers learn of it.
   */
  readonly hasCapacity: boolean

  /**
   * Adds the hits of every slot. When `done` is called, each slot holds its count before the hits or its own error
   * (`batch.setPreviousCount`, `batch.setError`). Calls `done` exactly once, never throws and never adds a hit twice: hits
   * that may have been counted without a confirmation become errors.
   */
  add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void

  /** Calls have reached their deadlines without all of their counts. */
  onLate?(): void

  /** Resolves when the store can take hits. Rejects only when it never will. */
  connect(): Promise<void>

  /** For operators: what is in flight, and the round-trip time. */
  diagnostics?(): Promise<Diagnostic[]>

  /** Closes connections after the batches in flight are done. */
  close(): Promise<void>
}
