import { describe, expect, test } from 'vitest'
import { Health, type HealthComponent, type HealthState } from '../../../engine/runtime/health.ts'

const start = (initial: Partial<Record<HealthComponent, boolean>>) => {
  const changes: HealthState[] = []
  return { health: new Health(initial, (state) => changes.push(state)), changes }
}

describe('8.2: the whole is healthy when every component is', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // redis, config, sigterm -> healthy
    [  true,  true,   true,      true ],
    [  false, true,   true,      false],
    [  true,  false,  true,      false],
    [  true,  true,   false,     false],
    [  false, false,  false,     false],
  ] as const
  for (const [redis, config, sigterm, expected] of cases) {
    test(`redis ${redis}, config ${config}, sigterm ${sigterm}: ${expected}`, () =>
      expect(start({ redis, config, sigterm }).health.isHealthy).toBe(expected))
  }
})

test('8.2: one component that fails is enough at once; all must be healthy again', () => {
  const { health, changes } = start({ redis: false, config: false, sigterm: true })
  health.set('redis', true)
  expect(health.isHealthy).toBe(false)
  health.set('config', true)
  expect(health.isHealthy).toBe(true)
  health.set('config', false)
  health.set('redis', false)
  health.set('config', true)
  expect(health.isHealthy).toBe(false)
  health.set('redis', true)
  expect(changes.map((state) => state.isHealthy)).toEqual([false, true, false, false, false, true])
})

test('each change is sent once', () => {
  const { health, changes } = start({ redis: true, sigterm: true })
  health.set('redis', true)
  health.set('redis', false)
  health.set('redis', false)
  health.set('sigterm', false)
  health.set('redis', true)
  expect(changes.map(({ report }) => report)).toEqual([
    'redis: failing\nsigterm: ok\nrules: none in force\n',
    'redis: failing\nsigterm: failing\nrules: none in force\n',
    'redis: ok\nsigterm: failing\nrules: none in force\n',
  ])
})

describe('8.2: loads', () => {
  const [at, later] = [new Date('2026-11-20T10:00:00.250Z'), new Date('2026-11-20T11:00:00Z')]

  test('one with a domain is healthy, one without is not, one that fails changes nothing', () => {
    const { health, changes } = start({ config: false })
    for (const domainsCount of [1, null, 0, null, 2]) health.loaded(domainsCount, at)
    expect(changes.map((state) => state.isHealthy)).toEqual([true, true, false, false, true])
  })

  test('the report shows since when the rules are in force, and that a later load failed', () => {
    const { health } = start({ sigterm: true })
    const failed = `last load: failed at 2026-11-20T11:00:00Z; see the log or /rlconfig on the debug port for the cause\n`
    expect(health.state.report).toBe('sigterm: ok\nrules: none in force\n')
    health.loaded(1, at)
    expect(health.state.report).toBe(
      'sigterm: ok\nrules: in force since 2026-11-20T10:00:00Z\nlast load: ok\n',
    )
    health.loaded(null, later)
    expect(health.state.report).toBe(`sigterm: ok\nrules: in force since 2026-11-20T10:00:00Z\n${failed}`)
    health.loaded(1, later)
    expect(health.state.report).toBe(
      'sigterm: ok\nrules: in force since 2026-11-20T11:00:00Z\nlast load: ok\n',
    )
  })

  test('a failure that is over leaves the rules as old as they are', () => {
    const { health, changes } = start({ sigterm: true })
    health.loaded(1, at)
    health.loaded(null, later)
    health.recovered()
    expect(changes.at(-1)!.report).toBe(
      'sigterm: ok\nrules: in force since 2026-11-20T10:00:00Z\nlast load: ok\n',
    )
  })

  test('8.6: with a management server, the report shows whether it is connected; nothing else changes', () => {
    const { health, changes } = start({ sigterm: true })
    health.serverAway(at)
    health.serverAway(at)
    health.serverAway(null)
    const rules = 'sigterm: ok\nrules: none in force\n'
    expect(changes).toEqual([
      {
        isHealthy: true,
        report: `${rules}management server: unreachable since 2026-11-20T10:00:00Z; see the log for the cause\n`,
      },
      { isHealthy: true, report: `${rules}management server: connected\n` },
    ])
  })

  test('a first load that fails leaves none in force', () => {
    const { health } = start({ sigterm: true })
    health.loaded(null, later)
    expect(health.state.report).toMatch(/^sigterm: ok\nrules: none in force\nlast load: failed at /)
  })
})

test('Q5: a component that this process does not have is ignored', () => {
  const { health, changes } = start({ sigterm: true })
  health.set('redis', false)
  health.set('config', false)
  expect(health.isHealthy).toBe(true)
  expect(changes).toEqual([])
  health.loaded(0, new Date())
  expect(health.isHealthy).toBe(true)
})

describe('8.2: the store', () => {
  const at = new Date('2026-11-20T10:00:00Z')
  const later = new Date('2026-11-20T11:00:00Z')
  const redis = (working: 'ok' | 'partly' | 'failing') => [{ name: 'redis', isConnected: true, working }]
  const getLines = (health: Health) => health.state.report.split('\n').slice(0, -2)

  test('that fails is reported with its time, and the status stays', () => {
    const { health } = start({ sigterm: true, redis: true })
    health.setStore(redis('ok'), at)
    expect(getLines(health)).toEqual(['sigterm: ok', 'redis: ok'])
    health.setStore(redis('partly'), at)
    health.setStore(redis('failing'), later)
    const line =
      'redis: failing since 2026-11-20T10:00:00Z; see the log for the cause; does not affect the status'
    expect(getLines(health)).toEqual(['sigterm: ok', line])
    expect(health.isHealthy).toBe(true)
    health.setStore(redis('ok'), later)
    expect(getLines(health)).toEqual(['sigterm: ok', 'redis: ok'])
  })

  test('has no note on the status if the status depends on it', () => {
    const { health } = start({ sigterm: true, redis: true })
    health.set('redis', false)
    health.setStore(redis('failing'), at)
    expect(getLines(health)).toEqual([
      'sigterm: ok',
      'redis: failing since 2026-11-20T10:00:00Z; see the log for the cause',
    ])
  })

  test('Q5: memcached is reported, and is not a component', () => {
    const { health, changes } = start({ sigterm: true })
    const memcached = [{ name: 'memcached', isConnected: false, working: 'partly' as const }]
    health.setStore(memcached, at)
    health.setStore(memcached, later)
    expect(changes).toEqual([
      {
        isHealthy: true,
        report:
          'sigterm: ok\nmemcached: partly failing since 2026-11-20T10:00:00Z; see the log for the cause; ' +
          'does not affect the status\nrules: none in force\n',
      },
    ])
  })
})
