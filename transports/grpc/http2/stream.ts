/**
 * One call: an HTTP/2 stream on one side, a service's UnaryCall or StreamCall on the other.
 *
 *     HEADERS ─► route ─► DATA ... ─► message ─► service ─► reply ─► HEADERS DATA HEADERS, in one piece
 *                             │                               └ windows too small: queue, sent as they open
 *                             └ not whole in one frame: MessageReader
 *
 *     isAsked  a unary service has it, and will answer, if only to nobody
 *     isOver   the service has ended it, or need not any more: it hears nothing else
 *     isGone   nothing more goes out, the connection has forgotten it
 *
 * A queue can stand between the last two. Nobody else's stream waits for it. What is gone and asked still counts.
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
import type { Connection } from './connection.ts'
import { Deadline } from './deadlines.ts'
import { ErrorCode, Flag, FRAME_BYTES_MAX, WINDOW_DEFAULT, WINDOW_MAX } from './frames.ts'
import { free } from './memory.ts'
import { isOneMessage, MessageReader, PREFIX_BYTES } from './message-reader.ts'
import type { RequestHead } from './request-head.ts'
import type { Plain, Route } from './routes.ts'

const NONE = Buffer.alloc(0)

export class Stream extends Deadline implements UnaryCall, StreamCall {
  readonly id: number
  readonly openedMs: number
  private readonly connection: Connection
  private readonly route: Route
  private readonly contentLength: number // of the head no more than these is kept: its texts can be long
  private readonly isGzip: boolean
  private readonly kept: readonly string[] | null // headers that services ask for
  private handler: StreamHandler | null = null
  private isOver = false
  private isFinished = false
  private isAsked = false
  private began = 0 // by the meter
  private askedBytes = 0 // counted of its message
  // from the caller
  isPeerDone = false // END_STREAM has come
  private reader: MessageReader | null = null
  private received = 0 // bytes of DATA, without padding
  private uncredited = 0 // bytes of the stream's window not given back yet
  private isBusy = false // a message is being unpacked; the next one waits
  private isBehind = false // the caller does not read, so it is not read from
  private hasCalled = false // unary: its message is with the service; stream: it knows of the end
  // to the caller
  sendWindow: number
  private queue: Buffer[] | null = null
  private queueAt = 0 // sent of the first one
  private queueBytes = 0
  private isHeadSent = false
  private endStatus: Status = Status.Ok // what follows the queue, once isOver
  private endMessage = ''

  constructor(connection: Connection, id: number, route: Route, head: RequestHead) {
    super()
    this.connection = connection
    this.id = id
    this.route = route
    this.contentLength = head.contentLength
    this.isGzip = head.encoding === 'gzip'
    this.kept = head.kept
    this.openedMs = connection.nowMs
    this.sendWindow = connection.streamWindow
    this.deadlineMs = connection.nowMs + head.timeoutMs
    connection.share.callBegins()
    if (route.stream !== null) this.handler = route.stream.open(this)
  }

  /** Whether it may go on for ever. */
  get isStream(): boolean {
    return this.handler !== null
  }

  get isCancelled(): boolean {
    return this.isOver
  }

  origin(): CallOrigin {
    return this.connection.origin(this.kept)
  }

  // ---- from the caller

  /** DATA. Sees to the stream's window; the connection has seen to its own. `windowBytes` includes padding. */
  data(bytes: Buffer, from: number, to: number, windowBytes: number, isEnd: boolean): void {
    this.received += to - from
    this.uncredited += windowBytes
    if (this.uncredited > WINDOW_DEFAULT) {
      this.connection.reset(this.id, ErrorCode.FlowControlError)
      return
    }
    if (isEnd && !this.peerDone()) return
    if (this.isOver) return
    if (this.route.unary !== null && this.reader === null && isEnd && isOneMessage(bytes, from, to)) {
      this.call(bytes.subarray(from + PREFIX_BYTES, to))
      return
    }
    if (this.route.plain !== null) {
      if (isEnd) this.answerPlain(this.route.plain)
      this.credit()
      return
    }
    if (to > from && !this.hold(bytes, from, to)) return
    this.deliver()
    this.credit()
  }

  /** END_STREAM without DATA. */
  ended(): void {
    if (!this.peerDone() || this.isOver) return
    if (this.route.plain === null) this.deliver()
    else this.answerPlain(this.route.plain)
  }

  /** The peer has reset it, or the connection is gone. */
  cancelled(): void {
    this.over()
    this.onGone()
  }

  override expired(): void {
    if (this.isOver) {
      this.connection.rst(this.id, ErrorCode.Cancel) // answered, but the answer was never taken
      this.onGone()
    } else this.endWith(Status.DeadlineExceeded, 'Deadline exceeded')
  }

  private peerDone(): boolean {
    this.isPeerDone = true
    const { contentLength } = this
    if (contentLength < 0 || contentLength === this.received) return true
    this.connection.reset(this.id, ErrorCode.ProtocolError)
    return false
  }

  private hold(bytes: Buffer, from: number, to: number): boolean {
    this.reader ??= new MessageReader()
    const more = this.reader.sizeWith(to - from) - this.reader.size
    if (more > 0 && !this.connection.share.reserve(more)) {
      this.endWith(Status.ResourceExhausted, 'too many large messages at once')
      return false
    }
    this.reader.add(bytes, from, to)
    return true
  }

  /** Hands on whole messages, then the end. A unary call's message waits for the end, as a second one may follow. */
  private deliver(): void {
    const { reader } = this
    const isUnary = this.route.unary !== null
    while (reader !== null && !this.isOver && !this.isBusy && !this.isBehind) {
      const { announced } = reader
      if (announced > MESSAGE_BYTES_MAX) {
        const message = `Received message larger than max (${announced} vs ${MESSAGE_BYTES_MAX})`
        this.endWith(Status.ResourceExhausted, message)
        return
      }
      if (!reader.isWhole) break
      if (isUnary && (this.hasCalled || reader.length > announced + PREFIX_BYTES)) {
        this.endWith(Status.Unimplemented, 'Received a second request message for a unary method')
        return
      }
      if (isUnary && !this.isPeerDone) return
      const { packing, size } = reader
      const message = reader.take()
      this.connection.share.release(size - reader.size)
      if (packing === 0) this.message(message)
      else this.unpack(packing, message)
    }
    if (this.isPeerDone && !this.isOver && !this.isBusy && !this.isBehind) this.messagesEnded()
  }

  private messagesEnded(): void {
    if (this.hasCalled) return
    if (this.reader !== null && this.reader.length > 0) {
      this.endWith(Status.Internal, 'Received a message that ends too soon')
    } else if (this.handler === null) {
      this.endWith(Status.Unimplemented, 'Received no request message for a unary method')
    } else {
      this.hasCalled = true
      this.handler.halfClosed()
    }
  }

  private message(bytes: Buffer): void {
    if (this.handler === null) this.call(bytes)
    else this.handler.message(bytes)
  }

  private call(bytes: Buffer): void {
    this.hasCalled = true
    if (bytes.length > SMALL_MESSAGE_BYTES) {
      if (!this.connection.share.charge(bytes.length)) {
        this.endWith(Status.ResourceExhausted, 'too many large messages at once')
        return
      }
      this.askedBytes = bytes.length
    }
    this.isAsked = true
    const { unary, meter } = this.route
    if (meter !== null) this.began = meter.onStart()
    unary!.handle(bytes, this)
  }

  private unpack(packing: number, message: Buffer): void {
    if (packing !== 1 || !this.isGzip) {
      this.endWith(Status.Internal, 'Received a compressed message without a grpc-encoding that says how')
      return
    }
    const { connection } = this
    if (!connection.share.reserve(message.length)) {
      this.endWith(Status.ResourceExhausted, 'too many large messages at once')
      return
    }
    this.isBusy = true
    const bytes = Buffer.allocUnsafeSlow(message.length)
    message.copy(bytes)
    connection.server.inflater.unpack(connection, { bytes, stream: this })
  }

  /** By the Inflater. */
  unpacked(packedBytes: number, message: Buffer | null, isTooLarge: boolean): void {
    this.connection.share.release(packedBytes)
    this.isBusy = false
    if (this.isOver) return
    if (message !== null) {
      this.message(message)
      this.deliver()
      this.credit()
    } else if (isTooLarge) {
      const what = `Received message that decompresses to a size larger than ${MESSAGE_BYTES_MAX}`
      this.endWith(Status.ResourceExhausted, what)
    } else this.endWith(Status.Internal, 'Failed to decompress message')
  }

  /** Gives the window back, unless the caller is to wait. */
  private credit(): void {
    if (this.isPeerDone || this.isFinished || this.isBehind || this.isBusy) return
    if (this.uncredited < WINDOW_DEFAULT / 2) return
    this.connection.windowUpdate(this.id, this.uncredited)
    this.uncredited = 0
  }

  // ---- to the caller

  reply(response: Uint8Array): void {
    this.returned()
    if (this.isOver) return
    const { connection } = this
    const bytes = response.length + PREFIX_BYTES
    if (bytes > this.sendWindow || bytes > connection.sendWindow || bytes > FRAME_BYTES_MAX) {
      this.send(response)
      this.endWith(Status.Ok, 'OK')
      return
    }
    this.isOver = true
    connection.sendWindow -= bytes
    connection.output.answer(this.id, response)
    this.finish()
  }

  send(response: Uint8Array): boolean {
    if (this.isOver) return true
    const { connection } = this
    if (!this.isHeadSent) connection.output.head(this.id)
    this.isHeadSent = true
    const bytes = Buffer.allocUnsafeSlow(response.length + PREFIX_BYTES) // a copy: who replies may use its own again
    bytes[0] = 0
    bytes.writeUInt32BE(response.length, 1)
    bytes.set(response, PREFIX_BYTES)
    this.enqueue(bytes)
    this.pump()
    connection.scheduleFlush()
    if (this.queueBytes > STREAM_QUEUE_BYTES_MAX) this.isBehind = true
    return !this.isBehind
  }

  private enqueue(bytes: Buffer): void {
    this.queue ??= []
    this.queue.push(bytes)
    this.queueBytes += bytes.length
    this.connection.blocked(bytes.length)
  }

  private answerPlain({ fields, text }: Plain): void {
    this.over()
    this.connection.output.plainHead(this.id, fields)
    this.enqueue(text)
    this.pump()
    this.connection.scheduleFlush()
  }

  end(): void {
    this.endWith(Status.Ok, 'OK') // the message that grpc-js gives a stream
  }

  refuse(status: Status, message: string): void {
    this.returned()
    this.endWith(status, message)
  }

  private endWith(status: Status, message: string): void {
    if (this.isOver) return
    this.over()
    this.endStatus = status
    this.endMessage = message
    if (this.isHeadSent) this.pump()
    else {
      this.connection.output.trailersOnly(this.id, status, message)
      this.finish()
    }
    this.connection.scheduleFlush()
  }

  /** The peer's window for this stream has changed by so much. False: beyond what a window can be. */
  widen(count: number): boolean {
    this.sendWindow += count
    if (this.sendWindow > WINDOW_MAX) return false
    if (count > 0) this.pump()
    return true
  }

  /** Sends what the windows allow; then the end, if there is one. */
  pump(): void {
    const { connection, queue } = this
    if (queue === null || this.isFinished) return
    while (queue.length > 0) {
      const [first] = queue
      const left = first.length - this.queueAt
      const count = Math.min(left, FRAME_BYTES_MAX, this.sendWindow, connection.sendWindow)
      if (count <= 0) {
        if (this.sendWindow > 0) connection.waiting.add(this)
        return
      }
      connection.output.data(this.id, first, this.queueAt, this.queueAt + count, 0)
      this.sendWindow -= count
      connection.sendWindow -= count
      this.queueBytes -= count
      connection.blocked(-count)
      this.queueAt = count === left ? 0 : this.queueAt + count
      if (count === left) queue.shift()
    }
    if (this.isOver) {
      if (this.route.plain === null) connection.output.trailers(this.id, this.endStatus, this.endMessage)
      else connection.output.data(this.id, NONE, 0, 0, Flag.EndStream)
      this.finish()
    } else if (this.isBehind) this.caughtUp()
  }

  private caughtUp(): void {
    this.isBehind = false
    this.handler?.writable()
    if (this.isOver) return
    this.deliver()
    this.credit()
  }

  /** END_STREAM has been written. Who still talks is told that nobody listens. */
  private finish(): void {
    if (!this.isPeerDone) this.connection.rst(this.id, ErrorCode.NoError)
    this.onGone()
    this.connection.scheduleFlush()
  }

  private over(): void {
    if (this.isOver) return
    this.isOver = true
    this.handler?.closed()
  }

  private onGone(): void {
    if (this.isFinished) return
    this.isFinished = true
    const { share } = this.connection
    if (this.reader !== null) {
      share.release(this.reader.size)
      this.reader.drop()
      this.reader = null
    }
    if (this.queue !== null) {
      this.connection.blocked(-this.queueBytes)
      this.connection.waiting.delete(this)
      if (this.route.plain === null) for (const each of this.queue) free(each)
      this.queue = null
    }
    if (this.isAsked) share.callAbandoned()
    else share.callEnds()
    this.connection.forget(this)
  }

  /** The service has said its last word, heard or not. */
  private returned(): void {
    if (!this.isAsked) return
    this.isAsked = false
    this.route.meter?.onEnd(this.began)
    const { share } = this.connection
    if (this.askedBytes > 0) share.settle(this.askedBytes)
    if (this.isFinished) share.callReturns()
  }
}
