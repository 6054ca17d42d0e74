/**
 * A stream over @grpc/grpc-js: the library's duplex of messages on one side, a StreamCall and its handler on the other.
 *
 *     data ──► message     send: false ──► no `data` until everything is written ──► writable
 *     end ───► halfClosed  cancelled, or an end of our own ──► closed, once
 *
 * The library queues 16 messages in each direction, then `write` says false.
 */
import type { ServerDuplexStream } from '@grpc/grpc-js'
import type { StreamCall, StreamHandler, StreamMethod } from './frontend.ts'
import type { Status } from './status.ts'

export type Duplex = ServerDuplexStream<Buffer, Uint8Array>

export class GrpcJsStream implements StreamCall {
  private readonly duplex: Duplex
  private readonly handler: StreamHandler
  private isOver = false

  constructor(duplex: Duplex, method: StreamMethod) {
    this.duplex = duplex
    this.handler = method.open(this)
    duplex.on('data', (bytes: Buffer) => {
      if (!this.isOver) this.handler.message(bytes)
    })
    duplex.on('end', () => {
      if (!this.isOver) this.handler.halfClosed()
    })
    duplex.on('drain', () => this.caughtUp())
    duplex.on('cancelled', () => this.over()) // also a passed deadline, a lost connection
  }

  send(response: Uint8Array): boolean {
    if (this.isOver) return true
    const canSend = this.duplex.write(response)
    if (!canSend) this.duplex.pause()
    return canSend
  }

  end(): void {
    if (this.isOver) return
    this.over()
    this.duplex.end()
  }

  refuse(status: Status, message: string): void {
    if (this.isOver) return
    this.over()
    this.duplex.emit('error', { code: status, details: message.toWellFormed() }) // sent after what is queued
  }

  private caughtUp(): void {
    if (this.isOver) return
    this.duplex.resume()
    this.handler.writable()
  }

  private over(): void {
    if (this.isOver) return
    this.isOver = true
    this.handler.closed()
    this.duplex.resume() // what the caller still says is read and dropped: its end would never be seen otherwise
  }
}
