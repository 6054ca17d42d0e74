/**
 * Frames on their way out. Everything a connection says in one turn of the event loop is put together in one buffer and
 * leaves in one write.
 *
 *     HEADERS  DATA  HEADERS │ HEADERS DATA HEADERS │ WINDOW_UPDATE ...      flush() ──► one socket.write
 *     └── one answer ──────┘
 *
 * Header blocks are written without any table, so they are the same bytes for every connection: an answer is a fixed
 * beginning, the message, and a fixed end. Price: 27 bytes more per answer than with a table.
 *
 * Buffers belong to the thread: a connection that has nothing to say holds none. One that the kernel took at once is
 * used again. One it did not take is the socket's until it did; what is said meanwhile waits here, copied to its size, so
 * that a peer which does not read keeps few bytes more than it was told.
 */
import type { Socket } from 'node:net'
import { OUTPUT_PIECE_BYTES, STATUS_MESSAGE_BYTES_MAX } from './bounds.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import { Flag, FRAME_HEADER_BYTES, FrameType } from './frames.ts'

const CHUNK_BYTES = 65_536 // a turn that says more writes more than once
const FREE_CHUNKS_MAX = 32
const PREFIX_BYTES = 5 // of a gRPC message: compressed or not, its length
const SIZE_UPDATE = 0x20 // HPACK: from now on our table has 0 bytes

const free: Buffer[] = []
const NONE = Buffer.alloc(0)

/** A field without the table: 0, name, value, both as they are. */
function literal(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(0), hpackString(name), hpackString(value)])
}

function hpackString(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes])
  const head = [127]
  let rest = bytes.length - 127
  for (; rest >= 128; rest = rest >> 7) head.push((rest & 127) | 128)
  return Buffer.concat([Buffer.from([...head, rest]), bytes])
}

const STATUS_200 = 0x88 // an index of the fixed table
const HEAD = Buffer.concat([Buffer.of(STATUS_200), literal('content-type', 'application/grpc')])
const TRAILERS_OK = literal('grpc-status', '0')

/** From HEADERS to the five bytes before the message, stream ids and lengths left open. */
const ANSWER_HEAD = Buffer.concat([
  frameHead(HEAD.length, FrameType.Headers, Flag.EndHeaders),
  HEAD,
  frameHead(0, FrameType.Data, 0),
  Buffer.alloc(PREFIX_BYTES),
])
const ANSWER_END = Buffer.concat([
  frameHead(TRAILERS_OK.length, FrameType.Headers, Flag.EndHeaders | Flag.EndStream),
  TRAILERS_OK,
])
const DATA_AT = FRAME_HEADER_BYTES + HEAD.length
const ANSWER_BYTES = ANSWER_HEAD.length + ANSWER_END.length

export class Output {
  hasAnswered = false // since somebody set this to false
  waitingBytes = 0 // not taken by the peer's TCP; kept, and counted
  private readonly socket: Socket
  private readonly share: ConnectionQuota
  private readonly onFree: () => void
  private bytes: Buffer = NONE
  private length = 0
  private inFlight: Buffer | null = null // the socket's
  private queue: Buffer[] = [] // behind that one
  private mustSayTable = false

  /** `onFree`: everything that waited has been taken. */
  constructor(socket: Socket, share: ConnectionQuota, onFree: () => void) {
    this.socket = socket
    this.share = share
    this.onFree = onFree
  }

  /** The peer has changed what our table may hold; the next header block says that we have none (RFC 7541, 4.2). */
  tableChanged(): void {
    this.mustSayTable = true
  }

  /** A whole unary answer. The caller has seen to the windows, and that it fits into one frame. */
  answer(id: number, message: Uint8Array): void {
    if (this.mustSayTable) {
      this.head(id)
      this.messageFrame(id, message)
      this.trailers(id, 0, '')
      return
    }
    this.hasAnswered = true
    const count = message.length
    let at = this.reserve(ANSWER_BYTES + count)
    const { bytes } = this
    bytes.set(ANSWER_HEAD, at)
    putId(bytes, at + 5, id)
    const length = count + PREFIX_BYTES
    bytes[at + DATA_AT + 1] = length >> 8
    bytes[at + DATA_AT + 2] = length
    putId(bytes, at + DATA_AT + 5, id)
    bytes[at + DATA_AT + 12] = count >> 8 // the length's upper half stays 0 within one frame
    bytes[at + DATA_AT + 13] = count
    at += ANSWER_HEAD.length
    bytes.set(message, at)
    at += count
    bytes.set(ANSWER_END, at)
    putId(bytes, at + 5, id)
  }

  /** The beginning of an answer whose messages follow. */
  head(id: number): void {
    this.block(id, HEAD, 0)
  }

  /** Status and message after the last message. */
  trailers(id: number, status: number, message: string): void {
    this.block(id, statusFields(status, message), Flag.EndStream)
  }

  /** An answer without a message. `more`: further fields, as `literalFields` makes them. */
  trailersOnly(id: number, status: number, message: string, more: Buffer = NONE): void {
    this.block(id, Buffer.concat([HEAD, statusFields(status, message), more]), Flag.EndStream)
  }

  /** The beginning of any other answer; `:status` comes first. */
  plainHead(id: number, fields: Buffer): void {
    this.block(id, fields, 0)
  }

