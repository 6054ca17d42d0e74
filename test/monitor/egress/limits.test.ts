/** Every limit of spec 5.9, each met by a relay that oversteps it. Waits are shortened; the bytes are the real ones. */
import type { Socket } from 'node:net'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Visit } from '../../../monitor/egress/egress.ts'
import { LIMITS } from '../../../monitor/egress/limits.ts'
import { eventually } from '../../helpers/eventually.ts'
import type { Responder } from './raw-server.ts'
import { ok, reply } from './raw-server.ts'
import type { World } from './setup.ts'
import { startWorld } from './setup.ts'

const KIB = 1024
const MIB = 1024 * KIB
const START = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${START}transfer-encoding: chunked\r\n\r\n`
let world: World

beforeAll(async () => {
  world = await startWorld()
})
afterEach(async () => {
  expect(world.tripped()).toBe(0)
  await eventually(() => expect(world.relay.open).toBe(0)) // whatever happened, our side closed
})
afterAll(() => world.close())

function visit(path: string, limits = {}): Promise<Visit> {
  return world.egress({ limits }).visit({ url: world.url(path), purpose: 'catalogue' })
}

test('M5#9: the limits are those of the specification', () => {
  expect(LIMITS).toMatchObject({
    dnsMs: 4_000,
    connectMs: 5_000,
    tlsMs: 5_000,
    firstByteMs: 10_000,
    bodyMs: 10_000,
    headBytes: 64 * KIB,
    bodyBytes: 256 * KIB,
    listingBytes: MIB,
    decompressionRatio: 100,
    redirects: 3,
    denialStepMs: 1_000,
  })
})

/** Bytes that gzip makes about a third smaller, so that no ratio is in the way. */
function noise(length: number): Buffer {
  const bytes = Buffer.alloc(length)
  for (let i = 0, seed = 7; i < length; i++) {
    seed = (seed * 48_271) % 2_147_483_647
    bytes[i] = 64 + (seed % 40)
  }
  return bytes
}

const chunked = (body: Buffer, size: number): string => {
  let text = CHUNKED
  for (let at = 0; at < body.length; at += size) {
    const part = body.subarray(at, at + size)
    text += `${part.length.toString(16)}\r\n${part.toString('latin1')}\r\n`
  }
  return `${text}0\r\n\r\n`
}

// biome-ignore format: the columns are the specification
const bodies: [string, string, number, boolean][] = [
  // path                    how           bytes           whole?
  ['/page',                  'length',     256 * KIB,      true],
  ['/page',                  'length',     256 * KIB + 1,  false],
  ['/page',                  'chunked',    256 * KIB,      true],
  ['/page',                  'chunked',    256 * KIB + 1,  false],
  ['/page',                  'tiny',       32 * KIB,       true],
  ['/page',                  'to the end', 256 * KIB,      true],
  ['/page',                  'to the end', 256 * KIB + 1,  false],
  ['/page',                  'gzip',       256 * KIB,      true],
  ['/page',                  'gzip',       256 * KIB + 1,  false],
  ['/page',                  'br',         256 * KIB,      true],
  ['/page',                  'br',         256 * KIB + 1,  false],
  ['/v1/models',             'gzip',       MIB,            true],
  ['/v1/models',             'length',     MIB,            true],
  ['/v1/models',             'length',     MIB + 1,        false],
  ['/sub/v1/models',         'length',     MIB,            true],
  ['/api/pricing',           'length',     MIB,            true],
  ['/api/pricing',           'gzip',       MIB + 1,        false],
  ['/v1/models/x',           'length',     MIB,            false],
]
for (const [path, how, bytes, isWhole] of bodies) {
  test(`5.9: ${bytes} bytes of ${path}, ${how}: ${isWhole ? 'whole' : 'too_large'}`, async () => {
    const body = noise(bytes)
    const responders: Record<string, () => Responder> = {
      length: () => ok(body),
      chunked: () => reply(chunked(body, 10_000)),
      tiny: () => reply(chunked(body, 1)),
      'to the end': () => (socket) => socket.end(Buffer.concat([Buffer.from(`${START}\r\n`), body])),
      gzip: () => ok(gzipSync(body), 'content-encoding: gzip\r\n'),
      br: () => ok(brotliCompressSync(body), 'content-encoding: br\r\n'),
    }
    world.relay.on(path, responders[how]())
    const found = await visit(path)
    expect([found.error, found.status]).toEqual([isWhole ? null : 'too_large', 200])
    if (isWhole) expect(found.body.equals(body)).toBe(true)
    else expect(found.body.length).toBe(0)
  })
}

test('5.9: a list stays a list behind a redirect', async () => {
  world.relay.on('/v1/models', reply('HTTP/1.1 302 x\r\nlocation: /elsewhere\r\n\r\n'))
  world.relay.on('/elsewhere', ok(noise(MIB)))
  expect((await visit('/v1/models')).error).toBeNull()
  expect((await visit('/elsewhere')).error).toBe('too_large')
})

// biome-ignore format: the columns are the specification
const bombs: [string, string, Buffer, string | null][] = [
  ['gzip of zeros, 1000x',          'gzip', gzipSync(Buffer.alloc(200 * KIB)),               'ratio'],
  ['gzip of zeros, 10 MiB',         'gzip', gzipSync(Buffer.alloc(10 * MIB)),                'body'],
  ['br of zeros, 10 MiB',           'br',   brotliCompressSync(Buffer.alloc(10 * MIB)),      'ratio'],
  ['gzip in gzip',                  'gzip', gzipSync(gzipSync(Buffer.alloc(2 * MIB))),       null],
  ['many gzips one after another',  'gzip', Buffer.concat(new Array(50).fill(gzipSync(Buffer.alloc(8 * KIB)))), 'ratio'],
]
for (const [name, encoding, body, detail] of bombs) {
  test(`5.9, 13.7: ${name} is ${detail === null ? 'opened once only' : 'too_large'}`, async () => {
    world.relay.on('/bomb', ok(body, `content-encoding: ${encoding}\r\n`))
    const before = process.memoryUsage().arrayBuffers
    const found = await visit('/bomb')
    if (detail === null) expect([found.error, found.body.length < LIMITS.bodyBytes]).toEqual([null, true])
    else expect([found.error, found.detail, found.body.length]).toEqual(['too_large', detail, 0])
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4 * MIB)
  })
}

test('5.9: a ratio of 100 is allowed', async () => {
  const body = Buffer.concat([noise(1000), Buffer.alloc(60_000)])
  const packed = gzipSync(body)
  expect(body.length / packed.length).toSatisfy((ratio: number) => ratio > 50 && ratio < 100)
  world.relay.on('/dense', ok(packed, 'content-encoding: gzip\r\n'))
  expect((await visit('/dense')).error).toBeNull()
})

/** Writes for ever, as fast as it is read. */
function endless(start: string, more: string): Responder {
  return (socket: Socket) => {
    socket.write(start)
    const block = more.repeat(Math.ceil(8_192 / more.length))
    const write = () => {
      while (!socket.destroyed && socket.write(block));
    }
    socket.on('drain', write)
    write()
  }
}

// biome-ignore format: the columns are the specification
const floods: [string, Responder, string][] = [
  ['headers',                  endless(START, 'a: b\r\n'),                                  'head'],
  ['one header',               endless(`${START}a: `, 'b'),                                 'head'],
  ['one header name',          endless(START, 'b'),                                         'head'],
  ['the reason phrase',        endless('HTTP/1.1 200 ', 'b'),                               'head'],
  ['100 Continue',             endless('', 'HTTP/1.1 100 Continue\r\n\r\n'),                'wire'],
  ['103 Early Hints',          endless('', `HTTP/1.1 103 Early Hints\r\nlink: ${'x'.repeat(999)}\r\n\r\n`), 'wire'],
  ['a body without length',    endless(`${START}\r\n`, 'b'),                                'body'],
  ['chunks',                   endless(CHUNKED, '5\r\nhello\r\n'),                          'body'],
  ['a chunk extension',        endless(`${CHUNKED}5;`, 'a=b;'),                             'HPE_CHUNK_EXTENSIONS_OVERFLOW'],
  ['chunk extensions',         endless(CHUNKED, `1;a=${'b'.repeat(999)}\r\nx\r\n`),         'wire'],
  ['trailers',                 endless(`${CHUNKED}0\r\n`, 'a: b\r\n'),                      'head'],
]
for (const [name, respond, detail] of floods) {
  test(`5.9, 13.7: endless ${name}: too_large, and the connection is closed`, async () => {
    let ended: Promise<unknown> = Promise.resolve()
    world.relay.on('/flood', (socket) => {
      ended = new Promise((resolve) => socket.once('close', resolve))
      respond(socket, '')
    })
    const found = await visit('/flood')
    expect([found.error, found.body.length]).toEqual(['too_large', 0])
    // which of the two sees a flood of head bytes first depends on how TCP cuts it
    if (detail === 'head') expect(found.detail).toMatch(/^(HPE_HEADER_OVERFLOW|wire)$/)
    else expect(found.detail).toBe(detail)
    await ended
  })
}

test('5.9: 60 KiB of headers are read, also after 100 Continue', async () => {
  const lines = Array.from({ length: 60 }, (_, i) => `h${i}: ${'x'.repeat(1015)}\r\n`).join('')
  world.relay.on('/heavy', reply(`HTTP/1.1 100 Continue\r\n\r\n${START}content-length: 0\r\n${lines}\r\n`))
  const found = await visit('/heavy')
  expect([found.error, found.headers.size]).toEqual([null, 61])
})

test('5.9: a head a little over 64 KiB is too_large', async () => {
  world.relay.on('/heavy', reply(`${START}content-length: 0\r\na: ${'x'.repeat(64 * KIB)}\r\n\r\n`))
  expect((await visit('/heavy')).error).toBe('too_large')
})

test('5.9: bytes that decompress to nothing count as well', async () => {
  const start = gzipSync('').subarray(0, 10).toString('latin1')
  const emptyBlock = Buffer.from([0, 0, 0, 0xff, 0xff]).toString('latin1')
  world.relay.on('/void', (socket) => {
    socket.setDefaultEncoding('latin1')
    endless(`${START}content-encoding: gzip\r\n\r\n${start}`, emptyBlock)(socket, '')
  })
  const found = await visit('/void')
  expect([found.error, found.detail]).toEqual(['too_large', 'body'])
})

/** One byte after another, for ever. */
function drip(text: string, everyMs = 20): Responder {
  return (socket: Socket) => {
    let at = 0
    const timer = setInterval(() => socket.write(text[at++ % text.length], 'latin1'), everyMs)
    socket.on('close', () => clearInterval(timer))
  }
}

// biome-ignore format: the columns are the specification
const slow: [string, Responder, number | null][] = [
  ['nothing at all',       () => {},                                                       null],
  ['a head in drops',      drip(`${START}${'a: b\r\n'.repeat(99)}`),                       null],
  ['100 Continue in drops', drip('HTTP/1.1 100 Continue\r\n\r\n', 1),                      null],
  ['half a body',          reply(`${START}content-length: 9\r\n\r\nhalf`),                 200],
  ['a body in drops',      (socket) => { socket.write(`${START}\r\n`); drip('b')(socket, '') }, 200],
  ['chunks in drops',      (socket) => { socket.write(CHUNKED); drip('1\r\nb\r\n')(socket, '') }, 200],
  ['gzip in drops',        (socket) => { socket.write(`${START}content-encoding: gzip\r\n\r\n`); drip(gzipSync(noise(9000)).toString('latin1'))(socket, '') }, 200],
]
for (const [name, respond, status] of slow) {
  test(`5.9, 13.7: ${name}: http_timeout`, async () => {
    world.relay.on('/slow', respond)
    const found = await visit('/slow', status === null ? { firstByteMs: 100 } : { bodyMs: 100 })
    expect([found.error, found.detail, found.status]).toEqual(['http_timeout', 'deadline', status])
    expect(found.timings.totalMs).toSatisfy((ms: number) => ms >= 95 && ms < LIMITS.bodyMs)
  })
}

// biome-ignore format: the columns are the specification
const broken: [string, Responder, string, number | null][] = [
  ['closes',                       (socket) => socket.end(),                             'http_reset',   null],
  ['resets',                       (socket) => socket.resetAndDestroy(),                 'http_reset',   null],
  ['closes in the head',           (socket) => socket.end(START),                        'http_reset',   null],
  ['closes in the body',           (socket) => socket.end(`${START}content-length: 9\r\n\r\nhalf`), 'http_reset', 200],
  ['closes in a chunk',            (socket) => socket.end(`${CHUNKED}5\r\nhal`),         'http_reset',   200],
  ['speaks SSH',                   reply('SSH-2.0-OpenSSH_9.6\r\n'),                     'body_invalid', null],
  ['speaks HTTP/2',                reply(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])),      'body_invalid', null],
  ['speaks of HTTP/9',             reply('HTTP/9.9 200 OK\r\n\r\n'),                     'body_invalid', null],
  ['breaks a chunk',               reply(`${CHUNKED}zz\r\nhello\r\n`),                   'body_invalid', 200],
  ['has two lengths',              reply(`${START}content-length: 1\r\ncontent-length: 2\r\n\r\n`), 'body_invalid', null],
  ['has length and chunks',        reply(`${START}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`), 'body_invalid', null],
  ['puts NUL in a header',         reply(`${START}a: \0\r\n\r\n`),                       'body_invalid', null],
  ['upgrades',                     reply('HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n'), 'body_invalid', null],
  ['lies about gzip',              ok('plain', 'content-encoding: gzip\r\n'),            'body_invalid', 200],
  ['lies about br',                ok('plain', 'content-encoding: br\r\n'),              'body_invalid', 200],
  ['cuts gzip short',              ok(gzipSync('hello').subarray(0, 12), 'content-encoding: gzip\r\n'), 'body_invalid', 200],
  ['packs in something else',      ok('x', 'content-encoding: zstd\r\n'),                'body_invalid', 200],
  ['packs twice',                  ok('x', 'content-encoding: gzip, gzip\r\n'),          'body_invalid', 200],
]
for (const [name, respond, error, status] of broken) {
  test(`6.3: a relay that ${name}: ${error}`, async () => {
    world.relay.on('/broken', respond)
    const found = await visit('/broken', { firstByteMs: 2_000, bodyMs: 2_000 })
    expect([found.error, found.status, found.body.length]).toEqual([error, status, 0])
    expect(found.detail).toMatch(/^[A-Za-z0-9_ ]{1,60}$/)
    expect(found.isOurs).toBe(false)
  })
}
