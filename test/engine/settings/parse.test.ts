import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { rows } from '../../../engine/settings/table.ts'

type Environment = Record<string, string | undefined>

/** The complaint about an environment that must not start. */
function complaint(env: Environment): string {
  try {
    parseSettings(env)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    expect((error as ConfigurationError).exitCode).toBe(2) // as the reference
    return (error as Error).message
  }
  throw new Error(`${JSON.stringify(env)} was accepted`)
}

describe('an empty environment', () => {
  const { settings, warnings, written } = parseSettings({})

  test('gives the default of every row, with its type', () => {
    expect(Object.keys(settings)).toEqual(rows.map(({ name }) => name))
    expect(settings.GRPC_PORT satisfies number).toBe(8081)
    expect(settings.GRPC_MAX_CONNECTION_AGE satisfies number).toBe(86_400_000)
    expect(settings.USE_STATSD satisfies boolean).toBe(true)
    expect(settings.EXTRA_TAGS satisfies Readonly<Record<string, string>>).toEqual({})
    expect(settings.MEMCACHE_HOST_PORT satisfies readonly string[]).toEqual([])
    expect(settings.REDIS_TYPE satisfies 'single' | 'sentinel' | 'cluster').toBe('single')
    expect(settings.LOG_LEVEL).toBe('warn')
    expect(settings.WORKERS).toBe(Math.min(availableParallelism(), 256))
  })

  test('selects the memory store', () => expect(settings.BACKEND_TYPE).toBe('memory'))

  test('gives no warnings and no written names', () => {
    expect(warnings).toEqual([])
    expect([...written]).toEqual([])
  })
})

test('settings are frozen and can be posted to a worker', () => {
  const { settings } = parseSettings({ EXTRA_TAGS: 'a:1', MEMCACHE_HOST_PORT: 'a:1,b:2' })
  expect(structuredClone(settings)).toEqual(settings)
  expect(Object.isFrozen(settings)).toBe(true)
  expect(Object.isFrozen(settings.EXTRA_TAGS)).toBe(true)
  expect(Object.isFrozen(settings.MEMCACHE_HOST_PORT)).toBe(true)
})

describe('empty text', () => {
  test('is the default, or the empty value of kinds that have one', () => {
    const { settings, warnings } = parseSettings(Object.fromEntries(rows.map(({ name }) => [name, ''])))
    const { settings: defaults } = parseSettings({})
    for (const { name, kind } of rows) {
      if (name === 'BACKEND_TYPE') continue // below
      if (kind.hasEmpty)
        expect(Object.values([settings[name]].flat())).toEqual(kind.name === 'list' ? [] : [kind.parse('')])
      else expect(settings[name]).toEqual(defaults[name])
    }
    expect(settings.HOST).toBe('')
    expect(settings.BACKEND_TYPE).toBe('memory') // an empty text chooses no store
    expect(warnings).toEqual([])
  })

  test('an undefined variable is not set', () => {
    const { settings, written } = parseSettings({ HOST: undefined, KVSTORE_URL: undefined })
    expect(settings.HOST).toBe('0.0.0.0')
    expect(written.size).toBe(0)
  })
})

