/** The list of nodes (spec 9.6): from the setting, or from SRV records of a test DNS server on a real socket. */
import { createSocket, type Socket } from 'node:dgram'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ConfigurationError } from '../../../../engine/runtime/errors.ts'
import { findServers, parseAddress, selectServer } from '../../../../engine/stores/memcached/server-list.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { type MemcachedServer, startMemcached } from '../../../helpers/memcached.ts'
import { shortenTimers } from '../../../helpers/shorten-timers.ts'
import { storeOn } from './harness.ts'

const NAME = '_memcache._tcp.cache.test'
const A = 1 // type of record; what comes after the name of a query
const SRV = 33

let dns: Socket
let dnsServers: string[]
let records: readonly (readonly [target: string, port: number])[] = []
let queries: string[] = []

beforeAll(async () => {
  dns = createSocket('udp4')
  dns.on('message', (message, from) => {
    const { name, type, end } = parseQuery(message)
    queries.push(name)
    const answerRecords =
      type === SRV && name === NAME ? records.map(([target, port]) => srvAnswer(target, port)) : []
    const code = answerRecords.length > 0 ? 0 : 3 // no such name
    const header = Buffer.from([
      message[0],
      message[1],
      0x81,
      0x80 | code,
      0,
      1,
      0,
      answerRecords.length,
      0,
      0,
      0,
      0,
    ])
    dns.send(Buffer.concat([header, message.subarray(12, end), ...answerRecords]), from.port, from.address)
  })
  await new Promise<void>((resolve) => dns.bind(0, '127.0.0.1', resolve))
  dnsServers = [`127.0.0.1:${dns.address().port}`]
})
afterAll(() => dns.close())
afterEach(() => {
  records = []
  queries = []
})

function parseQuery(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  for (; message[at] !== 0; at += message[at] + 1)
    labels.push(message.toString('latin1', at + 1, at + 1 + message[at]))
  return { name: labels.join('.'), type: message.readUInt16BE(at + 1), end: at + 5 }
}

/** A record for the name of the query (0xc00c points at it): type, class, time to live, length; then 0 0 port target. */
function srvAnswer(target: string, port: number): Buffer {
  const labels = target.split('.').flatMap((label) => [label.length, ...Buffer.from(label)])
  const data = [0, 0, 0, 0, port >> 8, port & 255, ...labels, 0]
  return Buffer.from([0xc0, 12, 0, SRV, 0, A, 0, 0, 0, 0, data.length >> 8, data.length & 255, ...data])
}

const texts = async (options: { hostPort?: string[]; srv?: string }) =>
  (await findServers({ hostPort: [], srv: '', dnsServers, ...options })).map(({ text }) => text)

// biome-ignore format: the columns are the specification
const addresses = [
  ['cache:11211',             { path: '', host: 'cache', port: 11_211 }],
  ['10.0.0.7:1',              { path: '', host: '10.0.0.7', port: 1 }],
  ['[::1]:11211',             { path: '', host: '::1', port: 11_211 }],
  ['cache.svc.local.:11211',  { path: '', host: 'cache.svc.local', port: 11_211 }],
  [':11211',                  { path: '', host: 'localhost', port: 11_211 }],
  ['/run/memcached.sock',     { path: '/run/memcached.sock', host: '', port: 0 }],
  ['./m:1',                   { path: './m:1', host: '', port: 0 }],
] as const

for (const [text, address] of addresses) {
  test(`9.6: ${text}`, () => expect(parseAddress(text)).toEqual({ text, ...address }))
}

for (const text of ['cache', 'cache:', 'cache:0', 'cache:65536', 'cache:x', '::1:11211', '', ' a:1']) {
  test(`"${text}" is not an address`, async () => {
    if (text === ' a:1') return expect(parseAddress(text).host).toBe(' a') // nothing is trimmed, and no such host is found
    const error = await findServers({ hostPort: ['a:1', text], srv: '' }).catch((failure) => failure)
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error.message).toBe(
      `MEMCACHE_HOST_PORT "${text}": it is not host:port. Write host:port or the path of a socket for each node, \
with commas between them. [MEMCACHE_HOST_PORT_INVALID]`,
    )
  })
}

test('9.6: MEMCACHE_HOST_PORT keeps its order, and names twice stay twice', async () => {
  expect(await texts({ hostPort: ['b:2', 'a:1', 'b:2'] })).toEqual(['b:2', 'a:1', 'b:2'])
  expect(queries).toEqual([])
})

