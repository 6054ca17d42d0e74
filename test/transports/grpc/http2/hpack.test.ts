/**
 * Decoding header blocks: the vectors of RFC 7541 (appendix C), a naive encoder, the encoder of node:http2, and invalid
 * blocks.
 */
import { once } from 'node:events'
import * as http2 from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  ConnectionError,
  ErrorCode,
  Flag,
  FrameType,
  PREFACE,
} from '../../../../transports/grpc/http2/frames.ts'
import { HeaderDecoder, HeaderTable } from '../../../../transports/grpc/http2/hpack.ts'
import { unpackedBytesMax, unpackHuffman } from '../../../../transports/grpc/http2/huffman.ts'
import { RequestHeadersDecoder } from '../../../../transports/grpc/http2/request-headers-decoder.ts'
import { Routes } from '../../../../transports/grpc/http2/routes.ts'
import { CODES } from './huffman-codes.ts'
import { field, frame } from './raw-peer.ts'

type Fields = [name: string, value: string][]

const keepAll = () => 1
const newDecoder = () => new HeaderDecoder(keepAll)
const toBytes = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')

function decode(decoder: HeaderDecoder, block: Buffer): Fields {
  const fields: Fields = []
  const apart = Buffer.concat([Buffer.of(0xff), block, Buffer.of(0xff)]) // neighbours must not be read
  decoder.decode(apart, 1, apart.length - 1, { field: (_kind, name, value) => fields.push([name, value]) })
  return fields
}

// biome-ignore format: as the RFC lists them
const REQUESTS: Fields[] = [
  [[':method', 'GET'], [':scheme', 'http'], [':path', '/'], [':authority', 'www.example.com']],
  [[':method', 'GET'], [':scheme', 'http'], [':path', '/'], [':authority', 'www.example.com'], ['cache-control', 'no-cache']],
  [[':method', 'GET'], [':scheme', 'https'], [':path', '/index.html'], [':authority', 'www.example.com'], ['custom-key', 'custom-value']],
]
const OCTOBER = 'Mon, 21 Oct 2013 20:13:2'
// biome-ignore format: as the RFC lists them
const RESPONSES: Fields[] = [
  [[':status', '302'], ['cache-control', 'private'], ['date', `${OCTOBER}1 GMT`], ['location', 'https://www.example.com']],
  [[':status', '307'], ['cache-control', 'private'], ['date', `${OCTOBER}1 GMT`], ['location', 'https://www.example.com']],
  [[':status', '200'], ['cache-control', 'private'], ['date', `${OCTOBER}2 GMT`], ['location', 'https://www.example.com'],
    ['content-encoding', 'gzip'], ['set-cookie', 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1']],
]
// biome-ignore format: name, blocks, fields
const vectors: [string, string[], Fields[]][] = [
  ['C.2.1', ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572'], [[['custom-key', 'custom-header']]]],
  ['C.2.2', ['040c 2f73 616d 706c 652f 7061 7468'], [[[':path', '/sample/path']]]],
  ['C.2.3', ['1008 7061 7373 776f 7264 0673 6563 7265 74'], [[['password', 'secret']]]],
  ['C.2.4', ['82'], [[[':method', 'GET']]]],
  ['C.3', ['8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d', '8286 84be 5808 6e6f 2d63 6163 6865',
    '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65'], REQUESTS],
  ['C.4', ['8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff', '8286 84be 5886 a8eb 1064 9cbf',
    '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf'], REQUESTS],
  ['C.5', ['3fe101 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
    '4803 3330 37c1 c0bf',
    '88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31'], RESPONSES],
  ['C.6', ['3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
    '4883 640e ffc1 c0bf',
    '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07'], RESPONSES],
]

describe('RFC 7541', () => {
  for (const [name, blocks, fields] of vectors) {
    test(`${name}`, () => {
      const decoder = newDecoder()
      expect(blocks.map((block) => decode(decoder, toBytes(block)))).toEqual(fields)
    })
  }

  // biome-ignore format: the columns are the specification
  const wrong = [
    // block                                what
    ['80',                                  'index 0'],
    ['be',                                  'an index the table does not have'],
    ['ffffffffff7f',                        'an integer that is too large'],
    ['ff',                                  'an incomplete integer'],
    ['00',                                  'a missing name'],
    ['0003',                                'an incomplete name'],
    ['00016101',                            'an incomplete value'],
    ['3fe21f',                              'a table of 4,097 bytes'],
    ['82 20',                               'a size update after a field'],
    ['20 20 20',                            'three size updates'],
    ['00 0161 84 ffffffff',                 'EOS within a string'],
    ['00 0161 81 00',                       'padding of zeros'],
    ['00 0161 82 1fff',                     'more than 7 bits of padding'],
  ] as const
  for (const [hex, what] of wrong) {
    test(`${what}: COMPRESSION_ERROR`, () => {
      expect(() => decode(newDecoder(), toBytes(hex))).toThrow(ConnectionError)
      try {
        decode(newDecoder(), toBytes(hex))
      } catch (error) {
        expect((error as ConnectionError).code).toBe(ErrorCode.CompressionError)
      }
    })
  }

  test('5.1: an integer may have leading zero octets', () => {
    expect(decode(newDecoder(), toBytes('1f 80 00 00'))).toEqual([['accept-charset', '']])
  })

  test('4.4: a field larger than the table empties it', () => {
    const decoder = newDecoder()
    decode(decoder, Buffer.concat([Buffer.of(0x40), field('a', 'b').subarray(1)]))
    expect(decode(decoder, toBytes('be'))).toEqual([['a', 'b']])
    decode(decoder, Buffer.concat([Buffer.of(0x40), field('a', 'b'.repeat(4_096)).subarray(1)]))
    expect(() => decode(decoder, toBytes('be'))).toThrow(ConnectionError)
  })

  test('the value of an unread name is not kept, but its size counts', () => {
    const decoder = new HeaderDecoder((name) => (name === 'read' ? 1 : 0))
    const add = (name: string, value: string) =>
      Buffer.concat([Buffer.of(0x40), field(name, value).subarray(1)])
    const block = Buffer.concat([add('read', 'yes'), add('unread', 'x'.repeat(2_000)), toBytes('bf be')])
    expect(decode(decoder, block)).toEqual([
      ['read', 'yes'],
      ['unread', ''],
      ['read', 'yes'],
      ['unread', ''],
    ])
    decode(decoder, add('unread', 'x'.repeat(2_000)))
    expect(() => decode(decoder, toBytes('c0'))).toThrow(ConnectionError) // `read` had to go
  })
})

describe('Huffman', () => {
  test('every byte, at every nibble offset', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        const packed = huffman(bytes)
        const into = Buffer.alloc(unpackedBytesMax(packed.length))
        const count = unpackHuffman(packed, 0, packed.length, into)
        expect(into.subarray(0, count)).toEqual(Buffer.from(bytes))
      }),
    )
  })
})

