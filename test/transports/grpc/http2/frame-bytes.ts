/** Frames as bytes, valid or not. Does not import the test runner, so that other processes can use it. */
import { Flag, FrameType, PREFACE } from '../../../../transports/grpc/http2/frames.ts'
import { SHOULD_RATE_LIMIT } from '../../../../transports/grpc/services.ts'

const NONE = Buffer.alloc(0)

export function frame(type: number, flags: number, id: number, payload: Uint8Array = NONE): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(id, 5)
  return Buffer.concat([head, payload])
}

export const u32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
export const settings = (...pairs: [id: number, value: number][]) =>
  frame(
    FrameType.Settings,
    0,
    0,
    Buffer.concat(pairs.map(([id, value]) => Buffer.concat([Buffer.of(0, id), u32(value)]))),
  )
export const HELLO = Buffer.concat([PREFACE, settings()])

/** A field as a literal without the table. */
export function field(name: string, value: string): Buffer {
  const length = (text: string) => {
    if (text.length < 127) return Buffer.of(text.length)
    const rest = text.length - 127
    return Buffer.of(127, (rest & 127) | 128, ((rest >> 7) & 127) | 128, rest >> 14)
  }
  return Buffer.concat([
    Buffer.of(0),
    length(name),
    Buffer.from(name),
    length(value),
    Buffer.from(value, 'latin1'),
  ])
}

export function block(fields: Record<string, string>): Buffer {
  return Buffer.concat(Object.entries(fields).map(([name, value]) => field(name, value)))
}

export const FIELDS = {
  ':method': 'POST',
  ':scheme': 'http',
  ':path': SHOULD_RATE_LIMIT,
  'content-type': 'application/grpc',
  te: 'trailers',
}
export const REQUEST = block(FIELDS)

export const headers = (id: number, fields: Uint8Array, flags: number = Flag.EndHeaders) =>
  frame(FrameType.Headers, flags, id, fields)
export const data = (id: number, bytes: Uint8Array, flags: number = Flag.EndStream) =>
  frame(FrameType.Data, flags, id, bytes)

/** One gRPC message. */
export function message(bytes: Uint8Array, packed = 0): Buffer {
  return Buffer.concat([Buffer.of(packed), u32(bytes.length), bytes])
}
