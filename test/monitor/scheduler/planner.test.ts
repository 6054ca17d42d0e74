/** The planner step by step. Whole days of it: planner-days.test.ts. */
import { describe, expect, test } from 'vitest'
import {
  type PlannedSite,
  Planner,
  type PlannerOptions,
  type Run,
} from '../../../monitor/scheduler/planner.ts'
import { firstSlotMs } from '../../../monitor/scheduler/schedule.ts'

const SEC = 1_000
const MIN = 60 * SEC
const HOUR = 60 * MIN
const INTERVAL = 5 * MIN

/** Without jitter, and with full probes long done, so that a test sees only what it is about. */
function createPlanner(sites: Partial<PlannedSite>[], options: Partial<PlannerOptions> = {}): Planner {
  const planner = new Planner({ random: () => 0.5, ...options })
  sites.forEach((site, i) => {
    planner.put({ slug: `s${i}`, intervalMs: INTERVAL, lastFullAgoMs: 0, ...site }, 0)
  })
  return planner
}

const first = (slug: string) => firstSlotMs(slug, INTERVAL, 0)
const shown = (runs: Run[]) => runs.map(({ kind, key }) => `${kind} ${key}`)

/** Runs until `untilMs`; every run ends at once with `outcome`. What was started, and when. */
function play(
  planner: Planner,
  fromMs: number,
  untilMs: number,
  outcome: (run: Run, nowMs: number) => 'up' | 'down',
) {
  const log: { atMs: number; kind: string; result: string }[] = []
  for (let nowMs = fromMs; nowMs <= untilMs; nowMs = planner.wakeMs(nowMs)) {
    for (let runs = planner.due(nowMs); runs.length > 0; runs = planner.due(nowMs)) {
      for (const run of runs) {
        const result = planner.finish(run.id, { outcome: outcome(run, nowMs) }, nowMs)
        log.push({ atMs: nowMs, kind: run.kind, result })
      }
    }
  }
  return log
}

test('M6.1#1 M6.4#1: a site keeps its own slot in the interval, also from plan to plan', () => {
  const planner = createPlanner([{}])
  expect(planner.due(first('s0') - 1)).toEqual([])
  expect(planner.wakeMs(0)).toBe(first('s0'))
  const [run] = planner.due(first('s0'))
  expect(run).toMatchObject({ kind: 'light', key: 's0', plannedMs: first('s0'), repeatsDone: 0 })
  expect(planner.due(first('s0') + MIN)).toEqual([]) // it is running
  expect(planner.finish(run.id, { outcome: 'up' }, first('s0') + 20 * SEC)).toBe('store')
  expect(planner.wakeMs(first('s0') + 20 * SEC)).toBe(first('s0') + INTERVAL) // its length does not shift the plan
})

test('6.4: after sleep a site is probed once, and keeps its slot in the interval', () => {
  const planner = createPlanner([{}])
  const [run] = planner.due(2 * HOUR)
  planner.finish(run.id, { outcome: 'up' }, 2 * HOUR)
  expect(planner.totals.skippedSlots).toBe(Math.floor((2 * HOUR - first('s0')) / INTERVAL))
  expect(planner.due(2 * HOUR)).toEqual([])
  expect((planner.wakeMs(2 * HOUR) - first('s0')) % INTERVAL).toBe(0)
  expect(planner.wakeMs(2 * HOUR)).toBeLessThanOrEqual(2 * HOUR + INTERVAL)
})

describe('6.3: a failure is confirmed', () => {
  test('after 5 s and 15 s, then one down is stored', () => {
    const planner = createPlanner([{}])
    const log = play(planner, 0, 2 * MIN + first('s0'), () => 'down')
    const t = first('s0')
    expect(log).toEqual([
      { atMs: t, kind: 'light', result: 'again' },
      { atMs: t + 5 * SEC, kind: 'light', result: 'again' },
      { atMs: t + 20 * SEC, kind: 'light', result: 'store' },
    ])
  })

  test('a repeat that works is what is stored', () => {
    const planner = createPlanner([{}])
    const log = play(planner, 0, first('s0') + MIN, (run) => (run.repeatsDone === 1 ? 'up' : 'down'))
    expect(log.map(({ result }) => result)).toEqual(['again', 'store'])
  })

  test('a waiting probe does not occupy a slot', () => {
    const planner = createPlanner([{}, {}], { lightMax: 1 })
    const [a] = planner.due(INTERVAL)
    expect(planner.due(INTERVAL)).toEqual([])
    expect(planner.finish(a.id, { outcome: 'down' }, INTERVAL)).toBe('again')
    expect(planner.due(INTERVAL)).toHaveLength(1)
  })

  test('confirm_failures 0 stores the first', () => {
    const planner = createPlanner([{}], { repeatsMax: 0 })
    expect(play(planner, 0, first('s0'), () => 'down')).toEqual([
      { atMs: first('s0'), kind: 'light', result: 'store' },
    ])
  })
})

