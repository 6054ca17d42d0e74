/** The memcached store on real memcached (spec 3.3, 3.4, 4.3, 7.1): counts, and errors. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../helpers/eventually.ts'
import { type MemcachedServer, startMemcached } from '../../../helpers/memcached.ts'
import { freePort } from '../../../helpers/ports.ts'
import { advanceClock, stopClock } from '../../../helpers/stopped-clock.ts'
import { startTcpProxy, type TcpProxy } from '../../../helpers/tcp-proxy.ts'
import { type Adding, EXPIRY_SEC, type Hits, NOW_SEC, storeOn } from './harness.ts'

const TIMEOUT_MS = 300
const COUNT_MAX = Number.MAX_SAFE_INTEGER
const MALFORMED = 'malformed: key is too long or contains invalid characters'

let memcached: MemcachedServer
let on: Adding
beforeAll(async () => {
  memcached = await startMemcached()
})
afterAll(() => memcached.stop())
beforeEach(async () => {
  await memcached.run('flush_all')
  await memcached.run('stats reset')
  on = storeOn([memcached.address])
  await on.store.connect()
})
afterEach(() => on.store.close())

/** Contents of memcached when all hits have been added. */
async function stored(key: string): Promise<string | undefined> {
  await on.store.close()
  return (await memcached.read(key))?.value
}

// biome-ignore format: the columns are the specification
const cases: [what: string, batches: Hits[][][], befores: (number | string)[][][]][] = [
  // batches, one after the other; each of requests, each of hits             -> the count before each
  ['a new counter',                   [[[['a', 1]]]],                            [[[0]]]],
  ['counters go on',                  [[[['a', 1]]], [[['a', 2]]], [[['a', 1]]]], [[[0]], [[1]], [[3]]]],
  ['4.3#4: equal keys in a request',  [[[['a', 1], ['b', 5], ['a', 2]]], [[['a', 1], ['b', 1]]]], [[[0, 0, 0]], [[3, 5]]]],
  ['requests come one after another', [[[['a', 1]], [['a', 1]], [['a', 1]]]],    [[[0], [1], [2]]]],
  ['both in one batch',               [[[['a', 1], ['a', 2]], [['b', 1], ['a', 4]], [['a', 1], ['b', 1], ['a', 1]]]],
                                                                                 [[[0, 0], [0, 3], [7, 1, 7]]]],
  ['zero hits make the counter',      [[[['a', 0]]], [[['a', 0]]], [[['a', 3]]], [[['a', 0]]]], [[[0]], [[0]], [[0]], [[3]]]],
  ['12#39 Q39: beyond 2^31',          [[[['a', 2 ** 31]]], [[['a', 1]]], [[['a', 1]]]], [[[0]], [[2 ** 31]], [[2 ** 31 + 1]]]],
  ['beyond 2^32',                     [[[['a', 2 ** 40]], [['a', 7]]], [[['a', 0]]]], [[[0], [2 ** 40]], [[2 ** 40 + 7]]]],
  ['up to the end and not past it',   [[[['a', COUNT_MAX - 1]]], [[['a', 7]]], [[['a', 1]]]], [[[0]], [[COUNT_MAX - 1]], [[COUNT_MAX]]]],
  ['more than all at once',           [[[['a', 2n ** 63n - 1n]], [['a', 2n ** 63n - 1n]]], [[['a', 1]]]], [[[0], [COUNT_MAX]], [[COUNT_MAX]]]],
  ['characters of several scripts',            [[[['schön🦀', 1], ['schon', 1]]], [[['schön🦀', 1]]]], [[[0, 0]], [[1]]]],
  ['names of object properties',                [[[['__proto__', 2], ['constructor', 1]]], [[['__proto__', 1]]]], [[[0, 0]], [[2]]]],
]

for (const [what, batches, befores] of cases) {
  test(`4.3: ${what}`, async () => {
    for (let i = 0; i < batches.length; i++) expect(await on.add(...batches[i])).toEqual(befores[i])
  })
}

