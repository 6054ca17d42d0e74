/**
 * The @grpc/grpc-js frontend (`GRPC_FRONTEND=grpc-js`): the library's server without a port of its own. Sockets come from
 * the listener through a connection injector and messages pass as bytes, so the library does HTTP/2 and framing only.
 *
 * It costs 29 µs of CPU per call before any decision, which is why http2/ exists; it remains as the second implementation
 * that tests compare with.
 *
 * Known defect of the library: a grpc-timeout of more than 24 days wraps around and fails the call at once.
 */
import type { Socket } from 'node:net'
import {
  type ChannelOptions,
  type handleBidiStreamingCall,
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js'
import {
  type CallOrigin,
  DRAIN_MESSAGE,
  type GrpcFrontend,
  type GrpcFrontendOptions,
  getMethodName,
  HANDSHAKE_MS,
  HEADER_VALUE_MAX,
  MESSAGE_BYTES_MAX,
  STREAMS_MAX,
  type UnaryCall,
} from './frontend.ts'
import { type Duplex, GrpcJsStream } from './grpc-js-stream.ts'
import { Status } from './status.ts'

type Callback = sendUnaryData<Uint8Array>

const PREFACE_BYTES = 24 + 9 // HTTP/2's preface and an empty SETTINGS frame: the minimum a client sends
const TIMER_MS_MAX = 2 ** 31 - 1 // beyond, Node's timers fire at once; the library treats it as no limit
const PING_IDLE_MS = 2 * 60 * 60 * 1000 // gRPC's defaults (spec 5.6): ping after this silence,
const PING_TIMEOUT_MS = 20_000 // and close after this long without an answer

export function grpcJsFrontend(options: GrpcFrontendOptions): GrpcFrontend {
  const server = new Server(channelOptions(options))
  for (const method of options.methods) {
    const metrics = options.getMetrics?.(getMethodName(method.path)) ?? null
    const handle: handleUnaryCall<Buffer, Uint8Array> = (call, callback) => {
      const metricsStart = metrics?.onStart() ?? 0
      const endCall: Callback = (...result) => {
        metrics?.onEnd(metricsStart)
        callback(...result)
      }
      method.handle(call.request, new GrpcJsCall(call, endCall))
    }
    server.register(method.path, handle, toBuffer, identity, 'unary')
  }
  const streams = new Set<GrpcJsStream>() // at most STREAMS_MAX per connection
  for (const method of options.streams ?? []) {
    const handle: handleBidiStreamingCall<Buffer, Uint8Array> = (duplex: Duplex) => {
      const stream = new GrpcJsStream(duplex, method)
      streams.add(stream)
      duplex.once('close', () => streams.delete(stream))
      if (isDraining) stream.refuse(Status.Unavailable, DRAIN_MESSAGE) // opened before the client received the GOAWAY
    }
    server.register(method.path, handle, toBuffer, identity, 'bidi')
  }
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const sockets = new Set<Socket>() // bounded by the listener
  let isDraining = false

  const close = () => {
    isDraining = true
    server.forceShutdown()
    for (const socket of sockets) socket.destroy()
  }
  return {
    accept(socket) {
      if (isDraining) {
        socket.destroy()
        return
      }
      sockets.add(socket)
      const timer = setTimeout(() => {
        if (socket.bytesRead < PREFACE_BYTES) socket.destroy()
      }, options.handshakeMs ?? HANDSHAKE_MS)
      socket.once('close', () => {
        clearTimeout(timer)
        sockets.delete(socket)
      })
      injector.injectConnection(socket)
    },
    drain(timeoutMs) {
      isDraining = true
      for (const stream of streams) stream.refuse(Status.Unavailable, DRAIN_MESSAGE)
      return new Promise((resolve) => {
        const timer = setTimeout(() => {
          close()
          resolve()
        }, timeoutMs)
        server.tryShutdown(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
    close,
    load: () => ({ connections: sockets.size, calls: -1 }),
  }
}

class GrpcJsCall implements UnaryCall {
  private readonly call: ServerUnaryCall<Buffer, Uint8Array>
  private readonly callback: Callback

  constructor(call: ServerUnaryCall<Buffer, Uint8Array>, callback: Callback) {
    this.call = call
    this.callback = callback
  }

  get deadlineMs(): number {
    return performance.now() + Number(this.call.getDeadline()) - Date.now() // the library's is in epoch milliseconds
  }

  get isCancelled(): boolean {
    return this.call.cancelled
  }

  origin(): CallOrigin {
    const { call } = this
    return {
      peer: call.getPeer(),
      header(name) {
        const value = call.metadata.get(name).at(-1) ?? '' // the library keeps all of them
        return value.length > HEADER_VALUE_MAX ? '' : String(value)
      },
    }
  }

  reply(response: Uint8Array): void {
    this.callback(null, response)
  }

  refuse(status: Status, message: string): void {
    // The library escapes the message with encodeURI, which throws on a lone surrogate.
    this.callback({ code: status, details: message.toWellFormed() })
  }
}

function channelOptions({ connectionAgeMs, connectionAgeGraceMs }: GrpcFrontendOptions): ChannelOptions {
  return {
    'grpc.max_receive_message_length': MESSAGE_BYTES_MAX,
    'grpc.max_send_message_length': -1, // a response is bounded by its request
    'grpc.max_concurrent_streams': STREAMS_MAX,
    'grpc.keepalive_time_ms': PING_IDLE_MS,
    'grpc.keepalive_timeout_ms': PING_TIMEOUT_MS,
    'grpc.max_connection_age_ms': toAgeMs(connectionAgeMs),
    'grpc.max_connection_age_grace_ms': toAgeMs(connectionAgeGraceMs),
    'grpc.enable_channelz': 0, // its per-call bookkeeping is not used
  }
}

/** The library treats the largest timer as no limit, and adds up to 10 % to anything less. */
function toAgeMs(wanted: number | undefined): number {
  return wanted === undefined || wanted <= 0 || wanted * 1.1 > TIMER_MS_MAX ? TIMER_MS_MAX : wanted
}

function identity(bytes: Buffer): Buffer {
  return bytes
}

/** The library copies with Buffer's own `copy`, so plain bytes would fail there. */
function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
