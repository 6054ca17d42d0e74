/** Dynamic metadata as bytes, beyond what any message shows: odd keys, depth, text that is none. */
import { expect, test } from 'vitest'
import { NODE_DEPTH_MAX } from '../../engine/config/bounds.ts'
import { STRUCT_DEPTH_MAX } from '../../proto/bounds.ts'
import { decodeResponse } from '../../proto/codec.ts'
import { responseToJson } from '../../proto/json-response.ts'
import type { JsonObject, JsonValue, RateLimitResponse } from '../../proto/ratelimit.ts'
import { encodeResponse } from '../../proto/response-bytes.ts'
import { responseToText } from '../../proto/text.ts'

const response = (dynamicMetadata: JsonObject): RateLimitResponse => ({
  overallCode: 1,
  statuses: [],
  responseHeadersToAdd: [],
  dynamicMetadata,
})
const thereAndBack = (struct: JsonObject) => decodeResponse(encodeResponse(response(struct))).dynamicMetadata

/** `levels` structs, each in the one before; the innermost is empty. */
function nested(levels: number): JsonObject {
  let struct: JsonObject = {}
  for (let i = 1; i < levels; i++) struct = { a: struct }
  return struct
}

function countLevels(value: JsonValue): number {
  let depth = 0
  for (let at = value; at !== null; at = (at as JsonObject).a ?? null) depth++
  return depth
}

test('5.8: an absent struct, an empty one and one with the key __proto__ differ', () => {
  expect(thereAndBack({})).toEqual({})
  const odd = JSON.parse('{"7":[[],{}],"":"","__proto__":{"a":1}}')
  expect(JSON.stringify(thereAndBack(odd))).toBe(JSON.stringify(odd))
  expect(Object.getPrototypeOf(thereAndBack(odd))).toBe(Object.prototype)
})

test('5.8: half a surrogate pair becomes U+FFFD, so that every reader accepts the message', () =>
  expect(thereAndBack({ '\ud800': 'x\udc00' })).toEqual({ '\ufffd': 'x\ufffd' }))

test('5.8: the deepest metadata of a rule file is written completely: a response adds levels for domain and metadata', () =>
  expect(STRUCT_DEPTH_MAX).toBeGreaterThan(NODE_DEPTH_MAX + 2))

test('5.8: beyond the maximum depth a response has null and does not fail', () => {
  expect(countLevels(thereAndBack(nested(STRUCT_DEPTH_MAX)))).toBe(STRUCT_DEPTH_MAX)
  const tooDeep = response(nested(100_000))
  expect(countLevels(decodeResponse(encodeResponse(tooDeep)).dynamicMetadata)).toBe(STRUCT_DEPTH_MAX)
  expect(countLevels(JSON.parse(responseToJson(tooDeep)).dynamicMetadata)).toBe(STRUCT_DEPTH_MAX)
  expect(responseToText(tooDeep).match(/struct_value/g)!.length).toBe(STRUCT_DEPTH_MAX - 1)
  expect(responseToText(tooDeep)).toContain('null_value:NULL_VALUE')
})

test('5.8: bytes beyond the maximum depth are refused', () => {
  let list: Buffer = Buffer.alloc(0)
  for (let i = 0; i < STRUCT_DEPTH_MAX; i++) list = message(0x0a, message(0x32, list)) // values { list_value }
  const metadata = message(0x0a, message(0x12, message(0x32, list))) // fields { value { list_value } }
  expect(() => decodeResponse(message(0x32, metadata))).toThrow(/^a Struct has more than 512 levels$/)
})

test('5.2: a Struct, or a Value of one kind, that is given twice is merged; the last of two kinds counts', () => {
  const a1 = '0a070a016112020801' // not a Value: bool would be 20 01
  expect(decodeResponse(Buffer.from(`3209${a1}`, 'hex')).dynamicMetadata).toEqual({ a: null })
  const aTrue = '0a070a016112022001'
  const bEmpty = '0a030a0162' // an entry without value
  const twice = Buffer.from(`3209${aTrue}3205${bEmpty}`, 'hex')
  expect(decodeResponse(twice).dynamicMetadata).toEqual({ a: true, b: null })
  // value { struct { a: true } } and value { struct { b } } of the same entry
  const value = Buffer.from(`2a09${aTrue}2a05${bEmpty}`, 'hex')
  const entry = message(0x0a, Buffer.concat([Buffer.from('0a0178', 'hex'), message(0x12, value)]))
  expect(decodeResponse(message(0x32, entry)).dynamicMetadata).toEqual({ x: { a: true, b: null } })
})

/** A field of length and bytes. */
function message(tag: number, bytes: Buffer): Buffer {
  const length: number[] = []
  let rest = bytes.length
  for (; rest > 127; rest >>>= 7) length.push((rest & 127) | 128)
  return Buffer.concat([Buffer.from([tag, ...length, rest]), bytes])
}
