/**
 * The local cache: counters known to be over their limit, so that hot offenders cost no trip (spec 4.5).
 *
 *     shop_user_mallory_1790000000_ ──► 17      over for every limit up to 16; a raised limit of 20 asks the store again
 *
 * A key holds its window's start, so an entry of a past window is never asked for again and falls out as the least
 * recently used. Gives up: hits refused from here are not counted in the store.
 */
import { LRUCache } from 'lru-cache'
import type { Stats } from '../stats/stats.ts'

/** What an entry weighs beside its key: list and map cells and the number (measured with heap snapshots, rounded up). */
const ENTRY_BYTES = 120

/** As the reference: smaller caches are raised to this, larger keys than these shares are not kept. */
const CACHE_BYTES_MIN = 512 * 1024
const KEY_BYTES_MAX = 65_535
const KEY_SHARE_MAX = 1 / 1024

const LOGGED_LENGTH_MAX = 200 // of a key that cannot be kept

export class OverLimitCache {
  private readonly counts: LRUCache<string, number>
  private readonly keyBytesMax: number
  private readonly onTooLarge: (key: string) => void
  private hitsCount = 0
  private missesCount = 0
  private overwritesCount = 0
  private evictionsCount = 0
  private tooLargeCount = 0

  /** `bytes` is this thread's share. `onTooLarge` is told of keys that cannot be kept: of the first, the second, the fourth… */
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

  /** Its states, for operators (spec 7.1); nothing expires here, and when an entry was asked for is not kept. */
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

  /** Remembers a count above its limit. */
  add(key: string, count: number): void {
    if (key.length > this.keyBytesMax) this.logTooLarge(key)
    else this.counts.set(key, count)
  }

  /** Callers choose keys, so neither their number nor their length may fill a log. No clock is needed for that. */
  private logTooLarge(key: string): void {
    const count = ++this.tooLargeCount
    if (!Number.isInteger(Math.log2(count))) return
    const shown = key.length > LOGGED_LENGTH_MAX ? `${key.slice(0, LOGGED_LENGTH_MAX)}…` : key
    this.onTooLarge(count === 1 ? shown : `${shown} (${count} by now)`)
  }
}