describe('8.1#1 8.1#4: a bad value', () => {
  const span = 'a duration such as 10s, 1h30m or 150us'
  const items = 'invalid map item: "b"; items key:value separated by commas, one colon in each'
  const levels =
    'Could not parse log level. not a valid logrus Level: "loud"; it is ' +
    'one of panic, fatal, error, warn, warning, info, debug, trace, in any case'

  // biome-ignore format: the columns are the specification
  const bad = [
    ['GRPC_PORT',               '80801', 'an integer from 0 to 65535'],
    ['WORKERS',                 '0',     'an integer from 1 to 256, or cores'],
    ['MEMORY_STORE_BYTES',      '1000',  'an integer from 1048576 to 2147483648'],
    ['NEAR_LIMIT_RATIO',        '80%',   'a number from 0 to 1'],
    ['TRACING_SAMPLING_RATE',   '1.5',   'a number from 0 to 1'],
    ['TRACING_SAMPLING_RATE',   '-0.1',  'a number from 0 to 1'],
    ['SHADOW_MODE',             'yes',   'true or false (also 1 t T TRUE True 0 f F FALSE False)'],
    ['DRAIN_TIMEOUT',           '30',    span],
    ['REDIS_OPERATION_TIMEOUT', '0',     `${span}, at least 1ms`],
    ['EXTRA_TAGS',              'a:1,b', items],
    ['CONFIG_TYPE',             'file',  'Invalid setting for ConfigType: file; it is one of FILE, GRPC_XDS_SOTW'],
    ['BACKEND_TYPE',            'Redis', 'Invalid setting for BackendType: Redis; it is one of redis, memory, memcache'],
    ['LOG_LEVEL',               'loud',  levels],
    ['KVSTORE_TYPE',            'x',     'Unrecognized redis type x; it is one of single, sentinel, cluster, in any case'],
    ['REDIS_CLUSTER_PIPELINE_PARALLELISM', '-1', 'redis cluster pipeline parallelism must be >= 0'],
  ] as const
  for (const [name, text, allowed] of bad) {
    test(`${name}=${text} names the allowed values`, () => {
      const sentence = `${name}="${text}" is not allowed: ${allowed}.`
      expect(complaint({ [name]: text })).toBe(`${sentence} [SETTING_INVALID]`)
    })
  }

  test('is reported together with all others, a line each', () => {
    expect(complaint({ PORT: 'x', GRPC_PORT: 'y', DRAIN_DELAY: 'z', HOST: 'fine' }).split('\n')).toEqual([
      'PORT="x" is not allowed: an integer from 0 to 65535.',
      'GRPC_PORT="y" is not allowed: an integer from 0 to 65535.',
      'DRAIN_DELAY="z" is not allowed: a duration such as 10s, 1h30m or 150us. [SETTING_INVALID]',
    ])
  })

  test('is escaped and shortened in the message', () => {
    expect(complaint({ PORT: 'a\nb' })).toContain('PORT="a\\nb" is not')
    expect(complaint({ PORT: 'x'.repeat(10_000) }).length).toBeLessThan(300)
  })

  test('is not echoed when it is a secret', () => {
    const text = complaint({ CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'authorization:Bearer:hunter2' })
    expect(text).toContain(
      'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=(hidden) is not allowed: items key:value',
    )
    expect(text).not.toContain('hunter2')
    expect(complaint({ DEBUG_TOKEN: 'hunter2', PORT: 'x', REDIS_AUTH: 'hunter2' })).not.toContain('hunter2')
  })

  test('set by Kubernetes is explained', () => {
    expect(complaint({ GRPC_PORT: 'tcp://10.0.0.7:8081' })).toContain(
      'Kubernetes set it for a Service of that name',
    )
  })
})

test('every row that has a syntax refuses an invalid text', () => {
  for (const { name, kind } of rows) {
    const isForgiving =
      ['string', 'path', 'list'].includes(kind.name) || kind.allowed.includes('any other text')
    if (!isForgiving) expect(complaint({ [name]: '?' })).toContain(`${name}=`)
  }
})

describe('names', () => {
  test('the older name of every setting is accepted', () => {
    for (const { name, older, kind, default: preset, state } of rows) {
      if (older === null || state === 'refuse') continue
      const { written, settings } = parseSettings({ [older]: preset })
      expect([...written]).toEqual(preset === '' ? [] : [[name, older]])
      if (name !== 'REDIS_SOCKET_TYPE') expect(settings[name]).toEqual(kind.parse(preset))
    }
    expect(parseSettings({ KVSTORE_URL: 'redis:6379' }).settings.REDIS_URL).toBe('redis:6379')
    expect(parseSettings({ LocalCacheSizeInBytes: '7' }).settings.LOCAL_CACHE_SIZE_IN_BYTES).toBe(7)
  })

  test('the current name takes precedence over the older one, also when it is empty', () => {
    const { settings, warnings } = parseSettings({ REDIS_URL: 'real:1', KVSTORE_URL: 'older:1' })
    expect(settings.REDIS_URL).toBe('real:1')
    expect(warnings).toEqual(['KVSTORE_URL is ignored, because REDIS_URL is set too.'])
    expect(parseSettings({ REDIS_AUTH: '', KVSTORE_AUTH: 'x' }).settings.REDIS_AUTH).toBe('')
    expect(parseSettings({ REDIS_TIMEOUT: '', KVSTORE_TIMEOUT: 'nonsense' }).settings.REDIS_TIMEOUT).toBe(
      10_000,
    )
  })

  test('the same value under both names causes no warning', () => {
    expect(parseSettings({ REDIS_URL: 'a:1', KVSTORE_URL: 'a:1' }).warnings).toEqual([])
  })

  test('a typo gets a warning', () => {
    expect(parseSettings({ REDIS_ULR: 'a:1' }).warnings).toEqual([
      'REDIS_ULR is not a setting; did you mean REDIS_URL?',
    ])
  })

  test('the key of rule files for STORE_ERROR_POLICY is recognised', () => {
    expect(parseSettings({ ON_STORE_ERROR: 'local' }).warnings).toEqual([
      'ON_STORE_ERROR is not a setting; did you mean STORE_ERROR_POLICY?',
    ])
  })

  test('a share of 0, with which a circuit breaker would open without a failure, is refused', () => {
    expect(() => parseSettings({ STORE_BREAKER_SHARE: '0' })).toThrow(
      'STORE_BREAKER_SHARE="0" is not allowed: a number from 0.01 to 1',
    )
  })

  test('mogrifier variables are known', () => {
    const env = { DOG_STATSD_MOGRIFIER_FOO_PATTERN: 'x', TAGGED_STATS_MOGRIFIER_BAR_TAGS: 'a:b' }
    expect(parseSettings(env).warnings).toEqual([])
  })

  test('a Kubernetes environment causes no warning', () => {
    const services = [
      'KUBERNETES',
      'REDIS',
      'REDIS_PERSECOND_MASTER',
      'MEMCACHED',
      'RATELIMIT',
      'PROMETHEUS',
      'ENVOY',
    ]
    const env = Object.fromEntries(
      services.flatMap(kubernetesNames).map((name) => [name, 'tcp://10.0.0.7:6379']),
    )
    const shell = {
      HOME: '/',
      HOSTNAME: 'sluice-5d',
      PATH: '/bin',
      POD_IP: '10.0.0.1',
      NODE_ENV: 'production',
    }
    expect(parseSettings({ ...env, ...shell }).warnings).toEqual([])
  })
})

