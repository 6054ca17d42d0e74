import { describe, expect, test } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { storeWarnings } from '../../../engine/settings/store.ts'

function getWarnings(env: Record<string, string>): string[] {
  return storeWarnings(parseSettings(env))
}

describe('counters in memory', () => {
  test('one warning if no setting chooses the store', () => {
    expect(getWarnings({})).toEqual([
      'Counters are kept in the memory of this process: other instances do not see them, and they are lost when it ends. ' +
        'Set REDIS_URL to share them, or BACKEND_TYPE=memory to confirm.',
    ])
  })

  test('a warning if the only REDIS_* variables are those that Kubernetes injects', () => {
    const env = { REDIS_PORT: 'tcp://10.0.0.7:6379', REDIS_SERVICE_HOST: '10.0.0.7' }
    expect(getWarnings(env)).toEqual(getWarnings({}))
  })

  test.each<Record<string, string>>([
    { BACKEND_TYPE: '' },
    { REDIS_URL: '' },
    { REDIS_AUTH: '', KVSTORE_URL: '' },
  ])('a warning with %j: an empty text is not a setting', (env) =>
    expect(getWarnings(env)).toEqual(getWarnings({})),
  )

  test('no warning if BACKEND_TYPE chooses memory', () =>
    expect(getWarnings({ BACKEND_TYPE: 'memory' })).toEqual([]))
})

describe('Redis at the default address', () => {
  test('the warning names the setting that implied Redis, as the operator wrote it', () => {
    expect(getWarnings({ KVSTORE_AUTH: 'secret' })).toEqual([
      'KVSTORE_AUTH is set and REDIS_URL is not: counters are kept in Redis at the default address, ' +
        '/var/run/nutcracker/ratelimit.sock. Set REDIS_URL, or BACKEND_TYPE to memory or memcache.',
    ])
    expect(getWarnings({ MEMCACHE_HOST_PORT: 'a:11211' })[0]).toContain(
      'MEMCACHE_HOST_PORT is set and REDIS_URL is not',
    )
  })

  test.each<Record<string, string>>([
    { REDIS_URL: 'redis:6379' },
    { KVSTORE_URL: 'redis:6379', KVSTORE_AUTH: 'x' },
    { BACKEND_TYPE: 'redis' },
    { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:11211' },
  ])('no warning with %j', (env) => expect(getWarnings(env)).toEqual([]))
})

describe('memcached', () => {
  test('9.6: without servers, the warning names both settings and the remedy', () => {
    expect(getWarnings({ BACKEND_TYPE: 'memcache' })).toEqual([
      'BACKEND_TYPE=memcache, but neither MEMCACHE_HOST_PORT nor MEMCACHE_SRV is set: no hit can be counted. ' +
        'Set MEMCACHE_HOST_PORT to the host:port of every node, or MEMCACHE_SRV to the DNS SRV record that lists them. ' +
        '[MEMCACHE_SERVERS_MISSING]',
    ])
  })

  test('no warning with a DNS record', () =>
    expect(getWarnings({ BACKEND_TYPE: 'memcache', MEMCACHE_SRV: '_memcache._tcp.a.example' })).toEqual([]))
})
