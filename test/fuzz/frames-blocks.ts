/**
 * Header blocks of a client that uses all of HPACK at random: both tables, each kind of literal, names by index or as
 * text, Huffman or not, a table that shrinks and grows.
 */
import { CODES } from '../transports/grpc/http2/huffman-codes.ts'

type Random = () => number
export type Fields = readonly (readonly [name: string, value: string])[]

const TABLE_BYTES_MAX = 4_096
const FIXED_COUNT = 61
const FIXED_NAMES = new Map([
  [':authority', 1],
  [':method', 3],
  [':path', 4],
  [':scheme', 6],
  ['content-type', 31],
  ['user-agent', 58],
])
const FIXED_FIELDS = new Map([
  [':method POST', 3],
  [':scheme http', 6],
  [':path /', 4],
])
const packed = new Map<string, Buffer>()

export class BlockWriter {
  private readonly random: Random
  private readonly table: [name: string, value: string][] = [] // newest first
  private bytes = 0
  private bytesMax = TABLE_BYTES_MAX

  constructor(random: Random) {
    this.random = random
  }

  block(fields: Fields): Buffer {
    const parts: Buffer[] = []
    if (this.random() < 0.02) parts.push(this.resize())
    for (const [name, value] of fields) parts.push(this.field(name, value))
    return Buffer.concat(parts)
  }

  private resize(): Buffer {
    this.bytesMax = this.random() < 0.5 ? TABLE_BYTES_MAX : Math.floor(this.random() * TABLE_BYTES_MAX)
    this.shrinkTo(this.bytesMax)
    return integer(0x20, 5, this.bytesMax)
  }

  private field(name: string, value: string): Buffer {
    const known = this.table.findIndex((each) => each[0] === name && each[1] === value)
    if (known >= 0 && this.random() < 0.95) return integer(0x80, 7, FIXED_COUNT + 1 + known)
    const fixed = FIXED_FIELDS.get(`${name} ${value}`)
    if (fixed !== undefined && this.random() < 0.95) return integer(0x80, 7, fixed)
    const chance = this.random()
    if (chance < 0.4) {
      const bytes = this.literal(0x40, 6, name, value)
      this.add(name, value)
      return bytes
    }
    return this.literal(chance < 0.7 ? 0x00 : 0x10, 4, name, value)
  }

  private literal(first: number, bits: number, name: string, value: string): Buffer {
    const known = this.table.findIndex((each) => each[0] === name)
    const index = known >= 0 ? FIXED_COUNT + 1 + known : (FIXED_NAMES.get(name) ?? 0)
    if (index > 0 && this.random() < 0.9)
      return Buffer.concat([integer(first, bits, index), this.string(value)])
    return Buffer.concat([Buffer.of(first), this.string(name), this.string(value)])
  }

  private string(text: string): Buffer {
    const plain = Buffer.from(text, 'latin1')
    const bytes = this.random() < 0.5 ? plain : huffman(text)
    return Buffer.concat([integer(bytes === plain ? 0 : 0x80, 7, bytes.length), bytes])
  }

  private add(name: string, value: string): void {
    const size = name.length + value.length + 32
    this.shrinkTo(this.bytesMax - size)
    if (size > this.bytesMax) return
    this.table.unshift([name, value])
    this.bytes += size
  }

  private shrinkTo(bytes: number): void {
    while (this.bytes > bytes && this.table.length > 0) {
      const [name, value] = this.table.pop()!
      this.bytes -= name.length + value.length + 32
    }
  }
}

function integer(first: number, bits: number, value: number): Buffer {
  const mask = (1 << bits) - 1
  if (value < mask) return Buffer.of(first | value)
  const bytes = [first | mask]
  let rest = value - mask
  for (; rest >= 128; rest >>= 7) bytes.push((rest & 127) | 128)
  return Buffer.from([...bytes, rest])
}

function huffman(text: string): Buffer {
  const known = packed.get(text)
  if (known !== undefined) return known
  let bits = Array.from(text, (char) => CODES[char.charCodeAt(0)]).join('')
  bits = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1')
  const bytes = Buffer.from((bits.match(/.{8}/g) ?? []).map((each) => Number.parseInt(each, 2)))
  if (packed.size < 1_000) packed.set(text, bytes)
  return bytes
}
