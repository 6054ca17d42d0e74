/**
 * Protobuf codec of the rate limit messages (spec 5.2): decodes requests; for clients and tests it also encodes requests
 * and decodes responses. The service writes responses with response-bytes.ts.
 *
 *     0a 01 'd'  12 0c  0a 0a  0a 01 'k'  12 05 'value'
 *     domain "d" │      │      key "k"    value "value"
 *                │      └ entry of 10 bytes
 *                └ descriptor of 12 bytes
 *
 * Written by hand on protobufjs' reader and writer: types generated from the .proto files take 18 ms more per thread at
 * start and decode into objects that must be copied. Field numbers are therefore repeated here; the tests compare every
 * message with the .proto files.
 *
 * As in proto3: unknown fields and known ones of another wire type are skipped, a message field given twice
 * is merged, text that is not UTF-8 is an error, an integer too long for its field keeps its low bits.
 * Decoding a request stops with an error at the maxima of `bounds.ts`.
 */
import { isUtf8 } from 'node:buffer'
import protobuf from 'protobufjs/minimal.js'
import { DESCRIPTORS_BOUND, DESCRIPTORS_MAX, ENTRIES_BOUND, ENTRIES_MAX } from './bounds.ts'
import type {
  Code,
  Descriptor,
  DescriptorStatus,
  Entry,
  HeaderValue,
  LimitOverride,
  RateLimit,
  RateLimitRequest,
  RateLimitResponse,
  Unit,
} from './ratelimit.ts'
import { readStruct } from './struct.ts'
import {
  enter,
  FIELD_1_LENGTH,
  FIELD_1_VARINT,
  FIELD_2_LENGTH,
  FIELD_2_VARINT,
  FIELD_3_LENGTH,
  FIELD_3_VARINT,
  FIELD_4_LENGTH,
  FIELD_6_LENGTH,
  readUint64,
  skip,
  writeUint64,
} from './wire.ts'

type Reader = protobuf.Reader
type Writer = protobuf.Writer

/** Entries of the request being read. Global, because reading never yields. */
let entriesCount = 0

/** The bytes are not a RateLimitRequest. */
export class MalformedRequest extends Error {
  override name = 'MalformedRequest'
}

/** Throws MalformedRequest. */
export function decodeRequest(bytes: Uint8Array): RateLimitRequest {
  return read(bytes, 0, bytes.length, readRequest)
}

/** Decodes one descriptor of a request: the bytes of its message from `start` up to `end`. Throws MalformedRequest. */
export function decodeDescriptor(bytes: Uint8Array, start: number, end: number): Descriptor {
  return read(bytes, start, end, readDescriptorFields)
}

/** Decodes one text of a request in the same way. */
export function decodeText(bytes: Uint8Array, start: number, end: number): string {
  const text = bytes.subarray(start, end)
  if (!isUtf8(text)) throw new MalformedRequest('a text is not UTF-8')
  return Buffer.from(text.buffer, text.byteOffset, text.length).toString()
}

function read<T>(bytes: Uint8Array, start: number, end: number, part: (reader: Reader) => T): T {
  const reader = new protobuf.Reader(bytes) // never BufferReader: one class, so calls stay monomorphic
  reader.pos = start
  reader.len = end
  entriesCount = 0
  try {
    return part(reader)
  } catch (error) {
    throw new MalformedRequest(error instanceof Error ? error.message : String(error))
  }
}

function readRequest(reader: Reader): RateLimitRequest {
  const request: RateLimitRequest = { domain: '', descriptors: [], hitsAddend: 0 }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) request.domain = reader.stringVerify()
    else if (tag === FIELD_2_LENGTH) {
      if (request.descriptors.length === DESCRIPTORS_MAX) throw new RangeError(DESCRIPTORS_BOUND)
      request.descriptors.push(readDescriptor(reader))
    } else if (tag === FIELD_3_VARINT) request.hitsAddend = reader.uint32()
    else skip(reader, tag)
  }
  return request
}

export function encodeRequest(request: RateLimitRequest): Uint8Array {
  const writer = protobuf.Writer.create()
  if (request.domain !== '') writer.uint32(FIELD_1_LENGTH).string(request.domain)
  for (const descriptor of request.descriptors) {
    writeDescriptor(writer.uint32(FIELD_2_LENGTH).fork(), descriptor).ldelim()
  }
  if (request.hitsAddend !== 0) writer.uint32(FIELD_3_VARINT).uint32(request.hitsAddend)
  return writer.finish()
}

