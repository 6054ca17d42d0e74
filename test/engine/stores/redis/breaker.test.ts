/** The circuit breaker of a Redis node, with a real Redis that refuses writes, stalls, is slow or goes away. */
import { expect, onTestFinished, test } from 'vitest'
import { Stats } from '../../../../engine/stats/stats.ts'
import { NO_BREAKER } from '../../../../engine/stores/breakers.ts'
import type { BreakerOptions } from '../../../../engine/stores/circuit-breaker.ts'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { startCluster } from '../../../helpers/redis-cluster.ts'
import {
  addAll,
  addStopping,
  connectRedisStore,
  createRedisOptions,
  NOW_SEC,
  useProxiedRedis,
} from '../store-harness.ts'

const BREAKER: BreakerOptions = {
  ...NO_BREAKER,
  failuresInRow: 5,
  share: 0.5,
  windowMs: 60_000,
  probeIntervalMs: 20,
  successes: 2,
}
const OPEN = 'the circuit breaker is open'

const shared = useProxiedRedis()

async function connect(breaker: Partial<BreakerOptions> = {}, operationTimeoutMs = 10_000) {
  const options = { breaker: { ...BREAKER, ...breaker }, operationTimeoutMs }
  const observed = await connectRedisStore(shared.address, options)
  let calls = 0
  return {
    ...observed,
    /** One hit on `key`: its count or error. */
    hit: async (key = 'k') => (await addAll(observed.store, [[key, 1]], NOW_SEC))[0],
    stop: async (key = 'k') => (await addStopping(observed.store, [[[key, 1, 100]]], NOW_SEC))[0][0],
    /** Hits until one is refused by the breaker. */
    waitUntilOpen: (hit: (key: string) => Promise<number | string>) =>
      eventually(async () => expect(await hit(`open${calls++}`)).toContain(OPEN)),
    waitUntilCounted: (hit: (key: string) => Promise<number | string>) =>
      eventually(async () => expect(await hit(`again${calls++}`)).toEqual(expect.any(Number))),
    openNodes: () => observed.reports.at(-1)![0].openBreakers?.map(({ node }) => node) ?? [],
  }
}