test('M6.4#2: back-off doubles from the fourth down on, to an hour; one success ends it', () => {
  const planner = createPlanner([{}], { repeatsMax: 0 })
  const log = play(planner, 0, 6 * HOUR - 1, (_, nowMs) => (nowMs > 5 * HOUR ? 'up' : 'down'))
  const light = log.filter(({ kind }) => kind === 'light').map(({ atMs }) => atMs)
  const gapsMin = light.slice(1).map((atMs, i) => (atMs - light[i]) / MIN)
  expect(gapsMin.slice(0, 8)).toEqual([5, 5, 5, 10, 20, 40, 60, 60])
  expect(gapsMin.at(-1)).toBe(5)
})

test('M6.4#2: a week of downs stretches the back-off to six hours', () => {
  const planner = createPlanner([{ downs: 200, downForMs: 8 * 24 * HOUR }], { repeatsMax: 0 })
  const light = play(planner, 0, 24 * HOUR, () => 'down').filter(({ kind }) => kind === 'light')
  expect(light[1].atMs - light[0].atMs).toBe(6 * HOUR)
})

test('6.4: an inconclusive probe neither lengthens nor ends a back-off', () => {
  const planner = createPlanner([{ downs: 4 }], { repeatsMax: 0 })
  const [run] = planner.due(first('s0'))
  planner.finish(run.id, { outcome: 'inconclusive' }, first('s0'))
  expect(planner.wakeMs(first('s0'))).toBe(first('s0') + 10 * MIN)
})

// biome-ignore format: the columns are the specification
const holds = [
  // asked for -> next probe after
  [ 2 * MIN,      5 * MIN], // the interval is longer anyway
  [20 * MIN,     20 * MIN],
  [ 3 * HOUR,    60 * MIN], // up to 60 min
] as const
for (const [requestedMs, want] of holds) {
  test(`M6.4#2: Retry-After of ${requestedMs} ms holds the site for ${want} ms, its full probe too`, () => {
    const planner = createPlanner([{ lastFullAgoMs: 6 * HOUR - first('s0') - MIN }]) // full due a minute after light
    const [run] = planner.due(first('s0'))
    expect(planner.finish(run.id, { outcome: 'degraded', retryAfterMs: requestedMs }, first('s0'))).toBe(
      'store',
    )
    const later = play(planner, first('s0'), first('s0') + 2 * HOUR, () => 'up')
    expect(later.find(({ kind }) => kind === 'light')?.atMs).toBe(first('s0') + want)
    expect(later.find(({ kind }) => kind === 'full')?.atMs).toBe(
      first('s0') + Math.max(MIN, Math.min(requestedMs, HOUR)),
    )
  })
}