test('4.3: concurrent batches are counted in order, although hits are added after the responses', async () => {
  const befores = await Promise.all(Array.from({ length: 16 }, () => on.add([['a', 1]], [['a', 2]])))
  expect(befores.flat(2)).toEqual(Array.from({ length: 16 }, (_, i) => [i * 3, i * 3 + 1]).flat())
  expect(await stored('a')).toBe('48')
})

test('a full batch of the longest keys', async () => {
  const hits = Array.from({ length: 4_096 }, (_, i): Hits => [`${i}_`.padEnd(250, 'k'), i])
  expect((await on.add(hits)).flat().every((before) => before === 0)).toBe(true)
  expect((await on.add(hits)).flat()).toEqual(hits.map(([, count]) => count))
})

test('an empty batch completes', async () => {
  expect(await on.add()).toEqual([])
})

test('a batch beyond the bound fails immediately, and hasCapacity reports it', async () => {
  const pending = Array.from({ length: 64 }, () => on.add([['a', 1]]))
  expect(on.store.hasCapacity).toBe(false)
  expect(await on.add([['a', 1]])).toEqual([['memcache: too many batches in flight']])
  await Promise.all(pending)
  expect(on.store.hasCapacity).toBe(true)
  expect(await stored('a')).toBe('64')
})

describe('what is in memcached', () => {
  test('4.3#5: plain decimal text, flags 0', async () => {
    await on.add([['a', 12]])
    await on.store.close()
    expect(await memcached.run('get a')).toBe('VALUE a 0 2\r\n12\r\nEND')
  })

  // biome-ignore format: the columns are the specification
  const expiries = [
    // seconds kept, at once -> still kept
    [EXPIRY_SEC,             EXPIRY_SEC],
    [2_592_000,               2_592_000], // 30 days: the last that memcached takes as a span
    [2_592_001,               2_592_001],
    [31_536_000 + 299,  31_536_000 + 299],
  ] as const

  for (const [expirySec, ttlSec] of expiries) {
    test(`3.3 12#4 Q4: a counter kept for ${expirySec} s is kept so long`, async () => {
      await on.add([['a', 1, expirySec]])
      await on.add([['a', 1, expirySec]])
      await on.store.close()
      const item = await memcached.read('a')
      expect(item?.value).toBe('2')
      const passedSec = Date.now() / 1000 - NOW_SEC // since NOW_SEC; memcached's clock ticks once a second
      expect(item!.ttlSec).toBeGreaterThan(ttlSec - passedSec - 2)
      expect(item!.ttlSec).toBeLessThanOrEqual(ttlSec + 2)
    })
  }

  // biome-ignore format: the columns are the specification
  const values = [
    // in memcached            -> count, line in the log
    ['7',                       7, null],
    ['2147483648',              2_147_483_648, null], // Q39
    ['18446744073709551615',    COUNT_MAX, null],
    ['+7',                      7, null],
    ['-7',                      null, 'error Unexpected non-numeric value in memcached at SERVER: "-7"'],
    ['seven',                   null, 'error Unexpected non-numeric value in memcached at SERVER: "seven"'],
    ['',                        null, 'error Unexpected non-numeric value in memcached at SERVER: ""'],
    ['7\r\nEND\r\nVALUE',       null, 'error Unexpected non-numeric value in memcached at SERVER: "7\\r\\nEND\\r\\nVALUE"'],
    ['7'.padEnd(25),            null, `error Unexpected non-numeric value in memcached at SERVER: "${'7'.padEnd(25)}"`],
  ] as const

  for (const [value, count, line] of values) {
    const result = count ?? 'an error, and as 0 with MEMCACHE_ERRORS_AS_ZERO'
    test(`4.3#3: ${JSON.stringify(value)} is read as ${result}`, async () => {
      await memcached.run(`set a 0 0 ${value.length}\r\n${value}`)
      const message = `memcache ${memcached.address}: counter "a": its value is not a number`
      expect(await on.add([['a', 1]], [['b', 1]])).toEqual([[count ?? message], [0]])
      expect(on.log.slice(0, 1)).toEqual(line === null ? [] : [line.replace('SERVER', memcached.address)])
      const zero = storeOn([memcached.address], { isErrorZero: true })
      await zero.store.connect()
      if (count === null) expect(await zero.add([['a', 1]])).toEqual([[0]])
      await zero.store.close()
    })
  }

  test('4.3#5: a failed increment is logged and its hits are counted as lost; others continue', async () => {
    await memcached.run('set a 0 0 5\r\nseven')
    const zero = storeOn([memcached.address], { isErrorZero: true })
    await zero.store.connect()
    expect(await zero.add([['a', 3]], [['b', 1]])).toEqual([[0], [0]])
    await zero.store.close()
    expect(await stored('b')).toBe('1')
    const message = 'CLIENT_ERROR cannot increment or decrement non-numeric value'
    expect(zero.log[1]).toBe(`error Failed to increment a key at ${memcached.address}: ${message}`)
    const stats = { 'increment.__code=error': 1, 'add.__code=success': 1, 'sluice.store.lost_hits': 3 }
    expect(zero.stats()).toMatchObject(stats)
  })
})

