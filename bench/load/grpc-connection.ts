/**
 * A gRPC connection of the load generator: HTTP/2 with prior knowledge, reduced to what a client needs, so that a call costs
 * the generator a fraction of what it costs the server.
 *
 *     out   a call is a copy of a template: HEADERS + DATA with END_STREAM; calls of one turn are sent in one write
 *     in    HEADERS (+ CONTINUATION) and DATA of each call, until END_STREAM or RST_STREAM
 *
 * The slot of a call is the low bits of its stream id; an id whose slot is taken is skipped, which the protocol allows.
 * The receive windows are the largest possible, and that of the connection is renewed; the server's windows are respected.
 */
import type { Socket } from 'node:net'
import {
  ErrorCode,
  Flag,
  FRAME_BYTES_MAX,
  FRAME_HEADER_BYTES,
  FrameType,
  PREFACE,
  Setting,
  STREAM_ID_MAX,
  settingsPayload,
  WINDOW_DEFAULT,
  WINDOW_MAX,
} from '../../transports/grpc/http2/frames.ts'
import { Calls } from './calls.ts'
import { classifyResponse, WRONG } from './classify-response.ts'
import type { Connection, Listener } from './connection.ts'
import { type CallOptions, CallWriter, frame, uint32 } from './grpc-call.ts'
import { ResponseHeadReader } from './grpc-response-head.ts'

const OUT_BYTES = 65_536
const BODIES_BYTES_MAX = 1_048_576 // responses in parts, of all calls of a connection; beyond: the connection ends
const RENEW_BYTES = 2 ** 29 // consumed bytes after which the connection's window is renewed
const GRPC_PREFIX_BYTES = 5
const HEADER_BLOCK_BYTES_MAX = 65_536 // beyond: the connection ends
const CONTINUATIONS_MAX = 16 // frames of one header block; beyond: the connection ends
const NO_STATUS = -1
const ID_MAX = STREAM_ID_MAX - 1_000_000 // some ids are skipped

export interface GrpcOptions extends CallOptions {
  streams: number // maximum of calls in flight
}

export class GrpcConnection implements Connection {
  private readonly socket: Socket
  private readonly options: GrpcOptions
  private readonly listener: Listener
  private readonly heads = new ResponseHeadReader()

  private readonly calls: Calls
  private streamsMax: number // with the limit of the server
  private isLeaving = false
  private windowBytes = WINDOW_DEFAULT // for DATA of the connection
  private consumedBytes = 0
  private writer: CallWriter | null = null // null until the connection is open
  private out = Buffer.allocUnsafeSlow(OUT_BYTES)
  private outBytes = 0
  private rest: Buffer | null = null // of an incomplete frame
  private readonly bodies = new Map<number, Buffer>() // responses received in parts, by stream
  private bodiesBytes = 0
  private block: Buffer[] = [] // a header block that continues in CONTINUATION frames
  private blockFlags = 0
  private nowMs = 0

  /** `socket` is connected, and its bytes are passed to `read`. */
  constructor(socket: Socket, options: GrpcOptions, listener: Listener) {
    this.socket = socket
    this.options = options
    this.listener = listener
    this.streamsMax = options.streams
    this.calls = new Calls(options.streams)
    const settings = settingsPayload({ [Setting.EnablePush]: 0, [Setting.InitialWindowSize]: WINDOW_MAX })
    socket.write(PREFACE)
    this.control(FrameType.Settings, 0, settings)
    this.control(FrameType.WindowUpdate, 0, uint32(WINDOW_MAX - WINDOW_DEFAULT))
    this.flush()
  }

  /** The server's SETTINGS have arrived. */
  get isOpen(): boolean {
    return this.writer !== null
  }

  get inFlight(): number {
    return this.calls.count
  }

  get free(): number {
    if (this.writer === null || this.isLeaving) return 0
    return Math.min(this.streamsMax - this.calls.count, Math.floor(this.windowBytes / this.writer.dataBytes))
  }

  start(dueMs: number): void {
    const { writer, calls } = this
    const id = calls.add(dueMs)
    const at = this.reserve(writer!.bytes)
    writer!.write(this.out, at, id)
    this.windowBytes -= writer!.dataBytes
    if (id > ID_MAX) this.leave('no stream ids are left')
  }

  flush(): void {
    if (this.outBytes === 0 || this.socket.destroyed) return
    this.socket.write(this.out.subarray(0, this.outBytes))
    this.outBytes = 0
    if (this.socket.writableLength > 0) this.out = Buffer.allocUnsafeSlow(OUT_BYTES) // the kernel has not taken all of it
  }

  close(): void {
    this.isLeaving = true
    this.socket.destroy()
  }

