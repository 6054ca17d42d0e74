/** Short hands for tests of stores: one batch in, each member's count or error out. */
import { Batch } from '../../../engine/counters/batch.ts'
import type { RedisOptions } from '../../../engine/counters/redis.ts'
import type { CounterStore } from '../../../engine/counters/store.ts'

export const WINDOW_SEC = 60
export const EXPIRY_SEC = 100

export type Hits = [key: string, hits: number]

/** Adds one batch; resolves with each member's count after, or its error's text. */
export function addAll(store: CounterStore, hits: Hits[], nowSec: number): Promise<(number | string)[]> {
  const batch = new Batch()
  for (const [key, count] of hits) batch.add(key, count, nowSec + WINDOW_SEC, EXPIRY_SEC)
  return new Promise((resolve) => {
    store.add(batch, nowSec, () => {
      resolve(hits.map((_, member) => batch.errorOf(member)?.message ?? batch.afterOf(member)))
    })
  })
}

export function redisOptionsOf(url: string, options: Partial<RedisOptions> = {}): RedisOptions {
  return {
    url,
    socketType: 'tcp',
    auth: '',
    timeoutMs: 2_000,
    operationTimeoutMs: 2_000,
    startup: { initialMs: 20, maxMs: 100, maxElapsedMs: 5_000 },
    ...options,
  }
}
