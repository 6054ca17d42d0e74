/**
 * One HTTP/2 connection: the socket, what its streams share, faults, the end.
 *
 *     socket ─► read(chunk) ─► FrameReader ─► Receiver ─► Stream
 *     socket ◄─ flush() ◄─ Output ◄───────────────┴──────────┘
 *
 * Whatever is said while reading leaves in one write at the end of it; what is said later, when that turn's JavaScript
 * has run. A peer that does not read is not read from.
 */
import type { Socket } from 'node:net'
import { type CallOrigin, DRAIN_MESSAGE, STREAMS_MAX } from '../frontend.ts'
import { Status } from '../status.ts'
import * as bounds from './bounds.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import { EndedStreams } from './ended-streams.ts'
import { FrameReader } from './frame-reader.ts'
import {
  ConnectionError,
  ErrorCode,
  FrameType,
  Setting,
  STREAM_ID_MAX,
  throwConnectionError,
  WINDOW_DEFAULT,
  WINDOW_MAX,
} from './frames.ts'
import { Lifetime } from './lifetime.ts'
import { Output } from './output.ts'
import { RECEIVE_WINDOW, Receiver } from './receiver.ts'
import type { Http2Server } from './server.ts'
import { settingsPayload } from './settings.ts'
import { readShared } from './shared-reads.ts'
import type { Stream } from './stream.ts'
import { StreamTable } from './stream-table.ts'

const SETTINGS = settingsPayload({
  [Setting.MaxConcurrentStreams]: STREAMS_MAX,
  [Setting.MaxHeaderListSize]: bounds.HEADER_LIST_BYTES_MAX,
})

const CONNECTION_BYTES = 8_192 // of objects, about
const STREAM_BYTES = 1_024

export class Connection {
  readonly server: Http2Server
  readonly output: Output
  readonly share: ConnectionQuota
  readonly waiting = new Set<Stream>() // streams with a window of their own that wait for the connection's
  nowMs = Date.now() // when something arrived last
  sendWindow = WINDOW_DEFAULT
  streamWindow = WINDOW_DEFAULT // of new streams
  private readonly socket: Socket
  private readonly receiver: Receiver
  private readonly reader: FrameReader
  readonly streams = new StreamTable<Stream>()
  readonly endedStreams = new EndedStreams()
  readonly lifetime: Lifetime
  private readonly forcedResets = new bounds.TokenBucket(bounds.FORCED_RESETS)
  private blockedBytes = 0
  private isReading = false
  private isBackpressured = false // it does not read, so it is not read from
  private isReadThrottled = false // others are read first
  private isFlushScheduled = false
  isDraining = false // first GOAWAY
  isLast = false // last GOAWAY: later streams are not served
  isEnding = false // nothing is read any more

