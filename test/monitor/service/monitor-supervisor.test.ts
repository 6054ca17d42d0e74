/** Main's side of the monitor: whatever breaks there is told, begun again after a pause, and stops nothing else. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Deltas } from '../../../engine/stats/stats.ts'
import { defaultRules } from '../../../monitor/api/default-rules.ts'
import type { Gauges } from '../../../monitor/service/metrics.ts'
import { type MonitorHooks, MonitorSupervisor } from '../../../monitor/service/monitor-supervisor.ts'
import { BREAKS_IN, IS_UNFIT, LIVES } from './mortal-thread.ts'

const PAUSES_SEC = [1, 5, 30, 300, 300] // after the first death, the second, and so on
const TOLD_MS = 10_000

async function until(isSo: () => boolean): Promise<void> {
  const endMs = Date.now() + TOLD_MS
  while (!isSo() && Date.now() < endMs) await turn()
  expect(isSo()).toBe(true)
}

/** A monitor on threads that break when they are told to; pauses pass only when `vi` says so. */
function startable(hooks: Partial<MonitorHooks> = {}) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const words = new Int32Array(new SharedArrayBuffer(12))
  const logged: string[] = []
  const monitor = new MonitorSupervisor(
    new URL('./mortal-thread.ts', import.meta.url),
    { settings: {} as never, version: '1', memoryTable: words.buffer, rules: null },
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
    ...{ monitor, words, logged },
    lives: () => Atomics.load(words, LIVES),
    breakNow: (life: number) => Atomics.store(words, BREAKS_IN, life),
    /** Not `vi.waitFor`: while it looks, it moves the very timers that are to stand still. */
    told: async (text: string) => {
      await until(() => logged.includes(text)).catch(() => {})
      expect(logged).toContain(text)
    },
  }
}
const again = (sec: number, why: string) =>
  `error: the monitor is down, next start in ${sec} s (decisions go on; the same failure is not logged again): ${why}`
const IN_USE = 'MONITOR_ADDR=8090: 127.0.0.1:8090 is already in use. [PORT_IN_USE]'
const listens = (port: number) => `warning: the monitor listens again on port ${port}`

test('12: a thread that breaks is started again after 1 s, 5 s, 30 s, then each 5 min', async () => {
  const { monitor, lives, breakNow, logged } = startable()
  expect(await monitor.start()).toBe(1)
  for (const [i, sec] of PAUSES_SEC.entries()) {
    const life = i + 1
    const ready = `info: life ${life + 1} has no domain`
    breakNow(life)
    await until(() => vi.getTimerCount() === 1)
    vi.advanceTimersByTime(sec * 1_000 - 1)
    expect([lives(), vi.getTimerCount()]).toEqual([life, 1])
    vi.advanceTimersByTime(1)
    await until(() => logged.includes(ready))
  }
})

test('12: the same failure is logged once, without a stack where it is an operator’s to mend; so is the recovery', async () => {
  let isTaken = true
  let attempts = 0
  const claim = async () => {
    attempts++
    if (isTaken) throw new Error(IN_USE)
  }
  const states: unknown[] = []
  const stats = (_: Deltas, gauges: Gauges) => void states.push(...gauges)
  const { monitor, told, logged } = startable({ claim, stats })
  const failure = await monitor.start().then(
    () => null,
    (error: Error) => error,
  )
  monitor.startLater(failure!)
  for (const sec of [...PAUSES_SEC, 300, 300]) {
    const before = attempts
    vi.advanceTimersByTime(sec * 1_000)
    await until(() => attempts > before && vi.getTimerCount() === 1)
  }
  expect(logged).toEqual([again(1, IN_USE)])
  expect(states).toEqual(Array(8).fill(['sluice.monitor.up', 0]))
  isTaken = false
  vi.advanceTimersByTime(300_000)
  await told(listens(1))
})

test('12: a thread that breaks again and again, each time for another reason, ends in silence', async () => {
  const { monitor, words, logged, lives } = startable()
  Atomics.store(words, IS_UNFIT, 1)
  await monitor.start().catch((error: Error) => monitor.startLater(error))
  for (const sec of [...PAUSES_SEC, 300, 300]) {
    const before = lives()
    vi.advanceTimersByTime(sec * 1_000)
    await until(() => lives() > before && vi.getTimerCount() === 1)
  }
  expect(logged).toEqual([1, 5, 30, 300].map((sec, i) => again(sec, `Error: life ${i + 1} is unfit`)))
})

test('12: one that has lived for a minute begins the pauses anew', async () => {
  const now = vi.spyOn(performance, 'now')
  onTestFinished(() => now.mockRestore())
  const { monitor, breakNow, told } = startable()
  now.mockReturnValue(0)
  await monitor.start()
  breakNow(1)
  await told(again(1, 'Error: life 1 broke'))
  vi.advanceTimersByTime(1_000)
  await told(listens(2))
  now.mockReturnValue(60_001)
  breakNow(2)
  await told(again(1, 'Error: life 2 broke'))
})

test('12: the next one has the newest rules, also those that came while there was none', async () => {
  const { monitor, breakNow, told } = startable()
  await monitor.start()
  await told('info: life 1 has no domain')
  breakNow(1)
  await told(again(1, 'Error: life 1 broke'))
  monitor.setRules(await defaultRules())
  vi.advanceTimersByTime(1_000)
  await told('info: life 2 has 1 domain')
})

test('12: a first start that fails is told to who asked, who may have it tried until it succeeds', async () => {
  const { monitor, words, told, lives } = startable()
  Atomics.store(words, IS_UNFIT, 1)
  await expect(monitor.start()).rejects.toThrow('life 1 is unfit')
  expect(vi.getTimerCount()).toBe(0) // nothing is tried by itself
  monitor.startLater(new Error('life 1 is unfit'))
  vi.advanceTimersByTime(1_000)
  await told(again(5, 'Error: life 2 is unfit'))
  Atomics.store(words, IS_UNFIT, 0)
  vi.advanceTimersByTime(5_000)
  await told(listens(3))
  expect(lives()).toBe(3)
})

test('12: a port that somebody else has taken meanwhile is tried for again', async () => {
  let isTaken = false
  const claim = async () => {
    if (isTaken) throw new Error(IN_USE)
  }
  const { monitor, breakNow, told, lives } = startable({ claim })
  await monitor.start()
  isTaken = true
  breakNow(1)
  await told(again(1, 'Error: life 1 broke'))
  vi.advanceTimersByTime(1_000)
  await told(again(5, IN_USE))
  expect(lives()).toBe(1)
  isTaken = false
  vi.advanceTimersByTime(5_000)
  await told(listens(2))
})

test('12: after the end nothing begins again, neither from a pause nor what breaks while it ends', async () => {
  const paused = startable()
  await paused.monitor.start()
  paused.breakNow(1)
  await paused.told(again(1, 'Error: life 1 broke'))
  await paused.monitor.stop()
  expect(vi.getTimerCount()).toBe(0)
  const ending = startable()
  await ending.monitor.start()
  ending.monitor.beginShutdown()
  await ending.told('info: life 1 is not ready any more')
  ending.breakNow(1)
  await ending.told('info: life 1 breaks')
  await ending.monitor.stop() // resolves, although nobody has drained
  expect([vi.getTimerCount(), ending.lives()]).toEqual([0, 1])
  expect(ending.logged.join()).not.toContain('next start')
})
