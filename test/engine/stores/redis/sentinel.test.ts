/** Real sentinels: finding the master, and its replacement (spec 9.1, 9.2). */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { type RedisServer, startRedis } from '../../../helpers/redis.ts'
import { type SentinelSet, startSentinel } from '../../../helpers/redis-sentinel.ts'
import { startTcpProxy } from '../../../helpers/tcp-proxy.ts'
import { addAll, createRedisOptions, type Hits } from '../store-harness.ts'

const NOW_SEC = 1_790_000_000
const SERVING_AGAIN_MS_MAX = 2_000 // after the sentinels have agreed on the new master

let set: SentinelSet | null = null
let store: RedisStore
let log: string[] = []
afterEach(async () => {
  await store.close()
  await set?.stop()
  set = null
})

async function connect(url: string, options = {}): Promise<void> {
  log = []
  store = new RedisStore(createRedisOptions(url, { type: 'sentinel', operationTimeoutMs: 500, ...options }), {
    log: (level, message) => log.push(`${level} ${message}`),
  })
  await store.connect()
}
const add = (...hits: Hits[]) => addAll(store, hits, NOW_SEC)

/** Retries until a call succeeds; returns its count and the time since `startMs`. */
async function served(startMs = 0): Promise<{ after: number; ms: number }> {
  for (;;) {
    const [after] = await add(['a', 1])
    if (typeof after === 'number') return { after, ms: performance.now() - startMs }
    await sleep(5)
  }
}

test('9.1: after a master dies, hits go to the promoted replica', async () => {
  set = await startSentinel({ password: 'data', sentinelPassword: 'watch' })
  await connect(set.url, { auth: 'data', sentinelAuth: 'watch' })
  expect(await add(['a', 1], ['b', 5])).toEqual([1, 5])
  const old = await set.master()
  await old.run('WAIT', 1, 1_000) // the replica has it too
  await old.stop()
  await set.switchedFrom(old)
  const { after, ms } = await served(performance.now())
  expect(after).toBe(2)
  expect(ms).toBeLessThan(SERVING_AGAIN_MS_MAX)
  expect(log.filter((line) => line.includes('is connected again'))).toHaveLength(1)
  expect(await (await set.master()).contents()).toMatchObject({ a: { value: '2' }, b: { value: '5' } })
})

test('9.1: a replaced master is left although it still answers', async () => {
  set = await startSentinel()
  await connect(set.url)
  const old = await set.master()
  expect(await add(['a', 1])).toEqual([1])
  await old.run('WAIT', 1, 1_000)
  const switched = set.switchedFrom(old)
  await set.sentinels[0].run('SENTINEL', 'FAILOVER', 'mymaster')
  await switched
  const fresh = await set.master()
  await vi.waitFor(
    async () => {
      await add(['seen', 1])
      expect(await fresh.run('GET', 'seen')).not.toBeNull()
    },
    { timeout: SERVING_AGAIN_MS_MAX, interval: 20 },
  )
})

test('9.2: REDIS_AUTH is not used for sentinels, and REDIS_SENTINEL_AUTH not for the master', async () => {
  const master = await startRedis({ password: 'data', args: ['--requirepass', 'data'] })
  const configuration = `sentinel monitor mymaster 127.0.0.1 ${master.port} 1\nsentinel auth-pass mymaster data\n`
  const sentinel = await startRedis({
    sentinel: configuration,
    password: 'watch',
    args: ['--requirepass', 'watch'],
  })
  const url = `mymaster,${sentinel.address}`
  const startup = { initialMs: 10, maxMs: 10, maxElapsedMs: 30 }
  // biome-ignore format: the columns are the specification
  const cases = [
    // URL,                                 auth,           sentinelAuth     -> error, '' = works
    [url,                                   'data',         'watch',         ''],
    [url,                                   'default:data', 'default:watch', ''],
    [url,                                   ':data',        ':watch',        ''],
    [`mymaster,redis://:watch@${sentinel.address}`, 'data', '',              ''],
    [url,                                   'data',         'data',          'WRONGPASS'],
    [url,                                   'data',         '',              'NOAUTH'],
    [url,                                   'watch',        'watch',         'WRONGPASS'],
    [url,                                   '',             'watch',         'NOAUTH'],
    [`other,${sentinel.address}`,           'data',         'watch',         'no sentinel knows the master "other"'],
    [`mymaster,127.0.0.1:1`,                'data',         'watch',         'ECONNREFUSED'],
    [`mymaster,127.0.0.1:1,${sentinel.address}`, 'data',    'watch',         ''],
  ] as const
  for (const [at, auth, sentinelAuth, error] of cases) {
    const what = await connect(at, { auth, sentinelAuth, startup }).then(
      () => '',
      (failure: Error) => failure.message,
    )
    if (error === '') expect(what).toBe('')
    else expect(what).toContain(error)
    expect(what).not.toContain(':watch@')
    await store.close()
  }
  await sentinel.stop()
  await master.stop()
})

test('9.1: of sentinels that disagree, the newest epoch wins', async () => {
  const [older, newer] = await Promise.all([startRedis(), startRedis()])
  const start = ({ port }: RedisServer, epoch: number) =>
    startRedis({
      sentinel: `sentinel monitor mymaster 127.0.0.1 ${port} 1\nsentinel config-epoch mymaster ${epoch}\n`,
    })
  const sentinels = await Promise.all([start(older, 3), start(newer, 4)])
  for (const [one, other] of [sentinels, sentinels.toReversed()]) {
    await connect(`mymaster,${one.address},${other.address}`)
    await add(['a', 1])
    await store.close()
  }
  expect([await older.run('GET', 'a'), await newer.run('GET', 'a')]).toEqual([null, '2'])
  await Promise.all([...sentinels, older, newer].map((server) => server.stop()))
})

test('hits whose reply is lost count once', async () => {
  const master = await startRedis()
  const proxy = await startTcpProxy(master.port)
  const sentinel = await startRedis({ sentinel: `sentinel monitor mymaster 127.0.0.1 ${proxy.port} 1\n` })
  await connect(`mymaster,${sentinel.address}`)
  await add(['a', 1])
  await sentinel.stop() // it talks through the proxy as well
  proxy.loseNextReply()
  expect(await add(['a', 1])).toEqual([expect.stringContaining('the hits may have been counted')])
  expect(await master.contents()).toMatchObject({ a: { value: '2' } })
  await store.close()
  await proxy.stop()
  await master.stop()
})
