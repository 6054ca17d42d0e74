/**
 * Outgoing frames. All output of a connection in one turn of the event loop is collected in one buffer and written once.
 *
 *     HEADERS  DATA  HEADERS │ HEADERS DATA HEADERS │ WINDOW_UPDATE ...      flush() ──► one socket.write
 *     └── one response ────┘
 *
 * Header blocks use no dynamic table, so they are the same bytes for every connection: a response is a fixed start, the
 * message and a fixed end. This costs 27 bytes more per response than a table would.
 *
 * Buffers belong to the thread: a connection without output holds none. A buffer that the kernel takes at once is reused.
 * Otherwise the socket keeps it until it is taken; later output waits here, copied to its size, so that a peer which does
 * not read occupies little more than what it was sent.
 */
import type { Socket } from 'node:net'
import { OUTPUT_PIECE_BYTES, STATUS_MESSAGE_BYTES_MAX } from './bounds.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import { Flag, FRAME_HEADER_BYTES, FrameType } from './frames.ts'

const CHUNK_BYTES = 65_536 // a turn with more output writes more than once
const FREE_CHUNKS_MAX = 32
const PREFIX_BYTES = 5 // of a gRPC message: compressed or not, its length
const SIZE_UPDATE = 0x20 // HPACK: the dynamic table has 0 bytes from now on

const freeChunks: Buffer[] = []
const NONE = Buffer.alloc(0)

/** A literal field without indexing and without Huffman coding: 0, name, value. */
function encodeLiteral(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(0), encodeString(name), encodeString(value)])
}

function encodeString(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes])
  const head = [127]
  let rest = bytes.length - 127
  for (; rest >= 128; rest = rest >> 7) head.push((rest & 127) | 128)
  return Buffer.concat([Buffer.from([...head, rest]), bytes])
}

const STATUS_200 = 0x88 // index in the static table
const HEADERS_BLOCK = Buffer.concat([
  Buffer.of(STATUS_200),
  encodeLiteral('content-type', 'application/grpc'),
])
const TRAILERS_OK = encodeLiteral('grpc-status', '0')

/** From HEADERS to the five bytes before the message; stream ids and lengths are filled in. */
const RESPONSE_START = Buffer.concat([
  createFrameHeader(HEADERS_BLOCK.length, FrameType.Headers, Flag.EndHeaders),
  HEADERS_BLOCK,
  createFrameHeader(0, FrameType.Data, 0),
  Buffer.alloc(PREFIX_BYTES),
])
const RESPONSE_END = Buffer.concat([
  createFrameHeader(TRAILERS_OK.length, FrameType.Headers, Flag.EndHeaders | Flag.EndStream),
  TRAILERS_OK,
])
const DATA_OFFSET = FRAME_HEADER_BYTES + HEADERS_BLOCK.length
const RESPONSE_BYTES = RESPONSE_START.length + RESPONSE_END.length

export class Output {
  hasResponded = false // since this was last set to false
  waitingBytes = 0 // held and counted until the peer's TCP takes them
  private readonly socket: Socket
  private readonly quota: ConnectionQuota
  private readonly onDrained: () => void
  private bytes: Buffer = NONE
  private length = 0
  private inFlight: Buffer | null = null // held by the socket
  private queue: Buffer[] = [] // after `inFlight`
  private mustSendTableSize = false

  /** `onDrained` is called when all waiting output has been taken. */
  constructor(socket: Socket, quota: ConnectionQuota, onDrained: () => void) {
    this.socket = socket
    this.quota = quota
    this.onDrained = onDrained
  }

  /** The peer has changed HEADER_TABLE_SIZE; the next header block announces an empty table (RFC 7541, 4.2). */
  onTableSizeSetting(): void {
    this.mustSendTableSize = true
  }

