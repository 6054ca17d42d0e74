/**
 * Hits on their way into memcached, after their callers were answered (spec 4.3, step 5).
 *
 *     incr k n ─┬─ a number ───────────────────────────────► settled
 *               └─ NOT_FOUND ─► add k n ─┬─ STORED ────────► settled
 *                                        └─ NOT_STORED ─► incr k n ─► settled        somebody was faster
 *
 * `waiting` is what memcached has not confirmed yet. Replies of a node come in the order of the commands, so when a
 * count is read from it, `waiting` is exactly what that count lacks. Hits that fail here are lost, counted and logged.
 */
import { shownKey } from './key.ts'
import type { MemcacheNode } from './node.ts'
import type { MemcacheReport } from './report.ts'

export interface PendingIncrement {
  node: MemcacheNode
  key: string // as on the wire
  hits: number // 0 to 2^53-1; 0 makes the counter
  expiry: number // as memcached takes it: seconds, or a date where there are more than 30 days of them
}

export class PendingIncrements {
  /** Not settled. At most three rounds of what the batches in flight hold; a node bounds its own commands, too. */
  count = 0
  private readonly report: MemcacheReport
  private readonly onSettled: () => void
  private readonly hitsByKey = new Map<string, number>()

  constructor(report: MemcacheReport, onSettled: () => void) {
    this.report = report
    this.onSettled = onSettled
  }

  /** Hits on this key that a count read now does not hold yet. */
  waiting(key: string): number {
    return this.hitsByKey.get(key) ?? 0
  }

  /** From now on the hits are waiting; `send` must follow. */
  expect({ key, hits }: PendingIncrement): void {
    this.count++
    if (hits > 0) this.hitsByKey.set(key, this.waiting(key) + hits)
  }

  send(addition: PendingIncrement, afterAdd = ''): void {
    const { node, key, hits } = addition
    node.send(`incr ${key} ${hits}\r\n`, (error, line) => {
      const isMiss = line === 'NOT_FOUND'
      this.report.count(
        error !== null
          ? 'increment.__code=error'
          : isMiss
            ? 'increment.__code=miss'
            : 'increment.__code=success',
      )
      if (isMiss && afterAdd === '') {
        this.create(addition)
        return
      }
      if (error !== null || isMiss) {
        const why = error?.message ?? 'memcache: cache miss'
        this.report.logError('increment', () => `Failed to increment key ${shownKey(key)}${afterAdd}: ${why}`)
      }
      this.settle(addition)
    })
  }

  private create(addition: PendingIncrement): void {
    const { node, key, hits, expiry } = addition
    const value = String(hits)
    node.send(`add ${key} 0 ${expiry} ${value.length}\r\n${value}\r\n`, (error, line) => {
      if (line === 'NOT_STORED') {
        this.report.count('add.__code=not_stored')
        this.send(addition, ' after failing to add')
        return
      }
      this.report.count(error === null ? 'add.__code=success' : 'add.__code=error')
      if (error !== null) {
        this.report.logError('add', () => `Failed to add key ${shownKey(key)}: ${error.message}`)
      }
      this.settle(addition)
    })
  }

  private settle({ key, hits }: PendingIncrement): void {
    const left = this.waiting(key) - hits
    if (left > 0) this.hitsByKey.set(key, left)
    else this.hitsByKey.delete(key)
    this.count--
    this.onSettled()
  }
}
