/**
 * Protobuf codec of google.protobuf.Struct, a JSON object, for dynamic metadata (spec 5.8).
 *
 *     { "a": [1] }    0a .. Struct.fields, a map entry of key 1 "a" and value 2
 *                           └ Value, one of: null 1 · number 2 · string 3 · bool 4 · struct 5 · list 6
 *                                                                                        └ ListValue.values 1
 *
 * Values deeper than STRUCT_DEPTH_MAX are written as null, because a response must not fail at this point; when read, they
 * are an error. A Value without a kind is read as null.
 */
import type protobuf from 'protobufjs/minimal.js'
import { STRUCT_DEPTH_MAX } from './bounds.ts'
import type { JsonObject, JsonValue } from './ratelimit.ts'
import { enter, FIXED64, LENGTH, skip, VARINT } from './wire.ts'

type Reader = protobuf.Reader
type Writer = protobuf.Writer

const KEY = (1 << 3) | LENGTH // of a map entry; also Struct.fields and ListValue.values
const VALUE = (2 << 3) | LENGTH
const NULL_VALUE = (1 << 3) | VARINT
const NUMBER_VALUE = (2 << 3) | FIXED64
const STRING_VALUE = (3 << 3) | LENGTH
const BOOL_VALUE = (4 << 3) | VARINT
const STRUCT_VALUE = (5 << 3) | LENGTH
const LIST_VALUE = (6 << 3) | LENGTH
const ELEMENT = KEY

/** Writes the fields of a Struct in the order of their keys; the caller writes its tag and length. */
export function writeStruct(writer: Writer, struct: JsonObject, depth = 1): Writer {
  for (const key of Object.keys(struct).sort()) {
    writer.uint32(ELEMENT).fork().uint32(KEY).string(key.toWellFormed())
    writeValue(writer.uint32(VALUE).fork(), struct[key], depth).ldelim().ldelim()
  }
  return writer
}

/** Reads a Struct with its length, and adds its fields to `struct`. */
export function readStruct(reader: Reader, struct: JsonObject, depth = 1): JsonObject {
  if (depth > STRUCT_DEPTH_MAX) throw new RangeError(`a Struct has more than ${STRUCT_DEPTH_MAX} levels`)
  const outerEnd = enter(reader)
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === ELEMENT) readField(reader, struct, depth)
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return struct
}

/** `object[key] = value`, also for the key `__proto__`. */
export function setOwn(object: JsonObject, key: string, value: JsonValue): void {
  if (key !== '__proto__') object[key] = value
  else Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true })
}

function writeValue(writer: Writer, value: JsonValue, depth: number): Writer {
  if (typeof value === 'string') return writer.uint32(STRING_VALUE).string(value.toWellFormed())
  if (typeof value === 'number') return writer.uint32(NUMBER_VALUE).double(value)
  if (typeof value === 'boolean') return writer.uint32(BOOL_VALUE).bool(value)
  if (value === null || depth >= STRUCT_DEPTH_MAX) return writer.uint32(NULL_VALUE).int32(0)
  if (!Array.isArray(value)) {
    return writeStruct(writer.uint32(STRUCT_VALUE).fork(), value, depth + 1).ldelim()
  }
  writer.uint32(LIST_VALUE).fork()
  for (const element of value) writeValue(writer.uint32(ELEMENT).fork(), element, depth + 1).ldelim()
  return writer.ldelim()
}

function readField(reader: Reader, struct: JsonObject, depth: number): void {
  const outerEnd = enter(reader)
  let key = ''
  let value: JsonValue = null
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === KEY) key = reader.stringVerify()
    else if (tag === VALUE) value = readValue(reader, value, depth)
    else skip(reader, tag)
  }
  reader.len = outerEnd
  setOwn(struct, key, value)
}

function readValue(reader: Reader, earlier: JsonValue, depth: number): JsonValue {
  const outerEnd = enter(reader)
  let value = earlier
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === STRING_VALUE) value = reader.stringVerify()
    else if (tag === NUMBER_VALUE) value = reader.double()
    else if (tag === BOOL_VALUE) value = reader.bool()
    else if (tag === NULL_VALUE) {
      reader.int32()
      value = null
    } else if (tag === STRUCT_VALUE) {
      const isStruct = typeof value === 'object' && value !== null && !Array.isArray(value)
      value = readStruct(reader, isStruct ? (value as JsonObject) : {}, depth + 1)
    } else if (tag === LIST_VALUE) value = readList(reader, Array.isArray(value) ? value : [], depth + 1)
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return value
}

function readList(reader: Reader, list: JsonValue[], depth: number): JsonValue[] {
  if (depth > STRUCT_DEPTH_MAX) throw new RangeError(`a Struct has more than ${STRUCT_DEPTH_MAX} levels`)
  const outerEnd = enter(reader)
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === ELEMENT) list.push(readValue(reader, null, depth))
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return list
}