/** What Kubernetes injects for a Service of one port. */
function kubernetesNames(service: string): string[] {
  const port = `${service}_PORT`
  const each = ['', '_PROTO', '_PORT', '_ADDR'].map((suffix) => `${port}_6379_TCP${suffix}`)
  return [`${service}_SERVICE_HOST`, `${service}_SERVICE_PORT`, `${service}_SERVICE_PORT_HTTP`, port, ...each]
}

test('10#118: an unknown trace protocol is refused; empty is http', () => {
  expect(complaint({ TRACING_EXPORTER_PROTOCOL: 'kafka' })).toContain(
    'Invalid otlptrace client protocol: kafka',
  )
  expect(parseSettings({ TRACING_EXPORTER_PROTOCOL: '' }).settings.TRACING_EXPORTER_PROTOCOL).toBe('http')
})

describe('settings without effect', () => {
  const inert = rows.filter(({ state }) => state === 'inert')

  test('are those that the help marks so', () => {
    expect(inert.map(({ name }) => name)).toEqual(
      rows.filter(({ help }) => help.startsWith('no effect')).map(({ name }) => name),
    )
    expect(inert.length).toBeGreaterThan(10)
  })

  test.each(inert)(
    '$name is a warning under the name that was written',
    ({ name, older, kind, default: preset }) => {
      const value = kind.name === 'duration' ? '7s' : '7'
      for (const written of older === null ? [name] : [name, older]) {
        expect(parseSettings({ [written]: value }).warnings).toEqual([
          expect.stringMatching(new RegExp(`^${written} has no effect: \\w.*\\.$`)),
        ])
        expect(parseSettings({ [written]: preset }).warnings).toEqual([])
        expect(parseSettings({ [written]: '' }).warnings).toEqual([])
      }
    },
  )

  test('the same value as the default, written in another way, causes no warning', () => {
    const env = {
      REDIS_PIPELINE_WINDOW: '0ms',
      KVSTORE_POOL_SIZE: '0xa',
      XDS_CLIENT_BACKOFF_RANDOM_FACTOR: '.5',
    }
    expect(parseSettings(env).warnings).toEqual([])
  })

  test.each(inert)('$name has a row in docs/differences.md', ({ name }) => {
    const differences = readFileSync(join(import.meta.dirname, '../../../docs/differences.md'), 'utf8')
    const section = differences.slice(differences.indexOf('## Settings that have no effect'))
    expect(section.slice(0, section.indexOf('\n## ', 1))).toContain(`\`${name}\``)
  })
})

