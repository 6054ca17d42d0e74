/** The monitor's thread as main sees it: each reason of a failure is logged once and followed by a restart. */
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Deltas } from '../../../engine/stats/stats.ts'
import { defaultRules } from '../../../monitor/api/default-rules.ts'
import type { Gauges } from '../../../monitor/service/metrics.ts'
import { type MonitorHooks, MonitorSupervisor } from '../../../monitor/service/monitor-supervisor.ts'
import { eventually } from '../../helpers/eventually.ts'
import { BREAKS_IN, IS_UNFIT, LIVES } from './mortal-thread.ts'

const PAUSES_SEC = [1, 5, 30, 300, 300] // after the first death, the second, and so on

/** A supervisor whose threads fail on command (mortal-thread.ts). Pauses pass only when the test advances the timers. */
function createMonitor(hooks: Partial<MonitorHooks> = {}) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const control = new Int32Array(new SharedArrayBuffer(12))
  const logged: string[] = []
  const monitor = new MonitorSupervisor(
    new URL('./mortal-thread.ts', import.meta.url),
    { settings: {} as never, version: '1', memoryTable: control.buffer, rules: null },
    {
      claim: async () => {},
      log: (level, text) => logged.push(`${level}: ${text.split('\n    at ')[0]}`),
      stats: () => {},
      ...hooks,
    },
  )
  onTestFinished(async () => {
    vi.useRealTimers()
    await monitor.stop()
  })
  return {
    ...{ monitor, control, logged },
    lives: () => Atomics.load(control, LIVES),
    breakNow: (life: number) => Atomics.store(control, BREAKS_IN, life),
    untilLogged: (text: string) => eventually(() => expect(logged).toContain(text)),
  }
}
const again = (sec: number, why: string) =>
  `error: the monitor is down, next start in ${sec} s (decisions go on; the same failure is not logged again): ${why}`
const IN_USE = 'MONITOR_ADDR=8090: 127.0.0.1:8090 is already in use. [PORT_IN_USE]'
const listens = (port: number) => `warning: the monitor listens again on port ${port}`

test('12: a thread that fails is started again after 1 s, 5 s, 30 s, then each 5 min', async () => {
  const { monitor, lives, breakNow, logged } = createMonitor()
  expect(await monitor.start()).toBe(1)
  for (const [i, sec] of PAUSES_SEC.entries()) {
    const life = i + 1
    const ready = `info: life ${life + 1} has no domain`
    breakNow(life)
    await eventually(() => expect(vi.getTimerCount()).toBe(1))
    vi.advanceTimersByTime(sec * 1_000 - 1)
    expect([lives(), vi.getTimerCount()]).toEqual([life, 1])
    vi.advanceTimersByTime(1)
    await eventually(() => expect(logged).toContain(ready))
  }
})

test('12: the same failure is logged once, a configuration error without its stack; so is the recovery', async () => {
  let isTaken = true
  let attempts = 0
  const claim = async () => {
    attempts++
    if (isTaken) throw new Error(IN_USE)
  }
  const states: unknown[] = []
  const stats = (_: Deltas, gauges: Gauges) => void states.push(...gauges)
  const { monitor, untilLogged, logged } = createMonitor({ claim, stats })
  const failure = await monitor.start().then(
    () => null,
    (error: Error) => error,
  )
  monitor.startLater(failure!)
  for (const sec of [...PAUSES_SEC, 300, 300]) {
    const before = attempts
    vi.advanceTimersByTime(sec * 1_000)
    await eventually(() => expect([attempts, vi.getTimerCount()]).toEqual([before + 1, 1]))
  }
  expect(logged).toEqual([again(1, IN_USE)])
  expect(states).toEqual(Array(8).fill(['sluice.monitor.up', 0]))
  isTaken = false
  vi.advanceTimersByTime(300_000)
  await untilLogged(listens(1))
})

