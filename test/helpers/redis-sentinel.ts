/**
 * A master with replicas, and three sentinels that watch it, on private ports. A stopped master is replaced after about 2 s.
 *
 *     const set = await startSentinel()
 *     set.url                     mymaster,127.0.0.1:1,127.0.0.1:2,127.0.0.1:3
 *     await (await set.master()).stop()   and soon `set.master()` is another server
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Certificates } from './certificates.ts'
import { type RedisServer, type RedisServerOptions, startRedis } from './redis.ts'

export interface SentinelSet {
  url: string
  servers: RedisServer[] // the first was the master at the start
  sentinels: RedisServer[]
  /** The current master according to the first sentinel. */
  master(): Promise<RedisServer>
  /** Resolves when a quorum of sentinels names another master. */
  switchedFrom(old: RedisServer): Promise<void>
  /** Starts a server that was stopped, empty, as a replica of the current master. Resolves when it has the master's data. */
  revive(server: RedisServer): Promise<void>
  /** Resolves when each server but the master is its replica with its data, and the sentinels see that. */
  settled(): Promise<void>
  stop(): Promise<void>
}

export interface SentinelOptions {
  replicas?: number
  password?: string // of the servers
  sentinelPassword?: string
  tls?: Certificates
}

const SENTINELS = 3
const QUORUM = 2
const WAIT_MS_MAX = 60_000

export async function startSentinel(options: SentinelOptions = {}): Promise<SentinelSet> {
  const { replicas = 1, password, sentinelPassword, tls } = options
  const secret = password ? ['--requirepass', password, '--masterauth', password] : []
  const start = (more: string[]) =>
    startRedis({ password, tls, args: ['--repl-diskless-sync-delay', '0', ...secret, ...more] })
  const master = await start([])
  const followers = Array.from({ length: replicas }, () =>
    start(['--replicaof', '127.0.0.1', `${master.port}`]),
  )
  const servers = [master, ...(await Promise.all(followers))]
  const sentinel = {
    tls,
    password: sentinelPassword,
    sentinel: sentinelConfiguration(master.port, options),
    args: sentinelPassword ? ['--requirepass', sentinelPassword] : [],
  } satisfies RedisServerOptions
  const sentinels = await Promise.all(Array.from({ length: SENTINELS }, () => startRedis(sentinel)))
  const set: SentinelSet = {
    url: ['mymaster', ...sentinels.map(({ address }) => address)].join(','),
    servers,
    sentinels,
    async master() {
      const port = await masterPort(sentinels[0])
      return servers.find((server) => server.port === port)!
    },
    switchedFrom: (old) =>
      until(async () => {
        const ports = await Promise.all(sentinels.map(masterPort))
        return ports.filter((port) => port !== old.port).length >= QUORUM
      }),
    async revive(server) {
      const { port } = await set.master()
      const args = ['--repl-diskless-sync-delay', '0', '--replicaof', '127.0.0.1', `${port}`, ...secret]
      servers[servers.indexOf(server)] = await startRedis({ port: server.port, password, tls, args })
      await set.settled()
    },
    settled: () =>
      until(async () => {
        const { port } = await set.master()
        const copies = servers.filter((server) => server.port !== port)
        const reports = await Promise.all(copies.map((copy) => copy.run('INFO', 'replication')))
        const isCopy = (report: string) =>
          report.includes(`master_port:${port}\r`) && report.includes('master_link_status:up')
        return reports.every((report) => isCopy(String(report))) && knowAll(sentinels, replicas)
      }),
    async stop() {
      await Promise.all([...sentinels, ...servers].map((server) => server.stop()))
    },
  }
  await until(() => knowAll(sentinels, replicas))
  return set
}

function sentinelConfiguration(port: number, { password, sentinelPassword, tls }: SentinelOptions): string {
  const lines = [
    `sentinel monitor mymaster 127.0.0.1 ${port} ${QUORUM}`,
    'sentinel down-after-milliseconds mymaster 500',
    'sentinel failover-timeout mymaster 5000',
    password && `sentinel auth-pass mymaster ${password}`,
    sentinelPassword && `sentinel sentinel-pass ${sentinelPassword}`,
    tls && 'tls-replication yes',
  ]
  return `${lines.filter(Boolean).join('\n')}\n`
}

async function masterPort(sentinel: RedisServer): Promise<number> {
  const address = (await sentinel.run('SENTINEL', 'get-master-addr-by-name', 'mymaster')) as string[]
  return Number(address[1])
}

/** Whether each sentinel knows the replicas and the other sentinels, without which no fail-over succeeds. */
async function knowAll(sentinels: RedisServer[], replicas: number): Promise<boolean> {
  for (const sentinel of sentinels) {
    const fields = (await sentinel.run('SENTINEL', 'master', 'mymaster')) as string[]
    const field = (name: string) => fields[fields.indexOf(name) + 1]
    if (Number(field('num-slaves')) !== replicas) return false
    if (Number(field('num-other-sentinels')) !== SENTINELS - 1) return false
  }
  return true
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const endMs = Date.now() + WAIT_MS_MAX
  while (!(await isSo())) {
    if (Date.now() > endMs) throw new Error(`the sentinels did not reach this state within ${WAIT_MS_MAX} ms`)
    await sleep(20)
  }
}
