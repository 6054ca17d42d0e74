/**
 * An idle service sleeps: no timer wakes a worker more than once a second.
 *
 *     thread        wakes for
 *     each worker   uWebSockets.js: its clock, each second, and its time-outs, each fourth
 *     one of them   the HTTP/2 frontend, each second, while it has a connection
 *     main          what it watches
 *
 * The kernel counts wakes as voluntary context switches. V8 wakes its helpers now and then, and a busy machine causes some
 * more, so one span below the maximum is enough: a timer is in all spans.
 */
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { startRedis } from '../helpers/redis.ts'
import { startService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'

const SPAN_MS = size({ small: 1_000, full: 10_000 })
const SPANS_MAX = 15 // until one is below the maximum
const WAKES_PER_SEC_MAX = 5 // of one thread: the timers above are 2.25; a span of a second may have three, and V8 wakes its own

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
  await expectIdle(pid, 'no connection')

  const [host, port] = service.address('gRPC').split(':')
  const socket = connect(Number(port), host).resume()
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  socket.write(CLIENT_PREFACE)
  await expectIdle(pid, 'one connection')
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
  await expectIdle(pid, 'Redis')

  await redis.run('CONFIG', 'SET', 'maxmemory', '1')
  const call = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
  await fetch(`${service.http}/json`, { method: 'POST', body: JSON.stringify(call) })
  await expectIdle(pid, 'Redis refuses hits')

  const report = async () => (await fetch(`${service.http}/healthcheck?verbose`)).text()
  await eventually(async () => expect(await report()).toMatch(/^redis: (partly )?failing/m))
  await redis.run('CONFIG', 'SET', 'maxmemory', '0')
  await eventually(async () => expect(await report()).toContain('redis: ok'))
})

/** Fails when each of SPANS_MAX spans has a thread that wakes more often than WAKES_PER_SEC_MAX. */
async function expectIdle(pid: number, name: string): Promise<void> {
  let wakes: number[] = []
  for (let span = 0; span < SPANS_MAX; span++) {
    wakes = await measureWakes(pid)
    if (Math.max(...wakes) < WAKES_PER_SEC_MAX) break
  }
  console.log(`${name}, wakes per second of each thread: ${wakes.map((each) => each.toFixed(1)).join(', ')}`)
  expect(Math.max(...wakes)).toBeLessThan(WAKES_PER_SEC_MAX)
}

/** Wakes per second of each thread that lives through the span, without threads that never wake. */
async function measureWakes(pid: number): Promise<number[]> {
  const before = readSwitches(pid)
  const startedMs = performance.now()
  await sleep(SPAN_MS)
  const seconds = (performance.now() - startedMs) / 1_000
  const after = [...readSwitches(pid)].filter(([thread]) => before.has(thread))
  return after.map(([thread, count]) => (count - before.get(thread)!) / seconds).filter((each) => each > 0)
}

/** Voluntary context switches so far, by thread. */
function readSwitches(pid: number): Map<string, number> {
  const counts = new Map<string, number>()
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')
    counts.set(thread, Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)![1]))
  }
  return counts
}
