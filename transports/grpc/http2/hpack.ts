/**
 * Reads header blocks (RFC 7541, section 6).
 *
 *     1iiiiiii                 a field of the table
 *     01iiiiii  value          a new field, which joins the table      i = index of its name, or 0 and the name follows
 *     0000iiii  value          a new field, which does not
 *     0001iiii  value          the same, never to be indexed by anybody
 *     001sssss                 the table's size, at the beginning of a block only
 *
 *     a value, or a name:  hlllllll bytes     h = packed by Huffman
 *
 * A proxy sends its :path packed and never indexed with each call; unpacking it is more than half of the work. So the
 * last value of some length is remembered with its packed bytes. Whatever is wrong throws: the table of the peer
 * would differ from ours for ever.
 */
import { HEADER_BLOCK_BYTES_MAX } from './bounds.ts'
import { ConnectionError, ErrorCode } from './frames.ts'
import {
  type ClassifyName,
  FIXED_COUNT,
  Field,
  type fixedFields,
  HeaderTable,
  MALFORMED,
  UNREAD,
} from './hpack-table.ts'
import { unpackedBytesMax, unpackHuffman } from './huffman.ts'

/** Told of each field in order. `bytes` counts towards the size of the list; `value` is '' where nobody reads it. */
export interface FieldSink {
  field(kind: number, name: string, value: string, bytes: number): void
}

const MEMO_BYTES_MIN = 16 // a shorter value is unpacked as quickly as found
const MEMO_BYTES_MAX = 256
const RESIZES_MAX = 2 // of one block: to the lowest in between, then to the last (4.2)
const INTEGER_SHIFT_MAX = 21 // four bytes after the first: nothing we take is longer
const NUL = 0
const LF = 10
const CR = 13

const scratch = Buffer.allocUnsafe(unpackedBytesMax(HEADER_BLOCK_BYTES_MAX)) // strings are made from here at once
const FIELD_OVERHEAD_BYTES = 32

export class HeaderDecoder {
  readonly table: HeaderTable
  private bytes: Buffer = scratch
  private at = 0
  private end = 0
  private text: Buffer = scratch // where the string read last lies
  private textFrom = 0
  private textTo = 0
  private memoBytes: Buffer = scratch // until something is remembered
  private memoLength = 0
  private memoTextBytes = 0
  private memoValue = ''

  constructor(kindOf: ClassifyName, fixed?: ReturnType<typeof fixedFields>) {
    this.table = new HeaderTable(kindOf, fixed)
  }

  /** One whole block, `bytes[from, to)`, at most HEADER_BLOCK_BYTES_MAX. */
  decode(bytes: Buffer, from: number, to: number, sink: FieldSink): void {
    this.bytes = bytes
    this.at = from
    this.end = to
    let resizes = 0
    let isFirst = true
    while (this.at < to) {
      const byte = bytes[this.at]
      if (byte >= 128) {
        const field = this.indexed(this.integer(7))
        sink.field(field.kind, field.name, field.value, field.bytes)
      } else if (byte >= 64) this.joining(sink)
      else if (byte >= 32) {
        if (!isFirst || ++resizes > RESIZES_MAX) fail('a table size update in the wrong place')
        if (!this.table.resize(this.integer(5))) fail('a table larger than announced')
        continue
      } else this.passing(sink)
      isFirst = false
    }
  }

  private joining(sink: FieldSink): void {
    const index = this.integer(6)
    const named = index === 0 ? this.name() : this.indexed(index)
    const nameKind = index === 0 ? named.kind : this.nameKind(index, named)
    this.string()
    const isGood = isValue(this.text, this.textFrom, this.textTo)
    const textBytes = named.name.length + this.textTo - this.textFrom
    const field = new Field(named.name, nameKind > UNREAD ? this.latin1() : '', textBytes)
    field.kind = isGood ? nameKind : MALFORMED
    this.table.add(field)
    sink.field(field.kind, field.name, field.value, field.bytes)
  }

