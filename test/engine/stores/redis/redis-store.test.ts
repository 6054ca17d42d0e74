/**
 * What only the Redis store has: keys of other types, and a network. Each hit is counted at most once, whatever fails.
 */
import { spawnSync } from 'node:child_process'
import { type AddressInfo, createServer, Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { freePort } from '../../../helpers/ports.ts'
import { startRedis } from '../../../helpers/redis.ts'
import { advanceClock, stopClock } from '../../../helpers/stopped-clock.ts'
import {
  addAll,
  addBatch,
  addStopping,
  awaitConnected,
  connectRedisStore,
  EXPIRY_SEC,
  EXPIRY_TTL_SEC,
  getConnectionChanges,
  type Hits,
  NOW_SEC,
  useProxiedRedis,
} from '../store-harness.ts'

const TIMEOUT_MS = 100

const proxied = useProxiedRedis()

const add = (...hits: Hits[]) => addAll(proxied.store, hits, NOW_SEC)

/** A store behind the proxy whose calls time out when the clock is advanced. */
async function connectWithStoppedClock(options = {}) {
  stopClock()
  const { store, ...observed } = await connectRedisStore(proxied.address, {
    operationTimeoutMs: TIMEOUT_MS,
    ...options,
  })
  return { ...observed, store, add: (...hits: Hits[]) => addAll(store, hits, NOW_SEC) }
}

/** Number of socket writes of this process to the proxy. */
async function countWrites(run: () => Promise<unknown>): Promise<number> {
  const spy = vi.spyOn(Socket.prototype, 'write')
  await run()
  const writes = spy.mock.contexts.filter((socket) => (socket as Socket).remotePort === proxied.proxy.port)
  spy.mockRestore()
  return writes.length
}

test('keys are sent unchanged, byte by byte', async () => {
  const { redis } = proxied
  const keys = [
    'shop_user_schön_1200',
    'prefix:d_k_🦀_0',
    'a b\r\nc"\u0000',
    'ÿ',
    '漢字',
    'half \ud83e',
    '\udd80',
    'x'.repeat(600),
  ]
  await add(...keys.map((key): Hits => [key, 1]))
  for (const key of keys) expect(await redis.run('GET', Buffer.from(key, 'utf8'))).toBe('1')
  expect(await redis.run('DBSIZE')).toBe(keys.length)
})

test('a key that cannot be added fails only its own members', async () => {
  const { redis, address } = proxied
  await redis.run('RPUSH', 'list', 'x')
  await redis.run('SET', 'text', 'x')
  await redis.run('SET', 'full', '9223372036854775800')
  await redis.run('SET', 'negative', '-10')
  const where = `redis ${address}: counter`
  expect(
    await add(['a', 1], ['list', 1], ['text', 1], ['full', 100], ['negative', 1], ['a', 1], ['b', 2]),
  ).toEqual([
    1,
    expect.stringMatching(`${where} "list": WRONGTYPE`),
    `${where} "text": ERR value is not an integer or out of range`,
    Number.MAX_SAFE_INTEGER, // over any limit
    `${where} "negative": its count is negative: -10`,
    2,
    2,
  ])
  expect(await redis.run('GET', 'full')).toBe('9223372036854775800')
})

test('a counter beyond 2^53 reads as full and keeps its value', async () => {
  const { redis } = proxied
  await redis.run('SET', 'a', '9007199254740993')
  expect(await add(['a', 2])).toEqual([Number.MAX_SAFE_INTEGER])
  expect(await redis.run('GET', 'a')).toBe('9007199254740995')
})

test('4.2: the script is loaded if it is missing, and the hits count once', async () => {
  const { redis, store } = proxied
  // biome-ignore format: one request
  const stop = () => addStopping(store, [[['a', 1, 9], ['b', 1, 9]]], NOW_SEC)
  expect(await Promise.all([stop(), stop()])).toEqual([[[0, 0]], [[1, 1]]])
  await redis.run('SCRIPT', 'FLUSH')
  expect(await Promise.all([stop(), stop()])).toEqual([[[2, 2]], [[3, 3]]])
  expect(await redis.contents()).toMatchObject({
    a: { value: '4', ttlSec: EXPIRY_TTL_SEC },
    b: { value: '4' },
  })
})

test.each([
  // the unreadable counter is tolerated → counts before of the two others; the second is over its limit
  { isTolerated: true, befores: [-1, 5], counts: ['0', '6'] },
  { isTolerated: false, befores: [-1, 4], counts: [null, '5'] }, // the request adds nothing
])(
  '4.2: a counter that cannot be read, tolerated: $isTolerated',
  async ({ isTolerated, befores, counts }) => {
    const { redis, store } = proxied
    await redis.run('RPUSH', 'list', 'x')
    await redis.run('SET', 'full', '5')
    const batch = new Batch(true)
    for (const key of ['list', 'room', 'full']) {
      const member = batch.add(new Counter(key), 1, 5, NOW_SEC + 60, EXPIRY_SEC, false)
      batch.isTolerated[member] = isTolerated
    }
    batch.endRequest()
    const found = await addBatch(store, batch, NOW_SEC)
    expect(found).toEqual([expect.stringContaining('WRONGTYPE'), ...befores])
    expect(await Promise.all([redis.run('GET', 'room'), redis.run('GET', 'full')])).toEqual(counts)
  },
)

test('a reply that came too late does not make later hits wait longer', async () => {
  const { proxy, address } = proxied
  stopClock()
  const { store } = await connectRedisStore(address, { operationTimeoutMs: 100 })
  for (let i = 0; i < 2; i++) {
    proxy.stall()
    const pending = addAll(store, [['a', 1]], NOW_SEC)
    await advanceClock(100)
    expect(await pending).toEqual([expect.stringContaining('no reply')])
    proxy.resume()
    await eventually(async () => expect(await addAll(store, [['b', 1]], NOW_SEC)).toEqual([i + 1]))
  }
})

test('hits whose reply is lost fail, count once and are never sent again', async () => {
  const { redis, proxy, store, address } = proxied
  await add(['a', 1])
  proxy.loseNextReply()
  const lost = `redis ${address}: connection lost (closed by the other side); the hits may have been counted`
  expect(await add(['a', 1], ['b', 1])).toEqual([lost, lost])
  await awaitConnected(store)
  expect(await redis.contents()).toMatchObject({ a: { value: '2' }, b: { value: '1' } })
  expect(await add(['a', 1])).toEqual([3])
})

test('all batches in flight fail with the connection, each counted once', async () => {
  const { proxy, store } = proxied
  await add(['a', 1])
  proxy.loseNextReply()
  const results = await Promise.all(Array.from({ length: 20 }, () => add(['a', 1])))
  expect(results.flat().every((result) => typeof result === 'string')).toBe(true)
  await awaitConnected(store)
  expect(await add(['a', 0])).toEqual([21])
})

test('12#6: no reply in time is an error; nothing more is sent until the late one arrives', async () => {
  const { redis, proxy, address } = proxied
  const { store, add } = await connectWithStoppedClock()
  proxy.stall()
  const connectionsCount = proxy.connectionsCount
  const pending = Promise.all([add(['a', 1]), add(['a', 10], ['b', 1])])
  await eventually(async () => expect(await redis.run('GET', 'a')).toBe('11'))
  await advanceClock(TIMEOUT_MS)
  const late = `redis ${address}: no reply within 100ms; the hits may have been counted`
  expect((await pending).flat()).toEqual([late, late, late])
  expect(await add(['a', 100])).toEqual([`redis ${address}: no reply to earlier hits for 100ms`])
  expect(store.hasCapacity).toBe(true) // it fails immediately, so callers need not wait
  proxy.resume()
  await eventually(async () => expect(await add(['c', 1])).toEqual([expect.any(Number)]))
  expect(await add(['a', 1000], ['b', 1])).toEqual([1011, 2]) // late replies were matched to their own calls
  expect(proxy.connectionsCount).toBe(connectionsCount)
})

test('a connection that stays silent is replaced', async () => {
  const { redis, proxy, address } = proxied
  const { store, log, reports, add } = await connectWithStoppedClock()
  proxy.stall()
  const pending = add(['a', 1])
  await eventually(async () => expect(await redis.run('GET', 'a')).toBe('1'))
  await advanceClock(TIMEOUT_MS)
  await pending
  await eventually(async () => {
    await advanceClock(TIMEOUT_MS)
    expect(getConnectionChanges(reports)).toEqual([true, false])
  })
  proxy.resume()
  await eventually(async () => {
    await advanceClock(TIMEOUT_MS) // the back-off
    expect(store.isConnected).toBe(true)
  })
  expect(await add(['a', 1])).toEqual([2])
  expect(log).toEqual([
    `info Redis at ${address} is connected`,
    `warning Redis at ${address} is disconnected: no reply for 400ms; reconnecting`,
    expect.stringMatching(/^warning Redis at \S+ is connected again after \S+m?s$/),
  ])
})

test('batches in flight are bounded, and a finished one restores capacity', async () => {
  const { proxy, store, address } = proxied
  proxy.stall()
  const results: Promise<(number | string)[]>[] = []
  while (store.hasCapacity) results.push(add(['a', 1]))
  expect(results).toHaveLength(65) // the last one waits here for capacity
  expect(await add(['a', 1])).toEqual([`redis ${address}: too many batches in flight`])
  proxy.resume()
  await results[0]
  expect(store.hasCapacity).toBe(true)
  expect((await Promise.all(results)).flat()).toEqual(Array.from({ length: 65 }, (_, i) => i + 1))
})

// biome-ignore format: the columns are the specification
const waits = [
  // REDIS_POOL_ON_EMPTY_WAIT_DURATION -> error of a batch beyond the bound while Redis is silent
  [20,     /: 64 batches in flight for 20ms$/],
  [60_000, /: (64 batches in flight|no reply to earlier hits) for 100ms$/], // the operation timeout ends it first
] as const

for (const [emptyWaitMs, error] of waits) {
  test(`9.3: a batch beyond the bound waits at most ${emptyWaitMs} ms to be sent, and is not counted after that`, async () => {
    const { redis, proxy } = proxied
    const { store, add } = await connectWithStoppedClock({ emptyWaitMs })
    proxy.stall()
    const pending: Promise<(number | string)[]>[] = []
    while (store.hasCapacity) pending.push(add(['a', 1]))
    await advanceClock(Math.min(emptyWaitMs, TIMEOUT_MS))
    expect(await pending[64]).toEqual([expect.stringMatching(error)])
    proxy.resume()
    await advanceClock(TIMEOUT_MS)
    await Promise.all(pending)
    await store.close()
    expect(await redis.run('GET', 'a')).toBe('64')
  })
}

test('hits that come long after all batches were in flight have not waited since then', async () => {
  const { proxy } = proxied
  const { store, add } = await connectWithStoppedClock()
  await advanceClock(1) // a time of 0 means unset
  proxy.stall()
  const pending: Promise<(number | string)[]>[] = []
  while (store.hasCapacity) pending.push(add(['a', 1]))
  proxy.resume()
  await Promise.all(pending)
  await advanceClock(10 * TIMEOUT_MS)
  expect(await add(['a', 1])).toEqual([pending.length + 1])
  await store.close()
})

test('without Redis hits fail immediately; the connection is restored and each change logged once', async () => {
  const { proxy, store, log, reports, address } = proxied
  const open = vi.spyOn(Socket.prototype, 'connect')
  onTestFinished(() => open.mockRestore())
  await proxy.refuse()
  await awaitConnected(store, false)
  expect(await add(['a', 1])).toEqual([expect.stringMatching(`redis ${address}: no connection \\(`)])
  const refused = `warning Cannot connect to Redis at ${address}: connect ECONNREFUSED ${address}; retrying`
  await eventually(() => expect(log).toContain(refused))
  const attemptsCount = open.mock.calls.length
  await eventually(() => expect(open.mock.calls.length).toBeGreaterThan(attemptsCount)) // the same error again
  await proxy.accept()
  await awaitConnected(store)
  expect(await add(['a', 1])).toEqual([1])
  expect(getConnectionChanges(reports)).toEqual([true, false, true])
  expect(log.slice(1, -1)).toEqual([
    expect.stringMatching(/^warning Redis at \S+ is disconnected: .*; reconnecting$/),
    refused, // once, whatever the number of attempts
  ])
})

test('a Redis that restarts is used again', async () => {
  let server = await startRedis()
  const { store } = await connectRedisStore(server.address)
  expect(await addAll(store, [['a', 1]], NOW_SEC)).toEqual([1])
  await server.stop()
  await awaitConnected(store, false)
  server = await startRedis({ port: server.port })
  onTestFinished(() => server.stop())
  await awaitConnected(store)
  expect(await addAll(store, [['a', 1]], NOW_SEC)).toEqual([1])
})

test('the connection to a server that does not speak RESP is closed, and what was sent fails', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write('+PONG\r\n')
      socket.once('data', () => socket.write(':1\r\n:1\r\nHTTP/1.1 400 Bad Request\r\n\r\n:7\r\n'))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const { store, log } = await connectRedisStore(address)
  const why = 'not a Redis server: a reply starts with byte 72'
  const error = `redis ${address}: connection lost (${why}); the hits may have been counted`
  // biome-ignore format: one batch
  expect(await addAll(store, [['a', 1], ['b', 1], ['c', 1]], NOW_SEC)).toEqual([1, error, error])
  expect(log).toContain(`warning Redis at ${address} is disconnected: ${why}; reconnecting`)
})

