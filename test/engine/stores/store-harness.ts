/** Helpers for tests of stores: one batch in, each member's count or error out. */
import { Batch } from '../../../engine/stores/batch.ts'
import { Counter } from '../../../engine/stores/counter.ts'
import type { CounterStore } from '../../../engine/stores/counter-store.ts'
import type { RedisOptions } from '../../../engine/stores/redis/redis-store.ts'

export const WINDOW_SEC = 60
export const EXPIRY_SEC = 100

export type Hits = [key: string, hits: number | bigint]

/** Adds one batch; resolves with each member's count after (2^53-1 stands for more), or its error's text. */
export async function addAll(
  store: CounterStore,
  hits: Hits[],
  nowSec: number,
  isPerSecond: (key: string) => boolean = () => false,
): Promise<(number | string)[]> {
  const batch = new Batch()
  for (const [key, count] of hits) {
    batch.add(new Counter(key), count, 0, nowSec + WINDOW_SEC, EXPIRY_SEC, isPerSecond(key))
  }
  const befores = await addBatch(store, batch, nowSec)
  return befores.map((before, member) =>
    typeof before === 'string' ? before : Math.min(before + Number(hits[member][1]), Number.MAX_SAFE_INTEGER),
  )
}

/** Each member's count before its hits, or its error's text. */
export function addBatch(store: CounterStore, batch: Batch, nowSec: number): Promise<(number | string)[]> {
  return new Promise((resolve) => {
    store.add(batch, nowSec, () => {
      const members = Array.from({ length: batch.membersCount }, (_, member) => member)
      resolve(members.map((member) => batch.getError(member)?.message ?? batch.getPreviousCount(member)))
    })
  })
}

/** A request of a stopping batch: its counters with hits and limit. */
export type StopRequest = [key: string, hits: number, limit: number][]

/** Adds requests in one stopping batch (spec 4.2); resolves with each counter's count before, per request. */
export async function addStopping(
  store: CounterStore,
  requests: readonly StopRequest[],
  nowSec: number,
  isPerSecond: (key: string) => boolean = () => false,
): Promise<(number | string)[][]> {
  const batch = new Batch(true)
  for (const request of requests) {
    for (const [key, hits, limit] of request) {
      batch.add(new Counter(key), hits, limit, nowSec + WINDOW_SEC, EXPIRY_SEC, isPerSecond(key))
    }
    batch.endRequest()
  }
  const befores = await addBatch(store, batch, nowSec)
  return requests.map((request) => befores.splice(0, request.length))
}

export function createRedisOptions(url: string, options: Partial<RedisOptions> = {}): RedisOptions {
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