  private passing(sink: FieldSink): void {
    const index = this.integer(4)
    const named = index === 0 ? this.name() : this.indexed(index)
    const kind = index === 0 ? named.kind : this.nameKind(index, named)
    const start = this.at
    if (kind > UNREAD && this.isMemo(start)) {
      this.at = start + this.memoLength
      sink.field(
        kind,
        named.name,
        this.memoValue,
        named.name.length + this.memoTextBytes + FIELD_OVERHEAD_BYTES,
      )
      return
    }
    this.string()
    const textBytes = this.textTo - this.textFrom
    const isGood = isValue(this.text, this.textFrom, this.textTo)
    const value = kind > UNREAD ? this.latin1() : ''
    if (isGood && kind > UNREAD) this.remember(start, textBytes, value)
    const bytes = named.name.length + textBytes + FIELD_OVERHEAD_BYTES
    sink.field(isGood ? kind : MALFORMED, named.name, value, bytes)
  }

  /** A field whose value was faulty says nothing about its name. */
  private nameKind(index: number, field: Field): number {
    return index > FIXED_COUNT && field.kind === MALFORMED ? this.table.classifyName(field.name) : field.kind
  }

  private indexed(index: number): Field {
    return this.table.at(index) ?? fail(`no field ${index} in the table`)
  }

  private name(): Field {
    this.string()
    const field = new Field(this.latin1(), '', 0)
    field.kind = this.table.classifyName(field.name)
    return field
  }

  /** Whether the string at `start`, its length included, is byte for byte the remembered one. */
  private isMemo(start: number): boolean {
    const { memoBytes, memoLength, bytes } = this
    if (memoLength === 0 || start + memoLength > this.end) return false
    for (let i = 0; i < memoLength; i++) if (bytes[start + i] !== memoBytes[i]) return false
    return true
  }

  private remember(start: number, textBytes: number, value: string): void {
    const length = this.at - start
    if (length < MEMO_BYTES_MIN || length > MEMO_BYTES_MAX) return
    if (this.memoBytes === scratch) this.memoBytes = Buffer.allocUnsafeSlow(MEMO_BYTES_MAX)
    this.bytes.copy(this.memoBytes, 0, start, this.at)
    this.memoLength = length
    this.memoTextBytes = textBytes
    this.memoValue = value
  }

  /** Reads a string literal; its bytes are text[textFrom, textTo) until the next one is read. */
  private string(): void {
    if (this.at >= this.end) fail('a block that ends too soon')
    const isPacked = this.bytes[this.at] >= 128
    const length = this.integer(7)
    const from = this.at
    if (length > this.end - from) fail('a string longer than its block')
    this.at = from + length
    if (!isPacked) {
      this.text = this.bytes
      this.textFrom = from
      this.textTo = this.at
      return
    }
    const count = unpackHuffman(this.bytes, from, this.at, scratch)
    if (count < 0) fail('a string that is not packed right')
    this.text = scratch
    this.textFrom = 0
    this.textTo = count
  }

  /** The string read last, a character per byte. */
  private latin1(): string {
    return this.text.toString('latin1', this.textFrom, this.textTo)
  }

  /** RFC 7541, 5.1: the low bits of this byte, then 7 bits per byte when they are all 1. */
  private integer(bits: number): number {
    const mask = (1 << bits) - 1
    let value = this.bytes[this.at++] & mask
    if (value < mask) return value
    for (let shift = 0; shift <= INTEGER_SHIFT_MAX; shift += 7) {
      if (this.at >= this.end) fail('a block that ends too soon')
      const byte = this.bytes[this.at++]
      value += (byte & 127) << shift
      if (byte < 128) return value
    }
    return fail('a number that is too large')
  }
}

/** RFC 9113, 8.2.1: what could split a header further on. */
function isValue(bytes: Uint8Array, from: number, to: number): boolean {
  for (let i = from; i < to; i++) {
    const byte = bytes[i]
    if (byte <= CR && (byte === NUL || byte === LF || byte === CR)) return false
  }
  return true
}

function fail(text: string): never {
  throw new ConnectionError(ErrorCode.CompressionError, text)
}
