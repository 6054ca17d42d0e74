/**
 * The span of a decision's trip to its store (spec 11.3).
 *
 *     redis      Redis Pipeline Execution     pipeline length, perSecondPipeline length   (commands: two per key)
 *     memcache   Memcached Fetch Execution    keysToGet length
 *     memory     none
 *
 * Approximate, since a trip of ours serves all decisions of one turn, and EXPIRE stays at home where it was sent before.
 * So the numbers are those of a decision that goes alone: its keys are told by its answer, as the statuses with a limit.
 * One that the local cache knew to be over is among them, when another key of the request had to be asked for. A trip
 * that fails has no answer, and no numbers. The span lasts from the end of matching to the answer; with
 * STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT the look before the addition is within.
 */
import type { Attributes } from '@opentelemetry/api'
import type { Settings } from '../../engine/settings/parse.ts'
import { type RateLimitResponse, Unit } from '../../proto/ratelimit.ts'

export interface StoreSpan {
  readonly tracer: string
  readonly name: string
  /** null: an answer that asked no store. */
  attributes(response: RateLimitResponse | null): Attributes
}

const COMMANDS_PER_KEY = 2 // INCRBY and EXPIRE

/** null: a store of our own memory, which is no trip. */
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