const names = fc.constantFrom('a', 'bc', ':path', 'content-type', 'x-long-name-of-a-header', 'te')
const values = fc.oneof(
  fc.constantFrom('', '/', 'x'.repeat(60), '/envoy.service/Method', 'x'.repeat(2_000)),
  fc.string({ unit: 'grapheme-ascii', maxLength: 30 }).filter((text) => !/[\0\r\n]/.test(text)),
)
const spoken = fc.array(
  fc.array(fc.tuple(names, values, fc.constantFrom(0x00, 0x10, 0x40), fc.boolean()), { maxLength: 8 }),
  { maxLength: 12 },
)

test('blocks of a naive encoder decode to its fields', () => {
  fc.assert(
    fc.property(spoken, (blocks) => {
      const decoder = newDecoder()
      const table = new NaiveTable()
      for (const fields of blocks) {
        const block = Buffer.concat(
          fields.map(([name, value, form, isPacked]) => table.encode(name, value, form, isPacked)),
        )
        expect(decode(decoder, block)).toEqual(fields.map(([name, value]) => [name, value]))
      }
    }),
  )
})

test('blocks of node:http2 decode to its fields', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const session = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  session.on('error', () => {})
  const [socket] = await once(server, 'connection')
  socket.write(frame(FrameType.Settings, 0, 0))
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  const sent: Fields[] = []
  for (const fields of fc.sample(
    fc.array(fc.tuple(fc.constantFrom('a', 'bc', 'x-d'), values), { maxLength: 5 }),
    60,
  )) {
    const plain = fields.map(([name, value]) => [name, value.trim()] as [string, string])
    const extra = Object.fromEntries(plain)
    sent.push(Object.entries(extra))
    session.request({ ':method': 'POST', ':path': '/a/b', ...extra }).on('error', () => {})
  }
  const got: Fields[] = []
  while (got.length < sent.length) {
    await once(socket, 'data')
    got.length = 0
    const fresh = newDecoder()
    for (const block of blocksIn(Buffer.concat(chunks).subarray(PREFACE.length)))
      got.push(decode(fresh, block))
  }
  expect(got.map((fields) => fields.filter(([name]) => !name.startsWith(':')))).toEqual(sent)
  session.destroy()
  server.close()
})

