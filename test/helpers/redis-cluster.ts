/**
 * A Redis Cluster of three masters on private ports, each with a third of the hash slots, and on request a replica of each.
 *
 *     const cluster = await startCluster()
 *     cluster.url                        127.0.0.1:1,127.0.0.1:2,127.0.0.1:3
 *     await cluster.move(slot, node)     with its keys, while it is in use
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Certificates } from './certificates.ts'
import { freePort } from './ports.ts'
import { type RedisServer, startRedis } from './redis.ts'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts'

export interface Cluster {
  url: string
  nodes: RedisServer[] // the masters at the start
  replicas: RedisServer[] // replicas[i] of nodes[i], with `hasReplicas`
  /** Starts a node that was stopped, as a replica if another has replaced it, else with its slots and without its keys. */
  revive(node: RedisServer): Promise<void>
  proxies: TcpProxy[] // of the nodes, with `isProxied`
  findOwner(slot: number): Promise<RedisServer>
  /** Resolves when the replica of the node has replaced it and every other node knows. The node must be down. */
  replaced(node: RedisServer): Promise<void>
  /** Begins to move a hash slot: from now on each of its keys is on one node or the other. */
  beginMove(slot: number, to: RedisServer): Promise<void>
  /** Moves keys of a slot whose move has begun; all of them without a count. */
  moveKeys(slot: number, to: RedisServer, count?: number): Promise<void>
  endMove(slot: number, to: RedisServer): Promise<void>
  /** A whole move. */
  move(slot: number, to: RedisServer): Promise<void>
  contents(): Promise<Record<string, { value: string; ttlSec: number }>>
  run(command: string, ...args: (string | number)[]): Promise<unknown[]> // on every node
  stop(): Promise<void>
}

const HASH_SLOTS = 16_384
const NODES = 3
const WAIT_MS_MAX = 60_000
const MIGRATE_MS_MAX = 5_000
const KEYS_AT_ONCE = 10

export interface ClusterOptions {
  args?: string[] // further arguments of redis-server
  password?: string
  tls?: Certificates
  isProxied?: boolean // each node announces the port of a TCP proxy
  hasReplicas?: boolean // which replace a master that is down for 2 s
}

export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const { password, hasReplicas = false } = options
  const homes = new Map<number, Home>() // by port
  const started = await Promise.all(Array.from({ length: NODES }, () => startNode(options, homes)))
  const nodes = started.map(({ node }) => node)
  const proxies = started.flatMap(({ proxy }) => (proxy ? [proxy] : []))
  const ids = await Promise.all(nodes.map(async (node) => String(await node.run('CLUSTER', 'MYID'))))
  await Promise.all(
    nodes.map(async (node, i) => {
      const [first, next] = [i, i + 1].map((n) => Math.floor((n * HASH_SLOTS) / NODES))
      await node.run('CLUSTER', 'SET-CONFIG-EPOCH', i + 1) // equal epochs would first have to be resolved
      await node.run('CLUSTER', 'ADDSLOTSRANGE', first, next - 1)
    }),
  )
  for (const node of nodes.slice(1))
    await nodes[0].run('CLUSTER', 'MEET', '127.0.0.1', node.port, await busPort(node))
  const replicas: RedisServer[] = []
  if (hasReplicas) {
    const more = await Promise.all(nodes.map(() => startNode({ ...options, isProxied: false }, homes)))
    replicas.push(...more.map(({ node }) => node))
    for (const node of replicas)
      await nodes[0].run('CLUSTER', 'MEET', '127.0.0.1', node.port, await busPort(node))
  }
  const getAll = () => [...nodes, ...replicas]
  await Promise.all(getAll().map((node) => isReady(node, getAll().length)))
  await Promise.all(replicas.map((node, i) => node.run('CLUSTER', 'REPLICATE', ids[i])))
  await Promise.all(replicas.map(hasCopy))

  const findOwner = async (slot: number) => {
    const ranges = (await nodes[0].run('CLUSTER', 'SLOTS')) as [number, number, [string, number, string]][]
    const range = ranges.find(([first, last]) => first <= slot && slot <= last)!
    return nodes[ids.indexOf(range[2][2])]
  }
  const getId = (node: RedisServer) => ids[nodes.indexOf(node)]
  const cluster: Cluster = {
    url: (proxies.length > 0 ? proxies : nodes).map(({ port }) => `127.0.0.1:${port}`).join(','),
    nodes,
    replicas,
    proxies,
    findOwner: findOwner,
    async replaced(node) {
      const replica = replicas[nodes.indexOf(node)]
      const others = getAll().filter((each) => each !== node)
      await until(async () => {
        const views = await Promise.all(others.map((each) => each.run('CLUSTER', 'SLOTS')))
        return (views as [number, number, [string, number]][][]).every(
          (ranges) =>
            ranges.some(([, , [, port]]) => port === replica.port) &&
            ranges.every(([, , [, port]]) => port !== node.port),
        )
      }, `the replica of ${node.address} did not replace it`)
    },
    async revive(node) {
      const i = nodes.indexOf(node)
      const { node: revived } = await startNode(options, homes, homes.get(node.port))
      nodes[i] = revived
      await isReady(revived, getAll().length)
      if (!hasReplicas) return
      await until(async () => {
        const copies = (await revived.run('ROLE')) as string[]
        return copies[0] === 'slave'
      }, `${node.address} did not become a replica`)
      ;[nodes[i], replicas[i]] = [replicas[i], revived]
      ids[i] = String(await nodes[i].run('CLUSTER', 'MYID'))
      await hasCopy(revived)
    },
    async beginMove(slot, to) {
      const from = await findOwner(slot)
      await to.run('CLUSTER', 'SETSLOT', slot, 'IMPORTING', getId(from))
      await from.run('CLUSTER', 'SETSLOT', slot, 'MIGRATING', getId(to))
    },
    async moveKeys(slot, to, count = Number.POSITIVE_INFINITY) {
      const from = await findOwner(slot)
      const secret = password === undefined ? [] : ['AUTH', password]
      for (let left = count; left > 0; ) {
        const some = Math.min(KEYS_AT_ONCE, left)
        const keys = (await from.run('CLUSTER', 'GETKEYSINSLOT', slot, some)) as string[]
        if (keys.length === 0) break
        await from.run('MIGRATE', '127.0.0.1', to.port, '', 0, MIGRATE_MS_MAX, ...secret, 'KEYS', ...keys)
        left -= keys.length
      }
    },
    async endMove(slot, to) {
      const others = nodes.filter((node) => node !== to)
      for (const node of [to, ...others]) await node.run('CLUSTER', 'SETSLOT', slot, 'NODE', getId(to))
      await agree(nodes) // a slot that moves on before all nodes know may lose its owner (observed)
    },
    async move(slot, to) {
      if ((await findOwner(slot)) === to) return
      await cluster.beginMove(slot, to)
      await cluster.moveKeys(slot, to)
      await cluster.endMove(slot, to)
    },
    async contents() {
      return Object.assign({}, ...(await Promise.all(nodes.map((node) => node.contents()))))
    },
    run: (command, ...more) => Promise.all(nodes.map((node) => node.run(command, ...more))),
    async stop() {
      await Promise.all([...proxies, ...getAll()].map((one) => one.stop()))
      for (const { folder } of homes.values()) await rm(folder, { recursive: true, force: true })
    },
  }
  return cluster
}