describe('M6.4#3: limits', () => {
  const many = (count: number, site: (i: number) => Partial<PlannedSite> = () => ({})) =>
    Array.from({ length: count }, (_, i) => site(i))

  test('M4.5#3: 32 light, 4 full, 4 detections', () => {
    const planner = createPlanner(many(60, () => ({ lastFullAgoMs: null })))
    for (let i = 0; i < 10; i++) planner.detect(`d${i}`, `elsewhere-${i}`, 0)
    const runs = planner.due(INTERVAL)
    const countRuns = (kind: string) => runs.filter((run) => run.kind === kind).length
    expect([countRuns('detection'), countRuns('full'), countRuns('light')]).toEqual([4, 4, 32])
    expect(shown(runs).slice(0, 4)).toEqual(['detection d0', 'detection d1', 'detection d2', 'detection d3'])
    expect(runs[4].kind).toBe('full')
  })

  test('one run per site: light waits for full, detection for light', () => {
    const planner = createPlanner([{ lastFullAgoMs: null }])
    const [full] = planner.due(INTERVAL)
    planner.detect('d', 's0', INTERVAL)
    expect(planner.due(INTERVAL)).toEqual([])
    expect(full.kind).toBe('full')
    planner.finish(full.id, { outcome: 'up' }, INTERVAL)
    const [detection] = planner.due(INTERVAL)
    expect(detection.kind).toBe('detection')
    planner.finish(detection.id, { outcome: 'up' }, INTERVAL)
    expect(shown(planner.due(INTERVAL))).toEqual(['light s0'])
  })

  test('M4.5#6: two per /24', () => {
    const planner = createPlanner(many(5, (i) => ({ addresses: [`9.9.9.${i}`] })))
    const [a] = planner.due(INTERVAL)
    expect(planner.due(INTERVAL)).toEqual([])
    planner.finish(a.id, { outcome: 'up' }, INTERVAL)
    expect(planner.due(INTERVAL)).toHaveLength(1)
  })

  test('50 starts in a second, of all kinds', () => {
    const planner = createPlanner(many(120), { lightMax: 1_000 })
    expect(planner.due(INTERVAL)).toHaveLength(50)
    expect(planner.due(INTERVAL + 999)).toHaveLength(0)
    expect(planner.wakeMs(INTERVAL + 999)).toBe(INTERVAL + 1_000)
    expect(planner.due(INTERVAL + 1_000)).toHaveLength(50)
  })

  test('addresses that are learned too late: the run returns to its position in the queue', () => {
    const planner = createPlanner(many(4), { lightMax: 3 })
    const runs = planner.due(INTERVAL) // the fourth waits
    const isIn = runs.map((run) => planner.resolved(run.id, ['9.9.9.9'], INTERVAL))
    expect(isIn).toEqual([true, true, false])
    expect(planner.finish(runs[2].id, { outcome: 'up' }, INTERVAL)).toBe('drop') // it is no run any more
    expect(planner.lagMs('light', INTERVAL)).toBe(INTERVAL - runs[2].plannedMs) // before the fourth
    expect(planner.due(INTERVAL)).toHaveLength(1) // the fourth, which knows no address yet
    planner.finish(runs[0].id, { outcome: 'up' }, INTERVAL)
    expect(planner.due(INTERVAL)).toMatchObject([{ key: runs[2].key, plannedMs: runs[2].plannedMs }])
  })

  test('who needs two networks is not passed over for ever by those who need one', () => {
    const planner = createPlanner(many(16, (i) => ({ addresses: [i < 8 ? '8.8.8.8' : '9.9.9.9'] })))
    planner.put(
      { slug: 'both', intervalMs: INTERVAL, lastFullAgoMs: 0, addresses: ['8.8.8.8', '9.9.9.9'] },
      0,
    )
    let bothCount = 0
    let ending: { run: Run; atMs: number }[] = []
    for (let nowMs = 0; nowMs < 5 * HOUR; nowMs += MIN) {
      // Always somebody waits for each network; one frees its places in even minutes, the other in odd ones.
      const isOver = ({ run, atMs }: { run: Run; atMs: number }) =>
        atMs <= nowMs && (run.key === 'both' || (nowMs / MIN) % 2 === (Number(run.key.slice(1)) < 8 ? 0 : 1))
      for (const { run } of ending.filter(isOver)) planner.finish(run.id, { outcome: 'up' }, nowMs)
      ending = ending.filter((one) => !isOver(one))
      for (const run of planner.due(nowMs)) {
        ending.push({ run, atMs: nowMs + 5 * MIN })
        if (run.key === 'both') bothCount++
      }
    }
    expect(bothCount).toBeGreaterThan(5)
  })
})

test('M6.1#1 6.4: a full probe every six hours, and soon after a change of state, at most every half hour', () => {
  const planner = createPlanner([{ lastFullAgoMs: 0 }], { repeatsMax: 0 })
  const flaps = play(planner, 0, 5 * HOUR, (_, nowMs) => (Math.floor(nowMs / INTERVAL) % 2 ? 'up' : 'down'))
  const full = flaps.filter(({ kind }) => kind === 'full').map(({ atMs }) => atMs)
  expect(full.length).toBeGreaterThan(5)
  for (let i = 1; i < full.length; i++) expect(full[i] - full[i - 1]).toBeGreaterThanOrEqual(30 * MIN)

  const calm = play(createPlanner([{ lastFullAgoMs: 0 }]), 0, 13 * HOUR, () => 'up').filter(
    ({ kind }) => kind === 'full',
  )
  expect(calm.map(({ atMs }) => atMs)).toEqual([6 * HOUR, 12 * HOUR])
})