  /** A whole unary response. The caller has checked the windows, and that it fits into one frame. */
  writeUnaryResponse(id: number, message: Uint8Array): void {
    if (this.mustSendTableSize) {
      this.writeHeaders(id)
      this.writeMessage(id, message)
      this.writeTrailers(id, 0, '')
      return
    }
    this.hasResponded = true
    const count = message.length
    let offset = this.reserve(RESPONSE_BYTES + count)
    const { bytes } = this
    bytes.set(RESPONSE_START, offset)
    writeStreamId(bytes, offset + 5, id)
    const length = count + PREFIX_BYTES
    bytes[offset + DATA_OFFSET + 1] = length >> 8
    bytes[offset + DATA_OFFSET + 2] = length
    writeStreamId(bytes, offset + DATA_OFFSET + 5, id)
    bytes[offset + DATA_OFFSET + 12] = count >> 8 // the upper half stays 0 within one frame
    bytes[offset + DATA_OFFSET + 13] = count
    offset += RESPONSE_START.length
    bytes.set(message, offset)
    offset += count
    bytes.set(RESPONSE_END, offset)
    writeStreamId(bytes, offset + 5, id)
  }

  /** The headers of a response whose messages follow. */
  writeHeaders(id: number): void {
    this.writeHeaderBlock(id, HEADERS_BLOCK, 0)
  }

  /** Status and message after the last message. */
  writeTrailers(id: number, status: number, message: string): void {
    this.writeHeaderBlock(id, encodeGrpcStatus(status, message), Flag.EndStream)
  }

  /** A response without a message. `extraFields` come from `encodeFields`. */
  writeTrailersOnly(id: number, status: number, message: string, extraFields: Buffer = NONE): void {
    this.writeHeaderBlock(
      id,
      Buffer.concat([HEADERS_BLOCK, encodeGrpcStatus(status, message), extraFields]),
      Flag.EndStream,
    )
  }

  /** The headers of a response that is not gRPC; `:status` comes first. */
  writePlainHeaders(id: number, fields: Buffer): void {
    this.writeHeaderBlock(id, fields, 0)
  }

  /** The response to HEAD. */
  writePlainHeadersOnly(id: number, fields: Buffer): void {
    this.writeHeaderBlock(id, fields, Flag.EndStream)
  }

  /** One DATA frame with these bytes. */
  writeData(id: number, from: Uint8Array, start: number, end: number, flags: number): void {
    const offset = this.beginFrame(FrameType.Data, flags, id, end - start)
    this.bytes.set(from.subarray(start, end), offset)
  }

  /** A frame with one 32-bit number: RST_STREAM, WINDOW_UPDATE. */
  writeNumberFrame(type: number, id: number, value: number): void {
    const offset = this.beginFrame(type, 0, id, 4) // first, since it may change `bytes`
    this.bytes.writeUInt32BE(value, offset)
  }

  /** A frame of the connection: SETTINGS, PING, GOAWAY. */
  writeFrame(type: number, flags: number, payload: Uint8Array): void {
    const offset = this.beginFrame(type, flags, 0, payload.length)
    this.bytes.set(payload, offset)
  }

  flush(): void {
    if (this.length === 0) return
    const { bytes, length, socket } = this
    this.bytes = NONE
    this.length = 0
    if (socket.destroyed || socket.writableEnded) recycle(bytes)
    else if (this.inFlight === null) this.write(bytes, length)
    else {
      this.queue.push(Buffer.from(bytes.subarray(0, length)))
      this.addWaiting(length + OUTPUT_PIECE_BYTES)
      recycle(bytes)
    }
  }

  /** Passes everything to the socket, which is about to be ended. */
  finish(): void {
    this.flush()
    for (const piece of this.queue) this.socket.write(piece)
    this.queue = []
  }

  /** The connection has closed. */
  drop(): void {
    this.addWaiting(-this.waitingBytes)
    this.inFlight = null
    this.queue = []
  }

  private write(bytes: Buffer, length: number): void {
    const { socket } = this
    socket.write(bytes.subarray(0, length))
    if (socket.writableLength === 0) {
      recycle(bytes)
      return
    }
    this.inFlight = bytes
    this.addWaiting(bytes.length)
    socket.write(NONE, this.onWritten) // its callback follows that of the bytes; connections that are read pay nothing for it
  }

