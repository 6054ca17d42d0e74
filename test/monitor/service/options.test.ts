import { expect, test } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { monitorOptions, ownHosts } from '../../../monitor/service/options.ts'
import { monitorRows } from '../../../monitor/settings.ts'

// biome-ignore format: a table
test.each([
  [{ BACKEND_TYPE: 'redis', REDIS_URL: 'cache.internal:6379' }, ['cache.internal']],
  [{ BACKEND_TYPE: 'redis', REDIS_URL: 'rediss://user:word@10.1.2.3:6380/0' }, ['10.1.2.3']],
  [{ BACKEND_TYPE: 'redis', REDIS_TYPE: 'cluster', REDIS_URL: 'a.net:1, b.net:2,[2606::1]:3' }, ['a.net', 'b.net', '2606::1']],
  [{ BACKEND_TYPE: 'redis', REDIS_URL: 'a.net:1', REDIS_PERSECOND: 'true', REDIS_PERSECOND_URL: 'b.net:2' }, ['a.net', 'b.net']],
  [{ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'unix', REDIS_URL: '/run/redis.sock' }, []],
  [{ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'm1.net:11211,m2.net:11211' }, ['m1.net', 'm2.net']],
  [{ BACKEND_TYPE: 'memory', REDIS_URL: 'unused.net:6379' }, []],
])('5.4: where the counters are is no target: %j', (env, hosts) => {
  expect(ownHosts(parseSettings(env as Record<string, string>, monitorRows).settings)).toEqual(hosts)
})

test.each<Record<string, string>>([
  { MONITOR_ADDR: 'nowhere' },
  { TRUSTED_PROXIES: '10.0.0.0/8,many' },
  { PUBLIC_BASE_URL: 'monitor' },
  { SUPPORT_EMAIL: 'help@example.org\nContact: mailto:evil@example.net' },
  { SUPPORT_EMAIL: 'help@example.org?bcc=evil@example.net' },
  { SUPPORT_EMAIL: 'nobody' },
  { VANTAGE_NAME: 'Main Street' },
])('12: %j is refused by its name', (env) => {
  const { settings } = parseSettings(env, monitorRows)
  const [name] = Object.keys(env)
  expect(() => monitorOptions(settings, env)).toThrow(new RegExp(`^${name}: `))
})
