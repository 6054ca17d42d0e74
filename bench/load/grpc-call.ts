/**
 * The bytes of a call: HEADERS and a DATA frame that ends the stream, with places for the stream id and the keys.
 *
 *     | HEADERS, id | block |  DATA, id | 0, length | RateLimitRequest |
 *     0             9       dataAt                    counted by flow control: dataBytes
 */
import { Flag, FRAME_HEADER_BYTES, FrameType } from '../../transports/grpc/http2/frames.ts'
import { createHeadBlocks } from './grpc-request-head.ts'
import type { NextKey } from './keys.ts'
import { protobufRequest, type Shape, Template } from './requests.ts'

const ID_AT = 5 // within a frame's header

export interface CallOptions {
  authority: string
  deadline: string // grpc-timeout; '' = none
  shape: Shape
  nextKey: NextKey
}

export class CallWriter {
  readonly dataBytes: number
  private readonly nextKey: NextKey
  private readonly first: Template
  private readonly later: Template
  private isFirst = true

  /** `tableBytes`: of the server's table of header fields. */
  constructor({ authority, deadline, shape, nextKey }: CallOptions, tableBytes: number) {
    const blocks = createHeadBlocks(authority, deadline, tableBytes)
    const request = protobufRequest(shape)
    const message = Buffer.concat([Buffer.from([0]), uint32(request.length), request])
    const data = frame(FrameType.Data, Flag.EndStream, message)
    const template = (block: Buffer) =>
      new Template(Buffer.concat([frame(FrameType.Headers, Flag.EndHeaders, block), data]), shape)
    this.first = template(blocks.first)
    this.later = template(blocks.later)
    this.dataBytes = message.length
    this.nextKey = nextKey
  }

  /** The size of the next call. */
  get bytes(): number {
    return this.isFirst ? this.first.bytes.length : this.later.bytes.length
  }

  write(into: Buffer, at: number, id: number): void {
    const template = this.isFirst ? this.first : this.later
    this.isFirst = false
    template.write(into, at, this.nextKey)
    into.writeInt32BE(id, at + ID_AT)
    const dataAt = template.bytes.length - this.dataBytes - FRAME_HEADER_BYTES
    into.writeInt32BE(id, at + dataAt + ID_AT)
  }
}

/** Encodes a frame of stream 0. */
export function frame(type: number, flags: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(FRAME_HEADER_BYTES)
  header.writeUIntBE(payload.length, 0, 3)
  header[3] = type
  header[4] = flags
  return Buffer.concat([header, payload])
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
