/**
 * The codec against three witnesses: bytes worked out by hand, the .proto files read by protobufjs' own
 * reflection, and itself the other way round.
 */
import { join } from 'node:path'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { describe, expect, test } from 'vitest'
import { decodeRequest, decodeResponse, encodeRequest } from '../../proto/codec.ts'
import type { JsonObject, JsonValue, RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import { encodeResponse } from '../../proto/response-bytes.ts'

const PROTO = join(import.meta.dirname, '../../proto')
const root = new protobuf.Root()
root.resolvePath = (_origin, target) => (target.startsWith(PROTO) ? target : join(PROTO, target))
root.loadSync('envoy/service/ratelimit/v3/rls.proto')
const RequestType = root.lookupType('envoy.service.ratelimit.v3.RateLimitRequest')
const ResponseType = root.lookupType('envoy.service.ratelimit.v3.RateLimitResponse')

const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex.replaceAll(/\s/g, ''), 'hex'))
const hex = (data: Uint8Array) => Buffer.from(data).toString('hex')

describe('bytes written by hand (spec 5.2)', () => {
  // Every field starts with number << 3 | type; type 0 is a varint, type 2 a length and that many bytes.
  test('a request is read', () => {
    // entry: 6 + 3 = 9; limit: 3 + 2 = 5; descriptor: (2 + 9) + (2 + 5) + (2 + 2) + 2 = 24 = 0x18
    const request = [
      '0a0473686f70', // domain, field 1, 4 bytes: "shop"
      '1218', // descriptors, field 2, 24 bytes
      '0a09', // entries, field 1, 9 bytes
      '0a0475736572', // key, field 1: "user"
      '120137', // value, field 2: "7"
      '1205', // limit, field 2, 5 bytes
      '08ac02', // requests_per_unit, field 1: 300 = 10 0101100, low seven bits first
      '1007', // unit, field 2: WEEK = 7
      '1a020805', // hits_addend, field 3, 2 bytes: value, field 1: 5
      '2001', // is_negative_hits, field 4: true, to be ignored
      '12021a00', // descriptors again, 2 bytes: hits_addend, present and empty, so 0
      '1802', // hits_addend, field 3: 2
    ]
    expect(decodeRequest(bytes(request.join('')))).toEqual({
      domain: 'shop',
      descriptors: [
        { entries: [{ key: 'user', value: '7' }], limit: { requestsPerUnit: 300, unit: 7 }, hitsAddend: 5 },
        { entries: [], limit: null, hitsAddend: 0 },
      ],
      hitsAddend: 2,
    })
  })

  test('a response is written', () => {
    const response: RateLimitResponse = {
      overallCode: 2,
      statuses: [
        {
          code: 2,
          currentLimit: { name: 'n', requestsPerUnit: 4294967295, unit: 2 },
          limitRemaining: 0,
          resetSec: 59,
        },
        { code: 1, currentLimit: null, limitRemaining: 4294967295, resetSec: 0 },
      ],
      responseHeadersToAdd: [{ key: 'k', value: 'v' }],
      dynamicMetadata: { b: [true, null], a: 1.5 },
    }
    // limit: 6 + 2 + 3 = 11 = 0b; status: 2 + (2 + 11) + (2 + 2) = 19 = 0x13
    expect(hex(encodeResponse(response))).toBe(
      [
        '0802', // overall_code, field 1: OVER_LIMIT = 2
        '1213', // statuses, field 2, 19 bytes
        '0802', // code, field 1: 2
        '120b', // current_limit, field 2, 11 bytes
        '08ffffffff0f', // requests_per_unit, field 1: 2^32-1 is four times seven bits and four more
        '1002', // unit, field 2: MINUTE = 2
        '1a016e', // name, field 3: "n"
        '2202083b', // duration_until_reset, field 4, 2 bytes: seconds, field 1: 59 = 0x3b
        '1208', // statuses again, 8 bytes
        '0801', // code: OK = 1
        '18ffffffff0f', // limit_remaining, field 3: 2^32-1
        '1a06', // response_headers_to_add, field 3, 6 bytes
        '0a016b', // key, field 1: "k"
        '120176', // value, field 2: "v"
        '3221', // dynamic_metadata, field 6, 2 + 14 + 2 + 15 = 33 bytes
        '0a0e', // fields, field 1, an entry of 14 bytes
        '0a0161', // key, field 1: "a"
        '1209', // value, field 2, 9 bytes
        '11000000000000f83f', // number_value, field 2, 64 bits, low byte first: 1.5
        '0a0f', // fields again, 15 bytes
        '0a0162', // key: "b"
        '120a', // value, 10 bytes
        '3208', // list_value, field 6, 8 bytes
        '0a022001', // values, field 1: bool_value, field 4: true
        '0a020800', // values: null_value, field 1
      ].join(''),
    )
  })

  test('no bytes are an empty request', () => {
    expect(decodeRequest(new Uint8Array())).toEqual({ domain: '', descriptors: [], hitsAddend: 0 })
  })
})

