import { beforeEach, describe, expect, test, vi } from 'vitest'
import { HealthReporter, type InstanceHealth, StoreHealth } from '../../../engine/stores/store-health.ts'

const redis = (working: InstanceHealth['working'], isConnected = working === 'ok'): InstanceHealth[] => [
  { name: 'redis', isConnected, working },
]

describe('all workers combined', () => {
  // biome-ignore format: the columns are the specification
  const cases: [what: string, workers: InstanceHealth[][], expected: InstanceHealth[]][] = [
    ['all work',                    [redis('ok'), redis('ok')],                redis('ok')],
    ['none works',                  [redis('failing'), redis('failing')],      redis('failing')],
    ['one of two works',            [redis('ok'), redis('failing')],           redis('partly', true)],
    ['calls of one fail',           [redis('failing', true), redis('failing')], redis('failing', true)],
    ['one sees only some nodes',    [redis('partly'), redis('ok')],            redis('partly', true)],
  ]
  for (const [what, workers, expected] of cases) {
    test(what, () => {
      const all = new StoreHealth()
      for (const [index, instances] of workers.entries()) all.set(index, instances)
      expect(all.instances).toEqual(expected)
    })
  }

  test('an ended worker is removed; without workers the store is failing', () => {
    const all = new StoreHealth()
    expect(all.instances).toEqual([])
    all.set(0, redis('failing'))
    all.set(1, redis('ok'))
    all.forget(0)
    expect(all.instances).toEqual(redis('ok'))
    all.forget(1)
    expect(all.instances).toEqual(redis('failing'))
  })
})

describe('open circuit breakers', () => {
  const breaker = (node: string, reason = 'slow') => ({ node, reason })
  const withOpen = (...openBreakers: { node: string; reason: string }[]): InstanceHealth[] => [
    { name: 'redis', isConnected: true, working: 'ok', openBreakers },
  ]

  test('each node once, whichever workers have it open', () => {
    const all = new StoreHealth()
    all.set(0, redis('ok'))
    expect(all.instances[0]).not.toHaveProperty('openBreakers')
    all.set(1, withOpen(breaker('a'), breaker('b')))
    all.set(2, withOpen(breaker('b')))
    expect(all.instances[0].openBreakers).toEqual([breaker('a'), breaker('b')])
    all.set(1, redis('ok'))
    expect(all.instances[0].openBreakers).toEqual([breaker('b')])
    all.forget(2)
    expect(all.instances[0]).not.toHaveProperty('openBreakers')
  })
})

test('two instances are combined each by itself', () => {
  const all = new StoreHealth()
  const [working, failing] = [redis('ok')[0], { ...redis('failing')[0], name: 'redis per second' }]
  all.set(0, [working, failing])
  all.set(1, [working, { ...failing, working: 'ok', isConnected: true }])
  expect(all.instances).toEqual([working, { name: 'redis per second', isConnected: true, working: 'partly' }])
})

describe('reports of one thread', () => {
  let state: InstanceHealth[]
  let reports: string[]
  let reporter: HealthReporter
  beforeEach(() => {
    vi.useFakeTimers()
    state = redis('ok')
    reports = []
    reporter = new HealthReporter(
      () => state,
      ([{ working }]) => reports.push(working),
    )
    return () => vi.useRealTimers()
  })

  test('an unchanged state is not reported again', () => {
    reporter.reportNow()
    reporter.reportNow()
    reporter.scheduleReport()
    expect(reports).toEqual(['ok'])
  })

  test('intermittent failures are reported once a second', () => {
    for (let i = 0; i < 1_000; i++) {
      state = redis(i % 2 === 0 ? 'failing' : 'ok')
      reporter.scheduleReport()
    }
    expect(reports).toEqual(['failing'])
    vi.advanceTimersByTime(1_000)
    expect(reports).toEqual(['failing', 'ok'])
    vi.advanceTimersByTime(10_000)
    expect(reports).toEqual(['failing', 'ok'])
  })

  test('its timer does not keep the process alive', () => {
    vi.useRealTimers() // a spy on a fake setTimeout would stay
    const timers = vi.spyOn(globalThis, 'setTimeout')
    reporter.scheduleReport()
    const [{ value: timer }] = timers.mock.results
    timers.mockRestore()
    reporter.close()
    expect((timer as NodeJS.Timeout).hasRef()).toBe(false)
  })

  test('a closed reporter reports nothing more', () => {
    reporter.scheduleReport()
    state = redis('failing')
    reporter.close()
    vi.advanceTimersByTime(10_000)
    expect(reports).toEqual(['ok'])
    reporter.scheduleReport()
    expect(reports, 'it can be used again').toEqual(['ok', 'failing'])
  })

  test('a connection change is reported immediately, also within the interval', () => {
    reporter.scheduleReport()
    state = redis('failing')
    reporter.reportNow()
    expect(reports).toEqual(['ok', 'failing'])
  })
})
