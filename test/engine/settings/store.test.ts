import { describe, expect, test } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { storeWarnings } from '../../../engine/settings/store.ts'

const warningsOf = (env: Record<string, string>) => storeWarnings(parseSettings(env))

describe('counting in memory', () => {
  test('is one warning where the store is not chosen', () => {
    expect(warningsOf({})).toEqual([
      'Counters are kept in the memory of this process: other instances do not see them, and they are lost when it ends. ' +
        'Set REDIS_URL to share them, or BACKEND_TYPE=memory to confirm.',
    ])
  })

  test('is a warning where only Kubernetes sets variables of Redis', () => {
    const env = { REDIS_PORT: 'tcp://10.0.0.7:6379', REDIS_SERVICE_HOST: '10.0.0.7' }
    expect(warningsOf(env)).toEqual(warningsOf({}))
  })

  test.each<Record<string, string>>([
    { BACKEND_TYPE: '' },
    { REDIS_URL: '' },
    { REDIS_AUTH: '', KVSTORE_URL: '' },
  ])('is a warning with %j, since an empty text gives nothing', (env) =>
    expect(storeWarnings(parseSettings(env))).toEqual(warningsOf({})),
  )

  test('is silent where it was chosen', () => expect(warningsOf({ BACKEND_TYPE: 'memory' })).toEqual([]))
})

describe('Redis at the default address', () => {
  test('is a warning with the setting that led there, as it was written', () => {
    expect(warningsOf({ KVSTORE_AUTH: 'secret' })).toEqual([
      'KVSTORE_AUTH is set and REDIS_URL is not: counters are kept in Redis at the default address, ' +
        '/var/run/nutcracker/ratelimit.sock. Set REDIS_URL, or BACKEND_TYPE to memory or memcache.',
    ])
    expect(warningsOf({ MEMCACHE_HOST_PORT: 'a:11211' })[0]).toContain(
      'MEMCACHE_HOST_PORT is set and REDIS_URL is not',
    )
  })

  test.each<Record<string, string>>([
    { REDIS_URL: 'redis:6379' },
    { KVSTORE_URL: 'redis:6379', KVSTORE_AUTH: 'x' },
    { BACKEND_TYPE: 'redis' },
    { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:11211' },
  ])('is silent with %j', (env) => expect(warningsOf(env)).toEqual([]))
})
