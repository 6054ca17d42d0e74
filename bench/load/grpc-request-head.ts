/**
 * The header blocks of calls, as Envoy sends them (RFC 7541): the first call of a connection adds its fields to the table,
 * later ones refer to them. :path is Huffman coded and never indexed, as in Envoy.
 *
 *     first   :method :scheme  :path ====  :authority ====  te ====  content-type ====  ...      about 150 bytes
 *     later   :method :scheme  :path ====  65  64  63  62                                        about 50
 *
 * A server whose table is smaller than the default gets every field as a literal.
 */

/** `/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` in the Huffman code of appendix B. */
export const PACKED_PATH = Buffer.from(
  '60b5773fa5d05b3b98855ec1a4b41a93257eecafb4692e735264ee2d9dcc42b1ba73db449b4692e735264f',
  'hex',
)

const TABLE_BYTES_MAX = 4_096 // the default of the protocol
const METHOD_POST = 0x83
const SCHEME_HTTP = 0x86
const PATH_NEVER_INDEXED = 0x14
const PACKED = 0x80
const TABLE_SIZE_0 = 0x20
const INDEXED_LITERAL = 0x40 // is added to the table
const PLAIN_LITERAL = 0x00 // is not
const STATIC_COUNT = 61
const STATIC_NAMES: Record<string, number> = { ':authority': 1, 'content-type': 31, 'user-agent': 58 }

export interface HeadBlocks {
  first: Buffer
  later: Buffer
}

/** `deadline`: in the form of grpc-timeout (`20m` = 20 ms); '' = none. */
export function createHeadBlocks(authority: string, deadline: string, tableBytes: number): HeadBlocks {
  const fields = [
    [':authority', authority],
    ['te', 'trailers'],
    ['content-type', 'application/grpc'],
    ['user-agent', 'sluice-load'],
    ...(deadline === '' ? [] : [['grpc-timeout', deadline]]),
  ]
  const path = Buffer.concat([Buffer.from([PATH_NEVER_INDEXED, PACKED | PACKED_PATH.length]), PACKED_PATH])
  const start = Buffer.concat([Buffer.from([METHOD_POST, SCHEME_HTTP]), path])
  const literals = (kind: number) => fields.map(([name, value]) => encodeLiteral(kind, name, value))
  if (tableBytes < TABLE_BYTES_MAX) {
    const later = Buffer.concat([start, ...literals(PLAIN_LITERAL)])
    return { first: Buffer.concat([Buffer.from([TABLE_SIZE_0]), later]), later }
  }
  const indexes = fields.map((_, i) => 0x80 | (STATIC_COUNT + fields.length - i)) // the newest is 62
  return {
    first: Buffer.concat([start, ...literals(INDEXED_LITERAL)]),
    later: Buffer.concat([start, Buffer.from(indexes)]),
  }
}

function encodeLiteral(kind: number, name: string, value: string): Buffer {
  const index = STATIC_NAMES[name] ?? 0
  const head = encodeNumber(kind, kind === INDEXED_LITERAL ? 6 : 4, index)
  return Buffer.concat([head, ...(index === 0 ? [encodeText(name)] : []), encodeText(value)])
}

function encodeText(value: string): Buffer {
  return Buffer.concat([encodeNumber(0, 7, value.length), Buffer.from(value, 'latin1')])
}

/** RFC 7541, 5.1. */
function encodeNumber(first: number, bits: number, value: number): Buffer {
  const mask = (1 << bits) - 1
  if (value < mask) return Buffer.from([first | value])
  const bytes = [first | mask]
  let rest = value - mask
  for (; rest >= 128; rest >>= 7) bytes.push((rest & 127) | 128)
  return Buffer.from([...bytes, rest])
}
