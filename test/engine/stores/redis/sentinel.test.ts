/** Real sentinels: finding the master, and its replacement (spec 9.1, 9.2). */
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../helpers/eventually.ts'
import { type RedisServer, type RedisServerOptions, startRedis } from '../../../helpers/redis.ts'
import { startSentinel } from '../../../helpers/redis-sentinel.ts'
import { startTcpProxy } from '../../../helpers/tcp-proxy.ts'
import { addAll, connectRedisStore, type Hits, NOW_SEC } from '../store-harness.ts'
import { bulks, startLyingServer } from './lying-server.ts'

const MASTER_NAME = 'mymaster'

async function connect(url: string, options = {}) {
  const { store, log } = await connectRedisStore(url, { type: 'sentinel', ...options })
  return { store, log, add: (...hits: Hits[]) => addAll(store, hits, NOW_SEC) }
}

/** A server that stops when the test ends. */
async function startServer(options?: RedisServerOptions): Promise<RedisServer> {
  const server = await startRedis(options)
  onTestFinished(() => server.stop())
  return server
}

function startSentinelFor({ port }: { port: number }, more = '', options: RedisServerOptions = {}) {
  return startServer({ sentinel: `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${port} 1\n${more}`, ...options })
}

test('9.1: a replaced master is left although it still replies; after a master dies, hits go to the promoted replica', async () => {
  const set = await startSentinel({ replicas: 2, password: 'data', sentinelPassword: 'watch' })
  onTestFinished(() => set.stop())
  const { add, log } = await connect(set.url, { auth: 'data', sentinelAuth: 'watch' })
  const first = await set.master()
  expect(await add(['a', 1], ['b', 5])).toEqual([1, 5])
  await first.run('WAIT', 2, 0) // the replicas have the hits
  const replaced = set.switchedFrom(first)
  await set.sentinels[0].run('SENTINEL', 'FAILOVER', MASTER_NAME)
  await replaced
  const second = await set.master()
  await eventually(async () => {
    await add(['seen', 1])
    expect(await second.run('GET', 'seen')).not.toBeNull()
  })

  expect(await add(['a', 1])).toEqual([2])
  await second.run('WAIT', 1, 0)
  log.length = 0
  const died = set.switchedFrom(second)
  await second.stop()
  await died
  await eventually(async () => expect(await add(['c', 0])).toEqual([0]))
  expect(await add(['a', 1])).toEqual([3])
  expect(log.filter((line) => line.includes('is connected again'))).toHaveLength(1)
  expect(await (await set.master()).contents()).toMatchObject({ a: { value: '3' }, b: { value: '5' } })
}, 60_000)

test('9.2: REDIS_AUTH is not used for sentinels, and REDIS_SENTINEL_AUTH not for the master', async () => {
  const master = await startServer({ password: 'data', args: ['--requirepass', 'data'] })
  const sentinel = await startSentinelFor(master, `sentinel auth-pass ${MASTER_NAME} data\n`, {
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
    const message = await connect(at, { auth, sentinelAuth, startup }).then(
      () => '',
      (failure: Error) => failure.message,
    )
    if (error === '') expect(message).toBe('')
    else expect(message).toContain(error)
    expect(message).not.toContain(':watch@')
  }
})

test('9.1: of sentinels that disagree, the newest epoch wins', async () => {
  const [older, newer] = await Promise.all([startServer(), startServer()])
  const start = (server: RedisServer, epoch: number) =>
    startSentinelFor(server, `sentinel config-epoch ${MASTER_NAME} ${epoch}\n`)
  const sentinels = await Promise.all([start(older, 3), start(newer, 4)])
  for (const [one, other] of [sentinels, sentinels.toReversed()]) {
    const { add, store } = await connect(`mymaster,${one.address},${other.address}`)
    await add(['a', 1])
    await store.close()
  }
  expect([await older.run('GET', 'a'), await newer.run('GET', 'a')]).toEqual([null, '2'])
})

test('9.1: of sentinels of one epoch, the master named by most wins, whichever replies first', async () => {
  const [named, other] = await Promise.all([startServer(), startServer()])
  const sentinels = await Promise.all([other, named, named].map((server) => startSentinelFor(server)))
  const proxies = await Promise.all(sentinels.map(({ port }) => startTcpProxy(port)))
  onTestFinished(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))))
  const url = [MASTER_NAME, ...proxies.map(({ port }) => `127.0.0.1:${port}`)].join(',')
  for (const [i, proxy] of proxies.entries()) {
    proxy.delay(100) // so the two others reply first
    const { add, store } = await connect(url)
    expect(await add([`a${i}`, 1])).toEqual([1])
    await store.close()
    proxy.delay(0)
  }
  expect(Object.keys(await named.contents())).toEqual(['a0', 'a1', 'a2'])
  expect(await other.contents()).toEqual({})
})

test('hits whose reply is lost count once', async () => {
  const master = await startServer()
  const proxy = await startTcpProxy(master.port)
  onTestFinished(() => proxy.stop())
  const sentinel = await startSentinelFor(proxy)
  const { add } = await connect(`mymaster,${sentinel.address}`)
  await add(['a', 1])
  await sentinel.stop() // it uses the proxy as well
  proxy.loseNextReply()
  expect(await add(['a', 1])).toEqual([expect.stringContaining('the hits may have been counted')])
  expect(await master.contents()).toMatchObject({ a: { value: '2' } })
})

// biome-ignore format: a table
const nonsense = [
  // get-master-addr-by-name, config-epoch
  [bulks('127.0.0.1', '99999999'),           '9'],
  [bulks('127.0.0.1', 'abc'),                '9'],
  [bulks('127.0.0.1', '0'),                  '9'],
  [bulks('', ''),                            '9'],
  [bulks('a\nlevel=fatal', '1'),             '9'],
  [bulks('redis://u:p@127.0.0.1:1/3', '1'),  '9'],
  [bulks('a:b', '1'),                        '9'],
  [bulks('a'),                               '9'],
  ['*2\r\n*1\r\n:1\r\n*0\r\n',              '9'],
  [bulks('127.0.0.1', '1'),                  '99999999999999999999999'],
  [bulks('127.0.0.1', '1'),                  '-1'],
] as const
test.each(nonsense)(
  'a sentinel whose reply is nonsense is not followed: %j, epoch %s',
  async (address, epoch) => {
    const master = await startServer()
    const honest = await startSentinelFor(master)
    let isLying = false
    const liar = await startLyingServer(([, command]) => {
      if (command === 'get-master-addr-by-name')
        return isLying ? address : bulks('127.0.0.1', String(master.port))
      return bulks('name', 'm', 'config-epoch', isLying ? epoch : '1')
    })
    const { add, log } = await connect(`${MASTER_NAME},${liar.address},${honest.address}`)
    await add(['a', 1])
    isLying = true
    const line = `warning Redis Sentinel at ${liar.address}: its reply names no usable address and epoch of the master`
    await eventually(() => expect(log.filter((text) => text.startsWith(line))).toHaveLength(1))
    expect(await add(['a', 1])).toEqual([2])
    expect(log.join()).not.toContain('disconnected')
  },
)
