/** A real cluster of three: keys where they belong, and exact counts while slots move, replies get lost and nodes die. */
import { Socket } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import { hashSlot } from '../../../../engine/stores/redis/hash-slots.ts'
import type { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { type Cluster, startCluster } from '../../../helpers/redis-cluster.ts'
import { seeded, size } from '../../../helpers/size.ts'
import { advanceClock, stopClock } from '../../../helpers/stopped-clock.ts'
import {
  addAll,
  addBatch,
  addStopping,
  awaitConnected,
  connectRedisStore,
  EXPIRY_SEC,
  EXPIRY_TTL_SEC,
  type Hits,
  NOW_SEC,
} from '../store-harness.ts'

const TIMEOUT_MS = 500

let cluster: Cluster
let store: RedisStore
beforeAll(async () => {
  cluster = await startCluster({ isProxied: true })
})
afterAll(() => cluster.stop())

beforeEach(async () => {
  await cluster.run('FLUSHALL')
  store = await connectTo(cluster.url)
})

/** A store of its own, closed when the test ends. */
async function connectTo(url: string, options = {}): Promise<RedisStore> {
  return (await connectRedisStore(url, { type: 'cluster', ...options })).store
}

const add = (...hits: Hits[]) => addAll(store, hits, NOW_SEC)

/** A key whose hash slot the node serves; `i` selects one of many. */
function getKeyOn(node: number, i = 0): string {
  const [first, last] = [node, node + 1].map((n) => Math.floor((n * 16_384) / 3))
  for (let n = i * 100; ; n++) {
    const key = `key_${n}`
    if (first <= hashSlot(key) && hashSlot(key) < last) return key
  }
}

test('9.4: hash slots are those of Redis', async () => {
  const keys = [
    '',
    'a',
    'foo{bar}',
    '{bar}',
    'a{}b',
    'a{}b{c}',
    '{{x}}y',
    'a}b{c}',
    '漢字',
    'ü{é}',
    'shop_user_bob_0',
  ]
  for (const key of keys)
    expect([key, hashSlot(key)]).toEqual([key, await cluster.nodes[0].run('CLUSTER', 'KEYSLOT', key)])
})

test('9.4: one batch over all nodes, each key where it belongs, with its expiry', async () => {
  const keys = Array.from({ length: 200 }, (_, i) => `spread_${i}`)
  expect(await add(...keys.map((key, i): Hits => [key, i]), ['spread_7', 1])).toEqual([...keys.keys(), 8])
  expect(await add(...keys.map((key): Hits => [key, 1]))).toEqual(
    [...keys.keys()].map((i) => (i === 7 ? 9 : i + 1)),
  )
  const ttls = Object.values(await cluster.contents()).map(({ ttlSec }) => ttlSec)
  expect(ttls).toHaveLength(200)
  for (const ttlSec of ttls) expect(ttlSec).toEqual(EXPIRY_TTL_SEC)
})

test('9.1#3: the first node that can be reached is enough', async () => {
  const [, second] = cluster.url.split(',')
  const other = await connectTo(`127.0.0.1:1,${second}`)
  const hits = [0, 1, 2].map((node): Hits => [getKeyOn(node), 1])
  expect(await addAll(other, hits, NOW_SEC)).toEqual([1, 1, 1])
})

test('a key that cannot be added fails only its own members', async () => {
  await cluster.nodes[1].run('RPUSH', getKeyOn(1), 'x')
  const where = `redis ${cluster.url}: counter "${getKeyOn(1)}": WRONGTYPE`
  expect(await add([getKeyOn(0), 1], [getKeyOn(1), 1], [getKeyOn(2), 1])).toEqual([
    1,
    expect.stringContaining(where),
    1,
  ])
})

test('4.1: counters keep an expiry while slots move, also counters whose expiry was already set', async () => {
  const key = getKeyOn(0, 5)
  const counter = new Counter(key)
  const addKept = () => {
    const batch = new Batch()
    batch.add(counter, 1, 0, NOW_SEC + 60, EXPIRY_SEC, false)
    return addBatch(store, batch, NOW_SEC)
  }
  const ttlSec = EXPIRY_TTL_SEC
  const awaitValue = (value: string) =>
    eventually(async () => expect(await cluster.contents()).toEqual({ [key]: { value, ttlSec } }))
  expect(await addKept()).toEqual([0])
  await awaitValue('1')
  await cluster.run('FLUSHALL')
  expect(await addKept()).toEqual([0])
  await awaitValue('1')
  await cluster.nodes[0].run('PERSIST', key)
  await cluster.move(hashSlot(key), cluster.nodes[1])
  expect(await addKept()).toEqual([1]) // MOVED: this node has not received the expiry yet
  await awaitValue('2')
  await cluster.beginMove(hashSlot(key), cluster.nodes[0])
  await cluster.run('FLUSHALL')
  expect(await addKept()).toEqual([0]) // ASK
  await cluster.moveKeys(hashSlot(key), cluster.nodes[0])
  await cluster.endMove(hashSlot(key), cluster.nodes[0])
  await awaitValue('1')
})

test('one batch is one write per node', async () => {
  const write = vi.spyOn(Socket.prototype, 'write')
  const spread = Array.from({ length: 90 }, (_, i): Hits => [getKeyOn(i % 3, i), 1])
  await add(...spread)
  const ports = cluster.proxies.map(({ port }) => port)
  const sent = (write.mock.contexts as Socket[]).filter(({ remotePort = 0 }) => ports.includes(remotePort)) // by the store
  expect(sent).toHaveLength(3)
  write.mockRestore()
})

test('a reply lost on the way fails the keys of that node, counts once, and is never sent again', async () => {
  await add([getKeyOn(0), 1], [getKeyOn(1), 1])
  cluster.proxies[1].loseNextReply()
  const lost = `redis 127.0.0.1:${cluster.proxies[1].port}: connection lost (closed by the other side); the hits may have been counted`
  expect(await add([getKeyOn(0), 1], [getKeyOn(1), 1])).toEqual([2, lost])
  await awaitConnected(store)
  expect(await add([getKeyOn(0), 0], [getKeyOn(1), 0])).toEqual([2, 2])
})

test('a node that does not reply fails its own keys only, in time; later nothing has counted twice', async () => {
  stopClock()
  const own = await connectTo(cluster.url, { operationTimeoutMs: TIMEOUT_MS })
  const add = (...hits: Hits[]) => addAll(own, hits, NOW_SEC)
  expect(await add([getKeyOn(0), 0], [getKeyOn(1), 0], [getKeyOn(2), 0])).toEqual([0, 0, 0])
  cluster.proxies[2].stall()
  const late = `redis 127.0.0.1:${cluster.proxies[2].port}: no reply within 500ms; the hits may have been counted`
  const pending = add([getKeyOn(0), 1], [getKeyOn(2), 1])
  await eventually(async () => expect(await cluster.nodes[2].run('GET', getKeyOn(2))).toBe('1'))
  expect(await add([getKeyOn(0), 1])).toEqual([2])
  await advanceClock(TIMEOUT_MS)
  expect(await pending).toEqual([1, late])
  expect(await add([getKeyOn(2), 1])).toEqual([expect.stringContaining('no reply to earlier hits')])
  cluster.proxies[2].resume()
  await eventually(async () => expect(await add([getKeyOn(2, 1), 0])).toEqual([0]))
  expect(await add([getKeyOn(2), 0])).toEqual([1])
})

test('MOVED: a slot that moved is found, and counts once', async () => {
  const key = getKeyOn(0, 3)
  await add([key, 1])
  await cluster.move(hashSlot(key), cluster.nodes[1])
  expect(await Promise.all([add([key, 1]), add([key, 1], [key, 1])])).toEqual([[2], [3, 4]])
  expect(await cluster.nodes[1].run('GET', key)).toBe('4')
  await cluster.move(hashSlot(key), cluster.nodes[0])
  expect(await add([key, 1])).toEqual([5])
})

test('ASK and TRYAGAIN: while a slot moves its keys count where they are, each once', async () => {
  const keys = Array.from({ length: 20 }, (_, i) => `{tag}_${i}`)
  const hits = keys.map((key): Hits => [key, 1])
  const slot = hashSlot(keys[0])
  await add(...hits)
  const source = await cluster.findOwner(slot)
  const target = cluster.nodes.find((node) => node !== source)!
  await cluster.beginMove(slot, target)
  expect(await add(...hits, ['{tag}_new', 1])).toEqual([...keys.map(() => 2), 1])
  await cluster.moveKeys(slot, target, 10) // half of them
  expect(await add(...hits, ['{tag}_new', 1])).toEqual([...keys.map(() => 3), 2])
  expect(
    await addStopping(
      store,
      [
        [
          [keys[0], 1, 9],
          [keys[19], 1, 9],
          ['{tag}_newer', 1, 9],
        ],
      ],
      NOW_SEC,
    ),
  ).toEqual([[3, 3, 0]])
  await cluster.moveKeys(slot, target)
  await cluster.endMove(slot, target)
  expect(await add(...hits.slice(1, -1))).toEqual(keys.slice(1, -1).map(() => 4))
  await cluster.move(slot, source)
})

test('resharding under load: every hit counts exactly once', async () => {
  const random = seeded(11)
  const keys = Array.from({ length: 40 }, (_, i) => `load_{${i % 10}}_${i}`)
  const sent = new Map(keys.map((key) => [key, 0]))
  const errors: string[] = []
  let isMoving = true
  const load = async () => {
    while (isMoving) {
      const hits = Array.from({ length: 8 }, (): Hits => [keys[Math.floor(random() * keys.length)], 1])
      const counts = await add(...hits)
      hits.forEach(([key], i) => {
        if (typeof counts[i] === 'number') sent.set(key, sent.get(key)! + 1)
        else errors.push(String(counts[i]))
      })
    }
  }
  const loads = Array.from({ length: 8 }, load)
  const slots = [...new Set(keys.map(hashSlot))]
  for (let i = 0; i < size({ small: 30, full: 3_000 }); i++) {
    await cluster.move(slots[i % slots.length], cluster.nodes[Math.floor(random() * 3)])
  }
  isMoving = false
  await Promise.all(loads)
  expect(errors).toEqual([])
  const stored = Object.entries(await cluster.contents()).map(([key, { value }]) => [key, Number(value)])
  expect(Object.fromEntries(stored)).toEqual(Object.fromEntries([...sent].filter(([, count]) => count > 0)))
})

test('9.4: without full coverage (CLUSTERDOWN) hits are errors that counted nothing; then it serves again', async () => {
  const slot = hashSlot(getKeyOn(1))
  await cluster.run('CLUSTER', 'DELSLOTS', slot)
  await eventually(async () => {
    expect(await add([getKeyOn(1), 1])).toEqual([
      expect.stringMatching(/CLUSTERDOWN|no node serves hash slot|no connection/),
    ])
    expect((await cluster.nodes[1].run('CLUSTER', 'INFO')) as string).toContain('cluster_state:fail')
  })
  await cluster.nodes[1].run('CLUSTER', 'ADDSLOTS', slot)
  await eventually(async () => expect(await add([getKeyOn(1), 0])).toEqual([0]))
})