describe('defaults that depend on other settings', () => {
  // biome-ignore format: the columns are the specification
  const backends: [Environment, string][] = [
    [{},                                               'memory'],
    [{ REDIS_AUTH: 'x' },                              'redis'],
    [{ REDIS_PERSECOND_URL: 'redis:6379' },            'redis'],
    [{ KVSTORE_PERSECOND: 'true' },                    'redis'],
    [{ REDIS_TLS: 'false' },                           'redis'],
    [{ REDIS_PORT: 'tcp://10.0.0.7:6379', REDIS_SERVICE_HOST: '10.0.0.7', REDIS_PORT_6379_TCP: 'tcp://10.0.0.7:6379' }, 'memory'],
    [{ MEMCACHED_PORT: 'tcp://10.0.0.7:11211' },       'memory'], // Kubernetes, no setting
    [{ BACKEND_TYPE: '' },                             'memory'], // an empty text gives nothing
    [{ REDIS_URL: '' },                                'memory'],
    [{ REDIS_AUTH: '' },                               'memory'],
    [{ KVSTORE_URL: '', MEMCACHE_HOST_PORT: '' },      'memory'],
    [{ BACKEND_TYPE: '', REDIS_URL: 'redis:6379' },    'redis'],
    [{ BACKEND_TYPE: 'redis' },                        'redis'],
    [{ REDIS_URL: 'redis:6379' },                      'redis'],
    [{ KVSTORE_URL: 'redis:6379' },                    'redis'],
    [{ REDIS_TYPE: 'single' },                         'redis'],
    [{ MEMCACHE_HOST_PORT: 'a:11211' },                'redis'], // as the reference
    [{ MEMSTORE_SRV: '_a._tcp.b' },                    'redis'],
    [{ BACKEND_TYPE: 'memory', REDIS_URL: 'a:1' },     'memory'],
  ]
  for (const [env, backend] of backends) {
    test(`${JSON.stringify(env)} selects ${backend}`, () => {
      expect(parseSettings(env).settings.BACKEND_TYPE).toBe(backend)
    })
  }

  // biome-ignore format: the columns are the specification
  const sockets: [Environment, string][] = [
    [{},                                                     'unix'],
    [{ REDIS_URL: 'redis:6379' },                            'tcp'],
    [{ REDIS_URL: '[::1]:6379' },                            'tcp'],
    [{ REDIS_URL: 'redis://user:pass@host:6379/2' },         'tcp'],
    [{ REDIS_URL: 'master,a:26379,b:26379' },                'tcp'],
    [{ REDIS_URL: '/run/redis:6379' },                       'unix'],
    [{ REDIS_URL: 'redis.sock' },                            'unix'],
    [{ REDIS_URL: 'redis:6379', REDIS_SOCKET_TYPE: '' },     'tcp'],
    [{ REDIS_URL: '127.0.0.1' },                             'tcp'],
    [{ REDIS_URL: '127.0.0.1:abc' },                         'tcp'],
    [{ REDIS_URL: 'redis:6379', REDIS_SOCKET_TYPE: 'unix' }, 'unix'],
    [{ REDIS_URL: '/run/x', KVSTORE_SOCKET_TYPE: 'tcp' },    'tcp'],
  ]
  for (const [env, type] of sockets) {
    test(`${JSON.stringify(env)} is a ${type} socket`, () => {
      expect(parseSettings(env).settings.REDIS_SOCKET_TYPE).toBe(type)
    })
  }

  // biome-ignore format: the columns are the specification
  const timeouts: [Environment, number, number][] = [
    // environment -> longest trip in ms, of the instance for limits per second
    [{},                                                             1_000, 1_000],
    [{ REDIS_TIMEOUT: '250ms' },                                       250, 1_000],
    [{ KVSTORE_TIMEOUT: '3s' },                                      3_000, 1_000],
    [{ REDIS_TIMEOUT: '3s', REDIS_OPERATION_TIMEOUT: '2s' },         2_000, 1_000],
    [{ REDIS_TIMEOUT: '3s', REDIS_OPERATION_TIMEOUT: '' },           3_000, 1_000],
    [{ REDIS_TIMEOUT: '' },                                          1_000, 1_000],
    [{ REDIS_TIMEOUT: '0' },                                         1_000, 1_000], // no bound to take over
    [{ REDIS_TIMEOUT: '10us' },                                          1, 1_000],
    [{ REDIS_PERSECOND_TIMEOUT: '250ms' },                           1_000,   250],
    [{ REDIS_PERSECOND_TIMEOUT: '3s', REDIS_PERSECOND_OPERATION_TIMEOUT: '2s' }, 1_000, 2_000],
  ]
  for (const [env, ms, perSecondMs] of timeouts) {
    test(`${JSON.stringify(env)} limits operations to ${ms} ms and ${perSecondMs} ms`, () => {
      const { settings } = parseSettings(env)
      expect(settings.REDIS_OPERATION_TIMEOUT).toBe(ms)
      expect(settings.REDIS_PERSECOND_OPERATION_TIMEOUT).toBe(perSecondMs)
    })
  }

  test('the per-second instance has its own timeout', () => {
    const { settings } = parseSettings({ REDIS_PERSECOND_URL: 'redis:6379' })
    expect([settings.REDIS_SOCKET_TYPE, settings.REDIS_PERSECOND_SOCKET_TYPE]).toEqual(['unix', 'tcp'])
  })
})
