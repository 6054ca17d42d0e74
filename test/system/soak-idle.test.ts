/**
 * A service that nobody asks sleeps: no timer wakes a worker more than once a second.
 *
 *     thread        wakes for
 *     each worker   uWebSockets.js: its clock, each second, and its time-outs, each fourth
 *     one of them   the HTTP/2 frontend, each second, while it has a connection
 *     main          what it watches
 *
 * Counted by the kernel, as voluntary context switches. V8 wakes its helpers now and then, and a busy machine some more, so
 * the quietest of several spans counts: a timer is in all of them.
 */
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startRedis } from '../helpers/redis.ts'
import { startService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'

const SPAN_MS = size({ small: 1_000, full: 10_000 })
const SPANS = 3
const WAKES_PER_SEC_MAX = 5 // of one thread: the timers above are 2.25; a span of a second may hold three, and V8 wakes its own

const RULES =
  'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: day, requests_per_unit: 5 }\n'
const CLIENT_PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1') // and empty SETTINGS

test(`no thread wakes more than ${WAKES_PER_SEC_MAX} times a second, without connections and with an idle one`, async () => {
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { WORKERS: '2' },
    frontend: 'http2',
  })
  const pid = service.child.pid!
  expect(Math.max(...(await quietest(pid, 'no connection')))).toBeLessThan(WAKES_PER_SEC_MAX)

  const [host, port] = service.address('gRPC').split(':')
  const socket = connect(Number(port), host).resume()
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  socket.write(CLIENT_PREFACE)
  expect(Math.max(...(await quietest(pid, 'one connection')))).toBeLessThan(WAKES_PER_SEC_MAX)
})

test(`no thread wakes more than ${WAKES_PER_SEC_MAX} times a second with Redis, also while Redis refuses hits`, async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const service = await startService({
    rules: { 'shop.yaml': RULES },
    env: { WORKERS: '2', REDIS_URL: redis.address },
    frontend: 'http2',
  })
  const pid = service.child.pid!
  expect(Math.max(...(await quietest(pid, 'Redis')))).toBeLessThan(WAKES_PER_SEC_MAX)

  await redis.run('CONFIG', 'SET', 'maxmemory', '1')
  const call = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
  await fetch(`${service.http}/json`, { method: 'POST', body: JSON.stringify(call) })
  expect(Math.max(...(await quietest(pid, 'Redis refuses hits')))).toBeLessThan(WAKES_PER_SEC_MAX)

  const report = async () => (await fetch(`${service.http}/healthcheck?verbose`)).text()
  await vi.waitFor(async () => expect(await report()).toMatch(/^redis: (partly )?failing/m), {
    timeout: 10_000,
  })
  await redis.run('CONFIG', 'SET', 'maxmemory', '0')
  await vi.waitFor(async () => expect(await report()).toContain('redis: ok'), { timeout: 10_000 })
})

/** Wakes per second of each thread in the span in which the busiest of them woke least. */
async function quietest(pid: number, name: string): Promise<number[]> {
  let least: number[] = [Number.POSITIVE_INFINITY]
  for (let span = 0; span < SPANS; span++) {
    const perSec = await wakesPerSec(pid)
    if (Math.max(...perSec) < Math.max(...least)) least = perSec
  }
  console.log(`${name}, wakes per second of each thread: ${least.map((each) => each.toFixed(1)).join(', ')}`)
  return least
}

/** Of each thread that lives through the span; threads that never wake are left out. */
async function wakesPerSec(pid: number): Promise<number[]> {
  const before = switches(pid)
  const startedMs = performance.now()
  await sleep(SPAN_MS)
  const seconds = (performance.now() - startedMs) / 1_000
  const after = [...switches(pid)].filter(([thread]) => before.has(thread))
  return after.map(([thread, count]) => (count - before.get(thread)!) / seconds).filter((each) => each > 0)
}

/** Voluntary context switches so far, by thread. */
function switches(pid: number): Map<string, number> {
  const counts = new Map<string, number>()
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')
    counts.set(thread, Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)![1]))
  }
  return counts
}
