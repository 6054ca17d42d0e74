/**
 * One call: an HTTP/2 stream on one side, a service's UnaryCall or StreamCall on the other. Flow control of a stream
 * is here: its receive window (`onData`, `returnWindow`) and its send window (`sendQueued`); of the connection, receiver.ts checks
 * the receive window and connection.ts keeps the send window.
 *
 *     HEADERS ─► route ─► DATA ... ─► message ─► service ─► reply ─► HEADERS DATA HEADERS in one write
 *                             │                               └ windows too small: queued, sent as they open
 *                             └ not one whole message per frame: MessageReader
 *
 *     isInService  a unary service holds the call and will end it, possibly after the peer has cancelled it
 *     isEnded      the service has ended the call, or the peer has cancelled it: the service gets nothing more
 *     isClosed     nothing more is sent; the connection has removed the stream
 *
 * Queued responses can lie between the last two. A call that is closed and in service still counts against its connection.
 */
import {
  type CallOrigin,
  MESSAGE_BYTES_MAX,
  type StreamCall,
  type StreamHandler,
  type UnaryCall,
} from '../frontend.ts'
import { Status } from '../status.ts'
import { SMALL_MESSAGE_BYTES, STREAM_QUEUE_BYTES_MAX } from './bounds.ts'
import { Deadline } from './deadlines.ts'
import { ErrorCode, Flag, FRAME_BYTES_MAX, WINDOW_DEFAULT, WINDOW_MAX } from './frames.ts'
import { free } from './inflater.ts'
import { isOneMessage, MessageReader, PREFIX_BYTES } from './message-reader.ts'
import type { RequestHead } from './request-head.ts'
import type { PlainResponse, Route } from './routes.ts'
import type { StreamConnection } from './types.ts'

const NONE = Buffer.alloc(0)
const TOO_MANY_BYTES = 'too many large messages at once'

export class Stream extends Deadline implements UnaryCall, StreamCall {
  readonly id: number
  readonly openedMs: number
  private readonly connection: StreamConnection
  private readonly route: Route
  private readonly contentLength: number // the head itself is not kept: its strings can be long
  private readonly isGzipEncoded: boolean
  private readonly headerValues: readonly string[] | null // of the headers that services ask for
  private handler: StreamHandler | null = null
  private isEnded = false
  private isClosed = false
  private isInService = false
  private metricsStart = 0 // returned by CallMetrics.onStart
  private chargedBytes = 0 // for its message, while in service
  // receiving
  isRemoteClosed = false // END_STREAM has been received
  private reader: MessageReader | null = null
  private receivedBytes = 0 // of DATA, without padding
  private consumedBytes = 0 // of the stream's window, not returned yet
  private isInflating = false // the next message waits
  private isBackpressured = false // the peer does not read, so its messages wait
  private isDelivered = false // unary: the service has the message; stream: the service knows of the end
  // sending
  sendWindow: number
  private sendQueue: Buffer[] | null = null
  private queueOffset = 0 // bytes already sent of sendQueue[0]
  private queueBytes = 0
  private areHeadersSent = false
  private endStatus: Status = Status.Ok // sent after the queue, once isEnded
  private endMessage = ''

  constructor(connection: StreamConnection, id: number, route: Route, head: RequestHead) {
    super()
    this.connection = connection
    this.id = id
    this.route = route
    this.contentLength = head.contentLength
    this.isGzipEncoded = head.encoding === 'gzip'
    this.headerValues = head.serviceHeaders
    this.openedMs = connection.nowMs
    this.sendWindow = connection.initialStreamWindow
    this.deadlineMs = connection.nowMs + head.timeoutMs
    connection.quota.onCallStart()
    if (route.stream !== null) this.handler = route.stream.open(this)
  }

  /** Whether it has no natural end. */
  get isStream(): boolean {
    return this.handler !== null
  }

  get isCancelled(): boolean {
    return this.isEnded
  }

  origin(): CallOrigin {
    return this.connection.origin(this.headerValues)
  }

