/**
 * What does it cost to read the header block of a call, as a real Envoy sends it?
 *   floor  compares a block of 54 bytes with another one, byte by byte
 *   same   the block of an Envoy without tracing: the same bytes each time
 *   trace  with tracing: a traceparent that changes and joins the table, so the table shifts with each call
 *   path   the same, each call to another path: nothing is remembered
 *   unpack Huffman alone, the 43 bytes of the path
 * Worth changing when `same` is above 1.5 times its floor, or `trace` above 600 ns.
 */
import { Heads } from '../transports/grpc/http2/heads.ts'
import { unpackHuffman } from '../transports/grpc/http2/huffman.ts'
import { Routes } from '../transports/grpc/http2/routes.ts'
import { SHOULD_RATE_LIMIT } from '../transports/grpc/services.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const BLOCKS = 256
const rounds = size({ small: 4, full: 2_000 })
const random = seeded(7)
const PATH = Buffer.from(`abea65${'4'.repeat(80)}`, 'hex') // 43 packed bytes of some path

const text = (value: Buffer | string, isPacked = false) =>
  Buffer.concat([Buffer.of(value.length | (isPacked ? 128 : 0)), Buffer.from(value as string)])
const joining = (name: string, value: string) => Buffer.concat([Buffer.of(0x40), text(name), text(value)])
const FIRST = Buffer.concat([
  Buffer.of(0x83, 0x86, 0x44),
  text(SHOULD_RATE_LIMIT),
  joining('x-envoy-internal', 'true'),
  joining('te', 'trailers'),
  joining('grpc-timeout', '20m'),
  joining('content-type', 'application/grpc'),
  joining(':authority', 'ratelimit'),
])
/** `83`, the path as a literal never indexed, indexes; pseudo headers first. */
const again = (path: Buffer, isPacked: boolean, more: Buffer) =>
  Buffer.concat([
    Buffer.of(0x83, 0x86, 0x14),
    text(path, isPacked),
    Buffer.of(0xbe, 0xbf, 0xc0, 0xc1, 0xc2),
    more,
  ])
const plainPath = Buffer.from(SHOULD_RATE_LIMIT)
const hex = (count: number) =>
  Array.from({ length: count }, () => Math.floor(random() * 16).toString(16)).join('')
const traced = () => {
  const traceparent = text(`00-${hex(32)}-${hex(16)}-01`)
  return Buffer.concat([Buffer.of(0x40), text('traceparent'), traceparent])
}

const same = again(PATH, true, Buffer.alloc(0))
const other = Buffer.from(same)
const traces = Array.from({ length: BLOCKS }, () => withoutTable(plainPath, traced()))
const paths = Array.from({ length: BLOCKS }, (_, i) =>
  withoutTable(Buffer.from(`/a.B/${i}${hex(40)}`), traced()),
)
const into = Buffer.alloc(128)

/** As `again`, its fields as literals: indexes would shift with the table. */
function withoutTable(path: Buffer, more: Buffer): Buffer {
  const passing = (name: string, value: string) => Buffer.concat([Buffer.of(0), text(name), text(value)])
  const fields = [
    passing('te', 'trailers'),
    passing('grpc-timeout', '20m'),
    passing('content-type', 'application/grpc'),
  ]
  return Buffer.concat([Buffer.of(0x83, 0x86, 0x14), text(path), ...fields, more])
}

function reader(blocks: readonly Buffer[]): () => number {
  const heads = new Heads(new Routes({ methods: [] }))
  heads.read(FIRST, 0, FIRST.length)
  return () => {
    let sum = 0
    for (let round = 0; round < rounds; round++) {
      for (let i = 0; i < BLOCKS; i++) {
        const block = blocks[i % blocks.length]
        sum += heads.read(block, 0, block.length).head.path.length
      }
    }
    return sum
  }
}

await measure('hpack', BLOCKS * rounds, {
  'floor  compare': () => {
    let sum = 0
    for (let i = 0; i < BLOCKS * rounds; i++) {
      let isSame = true
      for (let at = 0; at < same.length; at++) isSame &&= same[at] === other[at]
      sum += isSame ? 1 : 0
    }
    return sum
  },
  'same   block': reader([same]),
  'trace  path the same': reader(traces),
  'path   another each time': reader(paths),
  'unpack path': () => {
    let sum = 0
    for (let i = 0; i < BLOCKS * rounds; i++) sum += unpackHuffman(PATH, 0, PATH.length, into)
    return sum
  },
})
