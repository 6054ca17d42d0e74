/** Replies that no Redis sends, and errors that are as good as a count. Found by an attack on the stores. */
import { expect, test } from 'vitest'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import { TEXT_CHARS_MAX } from '../../../../engine/stores/redis/resp.ts'
import {
  addAll,
  addBatch,
  addStopping,
  awaitConnected,
  connectRedisStore,
  createRedisOptions,
  createRedisStore,
  NOW_SEC,
  useProxiedRedis,
} from '../store-harness.ts'
import { bulk, startLyingServer } from './lying-server.ts'

const proxied = useProxiedRedis()
const LONG = 'A'.repeat(60_000)

test.each([false, true])(
  'a counter near 2^63: hits that would overflow it are over any limit; STOP_CACHE_KEY…=%s',
  async (stops) => {
    const { redis, store } = proxied
    const add = (hits: number | bigint) => {
      const batch = new Batch(stops)
      batch.add(new Counter('full'), hits, 4_294_967_295, NOW_SEC + 60, 100, false)
      batch.endRequest()
      return addBatch(store, batch, NOW_SEC)
    }
    expect(await add(2n ** 63n - 1n)).toEqual([0])
    for (let i = 0; i < 3; i++) expect(await add(1)).toEqual([Number.MAX_SAFE_INTEGER])
    await redis.run('SET', 'full', '2')
    expect(await add(2n ** 63n - 1n)).toEqual([1]) // the lowest count that overflows: with these hits it is over any limit
    expect(await add(1)).toEqual([2])
  },
)

// biome-ignore format: a table
const scriptReplies = [
  // to one hit on each of two counters → counts before, or what their errors contain
  ['*2\r\n:0\r\n:-1\r\n',                         [0, -1]], // skipped at a count of 0
  ['*2\r\n:0\r\n:9007199254740991\r\n',           [0, Number.MAX_SAFE_INTEGER]],
  ['*2\r\n:0\r\n:-2\r\n',                         ['not one count per key', 'not one count per key']],
  ['*2\r\n:-500\r\n:0\r\n',                       ['not one count per key', 'not one count per key']],
  ['*2\r\n:0\r\n:-9223372036854775808\r\n',       ['not one count per key', 'not one count per key']],
  ['*2\r\n:0\r\n:9223372036854775807\r\n',        ['not one count per key', 'not one count per key']],
  ['*2\r\n:0\r\n*0\r\n',                          ['not one count per key', 'not one count per key']],
  ['*2\r\n:0\r\n$-1\r\n',                         ['not one count per key', 'not one count per key']],
] as const
test.each(scriptReplies)('the script replies %j', async (reply, expected) => {
  const server = await startLyingServer(([name]) => (name === 'EVALSHA' ? reply : null))
  const { store, log } = await connectRedisStore(server.address)
  const [befores] = await addStopping(store, [[['a', 1, 5], ['b', 1, 5]]], NOW_SEC) // biome-ignore format: one request
  const isRefused = typeof expected[0] === 'string'
  if (isRefused) for (const before of befores) expect(before).toContain(expected[0])
  else expect(befores).toEqual(expected)
  expect(log.join().includes('a reply of a type that its command does not get')).toBe(isRefused)
  await awaitConnected(store)
})

test('EVAL is sent once, also when its reply is NOSCRIPT', async () => {
  const server = await startLyingServer(([name]) => (name === 'PING' ? null : '-NOSCRIPT again\r\n'))
  const { store } = await connectRedisStore(server.address)
  expect(await addStopping(store, [[['a', 1, 5]]], NOW_SEC)).toEqual([
    [`redis ${server.address}: NOSCRIPT again`],
  ])
  expect(server.commands.map(([name]) => name)).toEqual(['PING', 'EVALSHA', 'EVAL'])
})

test.each([
  ['PONG and an error', '+PONG\r\n-NOAUTH no\r\n', 'more replies than commands'],
  ['two errors', '-NOAUTH no\r\n-NOAUTH again\r\n', 'NOAUTH no'],
])('a handshake with more replies than commands fails: %s', async (_what, replies, reason) => {
  const server = await startLyingServer(() => replies)
  const startup = { initialMs: 1, maxMs: 1, maxElapsedMs: 1 }
  const { store } = createRedisStore(createRedisOptions(server.address, { startup }))
  await expect(store.connect()).rejects.toThrow(reason)
  expect(server.commands).not.toEqual([])
})

// biome-ignore format: a table
const longReplies = [
  // of the handshake, of a hit, script?
  ['+PONG\r\n',       `-ERR ${LONG}\r\n`,                   false],
  ['+PONG\r\n',       `-LOADING ${LONG}\r\n`,               false],
  ['+PONG\r\n',       `-LOADING ${LONG}\r\n`,               true],
  ['+PONG\r\n',       `*1\r\n${bulk(`LOADING ${LONG}`)}`,   true],
  [`+${LONG}\r\n`,    '',                                   false],
  [`-ERR ${LONG}\r\n`, '',                                  false],
] as const
test.each(longReplies)(
  'long texts of a server are cut in errors and in the log: %#',
  async (pong, hit, stops) => {
    const server = await startLyingServer(([name]) => (name === 'PING' ? pong : hit))
    const startup = { initialMs: 1, maxMs: 1, maxElapsedMs: 1 }
    const { store, log } = createRedisStore(createRedisOptions(server.address, { startup }))
    const failure = await store.connect().then(
      () => '',
      (error: Error) => error.message,
    )
    const texts = [...log, failure]
    if (failure === '') {
      const [text] = stops ? (await addStopping(store, [[['a', 1, 5]]], NOW_SEC))[0] : await addAll(store, [['a', 1]], NOW_SEC) // biome-ignore format: two ways
      texts.push(String(text))
    }
    await store.close()
    expect([...texts, ...log].join('\n')).toContain('AAA')
    for (const text of [...texts, ...log]) expect(text.length).toBeLessThan(TEXT_CHARS_MAX + 200)
  },
)

test('a handshake that stays incomplete is given up long before REDIS_TIMEOUT when the server has been faster', async () => {
  const handshakes = ['+PONG\r\n', '*3\r\n:1\r\n', '+PONG\r\n'] // the items of the second one never arrive
  const hits = ['+OK\r\n'] // does not fit, so the connection is closed
  const server = await startLyingServer(([name]) => {
    if (name === 'PING') return handshakes.shift() ?? null
    return (name === 'INCRBY' && hits.shift()) || ':1\r\n'
  })
  const { store } = await connectRedisStore(server.address, { timeoutMs: 3_600_000 })
  const [failure] = await addAll(store, [['a', 1]], NOW_SEC)
  expect(String(failure)).toContain('type')
  await awaitConnected(store)
  expect(await addAll(store, [['a', 1]], NOW_SEC)).toEqual([1])
  expect(handshakes).toEqual([])
})
