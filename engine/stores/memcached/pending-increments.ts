/**
 * Hits sent to memcached after their callers got responses (spec 4.3, step 5).
 *
 *     incr k n ─┬─ a number ───────────────────────────────► settled
 *               └─ NOT_FOUND ─► add k n ─┬─ STORED ────────► settled
 *                                        └─ NOT_STORED ─► incr k n ─► settled        another client was faster
 *
 * `getHits` returns what memcached has not confirmed yet. A node replies in the order of the commands, so this is exactly what
 * a count read from it lacks. Hits that fail here are lost, counted (`sluice.store.lost_hits`) and logged: their calls have been
 * answered.
 */
import type { MemcacheNode } from './node.ts'
import type { MemcacheReport } from './report.ts'

export interface PendingIncrement {
  node: MemcacheNode
  key: string // wire key
  hits: number // 0 to 2^53-1; 0 creates the counter
  expiry: number // in memcached's form: seconds, or a Unix time beyond 30 days
}

export class PendingIncrements {
  /** Not settled. Bounded by three round trips of the batches in flight, and by the commands of each node. */
  count = 0
  private readonly report: MemcacheReport
  private readonly onSettled: () => void
  private readonly hitsByKey = new Map<string, number>()

  constructor(report: MemcacheReport, onSettled: () => void) {
    this.report = report
    this.onSettled = onSettled
  }

  /** Hits on this key that a count read now does not include. */
  getHits(key: string): number {
    return this.hitsByKey.get(key) ?? 0
  }

  /** The hits are pending from now on; `send` must follow. */
  expect({ key, hits }: PendingIncrement): void {
    this.count++
    if (hits > 0) this.hitsByKey.set(key, this.getHits(key) + hits)
  }

  send(increment: PendingIncrement, afterAdd = ''): void {
    const { node, key, hits, expiry } = increment
    node.incr(key, hits, expiry, (error, line) => {
      const isMiss = line === 'NOT_FOUND'
      this.report.count(
        error !== null
          ? 'increment.__code=error'
          : isMiss
            ? 'increment.__code=miss'
            : 'increment.__code=success',
      )
      if (isMiss && afterAdd === '') {
        this.create(increment)
        return
      }
      if (error !== null || isMiss) {
        const reason = error?.message ?? 'memcache: cache miss'
        this.report.logError(
          'increment',
          () => `Failed to increment a key at ${node.address.text}${afterAdd}: ${reason}`,
        )
      }
      this.settle(increment, error === null && !isMiss)
    })
  }

  private create(increment: PendingIncrement): void {
    const { node, key, hits, expiry } = increment
    node.add(key, hits, expiry, (error, line) => {
      if (line === 'NOT_STORED') {
        this.report.count('add.__code=not_stored')
        this.send(increment, ' after failing to add')
        return
      }
      this.report.count(error === null ? 'add.__code=success' : 'add.__code=error')
      if (error !== null) {
        this.report.logError('add', () => `Failed to add a key at ${node.address.text}: ${error.message}`)
      }
      this.settle(increment, error === null)
    })
  }

  private settle({ key, hits }: PendingIncrement, isCounted: boolean): void {
    const left = this.getHits(key) - hits
    if (left > 0) this.hitsByKey.set(key, left)
    else this.hitsByKey.delete(key)
    if (!isCounted) this.report.addLostHits(hits)
    this.count--
    this.onSettled()
  }
}
