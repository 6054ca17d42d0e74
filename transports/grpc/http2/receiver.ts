/**
 * Handles the peer's frames and checks them (RFC 9113, sections 5 and 6).
 *
 *     frame() ─┬ HEADERS, CONTINUATION ─► RequestHeadersDecoder ─► a new Stream, or the trailers of one
 *              ├ DATA ─► Stream
 *              ├ RST_STREAM, WINDOW_UPDATE ─► Stream, or the connection
 *              └ SETTINGS, PING ─► an acknowledgement
 *
 * Flow control (RFC 9113, 5.2): DATA beyond a receive window is a FLOW_CONTROL_ERROR. A stream error is answered by resetStream(); a connection error is thrown, and nothing is read after it.
 */
import { DRAIN_MESSAGE, STREAMS_MAX } from '../frontend.ts'
import { Status } from '../status.ts'
import * as bounds from './bounds.ts'
import type { Deadlines } from './deadlines.ts'
import type { FrameSink } from './frame-reader.ts'
import {
  ErrorCode,
  Flag,
  FrameType,
  readSettings,
  STREAM_ID_MAX,
  throwConnectionError,
  WINDOW_MAX,
} from './frames.ts'
import type { Inflater } from './inflater.ts'
import type { Lifetime } from './lifetime.ts'
import type { HeaderClassifier } from './request-head.ts'
import { type DecodedHeaders, HeaderBlock, RequestHeadersDecoder } from './request-headers-decoder.ts'
import { createRefusal, type Routes } from './routes.ts'
import { Stream } from './stream.ts'
import type { EndedStreams, StreamTable } from './stream-table.ts'
import type { StreamConnection } from './types.ts'

/** Of the connection: room for many streams with the default window. */
export const RECEIVE_WINDOW = 1_048_576
/** What the receiver needs of its connection and its server. */
export interface ReceiverConnection extends StreamConnection {
  readonly server: {
    readonly inflater: Inflater
    readonly deadlines: Deadlines
    readonly routes: Routes
    readonly headerClassifier: HeaderClassifier
  }
  readonly lifetime: Lifetime
  readonly streams: StreamTable<Stream>
  readonly endedStreams: EndedStreams
  readonly isDraining: boolean
  readonly hasSentLastGoaway: boolean
  readonly isEnding: boolean
  addSendWindow(bytes: number): void
  setInitialStreamWindow(bytes: number): void
}

const NONE = Buffer.alloc(0)
const TOO_MANY_CALLS = createRefusal(Status.ResourceExhausted, 'too many calls are waiting for a response')

export class Receiver implements FrameSink {
  framesCount = 0 // received so far
  lastStreamId = 0 // highest stream id of a call
  private readonly connection: ReceiverConnection
  private readonly headersDecoder: RequestHeadersDecoder
  private readonly headerBlock: HeaderBlock
  private readonly settingsFrames = new bounds.TokenBucket(bounds.SETTINGS_FRAMES)
  private readonly idleFrames = new bounds.TokenBucket(bounds.IDLE_FRAMES)
  private readonly rapidResets = new bounds.TokenBucket(bounds.RAPID_RESETS)
  private consumedBytes = 0 // of RECEIVE_WINDOW, not returned yet

  constructor(connection: ReceiverConnection) {
    this.connection = connection
    this.headersDecoder = new RequestHeadersDecoder(
      connection.server.routes,
      connection.server.headerClassifier,
    )
    this.headerBlock = new HeaderBlock(connection.quota)
  }

  /** Whether a header block has begun and not ended. */
  get isWithinHeaderBlock(): boolean {
    return this.headerBlock.isOpen
  }

  /** The connection has closed. */
  drop(): void {
    this.headerBlock.drop()
  }