describe('3.4: keys', () => {
  // biome-ignore format: the columns are the specification
  const keys = [
    ['a'.repeat(250),      true],
    ['a'.repeat(251),      false],
    ['ö'.repeat(125),      true], // 250 bytes
    [`${'ö'.repeat(125)}a`, false],
    ['a!b',                true], // 0x21
    ['a b',                false],
    ['a\tb',               false],
    ['a\r\nflush_all\r\n', false],
    ['a\u0000b',           false],
    ['a\u001fb',           false],
    ['a\u007fb',           false],
    ['a\u0080b',           true], // two bytes, both above 0x7f
    ['',                   false],
  ] as const

  for (const [key, isLegal] of keys) {
    const shown = JSON.stringify(key.length > 40 ? `${key.slice(0, 3)}… ${key.length} long` : key)
    test(`${shown} is ${isLegal ? 'legal' : 'refused'}`, async () => {
      expect(await on.add([[key, 3]], [['b', 1]])).toEqual([[isLegal ? 0 : MALFORMED], [0]])
      expect(await on.add([[key, 3]], [['b', 1]])).toEqual([[isLegal ? 3 : MALFORMED], [1]])
      expect(on.log).toHaveLength(isLegal ? 0 : 1)
    })
  }

  test('with errors as zero an illegal key counts as 0, on every request', async () => {
    const zero = storeOn([memcached.address], { isErrorZero: true })
    await zero.store.connect()
    for (let i = 0; i < 2; i++)
      expect(
        await zero.add([
          ['a b', 9],
          ['c', 1],
        ]),
      ).toEqual([[0, i]])
    expect(zero.log).toEqual([`error Error multi-getting memcache keys: ${MALFORMED}`])
    await zero.store.close()
  })
})

test('7.1: statistics', async () => {
  await on.add(
    [
      ['a', 1],
      ['b', 1],
    ],
    [['a', 1]],
  )
  await on.store.close()
  expect(on.stats()).toEqual({
    'multiget.__code=success': 1,
    keys_requested: 2, // equal keys are requested once
    'increment.__code=miss': 2,
    'add.__code=success': 2,
  })
  const again = storeOn([memcached.address])
  await again.store.connect()
  await again.add([
    ['a', 1],
    ['c', 1],
  ])
  await again.store.close()
  expect(again.stats()).toEqual({
    'multiget.__code=success': 1,
    keys_requested: 2,
    keys_found: 1,
    'increment.__code=success': 1,
    'increment.__code=miss': 1,
    'add.__code=success': 1,
  })
})

