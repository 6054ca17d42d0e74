/**
 * Decodes header blocks (RFC 7541, section 6).
 *
 *     1iiiiiii                 a field of the table
 *     01iiiiii  value          a new field, added to the table         i = index of its name, or 0 and the name follows
 *     0000iiii  value          a new field, not added
 *     0001iiii  value          the same, never to be indexed
 *     001sssss                 the table's size, at the start of a block only
 *
 *     a value, or a name:  hlllllll bytes     h = Huffman coded
 *
 *     table index   1 ........ 61 | 62 ................ 62 + count - 1
 *                   static        | newest ──────────► oldest, evicted when bytes run out
 *
 * A field's name is classified once, when it is added, so a repeated field costs no string comparison. Values of names
 * that are not read are not kept, only their size: a traceparent that changes with every call costs no string.
 *
 * A proxy sends :path Huffman coded and never indexed with each call, and decoding it is more than half of the work, so the
 * last such value is remembered with its bytes. Any error is thrown: the two tables would differ from then on.
 */
import { HEADER_BLOCK_BYTES_MAX } from './bounds.ts'
import { ConnectionError, ErrorCode } from './frames.ts'
import { unpackedBytesMax, unpackHuffman } from './huffman.ts'

/** The kind of a header name: a positive number of the reader, or one of these two. */
export const UNREAD = 0 // the value is not kept
export const MALFORMED = -1 // not allowed in a request

export type ClassifyName = (name: string) => number

export const TABLE_BYTES_MAX = 4_096 // the protocol's default; no other is announced
const FIELD_OVERHEAD_BYTES = 32 // RFC 7541, 4.1
const FIELDS_MAX = TABLE_BYTES_MAX / FIELD_OVERHEAD_BYTES // a power of two

/** One field; `bytes` is its size in the table, whether or not the value was kept. */
export class Field {
  readonly name: string
  readonly value: string
  readonly bytes: number
  kind = UNREAD

  constructor(name: string, value: string, textBytes: number) {
    this.name = name
    this.value = value
    this.bytes = textBytes + FIELD_OVERHEAD_BYTES
  }
}

// biome-ignore format: RFC 7541, appendix A
const STATIC_TABLE = [
  ':authority', ':method GET', ':method POST', ':path /', ':path /index.html', ':scheme http', ':scheme https',
  ':status 200', ':status 204', ':status 206', ':status 304', ':status 400', ':status 404', ':status 500',
  'accept-charset', 'accept-encoding gzip, deflate', 'accept-language', 'accept-ranges', 'accept',
  'access-control-allow-origin', 'age', 'allow', 'authorization', 'cache-control', 'content-disposition',
  'content-encoding', 'content-language', 'content-length', 'content-location', 'content-range', 'content-type',
  'cookie', 'date', 'etag', 'expect', 'expires', 'from', 'host', 'if-match', 'if-modified-since', 'if-none-match',
  'if-range', 'if-unmodified-since', 'last-modified', 'link', 'location', 'max-forwards', 'proxy-authenticate',
  'proxy-authorization', 'range', 'referer', 'refresh', 'retry-after', 'server', 'set-cookie',
  'strict-transport-security', 'transfer-encoding', 'user-agent', 'vary', 'via', 'www-authenticate',
].map((line) => {
  const [name, ...value] = line.split(' ')
  return new Field(name, value.join(' '), name.length + value.join(' ').length)
})
export const STATIC_COUNT = STATIC_TABLE.length

export class HeaderTable {
  version = 0 // changes with every change of the table
  readonly classifyName: ClassifyName
  private readonly staticFields: readonly Field[]
  private readonly ring: (Field | null)[] = []
  private newestIndex = 0 // in `ring`
  private count = 0
  private bytes = 0
  private bytesMax = TABLE_BYTES_MAX

  constructor(classifyName: ClassifyName, staticFields = createStaticFields(classifyName)) {
    this.classifyName = classifyName
    this.staticFields = staticFields
  }

  /** Returns null for an index that is not in use. */
  get(index: number): Field | null {
    if (index <= STATIC_COUNT) return index === 0 ? null : this.staticFields[index - 1]
    const age = index - STATIC_COUNT - 1
    if (age >= this.count) return null
    return this.ring[(this.newestIndex - age) & (FIELDS_MAX - 1)]
  }

