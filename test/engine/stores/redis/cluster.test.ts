/** A real cluster of three: keys where they belong, and exact counts while slots move, replies get lost and nodes die. */
import { Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import { hashSlot } from '../../../../engine/stores/redis/hash-slots.ts'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { type Cluster, startCluster } from '../../../helpers/redis-cluster.ts'
import { seeded, size } from '../../../helpers/size.ts'
import { addAll, addBatch, addStopping, createRedisOptions, EXPIRY_SEC, type Hits } from '../store-harness.ts'

const NOW_SEC = 1_790_000_000

let cluster: Cluster
let store: RedisStore
let log: string[]
beforeAll(async () => {
  cluster = await startCluster({ isProxied: true })
})
afterAll(() => cluster.stop())

beforeEach(async () => {
  await cluster.run('FLUSHALL')
  log = []
  store = createStore(cluster.url)
  await store.connect()
})
afterEach(() => store.close())

function createStore(url: string, options = {}): RedisStore {
  return new RedisStore(createRedisOptions(url, { type: 'cluster', operationTimeoutMs: 500, ...options }), {
    log: (level, message) => log.push(`${level} ${message}`),
  })
}

const add = (...hits: Hits[]) => addAll(store, hits, NOW_SEC)

/** A key of the node: `i` picks one of many. */
function keyOn(node: number, i = 0): string {
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
  expect(Math.min(...ttls)).toBeGreaterThan(EXPIRY_SEC - 3)
})

test('9.1#3: the first node that can be reached is enough', async () => {
  const [, second] = cluster.url.split(',')
  const late = createStore(`127.0.0.1:1,${second}`)
  await late.connect()
  expect(
    await addAll(
      late,
      [
        [keyOn(0), 1],
        [keyOn(1), 1],
        [keyOn(2), 1],
      ],
      NOW_SEC,
    ),
  ).toEqual([1, 1, 1])
  await late.close()
})

test('a key that cannot be added fails only its own members', async () => {
  await cluster.nodes[1].run('RPUSH', keyOn(1), 'x')
  const where = `redis ${cluster.url}: counter "${keyOn(1)}": WRONGTYPE`
  expect(await add([keyOn(0), 1], [keyOn(1), 1], [keyOn(2), 1])).toEqual([
    1,
    expect.stringContaining(where),
    1,
  ])
})

test('4.1: whatever moves, counters keep an expiry, also those that are known', async () => {
  const key = keyOn(0, 5)
  const counter = new Counter(key)
  const addKept = () => {
    const batch = new Batch()
    batch.add(counter, 1, 0, NOW_SEC + 60, EXPIRY_SEC, false)
    return addBatch(store, batch, NOW_SEC)
  }
  const ttlSec = EXPIRY_SEC
  const holds = (value: string) =>
    vi.waitFor(async () => expect(await cluster.contents()).toEqual({ [key]: { value, ttlSec } }))
  expect(await addKept()).toEqual([0])
  await holds('1')
  await cluster.run('FLUSHALL')
  expect(await addKept()).toEqual([0])
  await holds('1')
  await cluster.nodes[0].run('PERSIST', key)
  await cluster.move(hashSlot(key), cluster.nodes[1])
  expect(await addKept()).toEqual([1]) // MOVED: this node has not been told yet
  await holds('2')
  await cluster.beginMove(hashSlot(key), cluster.nodes[0])
  await cluster.run('FLUSHALL')
  expect(await addKept()).toEqual([0]) // ASK
  await cluster.moveKeys(hashSlot(key), cluster.nodes[0])
  await cluster.endMove(hashSlot(key), cluster.nodes[0])
  await holds('1')
})

test('one batch is one write per node', async () => {
  const write = vi.spyOn(Socket.prototype, 'write')
  const spread = Array.from({ length: 90 }, (_, i): Hits => [keyOn(i % 3, i), 1])
  await add(...spread)
  const ports = cluster.proxies.map(({ port }) => port)
  const sent = (write.mock.contexts as Socket[]).filter(({ remotePort = 0 }) => ports.includes(remotePort)) // by us
  expect(sent).toHaveLength(3)
  write.mockRestore()
})