/** What a node keeps when it is stopped: its ports, and the folder with what it knows of the cluster. */
interface Home {
  port: number
  busPort: number
  folder: string
}

async function startNode(
  { args = [], password, tls, isProxied }: ClusterOptions,
  homes: Map<number, Home>,
  home?: Home,
) {
  const port = home?.port ?? (await freePort())
  const busPort = home?.busPort ?? (await freePort())
  const folder = home?.folder ?? (await mkdtemp(join(tmpdir(), 'sluice-redis-')))
  homes.set(port, { port, busPort, folder })
  const proxy = isProxied ? await startTcpProxy(port) : null
  // biome-ignore format: pairs of name and value
  const own = ['--cluster-enabled', 'yes', '--cluster-port', String(busPort), '--cluster-node-timeout', '2000', '--repl-diskless-sync-delay', '0',
    ...(proxy ? ['--cluster-announce-port', String(proxy.port), '--cluster-announce-bus-port', String(busPort)] : []),
    ...(tls ? ['--tls-cluster', 'yes'] : [])]
  return { node: await startRedis({ port, folder, password, tls, args: [...own, ...args] }), proxy }
}

/** Waits until every node knows the same epoch of each. */
async function agree(nodes: RedisServer[]): Promise<void> {
  const endMs = Date.now() + WAIT_MS_MAX
  for (;;) {
    const views = await Promise.all(nodes.map(epochsSeenBy))
    if (new Set(views).size === 1) return
    if (Date.now() > endMs) throw new Error(`the nodes do not agree:\n${views.join('\n')}`)
    await sleep(2)
  }
}

async function epochsSeenBy(node: RedisServer): Promise<string> {
  const lines = String(await node.run('CLUSTER', 'NODES'))
    .trim()
    .split('\n')
  return lines
    .map((line) => line.split(' '))
    .map(
      ([id, , , , , , epoch, , ...slots]) =>
        `${id} ${epoch} ${slots.filter((range) => !range.startsWith('['))}`,
    )
    .sort()
    .join('; ')
}

async function busPort(node: RedisServer): Promise<number> {
  const [, port] = (await node.run('CONFIG', 'GET', 'cluster-port')) as string[]
  return Number(port)
}

async function isReady(node: RedisServer, nodesCount: number): Promise<void> {
  await until(async () => {
    const info = String(await node.run('CLUSTER', 'INFO'))
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodesCount}`)
  }, `the cluster did not come up at ${node.address}`)
}

/** A replica without the data of its master is not promoted. */
async function hasCopy(replica: RedisServer): Promise<void> {
  const isUp = async () => String(await replica.run('INFO', 'replication')).includes('master_link_status:up')
  await until(isUp, `${replica.address} did not copy its master`)
}

async function until(isSo: () => Promise<boolean>, failure: string): Promise<void> {
  const endMs = Date.now() + WAIT_MS_MAX
  while (!(await isSo())) {
    if (Date.now() > endMs) throw new Error(failure)
    await sleep(20)
  }
}
