/**
 * A stream over @grpc/grpc-js: connects the library's duplex of messages with a StreamCall and its handler.
 *
 *     data ──► message     send: false ──► no `data` until everything is written ──► writable
 *     end ───► halfClosed  cancelled, or ended by the service ──► closed, once
 *
 * The library queues 16 messages in each direction; then `write` returns false.
 */
import type { ServerDuplexStream } from '@grpc/grpc-js'
import type { StreamCall, StreamHandler, StreamMethod } from './frontend.ts'
import type { Status } from './status.ts'

export type Duplex = ServerDuplexStream<Buffer, Uint8Array>

export class GrpcJsStream implements StreamCall {
  private readonly duplex: Duplex
  private readonly handler: StreamHandler
  private isEnded = false

  constructor(duplex: Duplex, method: StreamMethod) {
    this.duplex = duplex
    this.handler = method.open(this)
    duplex.on('data', (bytes: Buffer) => {
      if (!this.isEnded) this.handler.message(bytes)
    })
    duplex.on('end', () => {
      if (!this.isEnded) this.handler.halfClosed()
    })
    duplex.on('drain', () => this.onDrain())
    duplex.on('cancelled', () => this.markEnded()) // also after a deadline or a lost connection
  }

  send(response: Uint8Array): boolean {
    if (this.isEnded) return true
    const canSend = this.duplex.write(response)
    if (!canSend) this.duplex.pause()
    return canSend
  }

  end(): void {
    if (this.isEnded) return
    this.markEnded()
    this.duplex.end()
  }

  refuse(status: Status, message: string): void {
    if (this.isEnded) return
    this.markEnded()
    this.duplex.emit('error', { code: status, details: message.toWellFormed() }) // sent after queued messages
  }

  private onDrain(): void {
    if (this.isEnded) return
    this.duplex.resume()
    this.handler.writable()
  }

  private markEnded(): void {
    if (this.isEnded) return
    this.isEnded = true
    this.handler.closed()
    this.duplex.resume() // further input is read and discarded; its end would not be seen otherwise
  }
}