  // ---- receiving

  /** Checks the stream's window; the receiver has checked the connection's. `windowBytes` includes padding. */
  onData(bytes: Buffer, from: number, to: number, windowBytes: number, isEnd: boolean): void {
    this.receivedBytes += to - from
    this.consumedBytes += windowBytes
    if (this.consumedBytes > WINDOW_DEFAULT) {
      this.connection.resetStream(this.id, ErrorCode.FlowControlError)
      return
    }
    if (isEnd && !this.closeRemote()) return
    if (this.isEnded) return
    if (this.route.unary !== null && this.reader === null && isEnd && isOneMessage(bytes, from, to)) {
      this.callService(bytes.subarray(from + PREFIX_BYTES, to))
      return
    }
    if (this.route.plain !== null) {
      if (isEnd) this.sendPlainResponse(this.route.plain)
      this.returnWindow()
      return
    }
    if (to > from && !this.bufferData(bytes, from, to)) return
    this.deliverMessages()
    this.returnWindow()
  }

  /** END_STREAM without DATA. */
  onEndStream(): void {
    if (!this.closeRemote() || this.isEnded) return
    if (this.route.plain === null) this.deliverMessages()
    else this.sendPlainResponse(this.route.plain)
  }

  /** The peer has reset the stream, or the connection has closed. */
  onCancelled(): void {
    this.markEnded()
    this.onClosed()
  }

  override onDeadline(): void {
    if (this.isEnded) {
      this.connection.sendReset(this.id, ErrorCode.Cancel) // the peer never took the whole response
      this.onClosed()
    } else this.endWithStatus(Status.DeadlineExceeded, 'Deadline exceeded')
  }

  private closeRemote(): boolean {
    this.isRemoteClosed = true
    const { contentLength } = this
    if (contentLength < 0 || contentLength === this.receivedBytes) return true
    this.connection.resetStream(this.id, ErrorCode.ProtocolError)
    return false
  }

  private bufferData(bytes: Buffer, from: number, to: number): boolean {
    this.reader ??= new MessageReader()
    const extraBytes = this.reader.capacityAfter(to - from) - this.reader.capacity
    if (extraBytes > 0 && !this.reserve(extraBytes)) return false
    this.reader.add(bytes, from, to)
    return true
  }

  private reserve(bytes: number): boolean {
    const isReserved = this.connection.quota.reserve(bytes)
    if (!isReserved) this.endWithStatus(Status.ResourceExhausted, TOO_MANY_BYTES)
    return isReserved
  }

  /** Delivers whole messages, then the end. A unary call's message waits for the end, since a second one is an error. */
  private deliverMessages(): void {
    const { reader } = this
    const isUnary = this.route.unary !== null
    while (reader !== null && !this.isEnded && !this.isInflating && !this.isBackpressured) {
      const { nextMessageBytes } = reader
      if (nextMessageBytes > MESSAGE_BYTES_MAX) {
        const message = `Received message larger than max (${nextMessageBytes} vs ${MESSAGE_BYTES_MAX})`
        this.endWithStatus(Status.ResourceExhausted, message)
        return
      }
      if (!reader.hasMessage) break
      if (isUnary && (this.isDelivered || reader.length > nextMessageBytes + PREFIX_BYTES)) {
        this.endWithStatus(Status.Unimplemented, 'Received a second request message for a unary method')
        return
      }
      if (isUnary && !this.isRemoteClosed) return
      const { compressedFlag, capacity } = reader
      const message = reader.take()
      this.connection.quota.release(capacity - reader.capacity)
      if (compressedFlag === 0) this.onMessage(message)
      else this.inflate(compressedFlag, message)
    }
    if (this.isRemoteClosed && !this.isEnded && !this.isInflating && !this.isBackpressured)
      this.onMessagesEnd()
  }

