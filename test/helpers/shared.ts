/**
 * Processes that all tests of a file share. They are started in `beforeAll` and killed after the test file.
 *
 *     let redis: RedisServer
 *     let service: RunningService
 *     beforeAll(async () => {
 *       redis = await startSharedRedis()
 *       service = await startSharedService({ env: { REDIS_URL: redis.address } })
 *     })
 *
 * Tests keep apart by the values of their descriptors, or by `redis.run('FLUSHALL')`.
 */
import { afterAll } from 'vitest'
import { type MemcachedServer, startMemcached } from './memcached.ts'
import { type RedisServer, type RedisServerOptions, startRedis } from './redis.ts'
import { type RunningService, type ServiceOptions, spawnService } from './service.ts'

const stops: (() => Promise<unknown>)[] = []

// Registered when the file is imported, so it runs after every other hook of the test file.
afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

/** Resolves when the service listens. */
export async function startSharedService(options: ServiceOptions): Promise<RunningService> {
  const service = spawnService(options)
  stops.push(() => service.stop('SIGKILL'))
  await service.logged("Listening for HTTP on '")
  return service
}

export async function startSharedRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const redis = await startRedis(options)
  stops.push(() => redis.stop())
  return redis
}

export async function startSharedMemcached(): Promise<MemcachedServer> {
  const memcached = await startMemcached()
  stops.push(() => memcached.stop())
  return memcached
}