test('9.6: SRV records as target and port, sorted as text, priority and weight ignored', async () => {
  records = [
    ['b.test', 11_211],
    ['a1.test', 7],
    ['a.test', 8],
    ['a-1.test', 9],
    ['a.test', 11_211],
  ]
  expect(await texts({ srv: NAME })).toEqual([
    'a-1.test.:9',
    'a.test.:11211',
    'a.test.:8',
    'a1.test.:7',
    'b.test.:11211',
  ])
  expect(queries).toEqual([NAME])
})

// biome-ignore format: the columns are the specification
const failures = [
  // MEMCACHE_SRV           -> message
  ['memcache.test',           'Unable to fetch servers from SRV: could not parse memcache.test to SRV parts.'],
  ['_memcache.tcp.test',      'Unable to fetch servers from SRV: could not parse _memcache.tcp.test to SRV parts.'],
  ['_memcache._tcp.',         'Unable to fetch servers from SRV: could not parse _memcache._tcp. to SRV parts.'],
  ['_memcache._tcp.no.test',  'Unable to fetch servers from SRV: querySrv ENOTFOUND _memcache._tcp.no.test.'],
] as const

for (const [srv, message] of failures) {
  test(`9.6: ${srv} has no servers`, async () => {
    const error = await texts({ srv }).catch((failure) => failure)
    expect(error.message).toBe(
      `${message} Write MEMCACHE_SRV as _service._proto.name, with a full name that the DNS knows. [MEMCACHE_SRV_FAILED]`,
    )
    expect(error.exitCode).toBe(2)
  })
}

test('9.6: both settings are an error', async () => {
  await expect(texts({ srv: NAME, hostPort: ['a:1'] })).rejects.toThrow(
    'Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set. Unset one of them. [MEMCACHE_SERVERS_TWICE]',
  )
})

test('9.6: one node has every key; of several, the CRC-32 of its bytes selects one', () => {
  expect(['a', 'b', ''].map((key) => selectServer(key, 1))).toEqual([0, 0, 0])
  // python3 -c "import zlib; print(zlib.crc32('schön'.encode()) % 5)"
  expect(['a', 'b', 'c', 'shop_user_alice_1200', 'schön'].map((key) => selectServer(key, 5))).toEqual([
    2, 1, 0, 4, 3,
  ])
})

test('9.6: MEMCACHE_SRV_REFRESH: new nodes are used, the others keep their connections, an error keeps the list', async () => {
  const servers: MemcachedServer[] = [await startMemcached(), await startMemcached()]
  servers.sort((a, b) => (String(a.port) < String(b.port) ? -1 : 1))
  const [first, second] = servers
  records = [['localhost', first.port]]
  const on = storeOn([], { srv: NAME, dnsServers, srvRefreshMs: 30 })
  await on.store.connect()
  expect(
    await on.add([
      ['a', 1],
      ['shop_user_alice_1200', 1],
    ]),
  ).toEqual([[0, 0]])

  records = [
    ['localhost', second.port],
    ['localhost', first.port],
  ]
  await eventually(async () => expect((await on.add([['a', 1]]))[0]).toEqual([0])) // the CRC of `a` is odd
  expect((await on.add([['shop_user_alice_1200', 1]]))[0]).toEqual([1])
  const connections = /STAT total_connections (\d+)/.exec(await first.run('stats'))![1]

  records = []
  await eventually(() =>
    expect(on.log.join()).toContain('warning failed to refresh memcache hosts: Unable to fetch'),
  )
  expect(
    await on.add([
      ['a', 1],
      ['shop_user_alice_1200', 1],
    ]),
  ).toEqual([[1, 2]])

  records = [['localhost', first.port]]
  await eventually(async () => expect(await second.run('stats')).toContain('STAT curr_connections 2')) // that of the listener and that of this query
  expect((await on.add([['shop_user_alice_1200', 1]]))[0]).toEqual([3])
  const again = /STAT total_connections (\d+)/.exec(await first.run('stats'))![1]
  expect(Number(again) - Number(connections)).toBe(1) // this query of its statistics
  await on.store.close()
  await Promise.all(servers.map((server) => server.stop()))
})

test('a worker whose first DNS query fails retries, and its calls fail until then', async () => {
  shortenTimers(1_000, 20) // between retries
  const server = await startMemcached()
  const on = storeOn([], { srv: NAME, dnsServers })
  await on.store.connect()
  expect(await on.add([['a', 1]])).toEqual([['memcache: no servers configured or available']])
  records = [['localhost', server.port]]
  await eventually(async () => expect(await on.add([['a', 1]])).toEqual([[0]]))
  await on.store.close()
  await server.stop()
})
