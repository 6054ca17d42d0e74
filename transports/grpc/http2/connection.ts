/**
 * One HTTP/2 connection: the socket, the state that its streams share, errors and shutdown.
 *
 *     socket ─► read(chunk) ─► FrameReader ─► Receiver ─► Stream
 *     socket ◄─ flush() ◄─ Output ◄───────────────┴──────────┘
 *
 * Output produced while reading is written once, after the chunk has been read; later output when the JavaScript of that
 * turn has run. A peer that does not read is not read from.
 */
import type { Socket } from 'node:net'
import type { Garbage } from '../../../engine/runtime/release-memory.ts'
import { type CallOrigin, DRAIN_MESSAGE, STREAMS_MAX } from '../frontend.ts'
import { Status } from '../status.ts'
import * as bounds from './bounds.ts'
import type { ConnectionQuota, ConnectionQuotas } from './connection-quota.ts'
import type { Deadlines } from './deadlines.ts'
import { FrameReader } from './frame-reader.ts'
import {
  ConnectionError,
  ErrorCode,
  FrameType,
  Setting,
  STREAM_ID_MAX,
  settingsPayload,
  throwConnectionError,
  WINDOW_DEFAULT,
  WINDOW_MAX,
} from './frames.ts'
import type { Inflater } from './inflater.ts'
import { Lifetime } from './lifetime.ts'
import { Output } from './output.ts'
import { RECEIVE_WINDOW, Receiver, type ReceiverConnection } from './receiver.ts'
import type { HeaderClassifier } from './request-head.ts'
import type { Routes } from './routes.ts'
import { readShared } from './shared-reads.ts'
import type { Stream } from './stream.ts'
import { EndedStreams, StreamTable } from './stream-table.ts'
import type { ConnectionStream, TimedConnection } from './types.ts'

const SETTINGS = settingsPayload({
  [Setting.MaxConcurrentStreams]: STREAMS_MAX,
  [Setting.MaxHeaderListSize]: bounds.HEADER_LIST_BYTES_MAX,
})

const CONNECTION_BYTES = 8_192 // garbage of a closed connection, about
const STREAM_BYTES = 1_024 // and of each call that ended with it

/** The server that a connection belongs to. */
export interface ConnectionHost {
  readonly options: TimedConnection['server']['options']
  readonly headers: readonly string[]
  readonly routes: Routes
  readonly headerClassifier: HeaderClassifier
  readonly deadlines: Deadlines
  readonly inflater: Inflater
  readonly garbage: Garbage
  readonly quotas: ConnectionQuotas
  scheduleFlush(connection: Connection): void
  /** Counts a large read. Returns false when the connection has to pause; onThrottleEnd() follows. */
  takeTurn(bytes: number, connection: Connection): boolean
  removeConnection(connection: Connection): void
}

export class Connection implements ReceiverConnection, TimedConnection {
  readonly server: ConnectionHost
  readonly output: Output
  readonly quota: ConnectionQuota
  readonly blockedStreams = new Set<ConnectionStream>() // have a window of their own, wait for the connection's
  nowMs = performance.now() // of the last read
  sendWindow = WINDOW_DEFAULT
  initialStreamWindow = WINDOW_DEFAULT // of new streams
  private readonly socket: Socket
  private readonly receiver: Receiver
  private readonly reader: FrameReader
  readonly streams = new StreamTable<Stream>()
  readonly endedStreams = new EndedStreams()
  readonly lifetime: Lifetime
  private readonly forcedResets = new bounds.TokenBucket(bounds.FORCED_RESETS)
  private queuedBytes = 0
  private isReading = false
  private isBackpressured = false // the peer does not read
  private isReadThrottled = false // other connections are read first
  private isFlushScheduled = false
  isDraining = false // the first GOAWAY has been sent
  hasSentLastGoaway = false // later streams are not served
  isEnding = false // nothing more is read

