/** Helpers for tests of stores: add a batch, get each member's count or error; a Redis per file with a store per test. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished } from 'vitest'
import { Batch } from '../../../engine/stores/batch.ts'
import { Counter } from '../../../engine/stores/counter.ts'
import type { CounterStore } from '../../../engine/stores/counter-store.ts'
import { type RedisOptions, RedisStore } from '../../../engine/stores/redis/redis-store.ts'
import type { InstanceHealth } from '../../../engine/stores/store-health.ts'
import { eventually } from '../../helpers/eventually.ts'
import { type RedisServer, startRedis } from '../../helpers/redis.ts'
import { startTcpProxy, type TcpProxy } from '../../helpers/tcp-proxy.ts'

export const NOW_SEC = 1_790_000_000
export const WINDOW_SEC = 60
export const EXPIRY_SEC = 1_000
/** A counter's time to live some time after its expiry was set. */
export const EXPIRY_TTL_SEC: number = expect.closeTo(EXPIRY_SEC, -2) // within 50 s

export type Hits = [key: string, hits: number | bigint]

/** Adds one batch; resolves with each member's count after (2^53-1 stands for more), or its error's text. */
export async function addAll(
  store: CounterStore,
  hits: Hits[],
  nowSec: number,
  isPerSecond: (key: string) => boolean = () => false,
): Promise<(number | string)[]> {
  const batch = new Batch()
  for (const [key, count] of hits) {
    batch.add(new Counter(key), count, 0, nowSec + WINDOW_SEC, EXPIRY_SEC, isPerSecond(key))
  }
  const befores = await addBatch(store, batch, nowSec)
  return befores.map((before, member) =>
    typeof before === 'string' ? before : Math.min(before + Number(hits[member][1]), Number.MAX_SAFE_INTEGER),
  )
}

/** Each member's count before its hits, or its error's text. */
export function addBatch(store: CounterStore, batch: Batch, nowSec: number): Promise<(number | string)[]> {
  return new Promise((resolve) => {
    store.add(batch, nowSec, () => {
      const members = Array.from({ length: batch.membersCount }, (_, member) => member)
      resolve(members.map((member) => batch.getError(member)?.message ?? batch.getPreviousCount(member)))
    })
  })
}

/** A request of a stopping batch: its counters with hits and limit. */
export type StopRequest = [key: string, hits: number, limit: number][]

/** Adds requests in one stopping batch (spec 4.2); resolves with each counter's count before, per request. */
export async function addStopping(
  store: CounterStore,
  requests: readonly StopRequest[],
  nowSec: number,
  isPerSecond: (key: string) => boolean = () => false,
): Promise<(number | string)[][]> {
  const batch = new Batch(true)
  for (const request of requests) {
    for (const [key, hits, limit] of request) {
      batch.add(new Counter(key), hits, limit, nowSec + WINDOW_SEC, EXPIRY_SEC, isPerSecond(key))
    }
    batch.endRequest()
  }
  const befores = await addBatch(store, batch, nowSec)
  return requests.map((request) => befores.splice(0, request.length))
}

export function createRedisOptions(url: string, options: Partial<RedisOptions> = {}): RedisOptions {
  return {
    url,
    socketType: 'tcp',
    auth: '',
    timeoutMs: 10_000, // generous, as the next one: a busy machine must not fail a test
    operationTimeoutMs: 10_000,
    startup: { initialMs: 20, maxMs: 100, maxElapsedMs: 20_000 },
    ...options,
  }
}

/** A store with everything it has logged and reported. */
export interface ObservedStore {
  store: RedisStore
  log: string[] // `<level> <message>`
  reports: (readonly InstanceHealth[])[]
}

export function createRedisStore(options: RedisOptions, signal?: AbortSignal): ObservedStore {
  const log: string[] = []
  const reports: (readonly InstanceHealth[])[] = []
  const store = new RedisStore(options, {
    log: (level, message) => log.push(`${level} ${message}`),
    onHealth: (instances) => reports.push([...instances]),
    signal,
  })
  return { store, log, reports }
}

/** A connected store, closed when the test ends. */
export async function connectRedisStore(
  url: string,
  options: Partial<RedisOptions> = {},
): Promise<ObservedStore> {
  const observed = createRedisStore(createRedisOptions(url, options))
  onTestFinished(() => observed.store.close())
  await observed.store.connect()
  return observed
}

/** `isConnected` of the first instance, without repetitions. */
export function getConnectionChanges(reports: ObservedStore['reports']): boolean[] {
  const states = reports.map(([{ isConnected }]) => isConnected)
  return states.filter((isConnected, i) => isConnected !== states[i - 1])
}

export function awaitConnected(store: RedisStore, isConnected = true): Promise<void> {
  return eventually(() => {
    if (store.isConnected !== isConnected) throw new Error(`isConnected is ${store.isConnected}`)
  })
}

/** A Redis for all tests of a file; each test finds it empty, and a store connected to it through a proxy. */
export interface ProxiedRedis extends ObservedStore {
  redis: RedisServer
  proxy: TcpProxy
  address: string // of the proxy
}

export function useProxiedRedis(): ProxiedRedis {
  const proxied = {} as ProxiedRedis
  beforeAll(async () => {
    proxied.redis = await startRedis()
  })
  afterAll(() => proxied.redis.stop())
  beforeEach(async () => {
    await proxied.redis.run('FLUSHALL')
    await proxied.redis.run('SCRIPT', 'FLUSH')
    proxied.proxy = await startTcpProxy(proxied.redis.port)
    proxied.address = `127.0.0.1:${proxied.proxy.port}`
    Object.assign(proxied, createRedisStore(createRedisOptions(proxied.address)))
    await proxied.store.connect()
  })
  afterEach(async () => {
    await proxied.store.close()
    await proxied.proxy.stop()
  })
  return proxied
}
