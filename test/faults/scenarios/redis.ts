/** A real Redis that is killed, stopped, restarted, full, or evicting. */
import { pauseRedis } from '../../helpers/pause.ts'
import { type RedisServer, startRedis } from '../../helpers/redis.ts'
import { now } from '../load.ts'
import { type LoadScenario, type Parts, type Scenario, underLoad } from '../scenario.ts'

const READ_KEYS_MAX = 1_000 // of one MGET

export async function readRedis(
  { client }: RedisServer,
  keys: readonly string[],
): Promise<(number | null)[]> {
  const values: (number | null)[] = []
  for (let i = 0; i < keys.length; i += READ_KEYS_MAX) {
    const texts = await client.mget(...keys.slice(i, i + READ_KEYS_MAX))
    values.push(...texts.map((text) => (text === null ? null : Number(text))))
  }
  return values
}

/** A Redis that is killed and started again on its port. `args` apply to both. */
async function startKilled(args: string[] = []): Promise<Parts> {
  let redis = await startRedis({ args })
  return {
    env: { REDIS_URL: redis.address },
    begin: () => redis.stop(),
    end: async () => {
      redis = await startRedis({ port: redis.port, args })
    },
    read: (keys) => readRedis(redis, keys),
    stop: () => redis.stop(),
  }
}

async function startStopped(): Promise<Parts> {
  const redis = await startRedis()
  let resume = () => {}
  return {
    env: { REDIS_URL: redis.address },
    begin: async () => {
      resume = (await pauseRedis(redis)).resume
    },
    end: () => resume(),
    read: (keys) => readRedis(redis, keys),
    stop: async () => {
      resume()
      await redis.stop()
    },
  }
}

const BASIC: LoadScenario[] = [
  {
    name: 'redis-none',
    fault: 'none: the load and the checker alone',
    promise: 'every call is counted, every counter is exact',
    start: async () => {
      const redis = await startRedis()
      const nothing = () => {}
      return {
        env: { REDIS_URL: redis.address },
        begin: ({ history }) => history.endFault(now()), // so degraded answers are reported
        end: nothing,
        read: (keys) => readRedis(redis, keys),
        stop: () => redis.stop(),
      }
    },
  },
  {
    name: 'redis-killed',
    fault: 'Redis is killed and started again without its data',
    promise: 'the policies answer meanwhile; limits hold before and after',
    losesCounts: true,
    start: () => startKilled(),
  },
  {
    name: 'redis-stopped',
    fault: 'Redis is stopped (SIGSTOP) and continued: its connections stay open',
    promise: 'calls are answered by their deadlines; late hits are counted at most once and flagged',
    start: startStopped,
  },
]

export const scenarios: readonly Scenario[] = BASIC.map(underLoad)