  /** An answer to HEAD. */
  plainHeadOnly(id: number, fields: Buffer): void {
    this.block(id, fields, Flag.EndStream)
  }

  /** One DATA frame with these bytes. */
  data(id: number, from: Uint8Array, start: number, end: number, flags: number): void {
    const at = this.frame(FrameType.Data, flags, id, end - start)
    this.bytes.set(from.subarray(start, end), at)
  }

  /** A frame of a few 32-bit numbers: RST_STREAM, WINDOW_UPDATE. */
  number(type: number, id: number, value: number): void {
    const at = this.frame(type, 0, id, 4) // first, since it may change `bytes`
    this.bytes.writeUInt32BE(value, at)
  }

  /** Any other frame. */
  small(type: number, flags: number, payload: Uint8Array): void {
    const at = this.frame(type, flags, 0, payload.length)
    this.bytes.set(payload, at)
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
      this.wait(length + OUTPUT_PIECE_BYTES)
      recycle(bytes)
    }
  }

  /** Hands everything to the socket, which is about to be ended. */
  finish(): void {
    this.flush()
    for (const piece of this.queue) this.socket.write(piece)
    this.queue = []
  }

  /** The connection has gone. */
  drop(): void {
    this.wait(-this.waitingBytes)
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
    this.wait(bytes.length)
    socket.write(NONE, this.taken) // its callback comes after that of the bytes, and costs who reads nothing
  }

  private readonly taken = () => {
    if (this.inFlight === null) return // dropped
    recycle(this.inFlight)
    this.inFlight = null
    this.wait(-this.waitingBytes)
    if (this.queue.length > 0 && !this.socket.destroyed && !this.socket.writableEnded) {
      const all = Buffer.concat(this.queue)
      this.queue = []
      this.write(all, all.length)
    }
    if (this.inFlight === null) this.onFree()
  }

  private wait(bytes: number): void {
    this.waitingBytes += bytes
    this.share.reserveUnchecked(bytes)
  }

  private messageFrame(id: number, message: Uint8Array): void {
    const at = this.frame(FrameType.Data, 0, id, message.length + PREFIX_BYTES)
    this.bytes[at] = 0
    this.bytes.writeUInt32BE(message.length, at + 1)
    this.bytes.set(message, at + PREFIX_BYTES)
  }

  private block(id: number, fields: Buffer, flags: number): void {
    this.hasAnswered = true
    const more = this.mustSayTable ? 1 : 0
    const at = this.frame(FrameType.Headers, flags | Flag.EndHeaders, id, fields.length + more)
    if (more) this.bytes[at] = SIZE_UPDATE
    this.mustSayTable = false
    this.bytes.set(fields, at + more)
  }

  /** Writes a frame's head; where its payload begins, which the caller fills. */
  private frame(type: number, flags: number, id: number, length: number): number {
    const at = this.reserve(FRAME_HEADER_BYTES + length)
    const { bytes } = this
    bytes[at] = length >> 16
    bytes[at + 1] = length >> 8
    bytes[at + 2] = length
    bytes[at + 3] = type
    bytes[at + 4] = flags
    putId(bytes, at + 5, id)
    return at + FRAME_HEADER_BYTES
  }

  /** Room for so many bytes, counted as used; where it begins. At most CHUNK_BYTES. */
  private reserve(count: number): number {
    if (this.length + count > this.bytes.length) {
      this.flush()
      this.bytes = free.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES)
    }
    const at = this.length
    this.length += count
    return at
  }
}

export function literalFields(fields: Record<string, string>): Buffer {
  return Buffer.concat(Object.entries(fields).map(([name, value]) => literal(name, value)))
}

/** Fields of an HTTP status that has no place in the fixed table. */
export function httpStatus(status: number, fields: Record<string, string>): Buffer {
  return literalFields({ ':status': String(status), ...fields })
}

/** As gRPC wants messages in a header: escaped by percent signs. What no text can hold becomes U+FFFD. */
export function escapeMessage(message: string): string {
  const escaped = encodeURI(message.slice(0, STATUS_MESSAGE_BYTES_MAX).toWellFormed())
  if (escaped.length <= STATUS_MESSAGE_BYTES_MAX) return escaped
  const cut = escaped.slice(0, STATUS_MESSAGE_BYTES_MAX)
  return cut.replace(/%[0-9A-F]?$/, '') // never half of an escape
}

function statusFields(status: number, message: string): Buffer {
  const code = literal('grpc-status', String(status))
  return message === '' ? code : Buffer.concat([code, literal('grpc-message', escapeMessage(message))])
}

function frameHead(length: number, type: number, flags: number): Buffer {
  const head = Buffer.alloc(FRAME_HEADER_BYTES)
  head.writeUIntBE(length, 0, 3)
  head[3] = type
  head[4] = flags
  return head
}

function putId(bytes: Buffer, at: number, id: number): void {
  bytes[at] = id >> 24
  bytes[at + 1] = id >> 16
  bytes[at + 2] = id >> 8
  bytes[at + 3] = id
}

function recycle(bytes: Buffer): void {
  if (bytes.length === CHUNK_BYTES && free.length < FREE_CHUNKS_MAX) free.push(bytes)
}