test('an unexpected reply ends the connection, because later ones cannot be matched', async () => {
  let send: (text: string) => void = () => {}
  const server = createServer((socket) => {
    send = (text) => socket.write(text)
    socket.on('error', () => {}).once('data', () => socket.write('+PONG\r\n'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { log } = await connectRedisStore(`127.0.0.1:${(server.address() as AddressInfo).port}`)
  send(':1\r\n')
  await eventually(() => expect(log.join()).toContain('unexpected reply'))
})

test('a batch is one write', async () => {
  const writes = await countWrites(async () => {
    await add(...Array.from({ length: 50 }, (_, i): Hits => [`key_${i}`, i]))
  })
  expect(writes).toBe(1)
})

test('a connection to a replica is replaced, without counting twice', async () => {
  const { redis, store } = proxied
  await redis.run('REPLICAOF', '127.0.0.1', await freePort())
  expect(await add(['a', 1])).toEqual([expect.stringContaining('READONLY')])
  expect(store.isConnected).toBe(false)
  await redis.run('REPLICAOF', 'NO', 'ONE')
  await eventually(async () => expect(await add(['a', 1])).toEqual([1]))
})

test('replies that arrive while the thread is blocked are not late', async () => {
  const { redis } = proxied
  const { store } = await connectRedisStore(redis.address, { operationTimeoutMs: TIMEOUT_MS })
  const pending = addAll(store, [['a', 1]], NOW_SEC)
  await Promise.resolve() // sent
  const startMs = performance.now()
  let value = ''
  while (value !== '1' || performance.now() - startMs < 1.5 * TIMEOUT_MS) {
    value = spawnSync('redis-cli', ['-p', `${redis.port}`, 'GET', 'a'])
      .stdout.toString()
      .trim() // blocks
  }
  expect(await pending).toEqual([1])
})

test('9.3: the timeout of hits that wait for capacity starts when they begin to wait', async () => {
  const { proxy } = proxied
  const { add } = await connectWithStoppedClock({ operationTimeoutMs: 1_000 })
  proxy.stall()
  const full = Array.from({ length: 65 }, () => add(['a', 1])) // one waits, so the next hits do
  await advanceClock(600)
  proxy.resume()
  await Promise.all(full)
  proxy.stall()
  const pending = add(['a', 1])
  await advanceClock(1_000) // of 1,600 if it had started with the wait before
  expect(await pending).toEqual([expect.stringContaining('no reply')])
})

test('close completes batches in flight first, then refuses further ones', async () => {
  const { store, address } = proxied
  const pending = add(['a', 1])
  await store.close()
  expect(await pending).toEqual([1])
  expect(await add(['a', 1])).toEqual([`redis ${address}: closing`])
})