describe('hits of 64 bits', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // descriptor{hits_addend{value}}                      -> hits
    ['12 02 1a 00',                                         0],
    ['12 04 1a 02 08 00',                                   0], // a zero that was written all the same
    ['12 04 1a 02 08 7f',                                   127],
    ['12 0b 1a 09 08 ff ff ff ff ff ff ff 0f',              Number.MAX_SAFE_INTEGER], // 53 ones: 7 x 7 and 4
    ['12 0b 1a 09 08 80 80 80 80 80 80 80 10',              2n ** 53n], // bit 4 of the eighth byte
    ['12 0b 1a 09 08 81 80 80 80 80 80 80 10',              2n ** 53n + 1n], // not exact as a double
    ['12 0c 1a 0a 08 ff ff ff ff ff ff ff ff 7f',           2n ** 63n - 1n],
    ['12 0d 1a 0b 08 ff ff ff ff ff ff ff ff ff 01',        2n ** 64n - 1n],
  ] as const
  for (const [data, hits] of cases) {
    test(`5.2: ${data} is ${hits}`, () => {
      const request = decodeRequest(bytes(data))
      expect(request.descriptors[0].hitsAddend).toBe(hits)
      if (!/08 00$/.test(data)) expect(hex(encodeRequest(request))).toBe(data.replaceAll(' ', ''))
    })
  }
  test('bits of a tenth byte above 64 are dropped', () =>
    expect(
      decodeRequest(bytes('12 0d 1a 0b 08 81 80 80 80 80 80 80 80 80 7e')).descriptors[0].hitsAddend,
    ).toBe(1))
})