  frame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): boolean {
    this.framesCount++
    if (this.headerBlock.isOpen && type !== FrameType.Continuation)
      throwConnectionError(ErrorCode.ProtocolError, 'a header block is interrupted')
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
    else this.countIdleFrame() // GOAWAY: calls under way are answered, then the peer closes. Unknown types are ignored (5.5).
  }

  private onPreface(type: number, flags: number): void {
    if (type !== FrameType.Settings || flags & Flag.Ack)
      throwConnectionError(ErrorCode.ProtocolError, 'the first frame is not SETTINGS')
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
      this.onHeaderBlock(id, (flags & Flag.EndStream) !== 0, isOwnParent, bytes, from, to)
    else this.headerBlock.open(id, (flags & Flag.EndStream) !== 0, isOwnParent, bytes, from, to)
  }

  private onContinuation(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    const { headerBlock } = this
    if (!headerBlock.isOpen || id !== headerBlock.id)
      throwConnectionError(ErrorCode.ProtocolError, 'CONTINUATION without HEADERS')
    headerBlock.add(bytes, from, to)
    if (!(flags & Flag.EndHeaders)) return
    const whole = headerBlock.close()
    this.onHeaderBlock(id, headerBlock.endsStream, headerBlock.dependsOnItself, whole, 0, whole.length)
  }

  /** A whole header block: a new call, or the trailers of one. */
  private onHeaderBlock(
    id: number,
    isEnd: boolean,
    isOwnParent: boolean,
    bytes: Buffer,
    from: number,
    to: number,
  ): void {
    const stream = this.connection.streams.get(id)
    if (stream !== undefined || id <= this.lastStreamId) {
      this.onTrailers(id, stream, isEnd, bytes, from, to)
      return
    }
    if (id % 2 === 0) throwConnectionError(ErrorCode.ProtocolError, 'an even stream id')
    const headers = this.headersDecoder.decode(bytes, from, to) // also for refused calls: the HPACK table must stay in step
    if (this.connection.hasSentLastGoaway) return
    this.lastStreamId = id
    if (headers.route === null || isOwnParent) this.connection.resetStream(id, ErrorCode.ProtocolError)
    else if (this.connection.streams.size >= STREAMS_MAX) {
      this.countIdleFrame()
      this.connection.sendReset(id, ErrorCode.RefusedStream)
    } else this.openStream(id, headers, isEnd)
  }

  private openStream(id: number, { head, route }: DecodedHeaders, isEnd: boolean): void {
    const { connection } = this
    this.idleFrames.add(bounds.IDLE_FRAMES_PER_CALL)
    if (typeof route === 'function' || !connection.quota.isOpenForCalls) {
      if (typeof route === 'function') route(connection.output, id)
      else TOO_MANY_CALLS(connection.output, id)
      if (!isEnd) connection.sendReset(id, ErrorCode.NoError)
      return
    }
    const stream = new Stream(connection, id, route!, head)
    connection.streams.set(id, stream)
    if (stream.deadlineMs !== Number.POSITIVE_INFINITY)
      connection.server.deadlines.add(stream, connection.nowMs)
    if (connection.isDraining && stream.isStream) stream.refuse(Status.Unavailable, DRAIN_MESSAGE)
    if (isEnd) stream.onEndStream()
  }

  private onTrailers(
    id: number,
    stream: Stream | undefined,
    isEnd: boolean,
    bytes: Buffer,
    from: number,
    to: number,
  ): void {
    const isWellFormed = this.headersDecoder.decodeTrailers(bytes, from, to)
    if (stream === undefined) {
      this.countIdleFrame()
      if (this.connection.endedStreams.has(id)) return
      if (id < this.lastStreamId) throwConnectionError(ErrorCode.ProtocolError, 'stream ids must increase')
      throwConnectionError(ErrorCode.StreamClosed, 'HEADERS on a closed stream')
    } else if (stream.isRemoteClosed) this.connection.resetStream(id, ErrorCode.StreamClosed)
    else if (!isEnd || !isWellFormed) this.connection.resetStream(id, ErrorCode.ProtocolError)
    else stream.onEndStream()
  }

  private onData(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throwConnectionError(ErrorCode.ProtocolError, 'DATA without a stream')
    const length = end - start
    this.consumedBytes += length
    if (this.consumedBytes > RECEIVE_WINDOW)
      throwConnectionError(ErrorCode.FlowControlError, 'DATA exceeds the window')
    if (this.consumedBytes >= RECEIVE_WINDOW / 2) {
      this.connection.sendWindowUpdate(0, this.consumedBytes)
      this.consumedBytes = 0
    }
    let from = start
    let to = end
    if (flags & Flag.Padded) {
      if (length === 0) throwConnectionError(ErrorCode.FrameSizeError, 'DATA too short')
      to -= bytes[from++]
      if (to < from) throwConnectionError(ErrorCode.ProtocolError, 'padding exceeds the frame')
    }
    const isEnd = (flags & Flag.EndStream) !== 0
    const stream = this.connection.streams.get(id)
    if (stream === undefined || (from === to && !isEnd)) this.countIdleFrame()
    if (stream !== undefined && !stream.isRemoteClosed) stream.onData(bytes, from, to, length, isEnd)
    else if (id > this.lastStreamId && !this.connection.hasSentLastGoaway)
      throwConnectionError(ErrorCode.ProtocolError, 'DATA on an idle stream')
    else if (id <= this.lastStreamId && !this.connection.endedStreams.has(id)) {
      this.connection.resetStream(id, ErrorCode.StreamClosed)
    }
  }

  private onReset(id: number, length: number): void {
    if (length !== 4) throwConnectionError(ErrorCode.FrameSizeError, 'RST_STREAM is 4 bytes')
    if (id === 0 || (id > this.lastStreamId && !this.connection.hasSentLastGoaway))
      throwConnectionError(ErrorCode.ProtocolError, 'RST_STREAM on an idle stream')
    const stream = this.connection.streams.get(id)
    if (stream === undefined) {
      this.countIdleFrame()
      return
    }
    if (
      this.connection.nowMs - stream.openedMs < bounds.RAPID_MS &&
      !this.rapidResets.take(this.connection.nowMs)
    ) {
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many calls cancelled at once')
    }
    stream.onCancelled()
  }

  private onWindowUpdate(id: number, bytes: Buffer, from: number, to: number): void {
    if (to - from !== 4) throwConnectionError(ErrorCode.FrameSizeError, 'WINDOW_UPDATE is 4 bytes')
    this.countIdleFrame()
    const count = bytes.readUInt32BE(from) & WINDOW_MAX
    if (id === 0) {
      if (count === 0) throwConnectionError(ErrorCode.ProtocolError, 'WINDOW_UPDATE of 0')
      this.connection.addSendWindow(count)
      return
    }
    if (id > this.lastStreamId && !this.connection.hasSentLastGoaway)
      throwConnectionError(ErrorCode.ProtocolError, 'WINDOW_UPDATE on an idle stream')
    const stream = this.connection.streams.get(id)
    if (stream === undefined) return
    if (count === 0) this.connection.resetStream(id, ErrorCode.ProtocolError)
    else if (!stream.addSendWindow(count)) this.connection.resetStream(id, ErrorCode.FlowControlError)
  }

  private onSettings(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    if (id !== 0) throwConnectionError(ErrorCode.ProtocolError, 'SETTINGS on a stream')
    if (flags & Flag.Ack) {
      if (to > from)
        throwConnectionError(ErrorCode.FrameSizeError, 'a SETTINGS acknowledgement with a payload')
      this.countIdleFrame()
      return
    }
    if (!this.settingsFrames.take(this.connection.nowMs))
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many SETTINGS')
    const { streamWindow, hasTableSize } = readSettings(bytes, from, to)
    this.connection.output.writeFrame(FrameType.Settings, Flag.Ack, NONE) // before the DATA that it may unblock
    if (hasTableSize) this.connection.output.onTableSizeSetting()
    if (streamWindow >= 0) this.connection.setInitialStreamWindow(streamWindow)
  }

  private onPing(flags: number, id: number, bytes: Buffer, from: number, to: number): void {
    if (id !== 0) throwConnectionError(ErrorCode.ProtocolError, 'PING on a stream')
    if (to - from !== 8) throwConnectionError(ErrorCode.FrameSizeError, 'PING is 8 bytes')
    if (flags & Flag.Ack) {
      this.countIdleFrame()
      this.connection.lifetime.onPingAck(bytes.subarray(from, to))
      return
    }
    const { output } = this.connection
    if (
      !this.connection.lifetime.onPing(
        this.connection.nowMs,
        output.hasResponded,
        this.connection.streams.size > 0,
      )
    ) {
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too_many_pings') // gRPC clients recognise this text and ping less often
    }
    output.hasResponded = false
    output.writeFrame(FrameType.Ping, Flag.Ack, bytes.subarray(from, to))
  }

  private onPriority(id: number, bytes: Buffer, from: number, to: number): void {
    if (id === 0) throwConnectionError(ErrorCode.ProtocolError, 'PRIORITY without a stream')
    this.countIdleFrame()
    const isIdle = id > this.lastStreamId
    let code: ErrorCode = ErrorCode.NoError
    if (to - from !== 5) code = ErrorCode.FrameSizeError
    else if ((bytes.readUInt32BE(from) & STREAM_ID_MAX) === id) code = ErrorCode.ProtocolError
    if (code === ErrorCode.NoError) return
    if (isIdle) throwConnectionError(code, 'a malformed PRIORITY') // an idle stream cannot be reset
    this.connection.resetStream(id, code)
  }

  /** Counts a frame that makes no progress. */
  private countIdleFrame(): void {
    if (!this.idleFrames.take(this.connection.nowMs))
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many frames without effect')
  }
}
