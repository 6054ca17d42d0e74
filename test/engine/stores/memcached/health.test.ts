/** Health of memcached as a worker reports it, also without traffic. */
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { NO_BREAKER } from '../../../../engine/stores/breakers.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { startMemcached } from '../../../helpers/memcached.ts'
import { freePort } from '../../../helpers/ports.ts'
import { shortenTimers } from '../../../helpers/shorten-timers.ts'
import { advanceClock, stopClock } from '../../../helpers/stopped-clock.ts'
import { startTcpProxy } from '../../../helpers/tcp-proxy.ts'
import { storeOn } from './harness.ts'

const PERIOD_MS = 1_000 // between probes of failing nodes, and between reports
const TIMEOUT_MS = 500

beforeEach(() => shortenTimers(PERIOD_MS, 20))

async function openStore(nodes: string[], options = {}) {
  const on = storeOn(nodes, options)
  onTestFinished(() => on.store.close())
  await on.store.connect()
  return on
}

async function startServer(port?: number) {
  const server = await startMemcached({ port })
  onTestFinished(() => server.stop())
  return server
}

test('a node that fails and recovers is reported without traffic, with a log line each', async () => {
  const [first, second] = [await startServer(), await startServer()]
  const two = await openStore([first.address, second.address])
  expect((await two.add([['shop_user_alice_1200', 1]], [['a', 1]])).flat()).toEqual([0, 0])
  await eventually(() => expect(two.stats()['add.__code=success']).toBe(2))
  await second.stop()
  await eventually(() => expect(two.health.at(-1)).toBe('partly'))
  await startServer(second.port)
  await eventually(() => expect(two.health.at(-1)).toBe('ok'))
  expect(two.log).toEqual([
    expect.stringMatching(`^error memcached at ${second.address} is not connected: `),
    expect.stringMatching(`^warning memcached at ${second.address} is connected again after `),
  ])
})

test('a node that is unreachable from the start is reported before the first call', async () => {
  const one = await openStore([`127.0.0.1:${await freePort()}`])
  await eventually(() => expect(one.health.at(-1)).toBe('failing'))
  expect(one.log).toHaveLength(1)
})

test('silence while calls reach their deadlines opens the circuit breaker; it closes when the node replies', async () => {
  const server = await startServer()
  const proxy = await startTcpProxy(server.port)
  onTestFinished(() => proxy.stop())
  const breaker = { ...NO_BREAKER, failuresInRow: 1_000, silenceMs: 1, probeIntervalMs: 20 }
  const one = await openStore([`127.0.0.1:${proxy.port}`], { breaker, timeoutMs: 60_000 })
  expect((await one.add([['a', 1]])).flat()).toEqual([0])
  await eventually(() => expect(one.stats()['add.__code=success']).toBe(1))
  one.store.onLate()
  proxy.stall()
  const pending = one.add([['a', 1]])
  await eventually(async () => {
    one.store.onLate()
    const answer = await Promise.race([
      one.add([['b', 1]]),
      new Promise((resolve) => setImmediate(resolve, '')),
    ])
    expect(String(answer)).toContain('the circuit breaker is open (no reply for ')
  })
  expect(String(await pending), 'it does not wait any longer').toContain('the circuit breaker is open')
  proxy.resume()
  await eventually(async () => expect((await one.add([['c', 1]])).flat()).toEqual([expect.any(Number)]))
  expect((await one.add([['a', 1]])).flat(), 'its hits were not added').toEqual([1])
})

test('a node that accepts connections and never replies is reported with the first call', async () => {
  const server = await startServer()
  const proxy = await startTcpProxy(server.port)
  onTestFinished(() => proxy.stop())
  stopClock()
  const one = await openStore([`127.0.0.1:${proxy.port}`], { timeoutMs: TIMEOUT_MS })
  await one.add([['a', 1]])
  await eventually(() => expect(one.stats()['add.__code=success']).toBe(1))
  expect(one.health).toEqual(['ok'])
  proxy.stall()
  const pending = one.add([['a', 1]])
  await advanceClock(TIMEOUT_MS)
  await pending
  await advanceClock(PERIOD_MS) // the end of the interval between reports
  expect(one.health).toEqual(['ok', 'failing'])
  proxy.resume()
  await eventually(async () => {
    await advanceClock(PERIOD_MS / 20)
    expect(one.health.at(-1)).toBe('ok')
  })
})

test('one timeout opens the circuit breaker: a stopped server would accept the next connection, too', async () => {
  const server = await startServer()
  const proxy = await startTcpProxy(server.port)
  onTestFinished(() => proxy.stop())
  stopClock()
  const breaker = { ...NO_BREAKER, failuresInRow: 1_000, probeIntervalMs: 20 }
  const one = await openStore([`127.0.0.1:${proxy.port}`], { breaker, timeoutMs: TIMEOUT_MS })
  await one.add([['a', 1]])
  await eventually(() => expect(one.stats()['add.__code=success']).toBe(1))
  proxy.stall()
  const pending = one.add([['a', 1]])
  await advanceClock(TIMEOUT_MS)
  expect(String(await pending)).toContain('no reply within 500ms')
  expect(String(await one.add([['a', 1]])), 'it does not wait').toContain(
    'the circuit breaker is open (no reply within 500ms)',
  )
  proxy.resume()
  await eventually(async () => {
    await advanceClock(PERIOD_MS / 20)
    expect(String(await one.add([['b', 1]]))).toMatch(/^\d+$/)
  })
})

test('a store without nodes is failing', async () => {
  const none = await openStore([])
  expect(none.health).toEqual(['failing'])
})
