/** The circuit breakers of a store: their settings, their list for operators, their statistics. */
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { Stats } from '../../../engine/stats/stats.ts'
import { Breakers, breakerOptions, NO_BREAKER } from '../../../engine/stores/breakers.ts'
import type { BreakerOptions, CircuitBreaker } from '../../../engine/stores/circuit-breaker.ts'

const OPTIONS: BreakerOptions = { ...NO_BREAKER, failuresInRow: 2, probeIntervalMs: 200 }

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
})

function openBreakers(hasStats = true) {
  const collected = new Stats()
  let changesCount = 0
  const breakers = new Breakers(OPTIONS, hasStats ? collected : null, () => changesCount++)
  const totals: Record<string, number> = {}
  return {
    breakers,
    changes: () => changesCount,
    /** By name of the node in statistics; a gauge is its value, a counter its total. */
    stats: (name: 'breaker_open' | 'breaker_opened') => {
      const { names, values, gauges } = collected.takeDeltas()
      names.forEach((each, i) => {
        totals[each] = (totals[each] ?? 0) + values[i]
      })
      const prefix = `sluice.store.${name}.__node=`
      const all = [...Object.entries(totals), ...gauges].filter(([each]) => each.startsWith(prefix))
      return Object.fromEntries(all.map(([each, value]) => [each.slice(prefix.length), value]))
    },
  }
}

/** Of a node that replies to everything. */
function hooks(probe: (done: (isOk: boolean) => void) => void = () => {}) {
  return { probe, waitingSinceMs: () => null }
}

function fail(breaker: CircuitBreaker, reason = 'no reply'): void {
  for (let i = 0; i < OPTIONS.failuresInRow; i++) breaker.onFailure(reason)
}

test('settings', () => {
  const env = {
    STORE_BREAKER_FAILURES: '7',
    STORE_BREAKER_SHARE: '0.25',
    STORE_BREAKER_WINDOW: '3s',
    STORE_BREAKER_LATENCY: '15ms',
    STORE_BREAKER_SILENCE: '70ms',
    STORE_BREAKER_PROBE_INTERVAL: '400ms',
    STORE_BREAKER_SUCCESSES: '3',
  }
  expect(breakerOptions(parseSettings(env).settings)).toEqual({
    failuresInRow: 7,
    share: 0.25,
    windowMs: 3_000,
    latencyMs: 15,
    silenceMs: 70,
    probeIntervalMs: 400,
    successes: 3,
  })
})

test('without settings a breaker never opens', () => {
  const breaker = new Breakers(NO_BREAKER, null, () => {}).create('a', hooks())
  for (let i = 0; i < 1_000; i++) breaker.onFailure('no reply')
  expect(breaker.isOpen).toBe(false)
})

describe('an open breaker', () => {
  test('is listed with its reason, until its probes succeed', () => {
    const { breakers, changes, stats } = openBreakers()
    const probes: ((isOk: boolean) => void)[] = []
    const first = breakers.create(
      '10.0.0.5:6379',
      hooks((done) => probes.push(done)),
    )
    breakers.create('10.0.0.6:6379', hooks())
    expect(breakers.open).toEqual([])
    fail(first)
    const reason = '2 trips in a row failed, the last with: no reply'
    expect(breakers.open).toEqual([{ node: '10.0.0.5:6379', reason }])
    expect(changes()).toBe(1)
    expect(stats('breaker_open')).toEqual({ '10_0_0_5_6379': 1, '10_0_0_6_6379': 0 })
    vi.advanceTimersByTime(240) // the interval and its jitter
    expect(probes).toHaveLength(1)
    probes[0](true)
    expect([breakers.open, changes()]).toEqual([[], 2])
    expect(stats('breaker_open')).toEqual({ '10_0_0_5_6379': 0, '10_0_0_6_6379': 0 })
    expect(stats('breaker_opened')).toMatchObject({ '10_0_0_5_6379': 1 })
  })

  test('sends no probe after its node is removed, and is not listed any more', () => {
    const { breakers, changes, stats } = openBreakers()
    const probe = vi.fn()
    const [open, closed] = [breakers.create('a', hooks(probe)), breakers.create('b', hooks(probe))]
    fail(open)
    breakers.remove(closed)
    expect(changes(), 'a closed one is in no list').toBe(1)
    breakers.remove(open)
    expect([breakers.open, changes()]).toEqual([[], 2])
    expect(stats('breaker_open')).toEqual({ a: 0, b: 0 })
    breakers.remove(open)
    expect(changes(), 'removed twice').toBe(2)
    expect(vi.getTimerCount()).toBe(0)
    vi.advanceTimersByTime(10_000)
    expect(probe).not.toHaveBeenCalled()
  })

  test('also without statistics', () => {
    const { breakers } = openBreakers(false)
    const breaker = breakers.create('a', hooks())
    fail(breaker)
    expect(breakers.open).toHaveLength(1)
    breakers.remove(breaker)
    expect(breakers.open).toEqual([])
  })

  test('its timer does not keep the process alive', () => {
    vi.useRealTimers()
    const { breakers } = openBreakers()
    const breaker = breakers.create('a', hooks())
    const setTimeoutSpy = vi.spyOn(globalThis, 'setTimeout')
    fail(breaker)
    const timer = setTimeoutSpy.mock.results[0].value as NodeJS.Timeout
    expect(timer.hasRef()).toBe(false)
    breakers.remove(breaker)
    setTimeoutSpy.mockRestore()
  })
})

test('a probe slower than the latency does not close it', () => {
  const breakers = new Breakers({ ...OPTIONS, latencyMs: 10 }, null, () => {})
  const probes: ((isOk: boolean) => void)[] = []
  const breaker = breakers.create(
    'a',
    hooks((done) => probes.push(done)),
  )
  fail(breaker)
  for (const [tookMs, isOpen] of [
    [11, true],
    [10, false],
  ] as const) {
    vi.advanceTimersToNextTimer() // the interval has passed
    vi.advanceTimersByTime(tookMs)
    probes.shift()!(true)
    expect(breaker.isOpen, `${tookMs} ms`).toBe(isOpen)
  }
})

describe('names in statistics', () => {
  test('characters that a name may not have; nodes of one name are counted together', () => {
    const { breakers, stats } = openBreakers()
    for (const node of ['[::1]:6379', '/run/redis.sock', 'user@host-1:1'])
      fail(breakers.create(node, hooks()))
    expect(stats('breaker_open')).toEqual({ ___1__6379: 1, '/run/redis_sock': 1, 'user@host-1_1': 1 })
    fail(breakers.create('/run/redis:sock', hooks()))
    expect(stats('breaker_open')).toMatchObject({ '/run/redis_sock': 2 })
  })

  test('after 1,000 nodes further ones are `other`; the known ones keep their names', () => {
    const { breakers, stats } = openBreakers()
    for (let i = 0; i < 1_000; i++) breakers.create(`node ${i}`, hooks())
    const further = [breakers.create('further 1', hooks()), breakers.create('further 2', hooks())]
    for (const breaker of further) fail(breaker)
    fail(breakers.create('node 7', hooks()))
    expect(Object.keys(stats('breaker_open'))).toHaveLength(1_001)
    expect(stats('breaker_open')).toMatchObject({ other: 2, node_7: 1 })
    breakers.remove(further[0])
    expect(stats('breaker_open')).toMatchObject({ other: 1, node_999: 0 })
  })
})
