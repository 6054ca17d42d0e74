/** How many batches may wait for their counts while one server does not reply. */
import { expect, onTestFinished, test } from 'vitest'
import { NO_BREAKER } from '../../../../engine/stores/breakers.ts'
import { selectServer } from '../../../../engine/stores/memcached/server-list.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { startMemcached } from '../../../helpers/memcached.ts'
import { startTcpProxy } from '../../../helpers/tcp-proxy.ts'
import { storeOn } from './harness.ts'

const SERVERS = 2
const WAITING_MAX = 1_024 // batches, while a server has nothing to do

/** A counter of each server. */
const [SILENT, OTHER] = [0, 1].map((server) => {
  for (let i = 0; ; i++) if (selectServer(`key${i}`, SERVERS) === server) return `key${i}`
})

async function startServers() {
  const servers = await Promise.all(Array.from({ length: SERVERS }, () => startMemcached()))
  const proxy = await startTcpProxy(servers[0].port)
  const breaker = { ...NO_BREAKER, failuresInRow: 1_000_000, silenceMs: 1, probeIntervalMs: 60_000 }
  const on = storeOn([`127.0.0.1:${proxy.port}`, servers[1].address], { breaker, timeoutMs: 20_000 })
  onTestFinished(async () => {
    proxy.resume()
    await on.store.close()
    await proxy.stop()
    await Promise.all(servers.map((server) => server.stop()))
  })
  await on.store.connect()
  await Promise.all([on.add([[SILENT, 1]]), on.add([[OTHER, 1]])])
  await eventually(() => expect(on.stats()['add.__code=success']).toBe(SERVERS))
  return { on, proxy }
}

test('a server that does not reply keeps no hits from another one, up to a bound', async () => {
  const { on, proxy } = await startServers()
  proxy.stall()
  const waiting = Array.from({ length: WAITING_MAX - 1 }, () => on.add([[SILENT, 1]]))
  expect(on.store.hasCapacity).toBe(true)
  expect((await on.add([[OTHER, 1]])).flat()).toEqual([1])
  await eventually(() => expect(on.store.hasCapacity, 'its hits are added').toBe(true))
  waiting.push(on.add([[SILENT, 1]]))
  expect(on.store.hasCapacity, 'beyond the bound').toBe(false)
  expect(await on.add([[OTHER, 1]])).toEqual([['memcache: too many batches in flight']])
  proxy.resume()
  const counts = (await Promise.all(waiting)).flat(2)
  expect(counts).toEqual(Array.from({ length: WAITING_MAX }, (_, i) => i + 1))
})

test('when its silence opens its circuit breaker, nothing waits for it any more', async () => {
  const { on, proxy } = await startServers()
  proxy.stall()
  const waiting = Promise.all(Array.from({ length: 100 }, () => on.add([[SILENT, 1]])))
  const timer = setInterval(() => on.store.onLate(), 1)
  onTestFinished(() => clearInterval(timer))
  for (const text of (await waiting).flat(2))
    expect(text).toContain('the circuit breaker is open (no reply for ')
  clearInterval(timer) // on a busy machine the other server's reply may take longer than the silence, too
  expect((await on.add([[OTHER, 1]])).flat()).toEqual([1])
})
