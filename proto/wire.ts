/**
 * Parts of protobuf messages that protobufjs' reader and writer lack: tags, nested messages, 64-bit integers.
 *
 *     12 0c  0a 0a …     tag 12 is field 2, type 2: 12 bytes follow, and reading must not go beyond them
 */
import type protobuf from 'protobufjs/minimal.js'

type Reader = protobuf.Reader
type Writer = protobuf.Writer

// A tag is the field's number and wire type in one: number << 3 | type.
export const VARINT = 0
export const FIXED64 = 1
export const LENGTH = 2

export const FIELD_1_VARINT = (1 << 3) | VARINT
export const FIELD_1_LENGTH = (1 << 3) | LENGTH
export const FIELD_2_VARINT = (2 << 3) | VARINT
export const FIELD_2_LENGTH = (2 << 3) | LENGTH
export const FIELD_3_VARINT = (3 << 3) | VARINT
export const FIELD_3_LENGTH = (3 << 3) | LENGTH
export const FIELD_4_LENGTH = (4 << 3) | LENGTH
export const FIELD_6_LENGTH = (6 << 3) | LENGTH

const VARINT_BYTES_MAX = 10
const LOW_BYTES = 7 // of a varint: 49 bits, which with four bits more make an exact number
const LOW_BITS = 49n
const HIGH_BITS_MASK = 0x7fff // 64 - 49 = 15 bits; what a tenth byte has above is dropped

/** Enters a nested message: the reader ends with it until the caller restores the returned end. */
export function enter(reader: Reader): number {
  const length = reader.size()
  const outerEnd = reader.len
  const end = reader.pos + length
  if (end > outerEnd) {
    throw new RangeError(`a message of ${length} bytes begins ${outerEnd - reader.pos} before the end`)
  }
  reader.len = end
  return outerEnd
}

export function skip(reader: Reader, tag: number): void {
  reader.skipType(tag & 7, 0, tag >>> 3)
}

/** Reads a uint64: a number up to 2^53-1, a bigint above, never protobufjs' Long. */
export function readUint64(reader: Reader): number | bigint {
  let low = 0
  let high = 0
  for (let i = 0; i < VARINT_BYTES_MAX; i++) {
    if (reader.pos >= reader.len) throw new RangeError('an integer ends in the middle')
    const byte = reader.buf[reader.pos++]
    if (i < LOW_BYTES) low += (byte & 127) * 2 ** (7 * i)
    else high |= (byte & 127) << (7 * (i - LOW_BYTES))
    if (byte < 128) {
      high &= HIGH_BITS_MASK
      return high < 16 ? low + high * 2 ** 49 : (BigInt(high) << LOW_BITS) | BigInt(low)
    }
  }
  throw new RangeError(`an integer is longer than ${VARINT_BYTES_MAX} bytes`)
}

export function writeUint64(writer: Writer, value: number | bigint): Writer {
  if (typeof value === 'number') return writer.uint64(value)
  const low = Number(BigInt.asIntN(32, value))
  const high = Number(BigInt.asIntN(32, value >> 32n))
  return writer.uint64({ low, high, unsigned: true } as never) // the fields of a Long that protobufjs reads
}
