/** Health of memcached as a worker reports it, also without traffic. */
import { expect, onTestFinished, test } from 'vitest'
import { startMemcached } from '../../../helpers/memcached.ts'
import { freePort } from '../../../helpers/ports.ts'
import { startTcpProxy } from '../../../helpers/tcp-proxy.ts'
import { storeOn } from './harness.ts'

const WAIT = { timeout: 10_000 }

async function openStore(...nodes: string[]) {
  const on = storeOn(nodes, { timeoutMs: 500 })
  onTestFinished(() => on.store.close())
  await on.store.connect()
  return on
}

async function startServer(port?: number) {
  const server = await startMemcached({ port })
  onTestFinished(() => server.stop())
  return server
}

test('a node that fails and recovers is reported without traffic, with one log line', async () => {
  const [first, second] = [await startServer(), await startServer()]
  const two = await openStore(first.address, second.address)
  expect((await two.add([['shop_user_alice_1200', 1]], [['a', 1]])).flat()).toEqual([0, 0])
  await expect.poll(() => two.stats()['add.__code=success'], WAIT).toBe(2)
  await second.stop()
  await expect.poll(() => two.health.at(-1), WAIT).toBe('partly')
  await startServer(second.port)
  await expect.poll(() => two.health.at(-1), WAIT).toBe('ok')
  expect(two.log).toEqual([expect.stringMatching(`^error memcached at ${second.address} is not connected: `)])
})

test('a node that is unreachable from the start is reported before the first call', async () => {
  const one = await openStore(`127.0.0.1:${await freePort()}`)
  await expect.poll(() => one.health.at(-1), WAIT).toBe('failing')
  expect(one.log).toHaveLength(1)
})

test('a node that accepts connections and never replies is reported with the first call', async () => {
  const server = await startServer()
  const proxy = await startTcpProxy(server.port)
  onTestFinished(() => proxy.stop())
  const one = await openStore(`127.0.0.1:${proxy.port}`)
  await one.add([['a', 1]])
  await expect.poll(() => one.stats()['add.__code=success'], WAIT).toBe(1)
  expect(one.health).toEqual(['ok'])
  proxy.stall()
  await one.add([['a', 1]])
  await expect.poll(() => one.health.at(-1), WAIT).toBe('failing')
  proxy.resume()
  await expect.poll(() => one.health.at(-1), WAIT).toBe('ok')
})

test('a store without nodes is failing', async () => {
  const none = await openStore()
  expect(none.health).toEqual(['failing'])
})