  private onMessagesEnd(): void {
    if (this.isDelivered) return
    if (this.reader !== null && this.reader.length > 0) {
      this.endWithStatus(Status.Internal, 'Received an incomplete message')
    } else if (this.handler === null) {
      this.endWithStatus(Status.Unimplemented, 'Received no request message for a unary method')
    } else {
      this.isDelivered = true
      this.handler.halfClosed()
    }
  }

  private onMessage(bytes: Buffer): void {
    if (this.handler === null) this.callService(bytes)
    else this.handler.message(bytes)
  }

  private callService(bytes: Buffer): void {
    this.isDelivered = true
    if (bytes.length > SMALL_MESSAGE_BYTES) {
      if (!this.connection.quota.charge(bytes.length)) {
        this.endWithStatus(Status.ResourceExhausted, TOO_MANY_BYTES)
        return
      }
      this.chargedBytes = bytes.length
    }
    this.isInService = true
    const { unary, metrics } = this.route
    if (metrics !== null) this.metricsStart = metrics.onStart()
    unary!.handle(bytes, this)
  }

  private inflate(compressedFlag: number, message: Buffer): void {
    if (compressedFlag !== 1 || !this.isGzipEncoded) {
      this.endWithStatus(Status.Internal, 'Received a compressed message without a grpc-encoding of gzip')
      return
    }
    const { connection } = this
    if (!this.reserve(message.length)) return
    this.isInflating = true
    const bytes = Buffer.allocUnsafeSlow(message.length)
    message.copy(bytes)
    connection.server.inflater.inflate(connection, { bytes, stream: this })
  }

  /** Called by the Inflater. */
  onInflated(compressedBytes: number, message: Buffer | null, isTooLarge: boolean): void {
    this.connection.quota.release(compressedBytes)
    this.isInflating = false
    if (this.isEnded) return
    if (message !== null) {
      this.onMessage(message)
      this.deliverMessages()
      this.returnWindow()
    } else if (isTooLarge) {
      const what = `Received message that decompresses to a size larger than ${MESSAGE_BYTES_MAX}`
      this.endWithStatus(Status.ResourceExhausted, what)
    } else this.endWithStatus(Status.Internal, 'Failed to decompress message')
  }

  /** Sends WINDOW_UPDATE once half of the window is consumed, unless the peer has to wait. */
  private returnWindow(): void {
    if (this.isRemoteClosed || this.isClosed || this.isBackpressured || this.isInflating) return
    if (this.consumedBytes < WINDOW_DEFAULT / 2) return
    this.connection.sendWindowUpdate(this.id, this.consumedBytes)
    this.consumedBytes = 0
  }

  // ---- sending

  reply(response: Uint8Array): void {
    this.onServiceDone()
    if (this.isEnded) return
    const { connection } = this
    const bytes = response.length + PREFIX_BYTES
    if (bytes > this.sendWindow || bytes > connection.sendWindow || bytes > FRAME_BYTES_MAX) {
      this.send(response)
      this.endWithStatus(Status.Ok, 'OK')
      return
    }
    this.isEnded = true
    connection.sendWindow -= bytes
    connection.output.writeUnaryResponse(this.id, response)
    this.close()
  }

  send(response: Uint8Array): boolean {
    if (this.isEnded) return true
    const { connection } = this
    if (!this.areHeadersSent) connection.output.writeHeaders(this.id)
    this.areHeadersSent = true
    const bytes = Buffer.allocUnsafeSlow(response.length + PREFIX_BYTES) // copied: the service may reuse its buffer
    bytes[0] = 0
    bytes.writeUInt32BE(response.length, 1)
    bytes.set(response, PREFIX_BYTES)
    this.enqueue(bytes)
    this.sendQueued()
    connection.scheduleFlush()
    if (this.queueBytes > STREAM_QUEUE_BYTES_MAX) this.isBackpressured = true
    return !this.isBackpressured
  }

  private enqueue(bytes: Buffer): void {
    this.sendQueue ??= []
    this.sendQueue.push(bytes)
    this.queueBytes += bytes.length
    this.connection.addQueuedBytes(bytes.length)
  }

