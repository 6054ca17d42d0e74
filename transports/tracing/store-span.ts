/**
 * The span of a decision's access to its store (spec 11.3).
 *
 *     redis      Redis Pipeline Execution     pipeline length, perSecondPipeline length   (commands: two per key)
 *     memcache   Memcached Fetch Execution    keysToGet length
 *     memory     none
 *
 * The numbers are approximate, since one pipeline serves all decisions of a turn, and EXPIRE is omitted if it was sent before.
 * They are those of a decision sent alone; its keys are the statuses with a limit in its response. A key that the local cache
 * knew to be over limit is included if another key of the request was sent. A failed access has no response and no numbers.
 * The span lasts from the end of matching to the response; with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT it includes the read
 * before the increment.
 */
import type { Attributes } from '@opentelemetry/api'
import type { Settings } from '../../engine/settings/parse.ts'
import { type RateLimitResponse, Unit } from '../../proto/ratelimit.ts'

export interface StoreSpan {
  readonly tracer: string
  readonly name: string
  /** null: the decision did not access the store. */
  attributes(response: RateLimitResponse | null): Attributes
}

const COMMANDS_PER_KEY = 2 // INCRBY and EXPIRE

/** Null for the memory store. */
export function storeSpan({ BACKEND_TYPE, REDIS_PERSECOND }: Settings): StoreSpan | null {
  if (BACKEND_TYPE === 'memory') return null
  if (BACKEND_TYPE === 'memcache') return MEMCACHED
  return redis(REDIS_PERSECOND)
}

const MEMCACHED: StoreSpan = {
  tracer: 'memcached.cacheImpl',
  name: 'Memcached Fetch Execution',
  attributes: (response) => ({ 'keysToGet length': keysCount(response, () => true) }),
}

function redis(hasPerSecond: boolean): StoreSpan {
  const isPerSecond = (unit: Unit) => hasPerSecond && unit === Unit.Second
  return {
    tracer: 'redis.fixedCacheImpl',
    name: 'Redis Pipeline Execution',
    attributes: (response) => ({
      'pipeline length': COMMANDS_PER_KEY * keysCount(response, (unit) => !isPerSecond(unit)),
      'perSecondPipeline length': COMMANDS_PER_KEY * keysCount(response, isPerSecond),
    }),
  }
}

function keysCount(response: RateLimitResponse | null, isCounted: (unit: Unit) => boolean): number {
  let count = 0
  for (const { currentLimit } of response?.statuses ?? [])
    if (currentLimit !== null && isCounted(currentLimit.unit)) count++
  return count
}