test('6.4: a full probe that was inconclusive is made up for in half an hour', () => {
  const planner = createPlanner([{ lastFullAgoMs: 6 * HOUR, slug: 's0' }])
  const full = planner.due(first('s0')).find(({ kind }) => kind === 'full')!
  planner.finish(full.id, { outcome: 'inconclusive' }, first('s0'))
  const log = play(planner, first('s0'), 8 * HOUR, () => 'up').filter(({ kind }) => kind === 'full')
  expect(log.map(({ atMs }) => atMs - first('s0'))).toEqual([30 * MIN, 6.5 * HOUR])
})

test('6.4: a full probe that finds the site well ends the wait of its light probe', () => {
  const planner = createPlanner([{ downs: 10, downForMs: HOUR, lastFullAgoMs: 6 * HOUR - 10 * MIN }], {
    repeatsMax: 0,
  })
  const log = play(planner, 0, HOUR, (run) => (run.kind === 'full' ? 'up' : 'down'))
  const full = log.find(({ kind }) => kind === 'full')!
  const after = log.find(({ kind, atMs }) => kind === 'light' && atMs > full.atMs)!
  expect(after.atMs - full.atMs).toBe(INTERVAL)
})

test('6.4: runs that never finish give their places back after ten minutes', () => {
  const planner = createPlanner([{}, {}], { lightMax: 1 })
  const [lost] = planner.due(INTERVAL)
  expect(planner.wakeMs(INTERVAL)).toBe(INTERVAL + 10 * MIN)
  const [other] = planner.due(INTERVAL + 10 * MIN)
  expect(other.key).not.toBe(lost.key)
  expect(planner.totals.lostRuns).toBe(1)
  expect(planner.finish(lost.id, { outcome: 'up' }, INTERVAL + 10 * MIN)).toBe('drop')
})

test('M4.5#2 3.4: a hundred detections wait, one more is refused; a waiting one can be cancelled', () => {
  const planner = createPlanner([])
  const accepted = Array.from({ length: 101 }, (_, i) => planner.detect(`d${i}`, `t${i}`, 0))
  expect(accepted.filter(Boolean)).toHaveLength(100)
  expect(accepted[100]).toBe(false)
  expect(planner.cancel('d0')).toBe(true)
  expect(planner.cancel('d0')).toBe(false)
  expect(shown(planner.due(0))).toEqual(['detection d1', 'detection d2', 'detection d3', 'detection d4'])
})

test('8.1: a removed site is not probed again, and the result of a running probe is dropped', () => {
  const planner = createPlanner([{}, {}])
  const runs = planner.due(INTERVAL)
  planner.remove('s0')
  planner.remove('s1')
  planner.put({ slug: 's1', intervalMs: INTERVAL, lastFullAgoMs: 0 }, INTERVAL)
  expect(runs.map((run) => planner.finish(run.id, { outcome: 'up' }, INTERVAL))).toEqual(['drop', 'drop'])
  const later = planner.due(3 * INTERVAL)
  expect(shown(later)).toEqual(['light s1'])
})

test('8.1: a new interval takes effect at once', () => {
  const planner = createPlanner([{ intervalMs: HOUR }])
  planner.put({ slug: 's0', intervalMs: MIN }, 0)
  expect(planner.wakeMs(0)).toBe(firstSlotMs('s0', MIN, 0))
})

test('6.5: slots of other vantages are passed over', () => {
  const requestedMs: number[] = []
  const planner = createPlanner([{}], { isTurn: (_, dueMs) => requestedMs.push(dueMs) % 3 === 1 })
  const log = play(planner, 0, 2 * HOUR, () => 'up').filter(({ kind }) => kind === 'light')
  expect(log.map(({ atMs }) => (atMs - first('s0')) / INTERVAL)).toEqual([0, 3, 6, 9, 12, 15, 18, 21])
})

test('12: the lag is that of the longest waiting run', () => {
  const planner = createPlanner([{}, {}], { lightMax: 1 })
  planner.due(INTERVAL)
  expect(planner.lagMs('light', INTERVAL + SEC)).toBe(INTERVAL + SEC - Math.max(first('s0'), first('s1')))
  expect(planner.lagMs('full', INTERVAL)).toBe(0)
})