  private sendPlainResponse({ fields, text }: PlainResponse): void {
    this.markEnded()
    this.connection.output.writePlainHeaders(this.id, fields)
    this.enqueue(text)
    this.sendQueued()
    this.connection.scheduleFlush()
  }

  end(): void {
    this.endWithStatus(Status.Ok, 'OK') // as grpc-js ends a stream
  }

  refuse(status: Status, message: string): void {
    this.onServiceDone()
    this.endWithStatus(status, message)
  }

  private endWithStatus(status: Status, message: string): void {
    if (this.isEnded) return
    this.markEnded()
    this.endStatus = status
    this.endMessage = message
    if (this.areHeadersSent) this.sendQueued()
    else {
      this.connection.output.writeTrailersOnly(this.id, status, message)
      this.close()
    }
    this.connection.scheduleFlush()
  }

  /** The peer has changed this stream's window. Returns false when it exceeds the maximum. */
  addSendWindow(count: number): boolean {
    this.sendWindow += count
    if (this.sendWindow > WINDOW_MAX) return false
    if (count > 0) this.sendQueued()
    return true
  }

  /** Sends what the windows allow, then the end if the call has ended. */
  sendQueued(): void {
    const { connection, sendQueue } = this
    if (sendQueue === null || this.isClosed) return
    while (sendQueue.length > 0) {
      const [first] = sendQueue
      const left = first.length - this.queueOffset
      const count = Math.min(left, FRAME_BYTES_MAX, this.sendWindow, connection.sendWindow)
      if (count <= 0) {
        if (this.sendWindow > 0) connection.blockedStreams.add(this)
        return
      }
      connection.output.writeData(this.id, first, this.queueOffset, this.queueOffset + count, 0)
      this.sendWindow -= count
      connection.sendWindow -= count
      this.queueBytes -= count
      connection.addQueuedBytes(-count)
      this.queueOffset = count === left ? 0 : this.queueOffset + count
      if (count === left) sendQueue.shift()
    }
    if (this.isEnded) {
      if (this.route.plain === null) connection.output.writeTrailers(this.id, this.endStatus, this.endMessage)
      else connection.output.writeData(this.id, NONE, 0, 0, Flag.EndStream)
      this.close()
    } else if (this.isBackpressured) this.onQueueDrained()
  }

  private onQueueDrained(): void {
    this.isBackpressured = false
    this.handler?.writable()
    if (this.isEnded) return
    this.deliverMessages()
    this.returnWindow()
  }

  /** END_STREAM has been written. A peer that is still sending is told to stop. */
  private close(): void {
    if (!this.isRemoteClosed) this.connection.sendReset(this.id, ErrorCode.NoError)
    this.onClosed()
    this.connection.scheduleFlush()
  }

  private markEnded(): void {
    if (this.isEnded) return
    this.isEnded = true
    this.handler?.closed()
  }

  private onClosed(): void {
    if (this.isClosed) return
    this.isClosed = true
    const { quota } = this.connection
    if (this.reader !== null) {
      quota.release(this.reader.capacity)
      this.reader.drop()
      this.reader = null
    }
    if (this.sendQueue !== null) {
      this.connection.addQueuedBytes(-this.queueBytes)
      this.connection.blockedStreams.delete(this)
      if (this.route.plain === null) for (const bytes of this.sendQueue) free(bytes)
      this.sendQueue = null
    }
    if (this.isInService) quota.onCallAbandoned()
    else quota.onCallEnd()
    this.connection.removeStream(this)
  }

  /** The service has ended the call, whether or not the peer still waits for it. */
  private onServiceDone(): void {
    if (!this.isInService) return
    this.isInService = false
    this.route.metrics?.onEnd(this.metricsStart)
    const { quota } = this.connection
    if (this.chargedBytes > 0) quota.discharge(this.chargedBytes)
    if (this.isClosed) quota.onAbandonedCallEnd()
  }
}