  private readonly onWritten = () => {
    if (this.inFlight === null) return // dropped
    recycle(this.inFlight)
    this.inFlight = null
    this.addWaiting(-this.waitingBytes)
    if (this.queue.length > 0 && !this.socket.destroyed && !this.socket.writableEnded) {
      const all = Buffer.concat(this.queue)
      this.queue = []
      this.write(all, all.length)
    }
    if (this.inFlight === null) this.onDrained()
  }

  private addWaiting(bytes: number): void {
    this.waitingBytes += bytes
    this.quota.reserveUnchecked(bytes)
  }

  private writeMessage(id: number, message: Uint8Array): void {
    const offset = this.beginFrame(FrameType.Data, 0, id, message.length + PREFIX_BYTES)
    this.bytes[offset] = 0
    this.bytes.writeUInt32BE(message.length, offset + 1)
    this.bytes.set(message, offset + PREFIX_BYTES)
  }

  private writeHeaderBlock(id: number, fields: Buffer, flags: number): void {
    this.hasResponded = true
    const more = this.mustSendTableSize ? 1 : 0
    const offset = this.beginFrame(FrameType.Headers, flags | Flag.EndHeaders, id, fields.length + more)
    if (more) this.bytes[offset] = SIZE_UPDATE
    this.mustSendTableSize = false
    this.bytes.set(fields, offset + more)
  }

  /** Writes a frame header. Returns the offset of the payload, which the caller fills. */
  private beginFrame(type: number, flags: number, id: number, length: number): number {
    const offset = this.reserve(FRAME_HEADER_BYTES + length)
    const { bytes } = this
    bytes[offset] = length >> 16
    bytes[offset + 1] = length >> 8
    bytes[offset + 2] = length
    bytes[offset + 3] = type
    bytes[offset + 4] = flags
    writeStreamId(bytes, offset + 5, id)
    return offset + FRAME_HEADER_BYTES
  }

  /** Reserves at most CHUNK_BYTES in the buffer and returns their offset. */
  private reserve(count: number): number {
    if (this.length + count > this.bytes.length) {
      this.flush()
      this.bytes = freeChunks.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES)
    }
    const offset = this.length
    this.length += count
    return offset
  }
}

export function encodeFields(fields: Record<string, string>): Buffer {
  return Buffer.concat(Object.entries(fields).map(([name, value]) => encodeLiteral(name, value)))
}

/** Fields of a response whose HTTP status is not in the static table. */
export function encodeStatusFields(status: number, fields: Record<string, string>): Buffer {
  return encodeFields({ ':status': String(status), ...fields })
}

/** Percent-encodes a message for grpc-message. Lone surrogates become U+FFFD. */
export function escapeMessage(message: string): string {
  const escaped = encodeURI(message.slice(0, STATUS_MESSAGE_BYTES_MAX).toWellFormed())
  if (escaped.length <= STATUS_MESSAGE_BYTES_MAX) return escaped
  const cut = escaped.slice(0, STATUS_MESSAGE_BYTES_MAX)
  return cut.replace(/%[0-9A-F]?$/, '') // no partial escape
}

function encodeGrpcStatus(status: number, message: string): Buffer {
  const code = encodeLiteral('grpc-status', String(status))
  return message === '' ? code : Buffer.concat([code, encodeLiteral('grpc-message', escapeMessage(message))])
}

function createFrameHeader(length: number, type: number, flags: number): Buffer {
  const head = Buffer.alloc(FRAME_HEADER_BYTES)
  head.writeUIntBE(length, 0, 3)
  head[3] = type
  head[4] = flags
  return head
}

function writeStreamId(bytes: Buffer, offset: number, id: number): void {
  bytes[offset] = id >> 24
  bytes[offset + 1] = id >> 16
  bytes[offset + 2] = id >> 8
  bytes[offset + 3] = id
}

function recycle(bytes: Buffer): void {
  if (bytes.length === CHUNK_BYTES && freeChunks.length < FREE_CHUNKS_MAX) freeChunks.push(bytes)
}
