/**
 * What a peer's frames mean (RFC 9113, sections 5 and 6), and what is wrong with them.
 *
 *     frame() ─┬ HEADERS, CONTINUATION ─► HeaderBlock ─► Heads ─► a new Stream, or the trailers of one
 *              ├ DATA ─► Stream
 *              ├ RST_STREAM, WINDOW_UPDATE ─► Stream, or the connection
 *              └ SETTINGS, PING ─► an answer
 *
 * A fault of one stream is answered by reset(); a fault of the connection is thrown, and nothing is read after it.
 */
import { DRAIN_MESSAGE, STREAMS_MAX } from '../frontend.ts'
import { Status } from '../status.ts'
import * as bounds from './bounds.ts'
import type { Connection } from './connection.ts'
import type { FrameSink } from './frame-reader.ts'
import { ErrorCode, Flag, FrameType, STREAM_ID_MAX, throwConnectionError, WINDOW_MAX } from './frames.ts'
import { HeaderBlock } from './header-block.ts'
import { type DecodedHeaders, RequestHeadersDecoder } from './request-headers-decoder.ts'
import { refusal } from './routes.ts'
import { readSettings } from './settings.ts'
import { Stream } from './stream.ts'

/** Of the connection, for what callers send: many streams of the default window. */
export const RECEIVE_WINDOW = 1_048_576
const NONE = Buffer.alloc(0)
const TOO_MANY = refusal(Status.ResourceExhausted, 'too many calls wait for an answer')

export class Receiver implements FrameSink {
  frames = 0 // ever received
  lastId = 0 // of the last call
  private readonly connection: Connection
  private readonly heads: RequestHeadersDecoder
  private readonly block: HeaderBlock
  private readonly settingsFrames = new bounds.TokenBucket(bounds.SETTINGS_FRAMES)
  private readonly idleFrames = new bounds.TokenBucket(bounds.IDLE_FRAMES)
  private readonly rapidResets = new bounds.TokenBucket(bounds.RAPID_RESETS)
  private uncredited = 0 // bytes of RECEIVE_WINDOW not given back yet

  constructor(connection: Connection) {
    this.connection = connection
    this.heads = new RequestHeadersDecoder(connection.server.routes, connection.server.fields)
    this.block = new HeaderBlock(connection.share)
  }

  /** Whether a header block has begun and not ended. */
  get isWithinBlock(): boolean {
    return this.block.isOpen
  }

  /** The connection has gone. */
  drop(): void {
    this.block.drop()
  }

