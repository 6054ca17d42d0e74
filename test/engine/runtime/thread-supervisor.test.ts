/** A thread that fails in every way there is, and what its supervisor does. */
import { expect, onTestFinished, test } from 'vitest'
import { type ThreadOptions, ThreadSupervisor } from '../../../engine/runtime/thread-supervisor.ts'
import { eventually } from '../../helpers/eventually.ts'
import {
  BEHAVIOR,
  FAIL_AT_START,
  type FromThread,
  NEVER_READY,
  OBEY,
  STARTS,
  type ToThread,
} from './supervised-thread.ts'

const NEVER = 1_000_000 // checks
const BOUNDS = { readyChecksMax: NEVER, silentChecksMax: NEVER, isTerminable: true }

function createSupervisor(options: Partial<ThreadOptions<FromThread>> = {}) {
  const control = new Int32Array(new SharedArrayBuffer(8))
  const events: string[] = []
  const supervisor = new ThreadSupervisor<ToThread, FromThread>(
    {
      file: new URL('./supervised-thread.ts', import.meta.url),
      name: 'supervised',
      workerData: () => control,
      pausesMs: [0, 1],
      isReady: ({ kind }) => kind === 'ready',
      checkMs: 10,
      ...options,
    },
    {
      onStart: () => events.push('start'),
      onMessage: ({ kind, start }) => kind === 'ready' && events.push(`ready ${start}`),
      onEnd: ({ message }) => events.push(`end: ${message}`),
      onFailure: ({ message }, pauseMs, isFirst) =>
        events.push(`failure: ${message}, pause ${pauseMs}${isFirst ? ', first' : ''}`),
      onUnresponsive: ({ message }) => events.push(`unresponsive: ${message}`),
      onResponsive: () => events.push('responsive'),
    },
  )
  onTestFinished(() => supervisor.stop('end', null))
  return {
    ...{ supervisor, control, events },
    setBehavior: (behavior: number) => Atomics.store(control, BEHAVIOR, behavior),
    untilEvent: (event: string) => eventually(() => expect(events).toContain(event)),
  }
}

test('starts, is ready, ends by its last message', async () => {
  const { supervisor, events } = createSupervisor()
  expect(supervisor.health).toBe('stopped')
  const started = supervisor.start()
  expect([supervisor.health, supervisor.hasThread]).toEqual(['starting', true])
  expect(await started).toEqual({ kind: 'ready', start: 1 })
  expect(supervisor.health).toBe('running')
  await supervisor.stop('end', null)
  expect([supervisor.health, supervisor.hasThread]).toEqual(['stopped', false])
  expect(events).toEqual(['start', 'ready 1', 'end: it ended without an error'])
})

test('a thread that fails, exits or ends by itself is started again, after listed pauses', async () => {
  const { supervisor, events, untilEvent } = createSupervisor()
  await supervisor.start()
  for (const [i, message] of (['fail', 'exit', 'end'] as const).entries()) {
    supervisor.post(message)
    await untilEvent(`ready ${i + 2}`)
  }
  expect(events.filter((event) => event.startsWith('failure'))).toEqual([
    'failure: thread 1 failed, pause 0, first',
    'failure: it ended with code 3, pause 1',
    'failure: it ended without an error, pause 1',
  ])
})

test('a first start that fails rejects and is not repeated; retry goes on until one succeeds', async () => {
  const { supervisor, events, control, setBehavior, untilEvent } = createSupervisor()
  setBehavior(FAIL_AT_START)
  await expect(supervisor.start()).rejects.toThrow('start 1 failed')
  expect([supervisor.health, events]).toEqual(['stopped', ['start', 'end: start 1 failed']])
  supervisor.retry(new Error('start 1 failed'))
  await untilEvent('failure: start 3 failed, pause 1')
  setBehavior(OBEY)
  await eventually(() => expect(supervisor.health).toBe('running'))
  expect(events).toContain(`ready ${Atomics.load(control, STARTS)}`)
})

test('a failure of the preparation is a failure of the start', async () => {
  let isTaken = true
  const prepare = async () => {
    if (isTaken) throw new Error('the port is taken')
  }
  const { supervisor, events, untilEvent } = createSupervisor({ prepare })
  await expect(supervisor.start()).rejects.toThrow('the port is taken')
  supervisor.retry(new Error('the port is taken'))
  await untilEvent('failure: the port is taken, pause 1')
  isTaken = false
  await untilEvent('ready 1')
  expect(events).not.toContain('ready 2')
})

test('a thread that blocks is terminated and started again', async () => {
  const { supervisor, untilEvent, events } = createSupervisor({ bounds: { ...BOUNDS, silentChecksMax: 20 } })
  await supervisor.start()
  supervisor.post('block')
  await untilEvent('ready 2')
  expect(events).toContain('unresponsive: no message for 0.2 s')
  expect(events).toContain('failure: no message for 0.2 s, pause 0, first')
})

test('a thread that is not ready in time is terminated', async () => {
  const { supervisor, setBehavior, events } = createSupervisor({ bounds: { ...BOUNDS, readyChecksMax: 20 } })
  setBehavior(NEVER_READY)
  const reason = 'it is not ready after 0.2 s'
  await expect(supervisor.start()).rejects.toThrow(reason)
  expect(events).toEqual(['start', `unresponsive: ${reason}`, `end: ${reason}`])
})

test('a thread that cannot be terminated is reported once, and when it responds again', async () => {
  const bounds = { ...BOUNDS, silentChecksMax: 1, isTerminable: false } // a check may come before a heartbeat
  const { supervisor, events, untilEvent } = createSupervisor({ bounds, checkMs: 1 })
  await supervisor.start()
  await untilEvent('unresponsive: no message for 0.001 s')
  await untilEvent('responsive')
  await eventually(() => expect(events.filter((event) => event === 'responsive').length).toBeGreaterThan(1))
  const states = events.filter((event) => /responsive/.test(event)).map((event) => event.split(':')[0])
  for (const [i, state] of states.entries()) expect(state).toBe(i % 2 ? 'responsive' : 'unresponsive')
  expect(events.join()).not.toContain('failure')
})

test('nothing starts after a stop during a pause, and nothing restarts after endRestarts', async () => {
  const paused = createSupervisor({ pausesMs: [600_000] })
  await paused.supervisor.start()
  paused.supervisor.post('fail')
  await paused.untilEvent('failure: thread 1 failed, pause 600000, first')
  expect(paused.supervisor.health).toBe('paused')
  await paused.supervisor.stop('end', null)
  expect(paused.supervisor.health).toBe('stopped')
  paused.supervisor.retry(new Error('late'))
  expect(paused.supervisor.health).toBe('stopped')

  const ending = createSupervisor()
  await ending.supervisor.start()
  ending.supervisor.endRestarts()
  expect(ending.supervisor.health).toBe('running')
  ending.supervisor.post('fail')
  await ending.untilEvent('end: thread 1 failed')
  expect([ending.supervisor.health, ending.events.join()]).toEqual([
    'stopped',
    expect.not.stringContaining('failure'),
  ])
})

test('a stop has a bound: a thread that blocks is terminated after it', async () => {
  const { supervisor, untilEvent } = createSupervisor({ bounds: BOUNDS })
  await supervisor.start()
  supervisor.post('block')
  await supervisor.stop('end', 1)
  await untilEvent('end: it ended with code 1')
  expect(supervisor.hasThread).toBe(false)
})