  /** Reads bytes from the server. The buffer may be reused afterwards. */
  read(chunk: Buffer): void {
    this.nowMs = performance.now()
    const bytes = this.rest === null ? chunk : Buffer.concat([this.rest, chunk])
    let at = 0
    try {
      while (bytes.length - at >= FRAME_HEADER_BYTES) {
        const length = bytes.readUIntBE(at, 3)
        if (length > FRAME_BYTES_MAX) throw new Error(`a frame of ${length} bytes`)
        const from = at + FRAME_HEADER_BYTES
        if (bytes.length - from < length) break
        this.frame(
          bytes[at + 3],
          bytes[at + 4],
          bytes.readInt32BE(at + 5) & STREAM_ID_MAX,
          bytes,
          from,
          from + length,
        )
        at = from + length
      }
    } catch (error) {
      this.onClosed(`protocol error: ${(error as Error).message}`)
      return
    }
    this.rest = at === bytes.length ? null : Buffer.from(bytes.subarray(at))
    if (this.isOpen) this.listener.onReadEnd(this, this.nowMs)
    this.flush()
    if (this.isLeaving && this.inFlight === 0) this.socket.destroy()
  }

  /** The socket has closed or must be closed: calls in flight fail. */
  onClosed(reason: string): void {
    this.leave(reason)
    this.socket.destroy()
    for (const id of this.calls.ids) if (id !== 0) this.fail(id, `connection lost: ${reason}`)
  }