  add(field: Field): void {
    this.version++
    this.shrinkTo(this.bytesMax - field.bytes)
    if (field.bytes > this.bytesMax) return // then the table is empty, which is no error (4.4)
    this.newestIndex = (this.newestIndex + 1) & (FIELDS_MAX - 1)
    this.ring[this.newestIndex] = field
    this.count++
    this.bytes += field.bytes
  }

  /** Returns false for more than TABLE_BYTES_MAX. */
  resize(bytesMax: number): boolean {
    if (bytesMax > TABLE_BYTES_MAX) return false
    this.version++
    this.bytesMax = bytesMax
    this.shrinkTo(bytesMax)
    return true
  }

  private shrinkTo(bytes: number): void {
    while (this.bytes > bytes && this.count > 0) {
      const place = (this.newestIndex - this.count + 1) & (FIELDS_MAX - 1)
      this.bytes -= this.ring[place]!.bytes
      this.ring[place] = null
      this.count--
    }
  }
}

/** The static table, classified: made once, shared by connections. */
export function createStaticFields(classifyName: ClassifyName): readonly Field[] {
  return STATIC_TABLE.map(({ name, value }) => {
    const field = new Field(name, value, name.length + value.length)
    field.kind = classifyName(name)
    return field
  })
}

/** Receives each field in order. `bytes` counts towards the header list size; `value` is '' for UNREAD names. */
export interface FieldSink {
  field(kind: number, name: string, value: string, bytes: number): void
}

const MEMO_BYTES_MIN = 16 // a shorter value is decoded as quickly as compared
const MEMO_BYTES_MAX = 256
const RESIZES_MAX = 2 // per block: to the lowest in between, then to the last (4.2)
const INTEGER_SHIFT_MAX = 21 // four bytes after the first: no accepted number is longer
const NUL = 0
const LF = 10
const CR = 13

const scratch = Buffer.allocUnsafe(unpackedBytesMax(HEADER_BLOCK_BYTES_MAX)) // decoded strings are copied out of it at once

export class HeaderDecoder {
  readonly table: HeaderTable
  private bytes: Buffer = scratch
  private offset = 0
  private end = 0
  private text: Buffer = scratch // holds the string read last
  private textFrom = 0
  private textTo = 0
  private memoBytes: Buffer = scratch // its own buffer once a value is remembered
  private memoLength = 0
  private memoTextBytes = 0
  private memoValue = ''

  constructor(classifyName: ClassifyName, staticFields?: readonly Field[]) {
    this.table = new HeaderTable(classifyName, staticFields)
  }

  /** One whole block, `bytes[from, to)`, at most HEADER_BLOCK_BYTES_MAX. */
  decode(bytes: Buffer, from: number, to: number, sink: FieldSink): void {
    this.bytes = bytes
    this.offset = from
    this.end = to
    let resizes = 0
    let isFirst = true
    while (this.offset < to) {
      const byte = bytes[this.offset]
      if (byte >= 128) {
        const field = this.getIndexed(this.readInteger(7))
        sink.field(field.kind, field.name, field.value, field.bytes)
      } else if (byte >= 64) this.readIndexedLiteral(sink)
      else if (byte >= 32) {
        if (!isFirst || ++resizes > RESIZES_MAX)
          throwCompressionError('a table size update that is not at the start of the block')
        if (!this.table.resize(this.readInteger(5)))
          throwCompressionError('a table size update beyond the announced size')
        continue
      } else this.readLiteral(sink)
      isFirst = false
    }
  }

  private readIndexedLiteral(sink: FieldSink): void {
    const index = this.readInteger(6)
    const named = index === 0 ? this.readName() : this.getIndexed(index)
    const nameKind = index === 0 ? named.kind : this.getNameKind(index, named)
    this.readString()
    const isValid = isValidValue(this.text, this.textFrom, this.textTo)
    const textBytes = named.name.length + this.textTo - this.textFrom
    const field = new Field(named.name, nameKind > UNREAD ? this.toLatin1() : '', textBytes)
    field.kind = isValid ? nameKind : MALFORMED
    this.table.add(field)
    sink.field(field.kind, field.name, field.value, field.bytes)
  }

