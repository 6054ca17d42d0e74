/**
 * Encodes a RateLimitResponse as protobuf bytes, into a reused buffer.
 *
 *     08 01   12 0e   08 01   12 04 08 05 10 02   18 04   22 02 08 25
 *     OK      status  OK      5 per minute        4 left  37 s to go
 *
 * On the path of every decision, so nothing is allocated in between: the length of a message is inserted before it when it is known.
 * Structs, which few responses contain, are encoded by protobufjs.
 */
import protobuf from 'protobufjs/minimal.js'
import type { DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse } from './ratelimit.ts'
import { writeStruct } from './struct.ts'
import {
  FIELD_1_LENGTH,
  FIELD_1_VARINT,
  FIELD_2_LENGTH,
  FIELD_2_VARINT,
  FIELD_3_LENGTH,
  FIELD_3_VARINT,
  FIELD_4_LENGTH,
  FIELD_6_LENGTH,
} from './wire.ts'

const FIXED_BYTES_MAX = 64 // of a status or header without its texts
const UTF8_BYTES_MAX = 3 // per UTF-16 unit
const KEPT_BYTES_MAX = 1_048_576 // of scratch between responses

let scratch = Buffer.alloc(16_384)
let at = 0

/** The caller owns the returned bytes. */
export function encodeResponse(response: RateLimitResponse): Uint8Array {
  const { statuses, responseHeadersToAdd: headers, dynamicMetadata: metadata } = response
  at = 0
  if (response.overallCode !== 0) writeNumber(FIELD_1_VARINT, response.overallCode)
  for (let i = 0; i < statuses.length; i++) writeStatus(statuses[i])
  for (let i = 0; i < headers.length; i++) writeHeader(headers[i])
  if (metadata !== null) writeBytes(FIELD_6_LENGTH, writeStruct(protobuf.Writer.create(), metadata).finish())
  const bytes = Uint8Array.prototype.slice.call(scratch, 0, at)
  if (scratch.length > KEPT_BYTES_MAX) scratch = Buffer.alloc(KEPT_BYTES_MAX)
  return bytes
}

function writeStatus(status: DescriptorStatus): void {
  const limit = status.currentLimit
  reserve(FIXED_BYTES_MAX + (limit === null ? 0 : limit.name.length * UTF8_BYTES_MAX))
  const start = begin(FIELD_2_LENGTH)
  if (status.code !== 0) writeNumber(FIELD_1_VARINT, status.code)
  if (limit !== null) writeLimit(limit)
  if (status.limitRemaining !== 0) writeNumber(FIELD_3_VARINT, status.limitRemaining)
  if (status.resetSec !== 0) {
    const duration = begin(FIELD_4_LENGTH)
    writeNumber(FIELD_1_VARINT, status.resetSec)
    end(duration)
  }
  end(start)
}

function writeLimit(limit: RateLimit): void {
  const start = begin(FIELD_2_LENGTH)
  if (limit.requestsPerUnit !== 0) writeNumber(FIELD_1_VARINT, limit.requestsPerUnit)
  if (limit.unit !== 0) writeNumber(FIELD_2_VARINT, limit.unit)
  if (limit.name !== '') writeText(FIELD_3_LENGTH, limit.name)
  end(start)
}

function writeHeader({ key, value }: HeaderValue): void {
  reserve(FIXED_BYTES_MAX + (key.length + value.length) * UTF8_BYTES_MAX)
  const start = begin(FIELD_3_LENGTH)
  if (key !== '') writeText(FIELD_1_LENGTH, key)
  if (value !== '') writeText(FIELD_2_LENGTH, value)
  end(start)
}

function writeBytes(tag: number, bytes: Uint8Array): void {
  reserve(FIXED_BYTES_MAX + bytes.length)
  writeNumber(tag, bytes.length)
  scratch.set(bytes, at)
  at += bytes.length
}

function writeText(tag: number, text: string): void {
  const start = begin(tag)
  at += scratch.write(text, at)
  end(start)
}

/** Begins a message and reserves one byte for its length. Returns its start. */
function begin(tag: number): number {
  scratch[at] = tag
  at += 2
  return at
}

/** Ends the message that starts at `start`: writes its length, and moves the message if the length needs more bytes. */
function end(start: number): void {
  const length = at - start
  if (length < 0x80) {
    scratch[start - 1] = length
    return
  }
  const lengthBytes = length < 2 ** 14 ? 2 : length < 2 ** 21 ? 3 : length < 2 ** 28 ? 4 : 5
  scratch.copyWithin(start + lengthBytes - 1, start, at)
  at = start - 1
  writeVarint(length)
  at += length
}

function writeNumber(tag: number, value: number): void {
  scratch[at++] = tag
  writeVarint(value)
}

/** 0 to 2^32-1. */
function writeVarint(value: number): void {
  let rest = value >>> 0
  while (rest > 0x7f) {
    scratch[at++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  scratch[at++] = rest
}

function reserve(bytes: number): void {
  if (at + bytes <= scratch.length) return
  const wider = Buffer.alloc(Math.max(2 * scratch.length, at + bytes))
  wider.set(scratch)
  scratch = wider
}