test('a reply lost on the way fails the keys of that node, counts once, and is never sent again', async () => {
  await add([keyOn(0), 1], [keyOn(1), 1])
  cluster.proxies[1].loseNextReply()
  const lost = `redis 127.0.0.1:${cluster.proxies[1].port}: connection lost (closed by the other side); the hits may have been counted`
  expect(await add([keyOn(0), 1], [keyOn(1), 1])).toEqual([2, lost])
  await vi.waitFor(() => expect(store.isConnected).toBe(true), { timeout: 5_000 })
  expect(await add([keyOn(0), 0], [keyOn(1), 0])).toEqual([2, 2])
})

test('a node that does not answer fails its own keys only, in time; later nothing has counted twice', async () => {
  cluster.proxies[2].stall()
  const late = `redis 127.0.0.1:${cluster.proxies[2].port}: no reply within 500ms; the hits may have been counted`
  expect(await add([keyOn(0), 1], [keyOn(2), 1])).toEqual([1, late])
  expect(await add([keyOn(2), 1])).toEqual([expect.stringContaining('no reply to earlier hits')])
  expect(await add([keyOn(0), 1])).toEqual([2])
  cluster.proxies[2].resume()
  await vi.waitFor(async () => expect(await add([keyOn(2, 1), 0])).toEqual([0]))
  expect(await add([keyOn(2), 0])).toEqual([1])
})

test('MOVED: a slot that moved is found, and counts once', async () => {
  const key = keyOn(0, 3)
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
  const home = await cluster.ownerOf(slot)
  const target = cluster.nodes.find((node) => node !== home)!
  await cluster.beginMove(slot, target)
  expect(await add(...hits, ['{tag}_new', 1])).toEqual([...keys.map(() => 2), 1])
  await cluster.moveKeys(slot, target, 10) // half here, half there
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
  await cluster.move(slot, home)
})

test('resharding under load: every hit counts exactly once', async () => {
  const random = seeded(11)
  const keys = Array.from({ length: 40 }, (_, i) => `load_{${i % 10}}_${i}`)
  const sent = new Map(keys.map((key) => [key, 0]))
  const errors: string[] = []
  let isMoving = true
  const patient = createStore(cluster.url, { operationTimeoutMs: 5_000 }) // a busy machine is no error here
  await patient.connect()
  const load = async () => {
    while (isMoving) {
      const hits = Array.from({ length: 8 }, (): Hits => [keys[Math.floor(random() * keys.length)], 1])
      const answers = await addAll(patient, hits, NOW_SEC)
      hits.forEach(([key], i) => {
        if (typeof answers[i] === 'number') sent.set(key, sent.get(key)! + 1)
        else errors.push(String(answers[i]))
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
  await patient.close()
  expect(errors).toEqual([])
  const counts = Object.entries(await cluster.contents()).map(([key, { value }]) => [key, Number(value)])
  expect(Object.fromEntries(counts)).toEqual(Object.fromEntries([...sent].filter(([, count]) => count > 0)))
})

test('9.4: without full coverage (CLUSTERDOWN) hits are errors that counted nothing; then it serves again', async () => {
  const slot = hashSlot(keyOn(1))
  await cluster.run('CLUSTER', 'DELSLOTS', slot)
  await vi.waitFor(async () => {
    expect(await add([keyOn(1), 1])).toEqual([
      expect.stringMatching(/CLUSTERDOWN|no node serves hash slot|no connection/),
    ])
    expect((await cluster.nodes[1].run('CLUSTER', 'INFO')) as string).toContain('cluster_state:fail')
  })
  await cluster.nodes[1].run('CLUSTER', 'ADDSLOTS', slot)
  await vi.waitFor(async () => expect(await add([keyOn(1), 0])).toEqual([0]), {
    timeout: 10_000,
    interval: 50,
  })
}, 20_000)
