/**
 * The messages of grpc.reflection.v1 and v1alpha as protobuf bytes: both have the same shapes.
 *
 *     3a 00               list_services, field 7, empty
 *     12 02 3a 00         original_request, field 2: the bytes of the request
 *     32 05 0a 03 0a 01 'S'   list_services_response, field 6: one service "S"
 */
import protobuf from 'protobufjs/minimal.js'

/** Supported requests, and the field of each. */
const FIELDS = { fileByFilename: 3, fileContainingSymbol: 4, listServices: 7 } as const

export interface ReflectionRequest {
  host: string
  kind: keyof typeof FIELDS | 'other'
  text: string // the file's or the symbol's name
}

export type ReflectionResponse =
  | { files: readonly Uint8Array[] } // FileDescriptorProto each
  | { services: readonly string[] }
  | { code: number; message: string } // a gRPC status: this request failed, the stream continues

// A tag is the field's number and wire type in one: number << 3 | type.
const VARINT = 0
const LENGTH = 2
const HOST = (1 << 3) | LENGTH
const REQUEST_FIELD_FIRST = 3
const REQUEST_FIELD_LAST = 7
const KINDS = new Map(
  Object.entries(FIELDS).map(([kind, field]) => [(field << 3) | LENGTH, kind as keyof typeof FIELDS]),
)

/** Throws if the bytes are not a ServerReflectionRequest. Of several requests in one message the last one counts. */
export function decodeReflectionRequest(bytes: Uint8Array): ReflectionRequest {
  const reader = new protobuf.Reader(bytes)
  const request: ReflectionRequest = { host: '', kind: 'other', text: '' }
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    const kind = KINDS.get(tag)
    if (tag === HOST) request.host = reader.stringVerify()
    else if (kind !== undefined) {
      request.kind = kind
      request.text = reader.stringVerify()
    } else {
      const field = tag >>> 3
      if (field >= REQUEST_FIELD_FIRST && field <= REQUEST_FIELD_LAST) request.kind = 'other'
      reader.skipType(tag & 7, 0, field)
    }
  }
  return request
}

/** Encodes a ServerReflectionResponse; `request` is the request as it was received. */
export function encodeReflectionResponse(
  host: string,
  request: Uint8Array,
  response: ReflectionResponse,
): Uint8Array {
  const writer = protobuf.Writer.create()
  if (host !== '') writer.uint32((1 << 3) | LENGTH).string(host)
  writer.uint32((2 << 3) | LENGTH).bytes(request)
  if ('files' in response) {
    writer.uint32((4 << 3) | LENGTH).fork()
    for (const file of response.files) writer.uint32((1 << 3) | LENGTH).bytes(file)
  } else if ('services' in response) {
    writer.uint32((6 << 3) | LENGTH).fork()
    for (const name of response.services) {
      writer.uint32((1 << 3) | LENGTH).fork()
      writer.uint32((1 << 3) | LENGTH).string(name)
      writer.ldelim()
    }
  } else {
    writer.uint32((7 << 3) | LENGTH).fork()
    writer.uint32((1 << 3) | VARINT).int32(response.code)
    writer.uint32((2 << 3) | LENGTH).string(response.message)
  }
  return writer.ldelim().finish()
}