  constructor(server: Http2Server, accepted: Socket) {
    const socket = readShared(accepted, (chunk) => this.read(chunk))
    this.server = server
    this.socket = socket
    this.share = server.shares.join(() => this.evict())
    this.output = new Output(socket, this.share, () => this.resume())
    this.lifetime = new Lifetime(this)
    this.receiver = new Receiver(this)
    this.reader = new FrameReader(this.receiver, this.share)
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => this.closed())
    this.output.small(FrameType.Settings, 0, SETTINGS)
    this.output.number(FrameType.WindowUpdate, 0, RECEIVE_WINDOW - WINDOW_DEFAULT)
    this.scheduleFlush()
  }

  /** Of a call with these values of `server.headers`. On a unix socket nothing is known of the other end. */
  origin(kept: readonly string[] | null): CallOrigin {
    const { remoteAddress, remotePort } = this.socket
    return {
      peer: remoteAddress === undefined ? '' : `${remoteAddress}:${remotePort}`,
      header: (name) => kept?.[this.server.headers.indexOf(name)] ?? '',
    }
  }

  // ---- what arrives

  read(chunk: Buffer): void {
    if (!this.isEnding) this.process(chunk)
    this.throttleReads(chunk.length)
  }

  private process(chunk: Buffer): void {
    this.nowMs = Date.now()
    this.isReading = true
    try {
      this.reader.read(chunk)
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error
      this.fail(error)
    } finally {
      this.isReading = false
    }
    this.flush()
  }

  /** Also while it ends: a flood goes on, and dropping it costs reading it. */
  private throttleReads(count: number): void {
    if (this.output.waitingBytes > bounds.OUTPUT_BYTES_MAX && !this.isEnding) this.isBackpressured = true
    if (count >= bounds.READ_MUCH_BYTES && !this.server.takeTurn(count, this)) this.isReadThrottled = true
    if (this.isBackpressured || this.isReadThrottled) this.socket.pause()
  }

  /** Its turn has come again. */
  onThrottleEnd(): void {
    this.isReadThrottled = false
    if (!this.isBackpressured) this.socket.resume()
  }

  /** It has read what there was. */
  private resume(): void {
    this.isBackpressured = false
    if (!this.isReadThrottled) this.socket.resume()
  }

  // ---- for the receiver

  /** The peer has changed the window of all streams. */
  setStreamWindow(bytes: number): void {
    const change = bytes - this.streamWindow
    this.streamWindow = bytes
    for (const stream of this.streams.values()) {
      if (!stream.widen(change)) throwConnectionError(ErrorCode.FlowControlError, 'a window too large')
    }
  }

  /** The peer has opened the connection's window. */
  widen(count: number): void {
    const wasShut = this.sendWindow <= 0
    this.sendWindow += count
    if (this.sendWindow > WINDOW_MAX) throwConnectionError(ErrorCode.FlowControlError, 'a window too large')
    if (wasShut) this.pumpWaiting()
  }

  private pumpWaiting(): void {
    for (const stream of this.waiting) {
      if (this.sendWindow <= 0) return
      this.waiting.delete(stream)
      stream.pump()
    }
  }

  // ---- for streams

  /** A fault of one stream. Who makes us do this too often is at fault as a whole. */
  reset(id: number, code: ErrorCode): void {
    this.rst(id, code)
    this.streams.get(id)?.cancelled()
    if (!this.forcedResets.take(this.nowMs))
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many faulty streams')
  }

  /** Only says so. What the peer has sent before it hears of it is no fault. */
  rst(id: number, code: ErrorCode): void {
    this.output.number(FrameType.RstStream, id, code)
    this.endedStreams.add(id)
    this.scheduleFlush()
  }

  windowUpdate(id: number, bytes: number): void {
    this.output.number(FrameType.WindowUpdate, id, bytes)
    this.scheduleFlush()
  }

  /** Counts bytes of answers that wait for the peer's windows. */
  blocked(bytes: number): void {
    this.blockedBytes += bytes
    this.share.reserveUnchecked(bytes)
  }

  forget(stream: Stream): void {
    this.server.deadlines.remove(stream)
    this.streams.delete(stream.id)
    if (this.isLast && this.streams.size === 0) this.end()
  }

  /** Something was said: it leaves at the end of this turn. */
  scheduleFlush(): void {
    if (this.isReading || this.isFlushScheduled) return
    this.isFlushScheduled = true
    this.server.scheduleFlush(this)
  }

  flush(): void {
    this.isFlushScheduled = false
    this.output.flush()
  }

  // ---- the end

  /** No new calls any more; `isServer`: the whole server goes, which ends streams too. */
  drain(isServer = true): void {
    if (this.lifetime.isBeforePreface) {
      this.destroy()
      return
    }
    if (!this.isDraining) this.goaway(STREAM_ID_MAX, ErrorCode.NoError, '')
    this.isDraining = true
    this.lifetime.drain()
    if (!isServer) return
    for (const stream of [...this.streams.values()]) {
      if (stream.isStream) stream.refuse(Status.Unavailable, DRAIN_MESSAGE)
    }
  }

  /** What is open now is the last. */
  lastGoaway(): void {
    if (this.isLast || this.isEnding) return
    this.isLast = true
    this.goaway(this.receiver.lastId, ErrorCode.NoError, '')
    if (this.streams.size === 0) this.end()
  }

  ping(payload: Buffer): void {
    this.output.small(FrameType.Ping, 0, payload)
    this.scheduleFlush()
  }

  sweep(nowMs: number): void {
    const { socket } = this
    this.lifetime.sweep(nowMs, {
      frames: this.receiver.frames,
      isWithin: this.reader.isWithin || this.receiver.isWithinBlock || this.isEnding,
      sent: socket.bytesWritten - socket.writableLength,
      isFull: this.blockedBytes > 0 || this.output.waitingBytes > 0,
    })
  }

  /** Cuts it now. */
  destroy(): void {
    this.socket.destroy()
  }

  private goaway(lastId: number, code: ErrorCode, text: string): void {
    const payload = Buffer.alloc(8 + text.length)
    payload.writeUInt32BE(lastId, 0)
    payload.writeUInt32BE(code, 4)
    payload.write(text, 8, 'latin1')
    this.output.small(FrameType.Goaway, 0, payload)
    this.scheduleFlush()
  }

  private fail({ code, message }: ConnectionError): void {
    if (this.isEnding) return
    this.goaway(this.receiver.lastId, code, message)
    this.end()
    this.cancelAll()
  }

  /** Says what is to be said, then closes; the peer has a moment to read it. */
  private end(): void {
    if (this.isEnding) return
    this.isEnding = true
    this.output.finish()
    this.resume() // what still comes is dropped
    this.socket.end(() => setTimeout(() => this.destroy(), bounds.LINGER_MS).unref())
  }

  /** It keeps too much. */
  private evict(): void {
    this.fail(new ConnectionError(ErrorCode.EnhanceYourCalm, 'too much is kept for this connection'))
    this.reader.drop()
    this.receiver.drop()
    if (this.output.waitingBytes === 0) return
    this.destroy()
    this.output.drop()
  }

  private closed(): void {
    this.isEnding = true
    this.lifetime.close()
    this.server.garbage.add(CONNECTION_BYTES)
    this.cancelAll()
    this.output.drop()
    this.reader.drop()
    this.receiver.drop()
    this.server.shares.leave(this.share)
    this.server.forget(this)
  }

  private cancelAll(): void {
    this.server.garbage.add(this.streams.size * STREAM_BYTES)
    for (const stream of [...this.streams.values()]) stream.cancelled()
    this.server.inflater.drop(this)
  }
}