test('12: of failures that follow each other, each with another reason, four are logged', async () => {
  const { monitor, control, logged, lives } = createMonitor()
  Atomics.store(control, IS_UNFIT, 1)
  await monitor.start().catch((error: Error) => monitor.startLater(error))
  for (const sec of [...PAUSES_SEC, 300, 300]) {
    const before = lives()
    vi.advanceTimersByTime(sec * 1_000)
    await eventually(() => expect([lives(), vi.getTimerCount()]).toEqual([before + 1, 1]))
  }
  expect(logged).toEqual([1, 5, 30, 300].map((sec, i) => again(sec, `Error: life ${i + 1} is unfit`)))
})

test('12: after a minute of life the pauses start at 1 s again', async () => {
  const now = vi.spyOn(performance, 'now')
  onTestFinished(() => now.mockRestore())
  const { monitor, breakNow, untilLogged } = createMonitor()
  now.mockReturnValue(0)
  await monitor.start()
  breakNow(1)
  await untilLogged(again(1, 'Error: life 1 broke'))
  vi.advanceTimersByTime(1_000)
  await untilLogged(listens(2))
  now.mockReturnValue(60_001)
  breakNow(2)
  await untilLogged(again(1, 'Error: life 2 broke'))
})

test('12: a new thread gets the latest rules, also those set while none ran', async () => {
  const { monitor, breakNow, untilLogged } = createMonitor()
  await monitor.start()
  await untilLogged('info: life 1 has no domain')
  breakNow(1)
  await untilLogged(again(1, 'Error: life 1 broke'))
  monitor.setRules(await defaultRules())
  vi.advanceTimersByTime(1_000)
  await untilLogged('info: life 2 has 1 domain')
})

test('12: a first start that fails rejects; startLater then retries until one succeeds', async () => {
  const { monitor, control, untilLogged, lives } = createMonitor()
  Atomics.store(control, IS_UNFIT, 1)
  await expect(monitor.start()).rejects.toThrow('life 1 is unfit')
  expect(vi.getTimerCount()).toBe(0) // no retry by itself
  monitor.startLater(new Error('life 1 is unfit'))
  vi.advanceTimersByTime(1_000)
  await untilLogged(again(5, 'Error: life 2 is unfit'))
  Atomics.store(control, IS_UNFIT, 0)
  vi.advanceTimersByTime(5_000)
  await untilLogged(listens(3))
  expect(lives()).toBe(3)
})

test('12: a port that another process has taken meanwhile is retried', async () => {
  let isTaken = false
  const claim = async () => {
    if (isTaken) throw new Error(IN_USE)
  }
  const { monitor, breakNow, untilLogged, lives } = createMonitor({ claim })
  await monitor.start()
  isTaken = true
  breakNow(1)
  await untilLogged(again(1, 'Error: life 1 broke'))
  vi.advanceTimersByTime(1_000)
  await untilLogged(again(5, IN_USE))
  expect(lives()).toBe(1)
  isTaken = false
  vi.advanceTimersByTime(5_000)
  await untilLogged(listens(2))
})

test('12: nothing restarts after stop, neither from a pause nor after a failure during shutdown', async () => {
  const paused = createMonitor()
  await paused.monitor.start()
  paused.breakNow(1)
  await paused.untilLogged(again(1, 'Error: life 1 broke'))
  await paused.monitor.stop()
  expect(vi.getTimerCount()).toBe(0)
  const ending = createMonitor()
  await ending.monitor.start()
  ending.monitor.beginShutdown()
  await ending.untilLogged('info: life 1 is not ready any more')
  ending.breakNow(1)
  await ending.untilLogged('info: life 1 breaks')
  await ending.monitor.stop() // resolves although the thread did not drain
  expect([vi.getTimerCount(), ending.lives()]).toEqual([0, 1])
  expect(ending.logged.join()).not.toContain('next start')
})

test('12: a thread without messages for 60 s is logged and not up, and logged again when it responds', async () => {
  const states: unknown[] = []
  const { monitor, untilLogged } = createMonitor({ stats: (_, gauges) => void states.push(...gauges) })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
  await monitor.start()
  await untilLogged('info: life 1 has no domain')
  vi.advanceTimersByTime(120_000)
  await untilLogged('error: the monitor is unresponsive (decisions go on): no message for 60 s')
  expect(states).toEqual([['sluice.monitor.up', 0]])
  monitor.setRules(await defaultRules())
  await untilLogged('warning: the monitor responds again')
})
