/**
 * memcached that is killed, stopped or slow. It counts in two steps, a read before the answer and an increment after it; one worker counts
 * its own calls in order, so with one worker limits are exact as long as no increment is lost.
 */
import { selectServer } from '../../../engine/stores/memcached/server-list.ts'
import { type MemcachedServer, startMemcached } from '../../helpers/memcached.ts'
import { pauseMemcached } from '../../helpers/pause.ts'
import { startTcpProxy } from '../../helpers/tcp-proxy.ts'
import { type LoadScenario, type Parts, type Scenario, underLoad } from '../scenario.ts'
import { checkOthers } from '../spared.ts'

const READ_KEYS_MAX = 100 // of one get
const SLOW_MS = 100

async function readMemcached(
  memcached: MemcachedServer,
  keys: readonly string[],
): Promise<(number | null)[]> {
  const values = new Map<string, number>()
  for (let i = 0; i < keys.length; i += READ_KEYS_MAX) {
    const reply = await memcached.run(`get ${keys.slice(i, i + READ_KEYS_MAX).join(' ')}`)
    for (const [, key, value] of reply.matchAll(/^VALUE (\S+) \d+ \d+\r\n(\d+) *$/gm))
      values.set(key, Number(value))
  }
  return keys.map((key) => values.get(key) ?? null)
}

const toEnv = (address: string, more: Record<string, string> = {}) => ({
  BACKEND_TYPE: 'memcache',
  MEMCACHE_HOST_PORT: address,
  WORKERS: '1',
  ...more,
})

async function startKilled(): Promise<Parts> {
  let memcached = await startMemcached()
  return {
    env: toEnv(memcached.address),
    begin: () => memcached.stop(),
    end: async () => {
      memcached = await startMemcached({ port: memcached.port })
    },
    read: (keys) => readMemcached(memcached, keys),
    stop: () => memcached.stop(),
  }
}

async function startStopped(): Promise<Parts> {
  const memcached = await startMemcached()
  let resume = () => {}
  return {
    env: toEnv(memcached.address),
    begin: async () => {
      resume = (await pauseMemcached(memcached)).resume
    },
    end: () => resume(),
    read: (keys) => readMemcached(memcached, keys),
    stop: async () => {
      resume()
      await memcached.stop()
    },
  }
}

/** Replies take SLOW_MS. With `latency`, that is more than the circuit breaker allows. */
async function startSlow(latency: string | null): Promise<Parts> {
  const memcached = await startMemcached()
  const proxy = await startTcpProxy(memcached.port)
  return {
    env: toEnv(
      `127.0.0.1:${proxy.port}`,
      latency === null ? {} : { STORE_BREAKER_LATENCY: latency, STORE_BREAKER_WINDOW: '500ms' },
    ),
    begin: () => proxy.delay(SLOW_MS),
    end: () => proxy.delay(0),
    read: (keys) => readMemcached(memcached, keys),
    stop: async () => void (await Promise.all([memcached.stop(), proxy.stop()])),
  }
}

/** `isKilled`: the second of three is killed and started again; else it is stopped and continued. */
async function startOneOfThree(isKilled: boolean): Promise<Parts> {
  const servers = await Promise.all(Array.from({ length: 3 }, () => startMemcached()))
  let resume = () => {}
  const read = async (keys: readonly string[]) => {
    const values = new Map<string, number | null>()
    const keysByServer = Map.groupBy(keys, (key) => servers[selectServer(key, servers.length)])
    for (const [server, own] of keysByServer)
      for (const [i, value] of (await readMemcached(server, own)).entries()) values.set(own[i], value)
    return keys.map((key) => values.get(key) ?? null)
  }
  return {
    env: toEnv(servers.map(({ address }) => address).join(','), { RESPONSE_DYNAMIC_METADATA: 'true' }),
    begin: async (stage) => {
      if (isKilled) await servers[1].stop()
      else resume = (await pauseMemcached(servers[1])).resume
      await checkOthers(stage, (key) => selectServer(key, servers.length) !== 1, read)
    },
    end: async () => {
      if (isKilled) servers[1] = await startMemcached({ port: servers[1].port })
      else resume()
    },
    read,
    stop: async () => {
      resume()
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}

const COMMON: Pick<LoadScenario, 'losesCounts' | 'losesWhenBusy' | 'lossAfterMs' | 'history'> = {
  losesCounts: true, // increments follow the answers
  losesWhenBusy: true, // no reply within 500 ms
  lossAfterMs: 1_000, // until connections are open and circuit breakers closed again
  history: {
    losesSome: true,
    countsRepeatsAlike: true,
    mayEvict: ({ unit }) => unit === 'second', // memcached's clock ticks once a second: an expiry of 1 s may come at once
    deadlineMs: 1_000, // a read and its connection take 500 ms at most
  },
}

const SCENARIOS: LoadScenario[] = [
  {
    name: 'memcached-killed',
    fault: 'memcached is killed and started again',
    promise: 'the policies answer meanwhile; its counts are lost',
    ...COMMON,
    start: startKilled,
  },
  {
    name: 'memcached-stopped',
    fault: 'memcached is stopped (SIGSTOP) and continued',
    promise: 'calls are answered by their deadlines; hits answered just before may be lost',
    ...COMMON,
    start: startStopped,
  },
  {
    name: 'memcached-slow',
    fault: `replies of memcached take ${SLOW_MS} ms`,
    promise: 'calls wait for them, or for their deadlines',
    ...COMMON,
    start: () => startSlow(null),
  },
  {
    name: 'memcached-slow-breaker',
    fault: `replies of memcached take ${SLOW_MS} ms, with STORE_BREAKER_LATENCY=50ms and STORE_BREAKER_WINDOW=500ms`,
    promise: 'the circuit breaker opens, and the policies answer without waiting',
    ...COMMON,
    opensBreaker: true,
    start: () => startSlow('50ms'),
  },
  {
    name: 'memcached-one-killed',
    fault: 'one of three memcached servers is killed and started again',
    promise: 'counters of the others are not degraded, and exact',
    ...COMMON,
    failsPartly: true,
    start: () => startOneOfThree(true),
  },
  {
    name: 'memcached-one-stopped',
    fault: 'one of three memcached servers is stopped (SIGSTOP) and continued',
    promise: 'counters of the others are not degraded, and exact',
    ...COMMON,
    failsPartly: true,
    start: () => startOneOfThree(false),
  },
]

export const scenarios: readonly Scenario[] = SCENARIOS.map(underLoad)