describe('another client counts, too', () => {
  test('4.3#5: the loser of the race for the first hit increments again', async () => {
    const proxy = await startTcpProxy(memcached.port)
    const slow = storeOn([`127.0.0.1:${proxy.port}`], { timeoutMs: 5_000 }, () => proxy.stall())
    await slow.store.connect()
    expect(await slow.add([['a', 5]])).toEqual([[0]])
    await eventually(async () => expect(await memcached.run('stats')).toMatch(/STAT incr_misses [1-9]/))
    await on.add([['a', 2]]) // between its `incr` and its `add`
    await on.store.close()
    proxy.resume()
    await slow.store.close()
    expect(await stored('a')).toBe('7')
    expect(slow.stats()).toMatchObject({ 'add.__code=not_stored': 1, 'increment.__code=success': 1 })
    await proxy.stop()
  })

  test('two stores lose no hit', async () => {
    const other = storeOn([memcached.address])
    await other.store.connect()
    const stores = [on, other]
    await Promise.all(Array.from({ length: 20 }, (_, i) => stores[i % 2].add([['a', 1]], [['b', 2]])))
    await other.store.close()
    expect([await stored('a'), await stored('b')]).toEqual(['20', '40'])
  })
})

describe('9.6: several nodes', () => {
  test('the CRC-32 of the key selects the node', async () => {
    const second = await startMemcached()
    const third = await startMemcached()
    const nodes = [memcached, second, third]
    const three = storeOn(nodes.map(({ address }) => address))
    await three.store.connect()
    // biome-ignore format: the columns are the specification
    const places = [['a', 0], ['b', 2], ['c', 0], ['shop_user_alice_1200', 2], ['schön', 0], ['g', 1]] as const
    const hits = places.map(([key]): Hits => [key, 1])
    expect(await three.add(hits)).toEqual([[0, 0, 0, 0, 0, 0]])
    expect(await three.add(hits)).toEqual([[1, 1, 1, 1, 1, 1]])
    await three.store.close()
    for (const [key, place] of places) {
      const found = await Promise.all(nodes.map((node) => node.read(key)))
      expect(found.map((item) => item?.value)).toEqual([0, 1, 2].map((i) => (i === place ? '2' : undefined)))
    }
    await Promise.all([second.stop(), third.stop()])
  })

  test('one that is down fails its own keys only', async () => {
    const down = `127.0.0.1:${await freePort()}`
    const two = storeOn([memcached.address, down])
    await two.store.connect()
    const refused = `memcache ${down}: connect ECONNREFUSED ${down}`
    expect(await two.add([['shop_user_alice_1200', 1]], [['a', 1]])).toEqual([[0], [refused]])
    expect((await two.add([['shop_user_alice_1200', 1]]))[0]).toEqual([1])
    await two.store.close()
    expect(two.log).toContain(`error memcached at ${down} is not connected: connect ECONNREFUSED ${down}`)
  })

  test('none: every hit fails, or counts as 0', async () => {
    for (const isErrorZero of [false, true]) {
      const none = storeOn([], { isErrorZero })
      await none.store.connect()
      const text = 'memcache: no servers configured or available'
      expect(await none.add([['a', 1]])).toEqual([[isErrorZero ? 0 : text]])
      expect(none.log).toEqual([`error Error multi-getting memcache keys: ${text}`])
      expect(none.stats()).toEqual({ 'multiget.__code=error': 1 })
      await none.store.close()
    }
  })
})

