/**
 * Splits the byte stream into whole frames, wherever chunks divide it.
 *
 *     chunk     ───┬─────────┬──────┬───┐     partial     ┌───┐ + chunk ┌────┬──── ...
 *     frames    PREFACE  frame   frame  half ──► copied ──┘   └────► whole frame
 *
 * A frame within one chunk is read in place; only a frame that is divided is copied, so the chunk's buffer may be reused.
 * The copy grows with the bytes received, never with the announced length, and counts against the quota.
 */

import type { ConnectionQuota } from './connection-quota.ts'
import { ConnectionError, ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, PREFACE } from './frames.ts'

/** `bytes[from, to)` is the payload, valid until this returns. Returns false when the connection has ended. */
export interface FrameSink {
  frame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): boolean
}

const PARTIAL_BYTES_MIN = 256
const SMALL_PARTIAL_BYTES = 4_096 // a larger part of a frame gets a reusable buffer for a whole one
const PARTIAL_BYTES_MAX = FRAME_BYTES_MAX + FRAME_HEADER_BYTES
const FREE_BUFFERS_MAX = 8
const freeBuffers: Buffer[] = [] // of the thread
const NONE = Buffer.alloc(0)

export class FrameReader {
  private readonly sink: FrameSink
  private prefaceLeft = PREFACE.length
  private partial: Buffer = NONE
  private partialBytes = 0
  private readonly quota: ConnectionQuota

  constructor(sink: FrameSink, quota: ConnectionQuota) {
    this.sink = sink
    this.quota = quota
  }

  /** Whether the preface or a frame is incomplete. */
  get isWithinFrame(): boolean {
    return this.partialBytes > 0 || this.prefaceLeft > 0
  }

  /** Discards the partial frame. */
  drop(): void {
    this.recycle(this.partial)
    this.partial = NONE
    this.partialBytes = 0
  }

  /** Throws a ConnectionError. */
  read(chunk: Buffer): void {
    let offset = 0
    if (this.prefaceLeft > 0) {
      offset = this.readPreface(chunk)
      if (this.prefaceLeft > 0) return
    }
    if (this.partialBytes > 0) {
      offset = this.completePartial(chunk, offset)
      if (offset < 0) return
    }
    const end = this.readFrames(chunk, offset, chunk.length)
    if (end >= 0 && end < chunk.length) this.keep(chunk, end, chunk.length)
  }

  /** Passes on all whole frames. Returns the offset of the incomplete one, -1 when the connection has ended. */
  private readFrames(bytes: Buffer, from: number, to: number): number {
    let offset = from
    while (to - offset >= FRAME_HEADER_BYTES) {
      const end = offset + FRAME_HEADER_BYTES + readLength(bytes, offset)
      if (end > to) break
      const id =
        ((bytes[offset + 5] & 127) << 24) |
        (bytes[offset + 6] << 16) |
        (bytes[offset + 7] << 8) |
        bytes[offset + 8]
      if (!this.sink.frame(bytes[offset + 3], bytes[offset + 4], id, bytes, offset + FRAME_HEADER_BYTES, end))
        return -1
      offset = end
    }
    return offset
  }

  /** Completes the partial frame and passes it on. Returns the offset of the next one, -1 when there is none. */
  private completePartial(chunk: Buffer, from: number): number {
    let offset = from
    if (this.partialBytes < FRAME_HEADER_BYTES) {
      offset = this.keep(
        chunk,
        offset,
        Math.min(chunk.length, offset + FRAME_HEADER_BYTES - this.partialBytes),
      )
      if (this.partialBytes < FRAME_HEADER_BYTES) return -1
    }
    const missing = FRAME_HEADER_BYTES + readLength(this.partial, 0) - this.partialBytes
    offset = this.keep(chunk, offset, Math.min(chunk.length, offset + missing))
    if (this.partialBytes < FRAME_HEADER_BYTES + readLength(this.partial, 0)) return -1
    const whole = this.partial
    const length = this.partialBytes
    this.partial = NONE
    this.partialBytes = 0
    try {
      return this.readFrames(whole, 0, length) < 0 ? -1 : offset
    } finally {
      this.recycle(whole)
    }
  }

  /** Appends `chunk[from, to)` to the partial frame and returns `to`. */
  private keep(chunk: Buffer, from: number, to: number): number {
    const length = this.partialBytes + to - from
    if (length > this.partial.length) {
      const grown = allocate(Math.max(PARTIAL_BYTES_MIN, length, this.partial.length * 2))
      this.quota.reserveUnchecked(grown.length)
      this.partial.copy(grown, 0, 0, this.partialBytes)
      this.recycle(this.partial)
      this.partial = grown
    }
    chunk.copy(this.partial, this.partialBytes, from, to)
    this.partialBytes = length
    if (length >= FRAME_HEADER_BYTES) readLength(this.partial, 0) // throws for a frame that is too long before its payload arrives
    return to
  }

  private recycle(bytes: Buffer): void {
    this.quota.release(bytes.length)
    if (bytes.length === PARTIAL_BYTES_MAX && freeBuffers.length < FREE_BUFFERS_MAX) freeBuffers.push(bytes)
  }

  private readPreface(chunk: Buffer): number {
    const count = Math.min(this.prefaceLeft, chunk.length)
    const start = PREFACE.length - this.prefaceLeft
    if (PREFACE.compare(chunk, 0, count, start, start + count) !== 0) {
      throw new ConnectionError(ErrorCode.ProtocolError, 'the preface is not that of HTTP/2')
    }
    this.prefaceLeft -= count
    return count
  }
}

function readLength(bytes: Buffer, offset: number): number {
  const length = (bytes[offset] << 16) | (bytes[offset + 1] << 8) | bytes[offset + 2]
  if (length > FRAME_BYTES_MAX)
    throw new ConnectionError(ErrorCode.FrameSizeError, 'the frame is longer than allowed')
  return length
}

function allocate(bytes: number): Buffer {
  if (bytes <= SMALL_PARTIAL_BYTES) return Buffer.allocUnsafeSlow(bytes)
  return freeBuffers.pop() ?? Buffer.allocUnsafeSlow(PARTIAL_BYTES_MAX)
}
