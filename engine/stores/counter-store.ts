/**
 * Where counters live. One method: add a batch, get the counts.
 *
 *     batch   key      hits           before
 *      slot 0 shop_a_  3       ─►     14
 *      slot 1 shop_b_  1       ─►     error "ERR increment would overflow"
 *
 * memory answers before `add` returns, Redis answers later; callers cannot tell and need not.
 */
import type { Diagnostic } from '../runtime/inspection/messages.ts'
import type { Batch } from './batch.ts'

export interface CounterStore {
  /** True when `add` always calls `done` before it returns, so there is nothing to gain from waiting for more hits. */
  readonly isSynchronous: boolean

  /**
   * False while the store holds as many batches as it may: keep collecting, and look again after the next `done`, which
   * is when it turns true. A batch added nevertheless fails. True when hits would fail at once, so callers hear of it.
   */
  readonly hasCapacity: boolean

  /**
   * Adds the hits of every slot. When `done` is called, each slot holds its count before the hits or
   * its own error (`batch.setBefore`, `batch.setError`). Calls `done` exactly once, never throws, never adds a hit twice:
   * what may have been counted and was not confirmed becomes an error.
   */
  add(batch: Batch, nowSec: number, done: (batch: Batch) => void): void

  /** Resolves when the store can take hits. Rejects only when it never will. */
  connect(): Promise<void>

  /** For an operator who looks: what is on its way, and how fast the other side answers. */
  diagnostics?(): Promise<Diagnostic[]>

  /** Ends connections once running batches are answered. */
  close(): Promise<void>
}
