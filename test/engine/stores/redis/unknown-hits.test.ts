/**
 * Hits that Redis may have added although no count came back are marked as unknown, also where Redis replied with an error; and replies
 * that cannot be those of their commands are not taken for counts. Found by the fault lab (test/faults).
 */
import { type AddressInfo, createServer } from 'node:net'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { StoreError } from '../../../../engine/runtime/errors.ts'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import type { CounterStore } from '../../../../engine/stores/counter-store.ts'
import {
  addBatch,
  awaitConnected,
  connectRedisStore,
  EXPIRY_SEC,
  NOW_SEC,
  useProxiedRedis,
} from '../store-harness.ts'

const proxied = useProxiedRedis()

afterEach(() => proxied.redis.run('ACL', 'SETUSER', 'default', '+@all'))

/** Adds one hit to each key, in one request. Per key the count before, or whether its error says that the hit may have been added. */
async function add(store: CounterStore, stops: boolean, ...keys: string[]): Promise<(number | string)[]> {
  const batch = new Batch(stops)
  for (const key of keys) batch.add(new Counter(key), 1, 10, NOW_SEC + 60, EXPIRY_SEC, false)
  batch.endRequest()
  await addBatch(store, batch, NOW_SEC)
  return keys.map((_, member) => {
    const error = batch.getError(member)
    if (error === null) return batch.getPreviousCount(member)
    return error instanceof StoreError && error.isUnknown ? 'unknown' : 'not added'
  })
}

test.each([false, true])('EXPIRE fails after its INCRBY: unknown; STOP_CACHE_KEY…=%s', async (stops) => {
  const { redis, store } = proxied
  await redis.run('ACL', 'SETUSER', 'default', '-expire')
  expect(await add(store, stops, 'a', 'b')).toEqual(['unknown', 'unknown'])
  expect(await redis.run('GET', 'a')).toBe('1')
})

test.each([false, true])('INCRBY fails: not added; STOP_CACHE_KEY…=%s', async (stops) => {
  const { redis, store } = proxied
  await redis.run('ACL', 'SETUSER', 'default', '-incrby')
  expect(await add(store, stops, 'a', 'b')).toEqual(['not added', 'not added'])
  expect(await redis.run('GET', 'a')).toBeNull()
})

test('a count below the hits: unknown', async () => {
  const { redis, store } = proxied
  await redis.run('SET', 'a', '-10')
  expect(await add(store, false, 'a')).toEqual(['unknown'])
  expect(await redis.run('GET', 'a')).toBe('-9')
})

// biome-ignore format: a table
const cases = [
  // with STOP_CACHE_KEY…, replies → counts of a, b, c
  [false, ':1\r\n:1\r\n+OK\r\n:1\r\n:7\r\n:1\r\n',         [0, 'unknown', 'unknown']],
  [false, ':1\r\n$1\r\n1\r\n:5\r\n:1\r\n:7\r\n:1\r\n',     ['unknown', 'unknown', 'unknown']], // to EXPIRE
  [false, '*3\r\n:1\r\n:1\r\n:4\r\n:1\r\n:9\r\n:1\r\n',    ['unknown', 'unknown', 'unknown']], // swallows those of others
  [true,  ':1\r\n*3\r\n:7\r\n:7\r\n:7\r\n',                ['unknown', 'unknown', 'unknown']],
] as const
test.each(cases)(
  'a reply of another type ends the connection: script %s, %j',
  async (stops, replies, counts) => {
    const server = createServer((socket) => {
      socket
        .on('error', () => {})
        .once('data', () => {
          socket.write('+PONG\r\n')
          socket.once('data', () => socket.write(replies))
        })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { store, log } = await connectRedisStore(`127.0.0.1:${(server.address() as AddressInfo).port}`)
    expect(await add(store, stops, 'a', 'b', 'c')).toEqual(counts)
    expect(log.join()).toContain('a reply of a type that its command does not get')
    await awaitConnected(store) // again
  },
)