function* blocksIn(bytes: Buffer): Iterable<Buffer> {
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    const end = at + 9 + bytes.readUIntBE(at, 3)
    if (bytes[at + 3] !== FrameType.Headers || end > bytes.length) continue
    yield bytes.subarray(at + 9 + (bytes[at + 4] & Flag.Priority ? 5 : 0), end)
  }
}

/** The simplest table: an array of pairs, newest first. */
class NaiveTable {
  private fields: Fields = []
  private readonly fixed = new HeaderTable(keepAll)

  encode(name: string, value: string, form: number, isPacked: boolean): Buffer {
    const index = this.fields.findIndex(([n, v]) => n === name && v === value)
    if (index >= 0 && isPacked) return integer(0x80, 7, 62 + index)
    const named = this.nameIndex(name)
    const head = integer(form, form === 0x40 ? 6 : 4, named)
    const text = (each: string) =>
      isPacked
        ? Buffer.concat([integer(0x80, 7, huffman(Buffer.from(each)).length), huffman(Buffer.from(each))])
        : Buffer.concat([integer(0, 7, each.length), Buffer.from(each)])
    if (form === 0x40) this.add(name, value)
    return Buffer.concat([head, ...(named === 0 ? [text(name)] : []), text(value)])
  }

  private add(name: string, value: string): void {
    this.fields.unshift([name, value])
    const bytes = () => this.fields.reduce((sum, [n, v]) => sum + n.length + v.length + 32, 0)
    while (bytes() > 4_096) this.fields.pop()
  }

  private nameIndex(name: string): number {
    const known = this.fields.findIndex(([n]) => n === name)
    if (known >= 0) return 62 + known
    for (let i = 1; i <= 61; i++) if (this.fixed.get(i)!.name === name) return i
    return 0
  }
}

function integer(first: number, bits: number, value: number): Buffer {
  const mask = (1 << bits) - 1
  if (value < mask) return Buffer.of(first | value)
  const bytes = [first | mask]
  for (value -= mask; value >= 128; value >>= 7) bytes.push((value & 127) | 128)
  return Buffer.from([...bytes, value])
}

function huffman(bytes: Uint8Array): Buffer {
  let bits = ''
  for (const byte of bytes) bits += CODES[byte]
  bits = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((each) => Number.parseInt(each, 2)))
}

test('a repeated block is only reused while the table is unchanged', () => {
  const heads = new RequestHeadersDecoder(new Routes({ methods: [] }))
  const joining = (name: string, value: string) =>
    Buffer.concat([Buffer.of(0x40), field(name, value).subarray(1)])
  const read = (block: Buffer) => heads.decode(block, 0, block.length).head.path
  expect(read(Buffer.concat([Buffer.of(0x83, 0x86), joining(':path', '/one')]))).toBe('/one')
  const again = Buffer.of(0x83, 0x86, 0xbe) // the newest of the table
  expect([read(again), read(again)]).toEqual(['/one', '/one'])
  expect(read(Buffer.concat([Buffer.of(0x83, 0x86), joining(':path', '/two')]))).toBe('/two')
  expect([read(again), read(again)]).toEqual(['/two', '/two'])
  const literal = (path: string) =>
    Buffer.concat([Buffer.of(0x83, 0x86, 0x04, path.length), Buffer.from(path)])
  const paths = ['/a.long.package.Service/MethodA', '/a.long.package.Service/MethodB']
  expect([...paths, ...paths].map((path) => read(literal(path)))).toEqual([...paths, ...paths])
})