  frame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): boolean {
    this.frames++
    if (this.block.isOpen && type !== FrameType.Continuation)
      throwConnectionError(ErrorCode.ProtocolError, 'a header block is cut')
    if (this.connection.lifetime.isBeforePreface) this.onPreface(type, flags)
    if (type === FrameType.Data) this.onData(flags, id, bytes, from, to)
    else if (type === FrameType.Headers) this.onHeaders(flags, id, bytes, from, to)
    else if (type === FrameType.WindowUpdate) this.onWindowUpdate(id, bytes, from, to)
    else this.onRareFrame(type, flags, id, bytes, from, to)
    return !this.connection.isEnding
  }

  private onRareFrame(
    type: number,
    flags: number,
    id: number,
    bytes: Buffer,
    from: number,
    to: number,
  ): void {
    if (type === FrameType.RstStream) this.onReset(id, to - from)
    else if (type === FrameType.Continuation) this.onContinuation(flags, id, bytes, from, to)
    else if (type === FrameType.Ping) this.onPing(flags, id, bytes, from, to)
    else if (type === FrameType.Settings) this.onSettings(flags, id, bytes, from, to)
    else if (type === FrameType.Priority) this.onPriority(id, bytes, from, to)
    else if (type === FrameType.PushPromise)
      throwConnectionError(ErrorCode.ProtocolError, 'clients do not push')
    else if (type === FrameType.Goaway && id !== 0)
      throwConnectionError(ErrorCode.ProtocolError, 'GOAWAY on a stream')
    else this.idle() // GOAWAY: what runs is answered, and the peer closes; unknown types are ignored (5.5)
  }

  private onPreface(type: number, flags: number): void {
    if (type !== FrameType.Settings || flags & Flag.Ack)
      throwConnectionError(ErrorCode.ProtocolError, 'SETTINGS come first')
    this.connection.lifetime.onPreface()
  }

  private onHeaders(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throwConnectionError(ErrorCode.ProtocolError, 'HEADERS without a stream')
    let from = start
    let to = end
    if (flags & Flag.Padded) to -= bytes[from++]
    let isOwnParent = false
    if (flags & Flag.Priority) {
      isOwnParent = to - from >= 5 && (bytes.readUInt32BE(from) & STREAM_ID_MAX) === id
      from += 5
    }
    if (from > to)
      throwConnectionError(
        start === end ? ErrorCode.FrameSizeError : ErrorCode.ProtocolError,
        'HEADERS too short',
      )
    if (flags & Flag.EndHeaders)
      this.onBlock(id, (flags & Flag.EndStream) !== 0, isOwnParent, bytes, from, to)
    else this.block.open(id, (flags & Flag.EndStream) !== 0, isOwnParent, bytes, from, to)
  }

  private onContinuation(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    const { block } = this
    if (!block.isOpen || id !== block.id)
      throwConnectionError(ErrorCode.ProtocolError, 'CONTINUATION of nothing')
    block.add(bytes, from, to)
    if (!(flags & Flag.EndHeaders)) return
    const whole = block.close()
    this.onBlock(id, block.isEnd, block.isOwnParent, whole, 0, whole.length)
  }

  /** A whole header block: a new call, or the trailers of one. */
  private onBlock(
    id: number,
    isEnd: boolean,
    isOwnParent: boolean,
    bytes: Buffer,
    from: number,
    to: number,
  ): void {
    const known = this.connection.streams.get(id)
    if (known !== undefined || id <= this.lastId) {
      this.onTrailers(id, known, isEnd, bytes, from, to)
      return
    }
    if (id % 2 === 0) throwConnectionError(ErrorCode.ProtocolError, 'a stream of the server')
    const read = this.heads.read(bytes, from, to) // also for what is refused: the table must stay in step
    if (this.connection.isLast) return
    this.lastId = id
    if (read.route === null || isOwnParent) this.connection.reset(id, ErrorCode.ProtocolError)
    else if (this.connection.streams.size >= STREAMS_MAX) {
      this.idle()
      this.connection.rst(id, ErrorCode.RefusedStream)
    } else this.open(id, read, isEnd)
  }

  private open(id: number, { head, route }: DecodedHeaders, isEnd: boolean): void {
    const { connection } = this
    this.idleFrames.give(bounds.IDLE_FRAMES_PER_CALL)
    if (typeof route === 'function' || !connection.share.isOpenForCalls) {
      if (typeof route === 'function') route(connection.output, id)
      else TOO_MANY(connection.output, id)
      if (!isEnd) connection.rst(id, ErrorCode.NoError)
      return
    }
    const stream = new Stream(connection, id, route!, head)
    connection.streams.set(id, stream)
    if (stream.deadlineMs !== Number.POSITIVE_INFINITY)
      connection.server.deadlines.add(stream, connection.nowMs)
    if (connection.isDraining && stream.isStream) stream.refuse(Status.Unavailable, DRAIN_MESSAGE)
    if (isEnd) stream.ended()
  }

  private onTrailers(
    id: number,
    stream: Stream | undefined,
    isEnd: boolean,
    bytes: Buffer,
    from: number,
    to: number,
  ): void {
    const isGood = this.heads.readTrailers(bytes, from, to)
    if (stream === undefined) {
      this.idle()
      if (this.connection.endedStreams.has(id)) return
      if (id < this.lastId) throwConnectionError(ErrorCode.ProtocolError, 'stream ids must grow')
      throwConnectionError(ErrorCode.StreamClosed, 'HEADERS on a closed stream')
    } else if (stream.isPeerDone) this.connection.reset(id, ErrorCode.StreamClosed)
    else if (!isEnd || !isGood) this.connection.reset(id, ErrorCode.ProtocolError)
    else stream.ended()
  }

  private onData(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throwConnectionError(ErrorCode.ProtocolError, 'DATA without a stream')
    const length = end - start
    this.uncredited += length
    if (this.uncredited > RECEIVE_WINDOW)
      throwConnectionError(ErrorCode.FlowControlError, 'more DATA than the window')
    if (this.uncredited >= RECEIVE_WINDOW / 2) {
      this.connection.windowUpdate(0, this.uncredited)
      this.uncredited = 0
    }
    let from = start
    let to = end
    if (flags & Flag.Padded) {
      if (length === 0) throwConnectionError(ErrorCode.FrameSizeError, 'DATA too short')
      to -= bytes[from++]
      if (to < from) throwConnectionError(ErrorCode.ProtocolError, 'more padding than frame')
    }
    const isEnd = (flags & Flag.EndStream) !== 0
    const stream = this.connection.streams.get(id)
    if (stream === undefined || (from === to && !isEnd)) this.idle()
    if (stream !== undefined && !stream.isPeerDone) stream.data(bytes, from, to, length, isEnd)
    else if (id > this.lastId && !this.connection.isLast)
      throwConnectionError(ErrorCode.ProtocolError, 'DATA on an idle stream')
    else if (id <= this.lastId && !this.connection.endedStreams.has(id)) {
      this.connection.reset(id, ErrorCode.StreamClosed)
    }
  }

  private onReset(id: number, length: number): void {
    if (length !== 4) throwConnectionError(ErrorCode.FrameSizeError, 'RST_STREAM is 4 bytes')
    if (id === 0 || (id > this.lastId && !this.connection.isLast))
      throwConnectionError(ErrorCode.ProtocolError, 'RST_STREAM on an idle stream')
    const stream = this.connection.streams.get(id)
    if (stream === undefined) {
      this.idle()
      return
    }
    if (
      this.connection.nowMs - stream.openedMs < bounds.RAPID_MS &&
      !this.rapidResets.take(this.connection.nowMs)
    ) {
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many calls taken back at once')
    }
    stream.cancelled()
  }

  private onWindowUpdate(id: number, bytes: Buffer, from: number, to: number): void {
    if (to - from !== 4) throwConnectionError(ErrorCode.FrameSizeError, 'WINDOW_UPDATE is 4 bytes')
    this.idle()
    const count = bytes.readUInt32BE(from) & WINDOW_MAX
    if (id === 0) {
      if (count === 0) throwConnectionError(ErrorCode.ProtocolError, 'a WINDOW_UPDATE of 0')
      this.connection.widen(count)
      return
    }
    if (id > this.lastId && !this.connection.isLast)
      throwConnectionError(ErrorCode.ProtocolError, 'WINDOW_UPDATE on an idle stream')
    const stream = this.connection.streams.get(id)
    if (stream === undefined) return
    if (count === 0) this.connection.reset(id, ErrorCode.ProtocolError)
    else if (!stream.widen(count)) this.connection.reset(id, ErrorCode.FlowControlError)
  }

  private onSettings(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    if (id !== 0) throwConnectionError(ErrorCode.ProtocolError, 'SETTINGS on a stream')
    if (flags & Flag.Ack) {
      if (to > from) throwConnectionError(ErrorCode.FrameSizeError, 'an acknowledgement says nothing')
      this.idle()
      return
    }
    if (!this.settingsFrames.take(this.connection.nowMs))
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many SETTINGS')
    const { streamWindow, hasTableSize } = readSettings(bytes, from, to)
    this.connection.output.small(FrameType.Settings, Flag.Ack, NONE) // before the DATA that it may set free
    if (hasTableSize) this.connection.output.tableChanged()
    if (streamWindow >= 0) this.connection.setStreamWindow(streamWindow)
  }

  private onPing(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    if (id !== 0) throwConnectionError(ErrorCode.ProtocolError, 'PING on a stream')
    if (to - from !== 8) throwConnectionError(ErrorCode.FrameSizeError, 'PING is 8 bytes')
    if (flags & Flag.Ack) {
      this.idle()
      this.connection.lifetime.answered(bytes.subarray(from, to))
      return
    }
    const { output } = this.connection
    if (
      !this.connection.lifetime.pinged(
        this.connection.nowMs,
        output.hasAnswered,
        this.connection.streams.size > 0,
      )
    ) {
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too_many_pings') // gRPC clients know this text, and ping less often
    }
    output.hasAnswered = false
    output.small(FrameType.Ping, Flag.Ack, bytes.subarray(from, to))
  }

  private onPriority(id: number, bytes: Buffer, from: number, to: number): void {
    if (id === 0) throwConnectionError(ErrorCode.ProtocolError, 'PRIORITY without a stream')
    this.idle()
    const isIdle = id > this.lastId
    let code: ErrorCode = ErrorCode.NoError
    if (to - from !== 5) code = ErrorCode.FrameSizeError
    else if ((bytes.readUInt32BE(from) & STREAM_ID_MAX) === id) code = ErrorCode.ProtocolError
    if (code === ErrorCode.NoError) return
    if (isIdle) throwConnectionError(code, 'a faulty PRIORITY') // a stream that is idle cannot be reset
    this.connection.reset(id, code)
  }

  /** A frame that moves nothing. */
  private idle(): void {
    if (!this.idleFrames.take(this.connection.nowMs))
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many frames about nothing')
  }
}
