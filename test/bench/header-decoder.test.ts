/** The generator's decoder of header blocks, against the examples of RFC 7541 and the encoder of nghttp2, which Node has. */
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { HeaderDecoder } from '../../bench/load/header-decoder.ts'

type Fields = [name: string, value: string][]

function decode(decoder: HeaderDecoder, block: Buffer): Fields {
  const fields: Fields = []
  decoder.decode(block, 0, block.length, (name, value) => fields.push([name, value]))
  return fields
}

const fromHex = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')
const DATE = ['date', 'Mon, 21 Oct 2013 20:13:21 GMT']
const LOCATION = ['location', 'https://www.example.com']

// biome-ignore format: blocks and what they hold
const examples: [string, string[][]][] = [
  // C.6.1 to C.6.3, one after the other
  ['4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
    [[':status', '302'], ['cache-control', 'private'], DATE, LOCATION]],
  ['4883 640e ffc1 c0bf',
    [[':status', '307'], ['cache-control', 'private'], DATE, LOCATION]],
  ['88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07',
    [[':status', '200'], ['cache-control', 'private'], ['date', 'Mon, 21 Oct 2013 20:13:22 GMT'], LOCATION,
      ['content-encoding', 'gzip'], ['set-cookie', 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1']]],
]

test('RFC 7541 C.6: the responses of the examples', () => {
  const decoder = new HeaderDecoder()
  for (const [hex, fields] of examples) expect(decode(decoder, fromHex(hex))).toEqual(fields)
})

const values = fc.stringMatching(/^[!-~]([ -~]{0,60}[!-~])?$/)
const headers = fc.dictionary(fc.constantFrom('x-a', 'x-b', 'server', 'traceparent', 'grpc-message'), values)

test('blocks of nghttp2, with Huffman codes, evictions and a table in use, are decoded as they were meant', async () => {
  const sent = fc.sample(headers, { numRuns: 300, seed: 7 })
  const decoder = new HeaderDecoder()
  const blocks = await encodeWithNode(sent)
  expect(blocks).toHaveLength(sent.length)
  for (const [i, block] of blocks.entries()) {
    const fields = decode(decoder, block).filter(([name]) => !name.startsWith(':'))
    expect(Object.fromEntries(fields)).toEqual({ ...sent[i] })
  }
})

// biome-ignore format: a table
const invalid: [string, string, string][] = [
  ['80',                 'an index of 0',                     'header index 0 is not in the table'],
  ['be',                 'an index beyond the table',         'header index 62 is not in the table'],
  ['3fe2 1f',            'a table of 4,097 bytes',            'a header table of 4097 bytes'],
  ['4001',               'a name without its bytes',          'ends within a field'],
  ['48',                 'a field without a value',           'ends within a field'],
  ['ffff ffff ffff 01',  'an index without end',              'more than five bytes'],
  ['4881 ff',            'padding alone of eight bits',       'not printable ASCII'],
  ['4882 ffff',          'padding of more than seven bits',   'not printable ASCII'],
  ['4881 00',            'a code that is cut short',          'ends within a code'],
]

for (const [hex, what, message] of invalid) {
  test(`a block with ${what} is an error`, () =>
    expect(() => decode(new HeaderDecoder(), fromHex(hex))).toThrow(message))
}

test('any bytes are decoded or refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        decode(new HeaderDecoder(), Buffer.from(bytes))
      } catch (error) {
        expect((error as Error).message).toMatch(/^(a header|header index|an integer)/)
      }
    }),
  )
})

test('the load generator takes the constants of HTTP/2 from the service, and no decoder', () => {
  const folder = new URL('../../bench/load/', import.meta.url)
  const texts = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), 'utf8'))
  const imported = texts.flatMap((text) => [...text.matchAll(/from '[./]+\/transports\/([^']+)'/g)])
  expect([...new Set(imported.map(([, path]) => path))]).toEqual(['grpc/http2/frames.ts'])
})

/** The header block of each request of one connection, as Node encodes it. */
async function encodeWithNode(requests: Record<string, string>[]): Promise<Buffer[]> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  session.on('error', () => {})
  onTestFinished(() => {
    session.destroy()
    server.close()
  })
  const [socket] = await once(server, 'connection')
  socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])) // SETTINGS
  for (const fields of requests) session.request(fields, { endStream: true }).on('error', () => {})
  let bytes = Buffer.alloc(0)
  while (true) {
    const blocks = readBlocks(bytes)
    if (blocks.length >= requests.length) return blocks
    const [chunk] = await once(socket, 'data')
    bytes = Buffer.concat([bytes, chunk])
  }
}

const PREFACE_BYTES = 24
const HEADERS = 1
const PRIORITY = 0x20

function readBlocks(bytes: Buffer): Buffer[] {
  const blocks: Buffer[] = []
  for (let at = PREFACE_BYTES, end = 0; at + 9 <= bytes.length; at = end) {
    end = at + 9 + bytes.readUIntBE(at, 3)
    if (bytes[at + 3] !== HEADERS || end > bytes.length) continue
    blocks.push(bytes.subarray(at + 9 + (bytes[at + 4] & PRIORITY ? 5 : 0), end))
  }
  return blocks
}
