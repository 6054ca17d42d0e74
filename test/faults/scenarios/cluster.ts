/** A Redis Cluster: masters that fail with and without a replica, and slots that move under load. */
import { hashSlot } from '../../../engine/stores/redis/hash-slots.ts'
import { pauseRedis } from '../../helpers/pause.ts'
import type { RedisServer } from '../../helpers/redis.ts'
import { type Cluster, startCluster } from '../../helpers/redis-cluster.ts'
import { DOMAIN } from '../load.ts'
import { readRedis } from '../redis-faults.ts'
import { HARMLESS, type LoadScenario, type Parts, type Scenario, type Stage, underLoad } from '../scenario.ts'
import { checkOthers } from '../spared.ts'

const PARTIAL = ['--cluster-require-full-coverage', 'no'] // the other nodes serve while one is down
const DAY_SEC = 86_400
const MOVED_SLOTS = 12 // in each round

/** The values of counters, by the owners of their slots. */
async function readCluster(cluster: Cluster, keys: readonly string[]): Promise<(number | null)[]> {
  return readOwned(keys, await getOwners(cluster))
}

async function readOwned(
  keys: readonly string[],
  owners: (slot: number) => RedisServer,
): Promise<(number | null)[]> {
  const values = new Map<string, number | null>()
  const keysByNode = Map.groupBy(keys, (key) => owners(hashSlot(key)))
  for (const [node, own] of keysByNode) {
    // one slot per MGET, so each key by itself
    const texts = await Promise.all(own.map((key) => readRedis(node, [key])))
    for (const [i, key] of own.entries()) values.set(key, texts[i][0])
  }
  return keys.map((key) => values.get(key) ?? null)
}

async function getOwners({ nodes }: Cluster): Promise<(slot: number) => RedisServer> {
  const ranges = (await nodes[0].run('CLUSTER', 'SLOTS')) as [number, number, [string, number]][]
  return (slot) => {
    const range = ranges.find(([first, last]) => first <= slot && slot <= last)!
    return nodes.find(({ port }) => port === range[2][1])!
  }
}

function createParts(cluster: Cluster, begin: Parts['begin'], end: Parts['end']): Parts {
  return {
    env: { REDIS_TYPE: 'CLUSTER', REDIS_URL: cluster.url, RESPONSE_DYNAMIC_METADATA: 'true' }, // which tells what was degraded
    begin,
    end,
    read: (keys) => readCluster(cluster, keys),
    stop: () => cluster.stop(),
  }
}

async function startKilled(hasReplicas: boolean): Promise<Parts> {
  const cluster = await startCluster({ args: PARTIAL, hasReplicas })
  let dead = cluster.nodes[1]
  const begin = async (stage: Stage) => {
    const owners = await getOwners(cluster)
    dead = cluster.nodes[1]
    await dead.stop()
    await checkOthers(
      stage,
      (key) => owners(hashSlot(key)) !== dead,
      (keys) => readOwned(keys, owners),
    )
    if (hasReplicas) await cluster.replaced(dead)
  }
  return createParts(cluster, begin, () => cluster.revive(dead))
}

async function startStopped(): Promise<Parts> {
  const cluster = await startCluster({ args: PARTIAL })
  let resume = () => {}
  const begin = async (stage: Stage) => {
    const [, node] = cluster.nodes
    const owners = await getOwners(cluster)
    resume = (await pauseRedis(node)).resume
    await checkOthers(
      stage,
      (key) => owners(hashSlot(key)) !== node,
      (keys) => readOwned(keys, owners),
    )
  }
  return createParts(cluster, begin, () => resume())
}

/** Slots with counters of the round, each moved to the next node in two steps with load between them. */
async function startResharding(): Promise<Parts> {
  const cluster = await startCluster()
  const begin = async ({ random, round }: Stage) => {
    const windowStartSec = Math.floor(Date.now() / 1_000 / DAY_SEC) * DAY_SEC
    for (let i = 0; i < MOVED_SLOTS; i++) {
      const policy = ['error', 'allow', 'deny', 'local'][i % 4]
      const value = `r${round}-${Math.floor(16 * random())}`
      const slot = hashSlot(`${DOMAIN}_${policy}-day_${value}_${windowStartSec}`)
      const from = await cluster.findOwner(slot)
      const to = cluster.nodes[(cluster.nodes.indexOf(from) + 1) % cluster.nodes.length]
      await cluster.beginMove(slot, to)
      await cluster.moveKeys(slot, to, 1)
      await cluster.moveKeys(slot, to)
      await cluster.endMove(slot, to)
    }
  }
  return createParts(cluster, begin, () => {})
}

const SCENARIOS: LoadScenario[] = [
  {
    name: 'cluster-master-killed',
    fault: 'a master without a replica is killed and started again without its data',
    promise: 'counters of the other nodes are not degraded; those of this one count again when it is back',
    losesCounts: true,
    history: { losesSome: true },
    start: () => startKilled(false),
  },
  {
    name: 'cluster-failover',
    fault: 'a master is killed, its replica replaces it',
    promise:
      'counters of the other nodes are not degraded; hits that were not replicated are lost, none is counted twice',
    losesCounts: true,
    history: { losesSome: true },
    start: () => startKilled(true),
  },
  {
    name: 'cluster-master-stopped',
    fault: 'a master without a replica is stopped (SIGSTOP) and continued',
    promise: 'counters of the other nodes are not degraded; late hits are counted at most once',
    failsPartly: true,
    start: startStopped,
  },
  {
    name: 'cluster-resharding',
    fault: 'hash slots move between nodes while they are in use (MOVED, ASK, TRYAGAIN)',
    promise: 'no call is degraded, every counter is exact',
    ...HARMLESS,
    start: startResharding,
  },
]

export const scenarios: readonly Scenario[] = SCENARIOS.map(underLoad)
