/**
 * The messages of xDS against the .proto files read by protobufjs' reflection, which shares no code with the codec.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeDiscoveryRequest, responseHead, responseResources } from '../../proto/discovery.ts'
import { protoRoot } from '../transports/grpc/proto-types.ts'

const root = protoRoot('envoy/service/discovery/v3/ads.proto')
const RequestType = root.lookupType('envoy.service.discovery.v3.DiscoveryRequest')
const ResponseType = root.lookupType('envoy.service.discovery.v3.DiscoveryResponse')

const text = fc.string({ unit: 'grapheme', maxLength: 20 })

test('8.6: the call is a method of the service as the .proto file has it', () => {
  const service = root.lookupService('envoy.service.discovery.v3.AggregatedDiscoveryService')
  const { requestStream, responseStream, requestType, responseType } =
    service.methods.StreamAggregatedResources
  expect({ requestStream, responseStream, requestType, responseType }).toEqual({
    requestStream: true,
    responseStream: true,
    requestType: 'DiscoveryRequest',
    responseType: 'DiscoveryResponse',
  })
})

describe('8.6 a request', () => {
  const requests = fc.record({
    version: text,
    node: fc.record({ id: text, metadata: fc.dictionary(text, text) }),
    typeUrl: fc.string({ minLength: 1, maxLength: 20 }),
    nonce: text,
    error: fc.option(text),
  })

  test('is what protobufjs reads', () => {
    fc.assert(
      fc.property(requests, (request) => {
        const read = RequestType.decode(encodeDiscoveryRequest(request))
        const { version, node, typeUrl, nonce, error } = request
        const fields = Object.fromEntries(
          Object.entries(node.metadata).map(([key, value]) => [key, { string_value: value }]),
        )
        expect(RequestType.toObject(read, { defaults: false, objects: false })).toEqual({
          ...(version && { version_info: version }),
          node: {
            ...(node.id && { id: node.id }),
            metadata: Object.keys(fields).length > 0 ? { fields } : {},
          },
          type_url: typeUrl,
          ...(nonce && { response_nonce: nonce }),
          ...(error !== null && { error_detail: error ? { message: error } : {} }),
        })
      }),
    )
  })

  test('has no resource names, and its error has no code', () => {
    const bytes = encodeDiscoveryRequest({
      version: '1',
      node: { id: 'n', metadata: {} },
      typeUrl: 't',
      nonce: 'a',
      error: 'x',
    })
    // version 1 "1"; node 2: id 1 "n", metadata 3 empty; type 4 "t"; nonce 5 "a"; error 6: message 2 "x"
    expect(Buffer.from(bytes).toString('hex')).toBe(
      '0a0131' + '12050a016e1a00' + '220174' + '2a0161' + '3203120178',
    )
  })
})

describe('8.6 a response', () => {
  const responses = fc.record({
    version_info: text,
    nonce: text,
    type_url: text, // not checked by the codec
    resources: fc.array(fc.record({ type_url: text, value: fc.uint8Array({ maxLength: 30 }) }), {
      maxLength: 4,
    }),
  })

  test('written by protobufjs is read: head and resources', () => {
    fc.assert(
      fc.property(responses, (response) => {
        const bytes = ResponseType.encode(ResponseType.fromObject(response)).finish()
        expect(responseHead(bytes)).toEqual({ version: response.version_info, nonce: response.nonce })
        const resources = [...responseResources(bytes)]
        expect(
          resources.map(({ typeUrl, value }) => ({ type_url: typeUrl, value: Uint8Array.from(value) })),
        ).toEqual(response.resources)
      }),
    )
  })

  test('that ends within a field is an error', () => {
    const full = ResponseType.encode(
      ResponseType.fromObject({
        version_info: '17',
        nonce: 'abc',
        resources: [{ type_url: 't', value: [1, 2] }],
      }),
    ).finish()
    for (let length = 1; length < full.length; length++) {
      const part = full.subarray(0, length)
      const read = () => [responseHead(part), ...responseResources(part)]
      if (isBetweenFields(full, length)) expect(read).not.toThrow()
      else expect(read, `${length} bytes`).toThrow()
    }
  })

  test('with text that is not UTF-8 is an error', () => {
    expect(() => responseHead(Uint8Array.of(0x0a, 1, 0xff))).toThrow()
  })
})

/** Fields here have a tag and a length of one byte each. */
function isBetweenFields(bytes: Uint8Array, position: number): boolean {
  let at = 0
  while (at < position) at += 2 + bytes[at + 1]
  return at === position
}
