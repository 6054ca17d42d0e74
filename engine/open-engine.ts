/**
 * Opens an engine and its store as configured. Every thread that decides opens its own.
 *
 *     BACKEND_TYPE ──► memory: the table that all threads share │ Redis │ memcached ──► Engine
 */

import { Engine } from './decision/engine.ts'
import type { Log } from './runtime/messages.ts'
import type { Settings } from './settings/parse.ts'
import type { Stats } from './stats/stats.ts'
import type { CounterStore } from './stores/counter-store.ts'
import { OverLimitCache } from './stores/over-limit-cache.ts'
import type { OnHealth } from './stores/store-health.ts'

export interface OpenOptions {
  memoryTable: SharedArrayBuffer | null // counters of this process: all with BACKEND_TYPE=memory, else those of the policy local; null = no such policy
  decisionsStat: string // name of this thread's counter of decisions
  stats: Stats
  log: Log
  onHealth?: OnHealth // of the store; not called for memory, which always works
  signal?: AbortSignal // aborts waiting for Redis; then openEngine rejects
}

/** Resolves when the store is connected; rejects with ConfigurationError if it cannot be. The caller closes `store`. */
export async function openEngine(
  settings: Settings,
  options: OpenOptions,
): Promise<{ engine: Engine; store: CounterStore }> {
  const { stats, log, decisionsStat, memoryTable } = options
  const store = await openStore(settings, options)
  const given = engineOptions(settings, log)
  const localStore = settings.BACKEND_TYPE === 'memory' ? null : await openMemory(memoryTable)
  given.localCache?.count(stats)
  return { engine: new Engine({ store, stats, decisionsStat, localStore, ...given }), store }
}

/** One kind of store per process, so call sites are monomorphic. Only its own code is loaded. */
async function openStore(
  settings: Settings,
  { memoryTable, stats, log, onHealth, signal }: OpenOptions,
): Promise<CounterStore> {
  if (settings.BACKEND_TYPE === 'memory') return (await openMemory(memoryTable))!
  if (settings.BACKEND_TYPE === 'memcache') {
    const { MemcacheStore } = await import('./stores/memcached/memcached-store.ts')
    const { memcacheOptions } = await import('./stores/memcached/options.ts')
    const store = new MemcacheStore(memcacheOptions(settings), { log, stats, onHealth })
    await store.connect()
    return store
  }
  const { RedisStore, redisOptions } = await import('./stores/redis/redis-store.ts')
  const store = new RedisStore(redisOptions(settings), { log, stats, onHealth, signal })
  await store.connect()
  return store
}

async function openMemory(table: SharedArrayBuffer | null): Promise<CounterStore | null> {
  if (table === null) return null
  const { MemoryStore } = await import('./stores/memory/memory-store.ts')
  return new MemoryStore(table)
}

function engineOptions(settings: Settings, log: Log) {
  const cacheBytes = settings.LOCAL_CACHE_SIZE_IN_BYTES / settings.WORKERS // the setting is for the process
  return {
    nowSec: () => Math.floor(Date.now() / 1000),
    random: Math.random,
    nearLimitRatio: settings.NEAR_LIMIT_RATIO,
    keyPrefix: settings.CACHE_KEY_PREFIX,
    jitterMaxSec: settings.EXPIRATION_JITTER_MAX_SECONDS,
    isShadow: settings.SHADOW_MODE,
    isQuota: settings.QUOTA_MODE,
    stopIncrementWhenOverLimit:
      settings.STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT && settings.BACKEND_TYPE !== 'memcache', // spec 4.3
    hasMetadata: settings.RESPONSE_DYNAMIC_METADATA,
    storeErrorPolicy: settings.STORE_ERROR_POLICY,
    decisionTimeoutMs: settings.DECISION_TIMEOUT,
    hasDegradedHeader: settings.LIMIT_RESPONSE_HEADERS_ENABLED || settings.DEGRADED_HEADER,
    localCache:
      cacheBytes > 0
        ? new OverLimitCache(cacheBytes, (key) => log('error', `Failing to set local cache key: ${key}`))
        : null,
    headerNames: settings.LIMIT_RESPONSE_HEADERS_ENABLED
      ? {
          limit: settings.LIMIT_LIMIT_HEADER,
          remaining: settings.LIMIT_REMAINING_HEADER,
          reset: settings.LIMIT_RESET_HEADER,
        }
      : null,
  }
}