describe('requirements of proto3', () => {
  // biome-ignore format: the columns are the specification
  const accepted = [
    ['an unknown field is skipped: 15 as varint',       '78 01 0a 01 64',                    'd'],
    ['an unknown field is skipped: 15 as bytes',        '7a 02 ff ff 0a 01 64',              'd'],
    ['an unknown group is skipped: 15, with a field 1', '7b 08 01 7c 0a 01 64',              'd'],
    ['a known field of another type is skipped',        '08 05 0a 01 64',                    'd'],
    ['the last of two domains counts',                  '0a 01 61 0a 01 64',                 'd'],
    ['text of two-byte characters',                     '0a 02 c3 a9',                       'é'],
  ] as const
  for (const [name, data, domain] of accepted) {
    test(name, () => expect(decodeRequest(bytes(data)).domain).toBe(domain))
  }

  test('a limit given twice is merged', () => {
    // limit{requests_per_unit 5} and limit{unit 3}: 12 02 08 05, 12 02 10 03
    const { limit } = decodeRequest(bytes('12 08 12020805 12021003')).descriptors[0]
    expect(limit).toEqual({ requestsPerUnit: 5, unit: 3 })
  })

  test('a unit below zero is kept, so that the engine can refuse it', () => {
    // -1 as an enum is ten bytes: 64 ones
    const { limit } = decodeRequest(bytes('12 0d 12 0b 10 ff ff ff ff ff ff ff ff ff 01')).descriptors[0]
    expect(limit).toEqual({ requestsPerUnit: 0, unit: -1 })
  })

  test('hits of more than 32 bits keep the low ones', () => {
    // 2^32 + 1: 81 80 80 80 10
    expect(decodeRequest(bytes('18 81 80 80 80 10')).hitsAddend).toBe(1)
  })

  // biome-ignore format: the columns are the specification
  const refused = [
    ['a domain longer than the message',      '0a 05 64'],
    ['a length cut in the middle',            '0a 80'],
    ['an entry longer than its descriptor',   '12 04 0a 04 0a 00'],
    ['an entry reaching into the next field', '12 02 0a 03 18 01 18 01'],
    ['field number 0',                        '00 01'],
    ['wire type 7',                           '0f 01'],
    ['a group never closed',                  '7b 08 01'],
    ['an end of group without a start',       '7c'],
    ['a varint of eleven bytes',              '18 ff ff ff ff ff ff ff ff ff ff 01'],
    ['text that is not UTF-8',                '0a 01 ff'],
    ['half a surrogate pair as text',         '0a 03 ed a0 80'],
    ['64-bit hits cut in the middle',         '12 05 1a 03 08 80 80'],
    ['64-bit hits of eleven bytes',           '12 0f 1a 0d 08 80 80 80 80 80 80 80 80 80 80 01'],
  ] as const
  for (const [name, data] of refused) {
    test(`refused: ${name}`, () => expect(() => decodeRequest(bytes(data))).toThrow())
  }
})

const text = fc.string({ unit: 'binary', maxLength: 20 }).filter((value) => value.isWellFormed())
const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const nullable = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null })
const pair = fc.record({ key: text, value: text })
const { struct } = fc.letrec<{ struct: JsonObject; value: JsonValue }>((tie) => ({
  struct: fc.dictionary(fc.oneof(text, fc.constant('__proto__')), tie('value'), {
    maxKeys: 4,
    noNullPrototype: true,
  }),
  value: fc.oneof(
    { maxDepth: 4, depthIdentifier: 'value' },
    text,
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4, depthIdentifier: 'value' }),
    tie('struct'),
  ),
}))
const requests: fc.Arbitrary<RateLimitRequest> = fc.record({
  domain: text,
  descriptors: fc.array(
    fc.record({
      entries: fc.array(pair, { maxLength: 5 }),
      limit: nullable(fc.record({ requestsPerUnit: uint32, unit: fc.integer() })),
      hitsAddend: nullable(
        fc.oneof(fc.maxSafeNat(), fc.bigInt({ min: BigInt(2 ** 53), max: 2n ** 64n - 1n })),
      ),
    }),
    { maxLength: 5 },
  ),
  hitsAddend: uint32,
})
const responses: fc.Arbitrary<RateLimitResponse> = fc.record({
  overallCode: fc.constantFrom(0, 1, 2),
  statuses: fc.array(
    fc.record({
      code: fc.constantFrom(0, 1, 2),
      currentLimit: nullable(
        fc.record({ name: text, requestsPerUnit: uint32, unit: fc.constantFrom(0, 1, 2, 3, 4, 5, 6, 7) }),
      ),
      limitRemaining: uint32,
      resetSec: fc.integer({ min: 0, max: 31_536_000 }),
    }),
    { maxLength: 5 },
  ),
  responseHeadersToAdd: fc.array(pair, { maxLength: 3 }),
  dynamicMetadata: nullable(struct),
})

