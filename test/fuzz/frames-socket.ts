/**
 * A socket whose other end is a test: bytes enter by `feed`, whole frames come out, synchronously. Fed bytes are overwritten
 * after the read, as in a shared read buffer. While `isStuck`, no written bytes count as taken.
 */
import { Duplex } from 'node:stream'

export interface ReceivedFrame {
  type: number
  flags: number
  id: number
  payload: Buffer
}

const OVERWRITTEN = 0xaa

export class FuzzSocket extends Duplex {
  bytesWritten = 0
  private readonly onFrame: (frame: ReceivedFrame) => void
  private rest = Buffer.alloc(0)
  private stuck: (() => void) | null = null
  private isStuck = false

  constructor(onFrame: (frame: ReceivedFrame) => void) {
    super({ allowHalfOpen: false }) // as sockets are
    this.onFrame = onFrame
  }

  feed(bytes: Buffer): void {
    if (this.destroyed || this.readableEnded) return
    const chunk = Buffer.from(bytes)
    this.push(chunk)
    if (this.readableLength === 0) chunk.fill(OVERWRITTEN)
  }

  /** The peer ends its half. */
  hangUp(): void {
    if (!this.destroyed) this.push(null)
  }

  stick(): void {
    this.isStuck = true
  }

  unstick(): void {
    this.isStuck = false
    const { stuck } = this
    this.stuck = null
    stuck?.()
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.bytesWritten += chunk.length
    this.parse(chunk)
    if (this.isStuck) this.stuck = done
    else done()
  }

  override _final(done: () => void): void {
    done()
  }

  private parse(chunk: Buffer): void {
    let bytes = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk])
    while (bytes.length >= 9) {
      const length = bytes.readUIntBE(0, 3)
      if (length > 16_384) throw new Error(`a frame of ${length} bytes from the server`)
      if (bytes.length < 9 + length) break
      const payload = bytes.subarray(9, 9 + length)
      this.onFrame({ type: bytes[3], flags: bytes[4], id: bytes.readUInt32BE(5), payload })
      bytes = bytes.subarray(9 + length)
    }
    this.rest = Buffer.from(bytes)
  }
}