  private frame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    if (this.block.length > 0 && type !== FrameType.Continuation)
      throw new Error('another frame within a header block')
    switch (type) {
      case FrameType.Data:
        this.data(flags, id, bytes, from, to)
        return
      case FrameType.Headers:
        this.headers(flags, id, bytes, from, to)
        return
      case FrameType.Continuation:
        this.block.push(Buffer.from(bytes.subarray(from, to)))
        if (this.block.length > CONTINUATIONS_MAX) throw new Error('a header block of too many frames')
        if (flags & Flag.EndHeaders) {
          const whole = Buffer.concat(this.block)
          this.block = []
          this.head(this.blockFlags, id, whole, 0, whole.length)
        }
        return
      case FrameType.RstStream: {
        const code = bytes.readUInt32BE(from)
        if (code === ErrorCode.RefusedStream) this.refuse(id)
        else this.fail(id, `RST_STREAM ${code}`)
        return
      }
      case FrameType.Settings:
        if (!(flags & Flag.Ack)) this.settings(bytes, from, to)
        return
      case FrameType.Ping:
        if (!(flags & Flag.Ack)) this.control(FrameType.Ping, Flag.Ack, bytes.subarray(from, to))
        return
      case FrameType.Goaway:
        this.goaway(bytes.subarray(from, to))
        return
      case FrameType.WindowUpdate:
        if (id === 0) this.windowBytes += bytes.readInt32BE(from) & STREAM_ID_MAX
        return
      case FrameType.PushPromise:
        throw new Error('a pushed response')
    }
  }

  private data(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    this.consumedBytes += to - from
    if (this.consumedBytes >= RENEW_BYTES) {
      this.control(FrameType.WindowUpdate, 0, uint32(this.consumedBytes))
      this.consumedBytes = 0
    }
    let [start, end] = [from, to]
    if (flags & Flag.Padded) {
      end -= bytes[start]
      start++
    }
    const slot = this.calls.findSlot(id)
    if (slot >= 0) this.message(slot, id, bytes, start, end)
    if (flags & Flag.EndStream) this.finish(id, NO_STATUS, '')
  }

  /** One message per call; servers may send it in several frames. */
  private message(slot: number, id: number, bytes: Buffer, from: number, to: number): void {
    const part = this.bodies.get(id)
    if (part === undefined && isWhole(bytes, from, to)) {
      this.calls.codes[slot] = this.calls.codes[slot] === 0 ? this.classify(bytes, from, to) : WRONG // two messages
      return
    }
    this.bodiesBytes += to - from
    if (this.bodiesBytes > BODIES_BYTES_MAX) throw new Error('responses that are too large')
    const whole = Buffer.concat([part ?? Buffer.alloc(0), bytes.subarray(from, to)])
    this.bodies.set(id, whole)
    this.calls.codes[slot] = isWhole(whole, 0, whole.length) ? this.classify(whole, 0, whole.length) : 0
  }

  private classify(bytes: Buffer, from: number, to: number): number {
    if (bytes[from] !== 0) return WRONG // compressed, although no encoding was accepted
    return classifyResponse(bytes, from + GRPC_PREFIX_BYTES, to, this.options.shape.descriptors)
  }

  private headers(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    let [start, end] = [from, to]
    if (flags & Flag.Padded) {
      end -= bytes[start]
      start++
    }
    if (flags & Flag.Priority) start += 5
    if (flags & Flag.EndHeaders) {
      this.head(flags, id, bytes, start, end)
      return
    }
    this.block = [Buffer.from(bytes.subarray(start, end))]
    this.blockFlags = flags
  }

  private head(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    if (to - from > HEADER_BLOCK_BYTES_MAX) throw new Error('a header block that is too long')
    const head = this.heads.read(bytes, from, to)
    const slot = this.calls.findSlot(id)
    if (slot >= 0 && head.status >= 200) this.calls.statuses[slot] = head.status
    if (flags & Flag.EndStream) this.finish(id, head.grpcStatus, head.grpcMessage)
  }

  private finish(id: number, grpcStatus: number, grpcMessage: string): void {
    const slot = this.calls.findSlot(id)
    if (slot < 0) return
    const [status, code] = [this.calls.statuses[slot], this.calls.codes[slot]]
    if (status === 200 && grpcStatus === 0 && code > 0) {
      const dueMs = this.calls.dueMs[slot]
      this.release(id, slot)
      this.listener.onResponse(dueMs, this.nowMs, code)
    } else if (grpcStatus > 0) this.fail(id, `gRPC status ${grpcStatus} ${grpcMessage}`.trim())
    else if (status !== 200) this.fail(id, `HTTP status ${status}`)
    else if (grpcStatus === NO_STATUS) this.fail(id, 'no grpc-status')
    else
      this.fail(
        id,
        code === 0 ? 'no message' : 'wrong response: not one status, OK or OVER_LIMIT, per descriptor',
      )
  }

  private fail(id: number, reason: string): void {
    const slot = this.calls.findSlot(id)
    if (slot < 0) return
    const dueMs = this.calls.dueMs[slot]
    this.release(id, slot)
    this.listener.onFailure(dueMs, reason)
  }

  private refuse(id: number): void {
    const slot = this.calls.findSlot(id)
    if (slot < 0) return
    const dueMs = this.calls.dueMs[slot]
    this.release(id, slot)
    this.listener.onRefused(dueMs)
  }

  private release(id: number, slot: number): void {
    this.calls.release(slot)
    if (this.bodies.size > 0) {
      this.bodiesBytes -= this.bodies.get(id)?.length ?? 0
      this.bodies.delete(id)
    }
  }

  private settings(bytes: Buffer, from: number, to: number): void {
    let tableBytes = 4_096
    let streamBytes = WINDOW_DEFAULT
    for (let at = from; at + 6 <= to; at += 6) {
      const value = bytes.readUInt32BE(at + 2)
      switch (bytes.readUInt16BE(at)) {
        case Setting.HeaderTableSize:
          tableBytes = value
          break
        case Setting.MaxConcurrentStreams:
          this.streamsMax = Math.min(this.options.streams, value)
          break
        case Setting.InitialWindowSize:
          streamBytes = value
      }
    }
    this.control(FrameType.Settings, Flag.Ack, Buffer.alloc(0))
    if (this.writer !== null) return
    this.writer = new CallWriter(this.options, tableBytes)
    if (this.writer.dataBytes > streamBytes)
      throw new Error(`a window of ${streamBytes} bytes is too small for a request`)
  }

  private goaway(payload: Buffer): void {
    const lastId = payload.readInt32BE(0) & STREAM_ID_MAX
    const code = payload.readUInt32BE(4)
    const text = payload.toString('latin1', 8)
    this.leave(code === ErrorCode.NoError ? 'the server sent GOAWAY' : `GOAWAY ${code} ${text}`.trim())
    for (const id of this.calls.ids) if (id > lastId) this.refuse(id)
  }

  private leave(reason: string): void {
    if (this.isLeaving) return
    this.isLeaving = true
    this.listener.onClosing(this, reason)
  }

  private control(type: number, flags: number, payload: Buffer): void {
    const bytes = frame(type, flags, payload)
    bytes.copy(this.out, this.reserve(bytes.length))
  }

  /** Reserves so many bytes of `out` and returns their offset. */
  private reserve(bytes: number): number {
    if (this.outBytes + bytes > OUT_BYTES) this.flush()
    const at = this.outBytes
    this.outBytes += bytes
    return at
  }
}

/** Whether the bytes are exactly one gRPC message with its prefix. */
function isWhole(bytes: Buffer, from: number, to: number): boolean {
  return to - from >= GRPC_PREFIX_BYTES && bytes.readUInt32BE(from + 1) === to - from - GRPC_PREFIX_BYTES
}
