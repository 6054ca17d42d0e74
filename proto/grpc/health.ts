/**
 * The messages of grpc.health.v1 as protobuf bytes.
 *
 *     0a 09 'ratelimit'       08 01
 *     service "ratelimit"     status SERVING
 */
import protobuf from 'protobufjs/minimal.js'

export const ServingStatus = { Unknown: 0, Serving: 1, NotServing: 2, ServiceUnknown: 3 } as const
export type ServingStatus = (typeof ServingStatus)[keyof typeof ServingStatus]

// A tag is the field's number and wire type in one: number << 3 | type.
const FIELD_1_VARINT = (1 << 3) | 0
const FIELD_1_LENGTH = (1 << 3) | 2
const FIELD_2_LENGTH = (2 << 3) | 2

/** Returns the service of a HealthCheckRequest. Throws if the bytes are not one. */
export function decodeHealthCheckRequest(bytes: Uint8Array): string {
  const reader = new protobuf.Reader(bytes)
  let service = ''
  while (reader.pos < reader.len) {
    const tag = reader.tag()
    if (tag === FIELD_1_LENGTH) service = reader.stringVerify()
    else reader.skipType(tag & 7, 0, tag >>> 3)
  }
  return service
}

export function encodeHealthCheckResponse(status: ServingStatus): Uint8Array {
  const writer = protobuf.Writer.create()
  if (status !== 0) writer.uint32(FIELD_1_VARINT).int32(status)
  return writer.finish()
}

/** Encodes a HealthListResponse. On the wire a map is a list of pairs: key 1, value 2. */
export function encodeHealthListResponse(statuses: Record<string, ServingStatus>): Uint8Array {
  const writer = protobuf.Writer.create()
  for (const [service, status] of Object.entries(statuses)) {
    writer.uint32(FIELD_1_LENGTH).fork()
    writer.uint32(FIELD_1_LENGTH).string(service)
    writer.uint32(FIELD_2_LENGTH).bytes(encodeHealthCheckResponse(status))
    writer.ldelim()
  }
  return writer.finish()
}
