/**
 * A Redis or memcached that can be taken away and given back on the same port: killed, or stopped with its connections left open.
 *
 *     const store = await startFaultyStore('redis', 'stop')
 *     … start a service with store.env …
 *     await store.begin()          SIGSTOP; with 'kill' SIGKILL
 *     await store.end()            SIGCONT; with 'kill' a new server without the counters, which accepts connections
 *     await store.stop()
 */
import { startMemcached } from './memcached.ts'
import { pauseMemcached, pauseRedis } from './pause.ts'
import { startRedis } from './redis.ts'

export const STORES = ['redis', 'memcached'] as const
export const FAULTS = ['kill', 'stop'] as const
export type Store = (typeof STORES)[number]
export type Fault = (typeof FAULTS)[number]

export interface FaultyStore {
  env: Record<string, string> // settings of a service that counts in it
  begin(): Promise<void>
  end(): Promise<void>
  stop(): Promise<void>
}

/** `hasOwnSession`: as in test/helpers/redis.ts. */
export function startFaultyStore(store: Store, fault: Fault, hasOwnSession = false): Promise<FaultyStore> {
  return store === 'redis'
    ? startFaultyRedis(fault, hasOwnSession)
    : startFaultyMemcached(fault, hasOwnSession)
}

async function startFaultyRedis(fault: Fault, hasOwnSession: boolean): Promise<FaultyStore> {
  let redis = await startRedis({ hasOwnSession })
  let resume = () => {}
  return {
    env: { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: redis.address },
    async begin() {
      if (fault === 'kill') await redis.stop()
      else resume = (await pauseRedis(redis)).resume
    },
    async end() {
      if (fault === 'kill') redis = await startRedis({ port: redis.port, hasOwnSession })
      else resume()
    },
    stop: () => redis.stop(),
  }
}

async function startFaultyMemcached(fault: Fault, hasOwnSession: boolean): Promise<FaultyStore> {
  let memcached = await startMemcached({ hasOwnSession })
  let resume = () => {}
  return {
    env: { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address },
    async begin() {
      if (fault === 'kill') await memcached.stop()
      else resume = (await pauseMemcached(memcached)).resume
    },
    async end() {
      if (fault === 'kill') memcached = await startMemcached({ port: memcached.port, hasOwnSession })
      else resume()
    },
    stop: () => memcached.stop(),
  }
}
