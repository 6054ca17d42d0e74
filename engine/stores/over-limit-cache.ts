/**
 * The local cache: counters known to be over their limit need no store call (spec 4.5).
 *
 *     shop_user_mallory_1790000000_ ──► 17      over any limit up to 16; after a raise to 20 the store is called again
 *
 * A key contains the start of its window, so entries of past windows are not requested again and are evicted as the least
 * recently used. Cost: hits refused by this cache are not counted in the store.
 */
import { LRUCache } from 'lru-cache'
import type { Stats } from '../stats/stats.ts'

/** Size of an entry besides its key: list and map cells and the count (from heap snapshots, rounded up). */
const ENTRY_BYTES = 120

/** As in envoyproxy/ratelimit: the smallest cache, and the largest keys it holds. */
const CACHE_BYTES_MIN = 512 * 1024
const KEY_BYTES_MAX = 65_535
const KEY_SHARE_MAX = 1 / 1024

const LOGGED_LENGTH_MAX = 200 // characters of a key that is too large, which has more than that

export class OverLimitCache {
  private readonly counts: LRUCache<string, number>
  private readonly keyBytesMax: number
  private readonly onTooLarge: (key: string) => void
  private hitsCount = 0
  private missesCount = 0
  private overwritesCount = 0
  private evictionsCount = 0
  private tooLargeCount = 0

  /** `bytes` is this thread's share. `onTooLarge` is called for the 1st, 2nd, 4th, 8th… key that is too large. */
  constructor(bytes: number, onTooLarge: (key: string) => void) {
    const maxSize = Math.max(bytes, CACHE_BYTES_MIN)
    this.counts = new LRUCache({
      maxSize,
      sizeCalculation: (_count, key) => key.length + ENTRY_BYTES,
      dispose: (_count, _key, reason) => {
        if (reason === 'evict') this.evictionsCount++
        else this.overwritesCount++
      },
    })
    this.keyBytesMax = Math.min(KEY_BYTES_MAX, maxSize * KEY_SHARE_MAX - ENTRY_BYTES)
    this.onTooLarge = onTooLarge
  }

  /** Whether the counter is known to be above `limit`. */
  isOver(key: string, limit: number): boolean {
    const count = this.counts.get(key)
    if (count === undefined) {
      this.missesCount++
      return false
    }
    this.hitsCount++
    return count > limit
  }

  /** Registers its gauges (spec 7.1). Entries do not expire, and access times are not recorded, so these two are 0. */
  count(stats: Stats): void {
    const gauge = (name: string, read: () => number) => stats.gauge(`ratelimit.localcache.${name}`, read)
    gauge('entryCount', () => this.counts.size)
    gauge('evacuateCount', () => this.evictionsCount)
    gauge('expiredCount', () => 0)
    gauge('averageAccessTime', () => 0)
    gauge('hitCount', () => this.hitsCount)
    gauge('missCount', () => this.missesCount)
    gauge('lookupCount', () => this.hitsCount + this.missesCount)
    gauge('overwriteCount', () => this.overwritesCount)
  }

  /** Stores a count above its limit. */
  add(key: string, count: number): void {
    if (key.length > this.keyBytesMax) this.logTooLarge(key)
    else this.counts.set(key, count)
  }

  /** Clients choose keys, so neither their number nor their length may flood the log. */
  private logTooLarge(key: string): void {
    const count = ++this.tooLargeCount
    if (!Number.isInteger(Math.log2(count))) return
    const shown = `${key.slice(0, LOGGED_LENGTH_MAX)}…`
    this.onTooLarge(count === 1 ? shown : `${shown} (${count} by now)`)
  }
}
