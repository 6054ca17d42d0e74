/** The connectivity check alone: which failures count, and how often its addresses are requested. */
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import type { Visit, VisitRequest } from '../../../monitor/egress/egress.ts'
import type { Outcome, Probe } from '../../../monitor/facts.ts'
import {
  ConnectivityCheck,
  type ConnectivityCheckOptions,
} from '../../../monitor/prober/connectivity-check.ts'
import type { Relays } from '../probe/setup.ts'
import { startRelays } from '../probe/setup.ts'

const MINUTE_SEC = 1_790_000_040 // the first second of a minute
const timings = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null }

let world: Relays
beforeAll(async () => {
  world = await startRelays()
})
afterAll(() => world.close())

/** A check whose addresses are the relays of these names. */
function start(names: readonly string[], changes: Partial<ConnectivityCheckOptions> = {}) {
  const clock = { sec: MINUTE_SEC }
  const changed: boolean[] = []
  const connectivity = new ConnectivityCheck({
    urls: names.map((name) => world.target(name).url),
    egress: world.context().egress,
    nowSec: () => clock.sec,
    onChange: (isAnswering) => changed.push(isAnswering),
    onCheck: () => {},
    ...changes,
  })
  onTestFinished(() => connectivity.close())
  return { connectivity, clock, changed }
}

function probe(atSec: number, outcome: Outcome = 'down'): Probe {
  return { atSec, kind: 'light', outcome, error: null, httpStatus: null, timings }
}

// biome-ignore format: the columns are the specification
const cases = [
  [['open', 'open', 'silent'],   true],
  [['open', 'silent', 'silent'], false],
  [['failing', 'gone', 'reset'], true],  // any response counts
  [['open', 'silent'],           false], // fewer than three: two must respond nevertheless
  [['open'],                     true],  // fewer than two: all must
  [['silent'],                   false],
  [[],                           true],
] as const
for (const [names, isAnswering] of cases) {
  test(`6.5: addresses ${names.join(', ') || 'of none'}: ${isAnswering ? 'the site failed' : 'this host has no network'}`, async () => {
    const { connectivity, changed } = start(names)
    expect(await connectivity.check()).toBe(isAnswering)
    expect([connectivity.isAnswering, changed]).toEqual([isAnswering, isAnswering ? [] : [false]])
    expect(connectivity.evaluate(probe(MINUTE_SEC)).outcome).toBe(isAnswering ? 'down' : 'inconclusive')
  })
}

test('6.5: a check counts for the minute in which it began, however late it ends', async () => {
  const { connectivity, clock } = start(['silent'])
  clock.sec = MINUTE_SEC + 59
  const check = connectivity.check()
  clock.sec = MINUTE_SEC + 60
  await check
  const outcomes = [0, 60, 120].map((sec) => connectivity.evaluate(probe(MINUTE_SEC + sec)).outcome)
  expect(outcomes).toEqual(['inconclusive', 'inconclusive', 'down'])
})

test('6.5: one check at a time; calls during a check share the next', async () => {
  const requestsBefore = world.relays.silent.requests.length
  const { connectivity } = start(['silent'])
  const checks = [connectivity.check(), connectivity.check(), connectivity.check()]
  expect(checks[1]).toBe(checks[2])
  expect(await Promise.all(checks)).toEqual([false, false, false])
  expect(world.relays.silent.requests.length - requestsBefore).toBe(2)
  await connectivity.check()
  expect(world.relays.silent.requests.length - requestsBefore).toBe(3)
})

test('6.5: a check without a response ends after ten seconds', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const visit = ({ signal }: VisitRequest) =>
    new Promise<Visit>((resolve) => {
      signal?.addEventListener('abort', () => resolve({ status: null } as Visit))
    })
  const { connectivity } = start(['open'], { egress: { visit } })
  let isAnswering: boolean | null = null
  void connectivity.check().then((result) => {
    isAnswering = result
  })
  await vi.advanceTimersByTimeAsync(9_999)
  expect(isAnswering).toBeNull()
  await vi.advanceTimersByTimeAsync(1)
  expect(isAnswering).toBe(false)
})

test('6.5: a check aborted by close has no effect, and no other follows', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { egress } = world.context()
  let visits = 0
  const visit = (request: VisitRequest) => {
    visits++
    return egress.visit(request)
  }
  const { connectivity, changed } = start(['silent'], { egress: { visit } })
  connectivity.isNeeded = true
  const next = connectivity.check()
  connectivity.close()
  expect(await Promise.all([next, connectivity.check()])).toEqual([true, true])
  expect([changed, connectivity.evaluate(probe(MINUTE_SEC)).outcome]).toEqual([[], 'down'])
  expect([visits, vi.getTimerCount()]).toEqual([1, 0])
})

test('6.5: a failure is settled when a check of its minute has ended', async () => {
  const { connectivity, clock } = start(['open'])
  expect(connectivity.isSettled(probe(MINUTE_SEC, 'up'))).toBe(true)
  expect(connectivity.isSettled(probe(MINUTE_SEC))).toBe(false)
  await connectivity.check()
  clock.sec = MINUTE_SEC + 60
  expect([59, 60].map((sec) => connectivity.isSettled(probe(MINUTE_SEC + sec)))).toEqual([true, false])
  clock.sec = MINUTE_SEC - 3_600 // set back
  expect(connectivity.isSettled(probe(MINUTE_SEC + 60))).toBe(true)
})

test('6.5: after a failed check the next minute is settled too; without addresses everything is', async () => {
  const { connectivity, clock } = start(['silent'])
  await connectivity.check()
  clock.sec = MINUTE_SEC + 120
  expect([60, 120].map((sec) => connectivity.isSettled(probe(MINUTE_SEC + sec)))).toEqual([true, false])
  expect(start([]).connectivity.isSettled(probe(MINUTE_SEC))).toBe(true)
})