  private readLiteral(sink: FieldSink): void {
    const index = this.readInteger(4)
    const named = index === 0 ? this.readName() : this.getIndexed(index)
    const kind = index === 0 ? named.kind : this.getNameKind(index, named)
    const start = this.offset
    if (kind > UNREAD && this.isMemo(start)) {
      this.offset = start + this.memoLength
      sink.field(
        kind,
        named.name,
        this.memoValue,
        named.name.length + this.memoTextBytes + FIELD_OVERHEAD_BYTES,
      )
      return
    }
    this.readString()
    const textBytes = this.textTo - this.textFrom
    const isValid = isValidValue(this.text, this.textFrom, this.textTo)
    const value = kind > UNREAD ? this.toLatin1() : ''
    if (isValid && kind > UNREAD) this.remember(start, textBytes, value)
    const bytes = named.name.length + textBytes + FIELD_OVERHEAD_BYTES
    sink.field(isValid ? kind : MALFORMED, named.name, value, bytes)
  }

  /** A field may be MALFORMED because of its value, so its name is classified again. */
  private getNameKind(index: number, field: Field): number {
    return index > STATIC_COUNT && field.kind === MALFORMED ? this.table.classifyName(field.name) : field.kind
  }

  private getIndexed(index: number): Field {
    return this.table.get(index) ?? throwCompressionError(`index ${index} is not in the table`)
  }

  private readName(): Field {
    this.readString()
    const field = new Field(this.toLatin1(), '', 0)
    field.kind = this.table.classifyName(field.name)
    return field
  }

  /** Whether the string at `start`, its length included, equals the remembered one byte for byte. */
  private isMemo(start: number): boolean {
    const { memoBytes, memoLength, bytes } = this
    if (memoLength === 0 || start + memoLength > this.end) return false
    for (let i = 0; i < memoLength; i++) if (bytes[start + i] !== memoBytes[i]) return false
    return true
  }

  private remember(start: number, textBytes: number, value: string): void {
    const length = this.offset - start
    if (length < MEMO_BYTES_MIN || length > MEMO_BYTES_MAX) return
    if (this.memoBytes === scratch) this.memoBytes = Buffer.allocUnsafeSlow(MEMO_BYTES_MAX)
    this.bytes.copy(this.memoBytes, 0, start, this.offset)
    this.memoLength = length
    this.memoTextBytes = textBytes
    this.memoValue = value
  }

  /** Reads a string literal; its bytes are text[textFrom, textTo) until the next one is read. */
  private readString(): void {
    if (this.offset >= this.end) throwCompressionError('the header block is incomplete')
    const isHuffman = this.bytes[this.offset] >= 128
    const length = this.readInteger(7)
    const from = this.offset
    if (length > this.end - from) throwCompressionError('a string is longer than its block')
    this.offset = from + length
    if (!isHuffman) {
      this.text = this.bytes
      this.textFrom = from
      this.textTo = this.offset
      return
    }
    const count = unpackHuffman(this.bytes, from, this.offset, scratch)
    if (count < 0) throwCompressionError('invalid Huffman code')
    this.text = scratch
    this.textFrom = 0
    this.textTo = count
  }

  /** The string read last, one character per byte. */
  private toLatin1(): string {
    return this.text.toString('latin1', this.textFrom, this.textTo)
  }

  /** RFC 7541, 5.1: the low bits of this byte, then 7 bits per byte when they are all 1. */
  private readInteger(bits: number): number {
    const mask = (1 << bits) - 1
    let value = this.bytes[this.offset++] & mask
    if (value < mask) return value
    for (let shift = 0; shift <= INTEGER_SHIFT_MAX; shift += 7) {
      if (this.offset >= this.end) throwCompressionError('the header block is incomplete')
      const byte = this.bytes[this.offset++]
      value += (byte & 127) << shift
      if (byte < 128) return value
    }
    return throwCompressionError('an integer is too large')
  }
}

/** RFC 9113, 8.2.1: no characters that could split a header in a later hop. */
function isValidValue(bytes: Uint8Array, from: number, to: number): boolean {
  for (let i = from; i < to; i++) {
    const byte = bytes[i]
    if (byte <= CR && (byte === NUL || byte === LF || byte === CR)) return false
  }
  return true
}

function throwCompressionError(text: string): never {
  throw new ConnectionError(ErrorCode.CompressionError, text)
}
