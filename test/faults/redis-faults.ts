/** A real Redis with a fault that can be begun and ended: the parts of the scenarios in `scenarios/redis*.ts`. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pauseRedis } from '../helpers/pause.ts'
import { type RedisServer, startRedis } from '../helpers/redis.ts'
import { type Command, type Fault, type RespProxy, startRespProxy } from './resp-proxy.ts'
import type { Parts } from './scenario.ts'

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

/** It is killed, and started again on its port. `duringArgs`: between the two another server runs there, with these arguments. */
export async function startKilled(args: string[] = [], duringArgs: string[] | null = null): Promise<Parts> {
  let redis = await startRedis({ args })
  const { port, address } = redis
  return {
    env: { REDIS_URL: address },
    begin: async () => {
      await redis.stop()
      if (duringArgs !== null) redis = await startRedis({ port, args: duringArgs })
    },
    end: async () => {
      if (duringArgs !== null) await redis.stop()
      redis = await startRedis({ port, args })
    },
    read: (keys) => readRedis(redis, keys),
    stop: () => redis.stop(),
  }
}

/** It is killed, and started again with all that it had replied to. */
export async function startDurable(): Promise<Parts> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-faults-'))
  const parts = await startKilled(['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always'])
  const stop = async () => {
    await parts.stop()
    await rm(folder, { recursive: true, force: true })
  }
  return { ...parts, stop }
}

/** It stops, its connections open, and continues. */
export async function startStopped(): Promise<Parts> {
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

/** Commands change it at the beginning and at the end of the fault. A function gets the bytes it uses. */
export async function startConfigured(
  begin: readonly string[] | ((usedBytes: number) => string[]),
  end: readonly string[],
  args: string[] = [],
): Promise<Parts & Pick<RedisServer, 'run'>> {
  const redis = await startRedis({ args })
  const run = ([command, ...rest]: readonly string[]) => redis.run(command, ...rest)
  return {
    run: redis.run,
    env: { REDIS_URL: redis.address },
    begin: async () => {
      const used = Number(/used_memory:(\d+)/.exec(String(await redis.run('INFO', 'memory')))?.[1])
      await run(typeof begin === 'function' ? begin(used) : begin)
    },
    end: async () => {
      await run(end)
    },
    read: (keys) => readRedis(redis, keys),
    stop: () => redis.stop(),
  }
}

/** A second Redis has the limits per second; the fault hits the one of `parts`, which is it or, with `isMain`, the other one. */
export async function withPerSecond(faulty: Parts, isMain: boolean): Promise<Parts> {
  const other = await startRedis()
  const [main, perSecond] = isMain
    ? [faulty.env.REDIS_URL, other.address]
    : [other.address, faulty.env.REDIS_URL]
  return {
    ...faulty,
    env: {
      REDIS_URL: main,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_URL: perSecond,
      REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
      REDIS_PERSECOND_OPERATION_TIMEOUT: '400ms',
    },
    read: (keys, isPerSecond) =>
      isPerSecond === isMain ? readRedis(other, keys) : faulty.read(keys, isPerSecond),
    stop: async () => {
      await faulty.stop()
      await other.stop()
    },
  }
}

export type Decide = (command: Command, random: () => number) => Fault | null

/** A proxy is in front of it. `begin` sets the fault; its end is that everything passes. */
export async function startProxied(begin: (proxy: RespProxy, random: () => number) => void): Promise<Parts> {
  const redis = await startRedis()
  const proxy = await startRespProxy(redis.port)
  return {
    env: { REDIS_URL: proxy.address },
    begin: ({ random }) => begin(proxy, random),
    end: () => {
      proxy.decide = null
      proxy.delayMs = 0
      proxy.isSplitting = false
      proxy.resume()
    },
    read: (keys) => readRedis(redis, keys),
    hiddenHits: () => proxy.hiddenHits,
    stop: async () => {
      await proxy.stop()
      await redis.stop()
    },
  }
}

/** The proxy decides about each command. */
export function startDecided(decide: Decide): Promise<Parts> {
  return startProxied((proxy, random) => {
    proxy.decide = (command) => decide(command, random)
  })
}
