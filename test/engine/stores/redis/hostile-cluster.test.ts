/** A cluster whose nodes send keys to addresses that do not exist, and list slots that cannot be. */
import { expect, onTestFinished, test } from 'vitest'
import { Stats } from '../../../../engine/stats/stats.ts'
import { readClusterSlots, readRedirect } from '../../../../engine/stores/redis/hash-slots.ts'
import { RedisStore } from '../../../../engine/stores/redis/redis-store.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { addAll, createRedisOptions, NOW_SEC } from '../store-harness.ts'
import { startLyingServer } from './lying-server.ts'

const range = (first: unknown, last: unknown, host: unknown = 'a', port: unknown = 1) => [
  first,
  last,
  [host, port],
]

// biome-ignore format: a table
const slots = [
  // reply → its ranges, or the fault
  [[range(0, 5, null, 7), range(6, 16_383)],  [{ first: 0, last: 5, host: 'me', port: 7 }, { first: 6, last: 16_383, host: 'a', port: 1 }]],
  [[range(9, 16_383), range(0, 8)],           [{ first: 9, last: 16_383, host: 'a', port: 1 }, { first: 0, last: 8, host: 'a', port: 1 }]],
  [[],                                        'no slots yet'],
  [Array(16_385).fill(range(0, 1)),           '16385 ranges'],
  [[range(0, 5), range(5, 9)],                'slots 5 to 9 overlap'],
  [[range(0, 16_384)],                        'a range from 0 to 16384'],
  [[range(5, 4)],                             'a range from 5 to 4'],
  [[range(-1, 4)],                            'a range from -1 to 4'],
  [[range('0', '4')],                         'a range from "0" to "4"'],
  [[5],                                       'a range from nothing to nothing'],
  [[[0, 5]],                                  'a node at nothing, port nothing'],
  [[range(0, 5, 'a\nb')],                     String.raw`a node at "a\nb", port 1`],
  [[range(0, 5, 'a', 65_536)],                'a node at "a", port 65536'],
] as const
test.each(slots)('CLUSTER SLOTS %j', (reply, expected) => {
  if (typeof expected === 'string') expect(() => readClusterSlots(reply, 'me')).toThrow(expected)
  else expect(readClusterSlots(reply, 'me')).toEqual(expected)
})

// biome-ignore format: a table
const redirects = [
  ['MOVED 1 127.0.0.1:6381',   { host: '127.0.0.1', port: 6381 }],
  ['MOVED 1 ::1:6381',         { host: '::1', port: 6381 }],
  ['ASK 1 :6381',              { host: 'me', port: 6381 }],
  ['MOVED 1 127.0.0.1:99999',  null],
  ['MOVED 1 127.0.0.1:0',      null],
  ['MOVED 1 127.0.0.1',        null],
  ['MOVED ',                   null],
  ['MOVED 1 a\nb"c:77',        null],
] as const
test.each(redirects)('%j', (text, expected) => {
  expect(readRedirect(text, 'me')).toEqual(expected)
})

/** A cluster of one node that replies `reply` to each hit. */
async function connect(reply: () => string, getSlots = (port: number) => oneNode(port)) {
  const server = await startLyingServer(([name]) => {
    if (name?.toLowerCase() === 'cluster') return getSlots(server.port)
    return name === 'INCRBY' || name === 'EXPIRE' ? reply() : null
  })
  const log: string[] = []
  const stats = new Stats()
  const options = createRedisOptions(server.address, { type: 'cluster' })
  const store = new RedisStore(options, { log: (level, text) => log.push(`${level} ${text}`), stats })
  onTestFinished(() => store.close())
  await store.connect()
  return { store, log, stats, server }
}

function oneNode(port: number): string {
  return `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:${port}\r\n`
}

test('nodes that only redirections name: few lines in the log, and no names in the statistics until they connect', async () => {
  let port = 1
  const { store, log, stats, server } = await connect(() => `-MOVED 1 127.0.0.1:${port++}\r\n`)
  const failures = () => log.filter((line) => line.includes('Cannot connect'))
  await eventually(async () => {
    const texts = await addAll(store, Array.from({ length: 20 }, (_, i) => [`k${port}_${i}`, 1]), NOW_SEC) // biome-ignore format: one line
    for (const text of texts) expect(text).toEqual(expect.any(String))
    expect(port).toBeGreaterThan(60)
    expect(failures().length).toBeGreaterThan(7)
  })
  expect(failures()).toHaveLength(8)
  const { names, gauges } = stats.takeDeltas()
  const nodes = [...names, ...gauges.map(([name]) => name)].flatMap(
    (name) => /__node=(.*)/.exec(name)?.[1] ?? [],
  )
  expect(new Set(nodes)).toEqual(new Set(['other', server.address.replaceAll(/[.:]/g, '_')]))
})

test('a redirection without an address fails the key', async () => {
  const { store, server } = await connect(() => '-MOVED 1 127.0.0.1:99999\r\n')
  expect(await addAll(store, [['a', 1]], NOW_SEC)).toEqual([
    `redis ${server.address}: ${server.address} names no address: MOVED 1 127.0.0.1:99999; the hits were not counted`,
  ])
})

test('a malformed list of slots is logged, and the known owners stay', async () => {
  let isLying = false
  const { store, log, server } = await connect(
    () => (isLying ? '-MOVED 1 127.0.0.1:1\r\n' : ':1\r\n'), // causes a refresh
    (port) => (isLying ? '*1\r\n:5\r\n' : oneNode(port)),
  )
  isLying = true
  await addAll(store, [['a', 1]], NOW_SEC)
  const line = `warning Redis Cluster at ${server.address}: malformed reply to CLUSTER SLOTS: a range from nothing to nothing; the known owners of slots stay`
  await eventually(() => expect(log).toContain(line))
  isLying = false
  await eventually(async () => expect(await addAll(store, [['b', 1]], NOW_SEC)).toEqual([1]))
  expect(log.filter((text) => text === line)).toHaveLength(1)
})
