/**
 * Decodes the header blocks of responses (RFC 7541). It shares no code with the decoder of the server, so that an error
 * there is not repeated here.
 *
 *     1iiiiiii                 a field of the table
 *     01iiiiii  value          a new field, added to the table         i = index of its name, or 0 and the name follows
 *     000xiiii  value          a new field, not added
 *     001sssss                 the size of the table
 *
 * Header text is printable ASCII; a byte outside of it, Huffman coded, is an error.
 */

const TABLE_BYTES_MAX = 4_096 // the default; the generator announces no other
const FIELD_OVERHEAD_BYTES = 32 // section 4.1

/** Appendix A. A value follows its name after a space. */
const STATIC_FIELDS =
  `:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200
:status 204|:status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate
accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control
content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|cookie
date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified
link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie
strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate`
    .split(/[|\n]/)
    .map((line): Field => {
      const [name, ...value] = line.split(' ')
      return [name, value.join(' ')]
    })

type Field = [name: string, value: string]

/** Appendix B, printable ASCII: by the length of their codes, in the order of their codes, which are consecutive. */
// biome-ignore format: a table
const HUFFMAN: [bits: number, symbols: string][] = [
  [5, '012aceiost'], [6, ' %-./3456789=A_bdfghlmnpru'], [7, ':BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz'], [8, '&*,;XZ'],
  [10, '!"()?'], [11, "'+|"], [12, '#>'], [13, '\0$@[]~'], [14, '^}'], [15, '<`{'],
]
const PEEK_BITS = 15
const ALL_ONES = 2 ** PEEK_BITS - 1 // the start of longer codes, and padding
const BACKSLASH_BITS = 19 // the only longer code of printable ASCII: 15 ones and 4 zeros
const BACKSLASH = 92
const CODES = buildCodes()
const TEXT_BYTES_MAX = 65_536 // of a Huffman coded text; a longer one is an error
const unpacked = Buffer.allocUnsafeSlow(2 * TEXT_BYTES_MAX) // no code is shorter than 5 bits; copied out at once

/** 15 bits → length of the code they start with, and its symbol in the low byte; 0 = none. */
function buildCodes(): Uint16Array {
  const codes = new Uint16Array(2 ** PEEK_BITS)
  let from = 0
  for (const [bits, symbols] of HUFFMAN) {
    for (const symbol of symbols) {
      const to = from + 2 ** (PEEK_BITS - bits)
      codes.fill((bits << 8) | symbol.charCodeAt(0), from, to)
      from = to
    }
  }
  return codes
}

export class HeaderDecoder {
  /** Changes with every change of the table: bytes decoded before may mean something else now. */
  version = 0
  private readonly fields: Field[] = [] // the newest last
  private tableBytes = 0
  private tableBytesMax = TABLE_BYTES_MAX
  private bytes: Buffer = unpacked
  private at = 0
  private end = 0

  /** Throws if the block is not valid; then no later one can be decoded. */
  decode(bytes: Buffer, from: number, to: number, onField: (name: string, value: string) => void): void {
    this.bytes = bytes
    this.at = from
    this.end = to
    while (this.at < this.end) {
      const first = bytes[this.at]
      if (first >= 0x80) onField(...this.getField(this.readNumber(7)))
      else if (first >= 0x40) this.addField(this.readField(6), onField)
      else if (first >= 0x20) this.resize(this.readNumber(5))
      else onField(...this.readField(4))
    }
  }

  private readField(indexBits: number): Field {
    const index = this.readNumber(indexBits)
    const name = index === 0 ? this.readText() : this.getField(index)[0]
    return [name, this.readText()]
  }

  private getField(index: number): Field {
    const age = index - STATIC_FIELDS.length - 1
    const field = age < 0 ? STATIC_FIELDS[index - 1] : this.fields.at(-1 - age)
    if (field === undefined) throw new Error(`header index ${index} is not in the table`)
    return field
  }

  private addField(field: Field, onField: (name: string, value: string) => void): void {
    onField(...field)
    this.version++
    this.fields.push(field)
    this.tableBytes += countBytes(field)
    this.evict()
  }

  private resize(bytesMax: number): void {
    if (bytesMax > TABLE_BYTES_MAX) throw new Error(`a header table of ${bytesMax} bytes`)
    this.version++
    this.tableBytesMax = bytesMax
    this.evict()
  }

  private evict(): void {
    while (this.tableBytes > this.tableBytesMax) this.tableBytes -= countBytes(this.fields.shift()!)
  }

  /** Section 5.1: an integer with a prefix of so many bits. */
  private readNumber(prefixBits: number): number {
    const mask = 2 ** prefixBits - 1
    let value = this.readByte() & mask
    if (value < mask) return value
    for (let scale = 1; scale <= 2 ** 21; scale *= 128) {
      const byte = this.readByte()
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
    throw new Error('an integer of more than five bytes in a header block')
  }

  private readByte(): number {
    if (this.at === this.end) throw new Error('a header block that ends within a field')
    return this.bytes[this.at++]
  }

  private readText(): string {
    const isPacked = this.bytes[this.at] >= 0x80
    const length = this.readNumber(7)
    const from = this.at
    this.at += length
    if (this.at > this.end) throw new Error('a header block that ends within a field')
    if (isPacked && length > TEXT_BYTES_MAX) throw new Error(`a header text of ${length} bytes`)
    if (isPacked) return unpack(this.bytes, from, this.at)
    return this.bytes.toString('latin1', from, this.at)
  }
}

function countBytes([name, value]: Field): number {
  return name.length + value.length + FIELD_OVERHEAD_BYTES
}

/** Section 5.2. The bits behind the end count as ones, as the padding does. */
function unpack(bytes: Buffer, from: number, to: number): string {
  const bits = (to - from) * 8
  let length = 0
  for (let at = 0; at < bits; ) {
    const code = peek(bytes, from, to, at)
    const entry = CODES[code]
    if (entry !== 0) {
      at += entry >> 8
      unpacked[length++] = entry & 0xff
    } else if (code === ALL_ONES && bits - at < 8) break
    else if (code === ALL_ONES && peek(bytes, from, to, at + PEEK_BITS) >> (PEEK_BITS - 4) === 0) {
      at += BACKSLASH_BITS
      unpacked[length++] = BACKSLASH
    } else throw new Error('a header text that is not printable ASCII')
    if (at > bits) throw new Error('a header text that ends within a code')
  }
  return unpacked.toString('latin1', 0, length)
}

/** The PEEK_BITS bits that start at bit `at`. */
function peek(bytes: Buffer, from: number, to: number, at: number): number {
  const first = from + (at >> 3)
  const window =
    first + 2 < to
      ? (bytes[first] << 16) | (bytes[first + 1] << 8) | bytes[first + 2]
      : ((first < to ? bytes[first] : 0xff) << 16) | ((first + 1 < to ? bytes[first + 1] : 0xff) << 8) | 0xff
  return (window >> (24 - PEEK_BITS - (at & 7))) & ALL_ONES
}