describe('any message', () => {
  test('request: encoded and decoded', () => {
    fc.assert(
      fc.property(requests, (request) => {
        expect(decodeRequest(encodeRequest(request))).toEqual(request)
      }),
    )
  })

  test('response: encoded and decoded', () => {
    fc.assert(
      fc.property(responses, (response) => {
        expect(decodeResponse(encodeResponse(response))).toEqual(response)
      }),
    )
  })

  test('request: protobufjs with the .proto files gives the same', () => {
    fc.assert(
      fc.property(requests, (request) => {
        const written = RequestType.encode(RequestType.fromObject(asProtobufjs(request))).finish()
        expect(hex(encodeRequest(request))).toBe(hex(written))
        expect(decodeRequest(written)).toEqual(request)
      }),
    )
  })

  test('5.2#1-7: response: protobufjs with the .proto files gives the same', () => {
    fc.assert(
      fc.property(responses, (response) => {
        const read = ResponseType.toObject(ResponseType.decode(encodeResponse(response)), {
          longs: Number,
          arrays: true,
        })
        const metadata = read.dynamicMetadata
        expect({ ...read, dynamicMetadata: metadata ? plainStruct(metadata) : null }).toEqual(
          withoutDefaults(response),
        )
      }),
    )
  })

  test('random bytes are read or refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (data) => {
        for (const decode of [decodeRequest, decodeResponse]) {
          try {
            decode(data)
          } catch (error) {
            expect(error).toBeInstanceOf(Error)
          }
        }
      }),
    )
  })
})

/** protobufjs' object form: fields at their default left out, since it writes whatever is set. */
function asProtobufjs(request: RateLimitRequest): Record<string, unknown> {
  return {
    ...(request.domain !== '' && { domain: request.domain }),
    descriptors: request.descriptors.map(({ entries, limit, hitsAddend }) => ({
      entries: entries.map(({ key, value }) => ({ ...(key && { key }), ...(value && { value }) })),
      ...(limit && {
        limit: {
          ...(limit.requestsPerUnit && { requestsPerUnit: limit.requestsPerUnit }),
          ...(limit.unit && { unit: limit.unit }),
        },
      }),
      ...(hitsAddend !== null && {
        hitsAddend: hitsAddend === 0 ? {} : { value: String(hitsAddend) },
      }),
    })),
    ...(request.hitsAddend !== 0 && { hitsAddend: request.hitsAddend }),
  }
}

function withoutDefaults(response: RateLimitResponse): Record<string, unknown> {
  return {
    ...(response.overallCode && { overallCode: response.overallCode }),
    statuses: response.statuses.map(({ code, currentLimit, limitRemaining, resetSec }) => ({
      ...(code && { code }),
      ...(currentLimit && {
        currentLimit: Object.fromEntries(Object.entries(currentLimit).filter(([, value]) => value)),
      }),
      ...(limitRemaining && { limitRemaining }),
      ...(resetSec && { durationUntilReset: { seconds: resetSec } }),
    })),
    responseHeadersToAdd: response.responseHeadersToAdd.map(({ key, value }) => ({
      ...(key && { key }),
      ...(value && { value }),
    })),
    requestHeadersToAdd: [],
    dynamicMetadata: response.dynamicMetadata,
  }
}

interface ValueMessage {
  numberValue?: number
  stringValue?: string
  boolValue?: boolean
  structValue?: StructMessage
  listValue?: { values: ValueMessage[] }
}
interface StructMessage {
  fields?: Record<string, ValueMessage>
}

/** The value of a Struct as protobufjs' reflection reads it. */
function plainStruct({ fields = {} }: StructMessage): JsonObject {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, plainValue(value)]))
}

function plainValue(value: ValueMessage): JsonValue {
  if (value.structValue) return plainStruct(value.structValue)
  if (value.listValue) return (value.listValue.values ?? []).map(plainValue)
  return value.numberValue ?? value.stringValue ?? value.boolValue ?? null
}