export function decodeResponse(bytes: Uint8Array): RateLimitResponse {
  const reader = new protobuf.Reader(bytes)
  const response: RateLimitResponse = {
    overallCode: 0,
    statuses: [],
    responseHeadersToAdd: [],
    dynamicMetadata: null,
  }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_VARINT) response.overallCode = reader.int32() as Code
    else if (tag === FIELD_2_LENGTH) response.statuses.push(readStatus(reader))
    else if (tag === FIELD_3_LENGTH) response.responseHeadersToAdd.push(readPair(reader))
    else if (tag === FIELD_6_LENGTH) {
      response.dynamicMetadata = readStruct(reader, response.dynamicMetadata ?? {})
    } else skip(reader, tag)
  }
  return response
}

function readDescriptor(reader: Reader): Descriptor {
  const outerEnd = enter(reader)
  const descriptor = readDescriptorFields(reader)
  reader.len = outerEnd
  return descriptor
}

function readDescriptorFields(reader: Reader): Descriptor {
  const descriptor: Descriptor = { entries: [], limit: null, hitsAddend: null }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) {
      if (++entriesCount > ENTRIES_MAX) throw new RangeError(ENTRIES_BOUND)
      descriptor.entries.push(readPair(reader))
    } else if (tag === FIELD_2_LENGTH) descriptor.limit = readOverride(reader, descriptor.limit)
    else if (tag === FIELD_3_LENGTH) descriptor.hitsAddend = readUInt64Value(reader, descriptor.hitsAddend)
    else skip(reader, tag)
  }
  return descriptor
}

/** Entry and HeaderValue: both are key 1, value 2. */
function readPair(reader: Reader): Entry & HeaderValue {
  const outerEnd = enter(reader)
  const pair = { key: '', value: '' }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) pair.key = reader.stringVerify()
    else if (tag === FIELD_2_LENGTH) pair.value = reader.stringVerify()
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return pair
}

function readOverride(reader: Reader, earlier: LimitOverride | null): LimitOverride {
  const outerEnd = enter(reader)
  const limit = earlier ?? { requestsPerUnit: 0, unit: 0 }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_VARINT) limit.requestsPerUnit = reader.uint32()
    else if (tag === FIELD_2_VARINT) limit.unit = reader.int32()
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return limit
}

function readUInt64Value(reader: Reader, earlier: number | bigint | null): number | bigint {
  const outerEnd = enter(reader)
  let value = earlier ?? 0
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_VARINT) value = readUint64(reader)
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return value
}

function readStatus(reader: Reader): DescriptorStatus {
  const outerEnd = enter(reader)
  const status: DescriptorStatus = { code: 0, currentLimit: null, limitRemaining: 0, resetSec: 0 }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_VARINT) status.code = reader.int32() as Code
    else if (tag === FIELD_2_LENGTH) status.currentLimit = readLimit(reader, status.currentLimit)
    else if (tag === FIELD_3_VARINT) status.limitRemaining = reader.uint32()
    else if (tag === FIELD_4_LENGTH) status.resetSec = readDurationSec(reader, status.resetSec)
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return status
}

function readLimit(reader: Reader, earlier: RateLimit | null): RateLimit {
  const outerEnd = enter(reader)
  const limit = earlier ?? { name: '', requestsPerUnit: 0, unit: 0 as Unit }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_VARINT) limit.requestsPerUnit = reader.uint32()
    else if (tag === FIELD_2_VARINT) limit.unit = reader.int32() as Unit
    else if (tag === FIELD_3_LENGTH) limit.name = reader.stringVerify()
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return limit
}

/** Whole seconds; a rate limit service sends no nanos (spec 4.6). */
function readDurationSec(reader: Reader, earlier: number): number {
  const outerEnd = enter(reader)
  let seconds = earlier
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_VARINT) seconds = Number(BigInt.asIntN(64, BigInt(readUint64(reader))))
    else skip(reader, tag)
  }
  reader.len = outerEnd
  return seconds
}

function writeDescriptor(writer: Writer, descriptor: Descriptor): Writer {
  for (const entry of descriptor.entries) writePair(writer.uint32(FIELD_1_LENGTH).fork(), entry).ldelim()
  if (descriptor.limit !== null) {
    const { requestsPerUnit, unit } = descriptor.limit
    writer.uint32(FIELD_2_LENGTH).fork()
    if (requestsPerUnit !== 0) writer.uint32(FIELD_1_VARINT).uint32(requestsPerUnit)
    if (unit !== 0) writer.uint32(FIELD_2_VARINT).int32(unit)
    writer.ldelim()
  }
  if (descriptor.hitsAddend !== null) {
    writer.uint32(FIELD_3_LENGTH).fork()
    if (descriptor.hitsAddend !== 0) writeUint64(writer.uint32(FIELD_1_VARINT), descriptor.hitsAddend)
    writer.ldelim()
  }
  return writer
}

function writePair(writer: Writer, { key, value }: Entry): Writer {
  if (key !== '') writer.uint32(FIELD_1_LENGTH).string(key)
  if (value !== '') writer.uint32(FIELD_2_LENGTH).string(value)
  return writer
}