  constructor(server: ConnectionHost, accepted: Socket) {
    const socket = readShared(accepted, (chunk) => this.read(chunk))
    this.server = server
    this.socket = socket
    this.quota = server.quotas.join(() => this.evict())
    this.output = new Output(socket, this.quota, () => this.resumeReading())
    this.lifetime = new Lifetime(this)
    this.receiver = new Receiver(this)
    this.reader = new FrameReader(this.receiver, this.quota)
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => this.onClosed())
    this.output.writeFrame(FrameType.Settings, 0, SETTINGS)
    this.output.writeNumberFrame(FrameType.WindowUpdate, 0, RECEIVE_WINDOW - WINDOW_DEFAULT)
    this.scheduleFlush()
  }

  /** `values` belong to `server.headers`. The peer of a unix socket is unknown. */
  origin(values: readonly string[] | null): CallOrigin {
    const { remoteAddress, remotePort } = this.socket
    return {
      peer: remoteAddress === undefined ? '' : `${remoteAddress}:${remotePort}`,
      header: (name) => values?.[this.server.headers.indexOf(name)] ?? '',
    }
  }

  // ---- reading

  read(chunk: Buffer): void {
    if (!this.isEnding) this.process(chunk)
    this.throttleReads(chunk.length)
  }

  private process(chunk: Buffer): void {
    this.nowMs = performance.now()
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

  /** Also while ending: a flood may continue, and discarding it costs time too. */
  private throttleReads(count: number): void {
    if (this.output.waitingBytes > bounds.OUTPUT_BYTES_MAX && !this.isEnding) this.isBackpressured = true
    if (count >= bounds.LARGE_READ_BYTES && !this.server.takeTurn(count, this)) this.isReadThrottled = true
    if (this.isBackpressured || this.isReadThrottled) this.socket.pause()
  }

  /** The server's turn has come to this connection again. */
  onThrottleEnd(): void {
    this.isReadThrottled = false
    if (!this.isBackpressured) this.socket.resume()
  }

  /** The peer has taken all output. */
  private resumeReading(): void {
    this.isBackpressured = false
    if (!this.isReadThrottled) this.socket.resume()
  }

  // ---- for the receiver

  /** The peer has changed SETTINGS_INITIAL_WINDOW_SIZE, which applies to open streams too. */
  setInitialStreamWindow(bytes: number): void {
    const change = bytes - this.initialStreamWindow
    this.initialStreamWindow = bytes
    for (const stream of this.streams.values()) {
      if (!stream.addSendWindow(change))
        throwConnectionError(ErrorCode.FlowControlError, 'the window exceeds 2^31-1')
    }
  }

  /** WINDOW_UPDATE for the connection. */
  addSendWindow(count: number): void {
    const wasBlocked = this.sendWindow <= 0
    this.sendWindow += count
    if (this.sendWindow > WINDOW_MAX)
      throwConnectionError(ErrorCode.FlowControlError, 'the window exceeds 2^31-1')
    if (wasBlocked) this.resumeBlockedStreams()
  }

  private resumeBlockedStreams(): void {
    for (const stream of this.blockedStreams) {
      if (this.sendWindow <= 0) return
      this.blockedStreams.delete(stream)
      stream.sendQueued()
    }
  }

  // ---- for streams

  /** A stream error. Throws a connection error for a peer that causes too many. */
  resetStream(id: number, code: ErrorCode): void {
    this.sendReset(id, code)
    this.streams.get(id)?.onCancelled()
    if (!this.forcedResets.take(this.nowMs))
      throwConnectionError(ErrorCode.EnhanceYourCalm, 'too many faulty streams')
  }

  /** Sends RST_STREAM. Frames that the peer sent before receiving it are ignored. */
  sendReset(id: number, code: ErrorCode): void {
    this.output.writeNumberFrame(FrameType.RstStream, id, code)
    this.endedStreams.add(id)
    this.scheduleFlush()
  }

  sendWindowUpdate(id: number, bytes: number): void {
    this.output.writeNumberFrame(FrameType.WindowUpdate, id, bytes)
    this.scheduleFlush()
  }

  /** Counts response bytes that wait for the peer's windows. */
  addQueuedBytes(bytes: number): void {
    this.queuedBytes += bytes
    this.quota.reserveUnchecked(bytes)
  }

  removeStream(stream: ConnectionStream): void {
    this.server.deadlines.remove(stream)
    this.streams.delete(stream.id)
    if (this.hasSentLastGoaway && this.streams.size === 0) this.end()
  }

  /** Flushes at the end of this turn, unless reading flushes anyway. */
  scheduleFlush(): void {
    if (this.isReading || this.isFlushScheduled) return
    this.isFlushScheduled = true
    this.server.scheduleFlush(this)
  }

  flush(): void {
    this.isFlushScheduled = false
    this.output.flush()
  }

  // ---- shutdown

  /** Announces that no new calls are served. `isServer`: the whole server drains, which ends streams too. */
  drain(isServer = true): void {
    if (this.lifetime.isBeforePreface) {
      this.destroy()
      return
    }
    if (!this.isDraining) this.sendGoaway(STREAM_ID_MAX, ErrorCode.NoError, '')
    this.isDraining = true
    this.lifetime.drain()
    if (!isServer) return
    for (const stream of [...this.streams.values()]) {
      if (stream.isStream) stream.refuse(Status.Unavailable, DRAIN_MESSAGE)
    }
  }

  /** Streams opened from now on are not served; closes when the open ones have ended. */
  sendLastGoaway(): void {
    if (this.hasSentLastGoaway || this.isEnding) return
    this.hasSentLastGoaway = true
    this.sendGoaway(this.receiver.lastStreamId, ErrorCode.NoError, '')
    if (this.streams.size === 0) this.end()
  }

  sendPing(payload: Buffer): void {
    this.output.writeFrame(FrameType.Ping, 0, payload)
    this.scheduleFlush()
  }

  sweep(nowMs: number): void {
    const { socket } = this
    this.lifetime.sweep(nowMs, {
      frames: this.receiver.framesCount,
      isWithin: this.reader.isWithinFrame || this.receiver.isWithinHeaderBlock || this.isEnding,
      sent: socket.bytesWritten - socket.writableLength,
      isFull: this.queuedBytes > 0 || this.output.waitingBytes > 0,
    })
  }

  /** Closes the socket now. */
  destroy(): void {
    this.socket.destroy()
  }

  private sendGoaway(lastId: number, code: ErrorCode, text: string): void {
    const payload = Buffer.alloc(8 + text.length)
    payload.writeUInt32BE(lastId, 0)
    payload.writeUInt32BE(code, 4)
    payload.write(text, 8, 'latin1')
    this.output.writeFrame(FrameType.Goaway, 0, payload)
    this.scheduleFlush()
  }

  private fail({ code, message }: ConnectionError): void {
    if (this.isEnding) return
    this.sendGoaway(this.receiver.lastStreamId, code, message)
    this.end()
    this.cancelAll()
  }

  /** Sends what is queued, then closes; the peer has LINGER_MS to read it. */
  private end(): void {
    if (this.isEnding) return
    this.isEnding = true
    this.output.finish()
    this.resumeReading() // further input is discarded
    this.socket.end(() => setTimeout(() => this.destroy(), bounds.LINGER_MS).unref())
  }

  /** Called by the quota: too much memory is held for this connection. */
  private evict(): void {
    this.fail(new ConnectionError(ErrorCode.EnhanceYourCalm, 'too much memory is held for this connection'))
    this.reader.drop()
    this.receiver.drop()
    if (this.output.waitingBytes === 0) return
    this.destroy()
    this.output.drop()
  }

  private onClosed(): void {
    this.isEnding = true
    this.lifetime.close()
    this.server.garbage.add(CONNECTION_BYTES)
    this.cancelAll()
    this.output.drop()
    this.reader.drop()
    this.receiver.drop()
    this.server.quotas.leave(this.quota)
    this.server.removeConnection(this)
  }

  private cancelAll(): void {
    this.server.garbage.add(this.streams.size * STREAM_BYTES)
    for (const stream of [...this.streams.values()]) stream.onCancelled()
    this.server.inflater.drop(this)
  }
}
