/**
 * What does it cost to read the header block of a call?
 *   floor  compares a block with a copy, byte by byte
 *   same   the same fields each time, as from an Envoy without tracing
 *   trace  with tracing: a traceparent that changes and is added to the table, so all entries shift
 *   path   the same, each call with another path, so none is remembered
 *   unpack Huffman alone, 40 bytes, about what a path has
 * The blocks are those of node:http2's encoder, which encodes :path and new fields as Envoy does.
 * Worth changing when `same` is above 1.5 times its floor, or `trace` above 600 ns.
 */
import { once } from 'node:events'
import { connect } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import { Flag, FrameType, PREFACE } from '../transports/grpc/http2/frames.ts'
import { unpackHuffman } from '../transports/grpc/http2/huffman.ts'
import { RequestHeadersDecoder } from '../transports/grpc/http2/request-headers-decoder.ts'
import { Routes } from '../transports/grpc/http2/routes.ts'
import { SHOULD_RATE_LIMIT } from '../transports/grpc/services.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const BLOCKS = 256
const rounds = size({ small: 4, full: 2_000 })
const random = seeded(7)
const hex = (count: number) =>
  Array.from({ length: count }, () => Math.floor(random() * 16).toString(16)).join('')
const traceparent = () => ({ traceparent: `00-${hex(32)}-${hex(16)}-01` })

const same = await encodeBlocks(() => ({}))
const block = same.at(-1)!
const copy = Buffer.from(block)
const traced = await encodeBlocks(traceparent)
const paths = await encodeBlocks((i) => ({ ':path': `/a.B/${i}${hex(40)}`, ...traceparent() }))
const packed = Buffer.from('18c6318c63'.repeat(8), 'hex') // 64 letters `a`
const into = Buffer.alloc(64)
const routes = new Routes({ methods: [] })

/** Each round is a connection of its own, since blocks depend on earlier ones. */
function reads(blocks: readonly Buffer[]): () => number {
  return () => {
    let sum = 0
    for (let round = 0; round < rounds; round++) {
      const heads = new RequestHeadersDecoder(routes)
      for (const each of blocks) sum += heads.decode(each, 0, each.length).head.path.length
    }
    return sum
  }
}

function times(run: () => number): () => number {
  return () => {
    let sum = 0
    for (let i = 0; i < BLOCKS * rounds; i++) sum += run()
    return sum
  }
}

await measure('hpack', BLOCKS * rounds, {
  'floor  compare': times(() => {
    let at = 0
    while (at < block.length && block[at] === copy[at]) at++
    return at
  }),
  'same   block': reads(same),
  'trace  path the same': reads(traced),
  'path   another each time': reads(paths),
  'unpack path': times(() => unpackHuffman(packed, 0, packed.length, into)),
})

/** The header blocks of BLOCKS calls on one connection. */
async function encodeBlocks(fields: (i: number) => Record<string, string>): Promise<Buffer[]> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  session.on('error', () => {})
  const [socket] = await once(server, 'connection')
  socket.write(Buffer.from([0, 0, 0, FrameType.Settings, 0, 0, 0, 0, 0]))
  const common = { ':method': 'POST', ':path': SHOULD_RATE_LIMIT, te: 'trailers', 'grpc-timeout': '20m' }
  const type = { 'content-type': 'application/grpc', 'x-envoy-internal': 'true' }
  for (let i = 0; i < BLOCKS; i++) {
    session.request({ ...common, ...type, ...fields(i) }, { endStream: true }).on('error', () => {})
  }
  let bytes = Buffer.alloc(0)
  let blocks: Buffer[] = []
  while (blocks.length < BLOCKS) {
    const [chunk] = await once(socket, 'data')
    bytes = Buffer.concat([bytes, chunk])
    blocks = [...blocksIn(bytes)]
  }
  session.destroy()
  server.close()
  return blocks
}

function* blocksIn(bytes: Buffer): Iterable<Buffer> {
  for (let at = PREFACE.length, end = 0; at + 9 <= bytes.length; at = end) {
    end = at + 9 + bytes.readUIntBE(at, 3)
    if (bytes[at + 3] !== FrameType.Headers || end > bytes.length) continue
    yield bytes.subarray(at + 9 + (bytes[at + 4] & Flag.Priority ? 5 : 0), end)
  }
}
