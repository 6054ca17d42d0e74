/**
 * What only the Redis store has: keys of other types, and a network. Each hit is counted at most once, whatever fails.
 */
import { type AddressInfo, createServer, Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { LogLevel } from '../../../../engine/runtime/messages.ts'
import { Stats } from '../../../../engine/stats/stats.ts'
import { Totals } from '../../../../engine/stats/totals.ts'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { freePort } from '../../../helpers/ports.ts'
import { type RedisServer, startRedis } from '../../../helpers/redis.ts'
import { startTcpProxy, type TcpProxy } from '../../../helpers/tcp-proxy.ts'
import { addAll, addStopping, createRedisOptions, EXPIRY_SEC, type Hits } from '../store-harness.ts'

const NOW_SEC = 1_790_000_000
const TIMEOUT_MS = 100

let redis: RedisServer
let proxy: TcpProxy
let store: RedisStore
let log: string[]
let states: boolean[]

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

beforeEach(async () => {
  await redis.run('FLUSHALL')
  await redis.run('SCRIPT', 'FLUSH')
  proxy = await startTcpProxy(redis.port)
  log = []
  states = []
  store = storeOf(`127.0.0.1:${proxy.port}`)
  await store.connect()
})
afterEach(async () => {
  await store.close()
  await proxy.stop()
})

function storeOf(url: string, options = {}): RedisStore {
  return new RedisStore(createRedisOptions(url, { operationTimeoutMs: TIMEOUT_MS, ...options }), {
    log: (level: LogLevel, message: string) => log.push(`${level} ${message}`),
    onHealth: ([{ isConnected }]) => states.at(-1) !== isConnected && states.push(isConnected),
  })
}

const add = (...hits: Hits[]) => addAll(store, hits, NOW_SEC)
const connected = () =>
  vi.waitFor(() => expect(store.isConnected).toBe(true), { timeout: 5_000, interval: 5 })

/** Number of socket writes of this process to the proxy. */
async function writesDuring(run: () => Promise<unknown>): Promise<number> {
  const spy = vi.spyOn(Socket.prototype, 'write')
  await run()
  const writes = spy.mock.contexts.filter((socket) => (socket as Socket).remotePort === proxy.port)
  spy.mockRestore()
  return writes.length
}

test('keys are sent unchanged, byte by byte', async () => {
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
  await redis.run('RPUSH', 'list', 'x')
  await redis.run('SET', 'text', 'x')
  await redis.run('SET', 'full', '9223372036854775800')
  await redis.run('SET', 'debt', '-10')
  const where = `redis 127.0.0.1:${proxy.port}: counter`
  expect(
    await add(['a', 1], ['list', 1], ['text', 1], ['full', 100], ['debt', 1], ['a', 1], ['b', 2]),
  ).toEqual([
    1,
    expect.stringMatching(`${where} "list": WRONGTYPE`),
    `${where} "text": ERR value is not an integer or out of range`,
    `${where} "full": ERR increment or decrement would overflow`,
    `${where} "debt": its count is negative: -10`,
    2,
    2,
  ])
  expect(await redis.run('GET', 'full')).toBe('9223372036854775800')
})

test('a counter beyond 2^53 reads as full and keeps its value', async () => {
  await redis.run('SET', 'a', '9007199254740993')
  expect(await add(['a', 2])).toEqual([Number.MAX_SAFE_INTEGER])
  expect(await redis.run('GET', 'a')).toBe('9007199254740995')
})

test('4.2: the script is loaded if it is missing, and the hits count once', async () => {
  const stop = () =>
    addStopping(
      store,
      [
        [
          ['a', 1, 9],
          ['b', 1, 9],
        ],
      ],
      NOW_SEC,
    )
  expect(await Promise.all([stop(), stop()])).toEqual([[[0, 0]], [[1, 1]]])
  await redis.run('SCRIPT', 'FLUSH')
  expect(await Promise.all([stop(), stop()])).toEqual([[[2, 2]], [[3, 3]]])
  expect(await redis.contents()).toMatchObject({ a: { value: '4', ttlSec: EXPIRY_SEC }, b: { value: '4' } })
})

test('hits whose reply is lost fail, count once and are never sent again', async () => {
  await add(['a', 1])
  proxy.loseNextReply()
  const lost = `redis 127.0.0.1:${proxy.port}: connection lost (closed by the other side); the hits may have been counted`
  expect(await add(['a', 1], ['b', 1])).toEqual([lost, lost])
  await connected()
  expect(await redis.contents()).toMatchObject({ a: { value: '2' }, b: { value: '1' } })
  expect(await add(['a', 1])).toEqual([3])
})

test('all batches in flight fail with the connection, each counted once', async () => {
  await add(['a', 1])
  proxy.loseNextReply()
  const answers = await Promise.all(Array.from({ length: 20 }, () => add(['a', 1])))
  expect(answers.flat().every((answer) => typeof answer === 'string')).toBe(true)
  await connected()
  expect(await add(['a', 0])).toEqual([21])
})

test('12#6: no reply in time is an error; nothing more is sent until the late one arrives', async () => {
  proxy.stall()
  const where = `redis 127.0.0.1:${proxy.port}:`
  const [first, second] = await Promise.all([add(['a', 1]), add(['a', 10], ['b', 1])])
  const late = `${where} no reply within 100ms; the hits may have been counted`
  expect([...first, ...second]).toEqual([late, late, late])
  expect(await add(['a', 100])).toEqual([`${where} no reply to earlier hits for 100ms`])
  expect(store.hasCapacity).toBe(true) // it fails immediately, so callers need not wait
  proxy.resume()
  await vi.waitFor(async () => expect(await add(['c', 1])).toEqual([expect.any(Number)]))
  expect(await add(['a', 1000], ['b', 1])).toEqual([1011, 2]) // late replies were matched to their own calls
  expect(proxy.connectionsCount).toBe(1)
})

test('a connection that stays silent is replaced', async () => {
  proxy.stall()
  await add(['a', 1])
  await vi.waitFor(() => expect(states).toEqual([true, false]), { timeout: 2_000, interval: 5 })
  proxy.resume()
  await connected()
  expect(await add(['a', 1])).toEqual([2])
  expect(log).toEqual([
    `info Redis at 127.0.0.1:${proxy.port} is connected`,
    `warning Redis at 127.0.0.1:${proxy.port} is disconnected: no reply for 400ms; reconnecting`,
    expect.stringMatching(/^warning Redis at \S+ is connected again after \S+m?s$/),
  ])
})

test('batches in flight are bounded, and a finished one restores capacity', async () => {
  proxy.stall()
  const answers: Promise<(number | string)[]>[] = []
  while (store.hasCapacity) answers.push(add(['a', 1]))
  expect(answers).toHaveLength(65) // the last one waits here for its turn
  expect(await add(['a', 1])).toEqual([`redis 127.0.0.1:${proxy.port}: too many batches in flight`])
  proxy.resume()
  await answers[0]
  expect(store.hasCapacity).toBe(true)
  expect((await Promise.all(answers)).flat()).toEqual(Array.from({ length: 65 }, (_, i) => i + 1))
})

// biome-ignore format: the columns are the specification
const waits = [
  // REDIS_POOL_ON_EMPTY_WAIT_DURATION -> error of a batch beyond the bound while Redis is silent
  [20,     /: 64 batches in flight for 20ms$/],
  [60_000, /: (64 batches in flight|no reply to earlier hits) for 100ms$/], // the operation timeout ends it first
] as const

for (const [emptyWaitMs, error] of waits) {
  test(`9.3: a batch beyond the bound waits at most ${emptyWaitMs} ms to be sent, and is not counted after that`, async () => {
    const own = storeOf(`127.0.0.1:${proxy.port}`, { emptyWaitMs })
    await own.connect()
    proxy.stall()
    const answers: Promise<(number | string)[]>[] = []
    while (own.hasCapacity) answers.push(addAll(own, [['a', 1]], NOW_SEC))
    expect(await answers[64]).toEqual([expect.stringMatching(error)])
    proxy.resume()
    await Promise.all(answers)
    await own.close()
    expect(await redis.run('GET', 'a')).toBe('64')
  })
}

test('without Redis hits fail immediately; the connection is restored and each change logged once', async () => {
  await proxy.refuse()
  await vi.waitFor(() => expect(states).toEqual([true, false]))
  expect(await add(['a', 1])).toEqual([
    expect.stringMatching(`redis 127.0.0.1:${proxy.port}: no connection \\(`),
  ])
  await new Promise((resolve) => setTimeout(resolve, 900)) // at least two attempts fail meanwhile
  await proxy.accept()
  await connected()
  expect(await add(['a', 1])).toEqual([1])
  expect(states).toEqual([true, false, true])
  expect(log.slice(1, -1)).toEqual([
    expect.stringMatching(/^warning Redis at \S+ is disconnected: .*; reconnecting$/),
    `warning Cannot connect to Redis at 127.0.0.1:${proxy.port}: connect ECONNREFUSED 127.0.0.1:${proxy.port}; retrying`,
  ]) // many attempts, one line
})

test('a Redis that restarts is used again', async () => {
  let server = await startRedis()
  const own = storeOf(server.address)
  await own.connect()
  expect(await addAll(own, [['a', 1]], NOW_SEC)).toEqual([1])
  await server.stop()
  await vi.waitFor(() => expect(own.isConnected).toBe(false))
  server = await startRedis({ port: server.port })
  await vi.waitFor(() => expect(own.isConnected).toBe(true), { timeout: 5_000 })
  expect(await addAll(own, [['a', 1]], NOW_SEC)).toEqual([1])
  await own.close()
  await server.stop()
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
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const own = storeOf(address)
  await own.connect()
  const why = 'not a Redis server: a reply starts with byte 72'
  const error = `redis ${address}: connection lost (${why}); the hits may have been counted`
  expect(
    await addAll(
      own,
      [
        ['a', 1],
        ['b', 1],
        ['c', 1],
      ],
      NOW_SEC,
    ),
  ).toEqual([1, error, error])
  expect(log.at(-1)).toBe(`warning Redis at ${address} is disconnected: ${why}; reconnecting`)
  await own.close()
  server.close()
})

test('an unexpected reply ends the connection, as later ones cannot be matched', async () => {
  let says: (text: string) => void = () => {}
  const server = createServer((socket) => {
    says = (text) => socket.write(text)
    socket.on('error', () => {}).once('data', () => socket.write('+PONG\r\n'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const own = storeOf(`127.0.0.1:${(server.address() as AddressInfo).port}`)
  await own.connect()
  says(':1\r\n')
  await vi.waitFor(() => expect(log.at(-1)).toContain('unexpected reply'))
  await own.close()
  server.close()
})

test('a batch is one write', async () => {
  const writes = await writesDuring(async () => {
    await add(...Array.from({ length: 50 }, (_, i): Hits => [`key_${i}`, i]))
  })
  expect(writes).toBe(1)
})

test('a connection to a replica is replaced, without counting twice', async () => {
  await redis.run('REPLICAOF', '127.0.0.1', await freePort())
  expect(await add(['a', 1])).toEqual([expect.stringContaining('READONLY')])
  expect(store.isConnected).toBe(false)
  await redis.run('REPLICAOF', 'NO', 'ONE')
  await vi.waitFor(async () => expect(await add(['a', 1])).toEqual([1]), { timeout: 5_000 })
})

test('replies that arrive while the thread is blocked are not late', async () => {
  const direct = storeOf(redis.address)
  await direct.connect()
  const answer = addAll(direct, [['a', 1]], NOW_SEC)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1.5 * TIMEOUT_MS)
  expect(await answer).toEqual([1])
  await direct.close()
})

test('9.3: the timeout of hits that wait for capacity starts when they begin to wait', async () => {
  const own = storeOf(`127.0.0.1:${proxy.port}`, { operationTimeoutMs: 1_000 })
  await own.connect()
  proxy.stall()
  const full = Array.from({ length: 65 }, () => addAll(own, [['a', 1]], NOW_SEC)) // one waits, so the next hits do
  await new Promise((resolve) => setTimeout(resolve, 600))
  proxy.resume()
  await Promise.all(full)
  proxy.stall()
  const startMs = performance.now()
  expect(await addAll(own, [['a', 1]], NOW_SEC)).toEqual([expect.stringContaining('no reply')])
  expect(performance.now() - startMs).toBeLessThan(800)
  proxy.resume()
  await own.close()
})

test('close completes batches in flight first, then refuses further ones', async () => {
  const answer = add(['a', 1])
  await store.close()
  expect(await answer).toEqual([1])
  expect(await add(['a', 1])).toEqual([`redis 127.0.0.1:${proxy.port}: closing`])
})

test('7.1: connections are counted per Redis, restored ones included', async () => {
  const stats = new Stats()
  const totals = new Totals()
  const figures = (pool: string) => {
    totals.merge(stats.takeDeltas(), 'this')
    const all = new Map(totals.sorted())
    return ['cx_active', 'cx_total', 'cx_local_close'].map(
      (name) => all.get(`ratelimit.${pool}.${name}`) ?? 0,
    )
  }
  const options = createRedisOptions(`127.0.0.1:${proxy.port}`, {
    perSecond: createRedisOptions(redis.address),
  })
  const counted = new RedisStore(options, { log: () => {}, stats })
  await counted.connect()
  expect(figures('redis_pool')).toEqual([1, 1, 0])
  await proxy.cut()
  await vi.waitFor(() => expect(figures('redis_pool')).toEqual([1, 2, 1]), { timeout: 5_000, interval: 5 })
  expect(figures('redis_per_second_pool')).toEqual([1, 1, 0])
  await counted.close()
  expect(figures('redis_pool')).toEqual([0, 2, 2])
  expect(figures('redis_per_second_pool')).toEqual([0, 1, 1])
})