describe('networks', () => {
  let proxy: TcpProxy
  let far: Adding
  beforeEach(async () => {
    proxy = await startTcpProxy(memcached.port)
  })
  afterEach(async () => {
    await far.store.close()
    await proxy.stop()
  })

  /** A store behind the proxy, connected. Its timeouts are reached by `advanceClock`. */
  async function connectFar(options = {}, onDone?: () => void): Promise<void> {
    stopClock()
    far = storeOn([`127.0.0.1:${proxy.port}`], { timeoutMs: TIMEOUT_MS, ...options }, onDone)
    await far.store.connect()
    await far.add([['warm', 1]])
    await eventually(() => expect(far.stats()).toHaveProperty('add.__code=success'))
  }

  test('no reply within the timeout is an error, its hits are not added, and the next connection works', async () => {
    await connectFar()
    proxy.stall()
    const pending = far.add([['a', 1]])
    await advanceClock(TIMEOUT_MS)
    expect(await pending).toEqual([[`memcache 127.0.0.1:${proxy.port}: no reply within 300ms`]])
    proxy.resume()
    await eventually(async () => expect(await far.add([['a', 1]])).toEqual([[0]]))
    await far.store.close()
    expect(await stored('a')).toBe('1')
    expect(far.log.slice(0, 2)).toEqual([
      `error memcached at 127.0.0.1:${proxy.port} is not connected: no reply within 300ms`,
      `error Error multi-getting memcache keys at 127.0.0.1:${proxy.port}: no reply within 300ms`,
    ])
  })

  test('MEMCACHE_ERRORS_AS_ZERO: the count is 0, and the hits are still sent', async () => {
    await connectFar({ isErrorZero: true }, () => proxy.resume())
    await far.add([['a', 5]])
    await eventually(() => expect(far.stats()['add.__code=success']).toBe(2))
    proxy.stall()
    const pending = far.add([['a', 1]])
    await advanceClock(TIMEOUT_MS)
    expect(await pending).toEqual([[0]])
    await far.store.close()
    expect(await stored('a')).toBe('6')
    expect(far.stats()).toMatchObject({ 'multiget.__code=error': 1, 'increment.__code=success': 1 })
  })

  test('a lost reply to an increment is logged and not sent again', async () => {
    far = storeOn([`127.0.0.1:${proxy.port}`], {}, () => proxy.loseNextReply())
    await far.store.connect()
    await memcached.run('set a 0 0 1\r\n5')
    expect(await far.add([['a', 1]])).toEqual([[5]])
    await far.store.close()
    expect(await stored('a')).toBe('6')
    expect(far.log).toContain(
      `error Failed to increment a key at 127.0.0.1:${proxy.port}: closed by the other side`,
    )
  })

  test('a server that comes back is used immediately', async () => {
    await connectFar()
    await proxy.refuse()
    expect((await far.add([['a', 1]]))[0][0]).toMatch(
      /^memcache .*(closed by the other side|ECONNREFUSED|ECONNRESET)/,
    )
    await proxy.accept()
    await eventually(async () => expect(await far.add([['a', 1]])).toEqual([[0]]))
  })

  test('an outage fails calls immediately and logs one line a second', async () => {
    await connectFar()
    await proxy.refuse()
    for (let i = 0; i < 200; i++) expect((await far.add([['a', 1]]))[0][0]).toMatch(/^memcache /) // the clock stands still
    const linesCount = far.log.length
    expect(linesCount).toBeLessThan(5) // one of each kind
    await advanceClock(1_000)
    for (let i = 0; i < 200; i++) await far.add([['a', 1]])
    expect(far.log.length).toBeLessThan(2 * linesCount + 1)
  })

  test('close waits for pending increments', async () => {
    far = storeOn([`127.0.0.1:${proxy.port}`], {}, () => proxy.stall())
    await far.store.connect()
    await far.add([['a', 1]], [['b', 1]])
    let isClosed = false
    const closing = far.store.close().then(() => {
      isClosed = true
    })
    await eventually(async () => expect(await memcached.run('stats')).toContain('STAT incr_misses 2'))
    expect(isClosed).toBe(false)
    proxy.resume()
    await closing
    expect([await stored('a'), await stored('b')]).toEqual(['1', '1'])
    expect(await far.add([['a', 1]])).toEqual([['memcache: closing']])
  })
})
