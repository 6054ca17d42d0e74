/** Counter stores that can be killed, stopped and cut off, and come back on the same port. */
import { startMemcached } from '../../helpers/memcached.ts'
import { type Paused, pauseMemcached, pauseRedis } from '../../helpers/pause.ts'
import { startRedis } from '../../helpers/redis.ts'

export interface Store {
  name: string
  address: string
  kill(): Promise<void>
  /** After `kill`. */
  start(): Promise<void>
  /** It replies no more; its connections stay open. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Ends all connections of others and returns how many; absent if the store cannot. */
  cut?(): Promise<number>
  /** May be called in any state, and again. */
  stop(): Promise<void>
}

export async function startRedisStore(): Promise<Store> {
  let redis = await startRedis()
  let paused: Paused | null = null
  return {
    name: 'Redis',
    address: redis.address,
    kill: () => redis.stop(),
    async start() {
      redis = await startRedis({ port: redis.port })
    },
    async pause() {
      paused = await pauseRedis(redis)
    },
    async resume() {
      paused?.resume()
    },
    cut: async () => Number(await redis.run('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
    async stop() {
      paused?.resume()
      await redis.stop()
    },
  }
}

export async function startMemcachedStore(): Promise<Store> {
  let memcached = await startMemcached()
  let paused: Paused | null = null
  return {
    name: 'memcached',
    address: memcached.address,
    kill: () => memcached.stop(),
    async start() {
      memcached = await startMemcached({ port: memcached.port })
    },
    async pause() {
      paused = await pauseMemcached(memcached)
    },
    async resume() {
      paused?.resume()
    },
    async stop() {
      paused?.resume()
      await memcached.stop()
    },
  }
}