for (const mode of ['plain', 'script'] as const) {
  test(`${mode}: errors of the server open it; a probe that repeats a hit closes it, PING would close it too early`, async () => {
    const on = await connect()
    const hit = mode === 'plain' ? on.hit : on.stop
    await hit()
    await shared.redis.run('CONFIG', 'SET', 'maxmemory', '1')
    onTestFinished(() => void shared.redis.run('CONFIG', 'SET', 'maxmemory', '0'))
    const errors = [await hit('a'), await hit('b'), await hit('c'), await hit('d')]
    for (const error of errors) expect(error).toContain('OOM command not allowed')
    expect(on.openNodes()).toEqual([])
    expect(await hit('e')).toContain('OOM')
    expect(await hit('f')).toMatch(
      /^redis 127\.0\.0\.1:\d+: the circuit breaker is open \(5 trips in a row failed, the last with: OOM/,
    )
    expect(on.openNodes()).toEqual([shared.address])
    const probes = async () =>
      Number(
        /cmdstat_incrby:.*?rejected_calls=(\d+)/.exec(
          String(await shared.redis.run('INFO', 'commandstats')),
        )?.[1],
      )
    const before = await probes()
    await eventually(async () => expect(await probes()).toBeGreaterThan(before + 3))
    expect(await hit('g')).toContain(OPEN)
    await shared.redis.run('CONFIG', 'SET', 'maxmemory', '0')
    await on.waitUntilCounted(hit)
    expect(on.openNodes()).toEqual([])
  })
}

test('errors about single counters do not open it', async () => {
  const on = await connect()
  await shared.redis.run('LPUSH', 'list', 'x')
  for (let i = 0; i < 20; i++) expect(await on.hit('list')).toContain('WRONGTYPE')
  for (let i = 0; i < 20; i++) expect(await on.stop('list')).toContain('WRONGTYPE')
  expect(await on.hit()).toBe(1)
})

test('a stalled Redis: later hits do not wait, and it is used again when it replies', async () => {
  const on = await connect({ failuresInRow: 1 }, 300)
  await on.waitUntilCounted(on.hit) // on a busy machine the first hits may be late
  shared.proxy.stall()
  expect(await on.hit()).toContain('no reply within 300ms')
  const turn = Promise.race([on.hit(), new Promise((resolve) => setImmediate(resolve, 'waited'))])
  expect(await turn).toContain(OPEN)
  shared.proxy.resume()
  await on.waitUntilCounted(on.hit)
})

test('silence while calls reach their deadlines opens it; earlier hits do not wait any longer, and are counted once', async () => {
  const on = await connect({ silenceMs: 1, failuresInRow: 1_000 })
  await on.hit('a')
  on.store.onLate()
  expect(on.openNodes()).toEqual([])
  shared.proxy.stall()
  const pending = on.hit('a')
  await eventually(() => {
    on.store.onLate()
    expect(on.openNodes()).toEqual([shared.address])
  })
  expect(await on.hit('b')).toMatch(
    /circuit breaker is open \(no reply for \d+ ms, and calls reached their deadlines\)$/,
  )
  expect(await pending).toMatch(/circuit breaker is open \(no reply for .*; the hits may have been counted$/)
  shared.proxy.resume()
  await on.waitUntilCounted(on.hit)
  expect(await on.hit('a')).toBe(3)
})

test('slow trips open it, and fast probes close it', async () => {
  const on = await connect({ latencyMs: 30, failuresInRow: 1_000 })
  shared.proxy.delay(100)
  await on.waitUntilOpen(on.hit)
  expect(on.reports.at(-1)![0].openBreakers![0].reason).toMatch(
    /^\d+ of \d+ trips within 60000 ms failed or took more than 30 ms$/,
  )
  shared.proxy.delay(0)
  await on.waitUntilCounted(on.hit)
})

test('a lost connection: open while Redis is away, used soon after it is back', async () => {
  const on = await connect({ probeIntervalMs: 60_000, successes: 1 })
  await shared.proxy.refuse()
  await eventually(async () => expect(await on.hit()).toContain('no connection'))
  await eventually(() => expect(on.openNodes()).toEqual([shared.address]))
  await shared.proxy.accept()
  await on.waitUntilCounted(on.hit) // long before the next probe
})

test('probes create no counter without an expiry and change no count', async () => {
  const on = await connect()
  for (let i = 0; i < 3; i++) await on.hit('counted')
  await shared.redis.run('CONFIG', 'SET', 'maxmemory', '1')
  onTestFinished(() => void shared.redis.run('CONFIG', 'SET', 'maxmemory', '0'))
  for (let i = 0; i < 6; i++) await on.hit('counted')
  await shared.redis.run('CONFIG', 'SET', 'maxmemory', '0')
  await eventually(() => expect(on.openNodes()).toEqual([]))
  expect(await on.hit('counted')).toBe(4)
  for (const { ttlSec } of Object.values(await shared.redis.contents())) expect(ttlSec).toBeGreaterThan(0)
})

test('each node of a cluster has its own', async () => {
  const cluster = await startCluster({ args: ['--cluster-require-full-coverage', 'no'] })
  onTestFinished(() => cluster.stop())
  const stats = new Stats()
  const options = createRedisOptions(cluster.url, { type: 'cluster', breaker: BREAKER })
  const store = new RedisStore(options, { log: () => {}, stats })
  onTestFinished(() => store.close())
  await store.connect()
  const keys = Array.from({ length: 60 }, (_, i) => `k${i}`)
  const addEach = () =>
    addAll(
      store,
      keys.map((key): [string, number] => [key, 1]),
      NOW_SEC,
    )
  expect(await addEach()).toEqual(keys.map(() => 1))
  const [first] = cluster.nodes
  await first.run('CONFIG', 'SET', 'maxmemory', '1')
  await eventually(async () => expect(String(await addEach())).toContain(OPEN))
  const counts = await addEach()
  const refused = counts.filter((count) => typeof count === 'string')
  expect(refused.every((error) => error.includes(`${first.address}: ${OPEN}`))).toBe(true)
  expect(refused.length).toBeGreaterThan(5)
  expect(refused.length).toBeLessThan(40)
  const gauges = Object.fromEntries(stats.takeDeltas().gauges)
  const name = (port: number) => `sluice.store.breaker_open.__node=127_0_0_1_${port}`
  expect(cluster.nodes.map(({ port }) => gauges[name(port)])).toEqual([1, 0, 0])
})
