/**
 * Cuts what arrives into whole frames, wherever the network cut it.
 *
 *     chunk     ───┬─────────┬──────┬───┐        rest     ┌───┐ + chunk ┌────┬──── ...
 *     frames    PREFACE  frame   frame  half ──► copied ──┘   └────► whole frame
 *
 * A frame within one chunk is read where it lies; only what a chunk cuts is copied, so chunks may come from a buffer
 * that is used again. The copy grows with what has arrived, never with what a frame's head promises, and counts.
 */

import type { ConnectionQuota } from './connection-quota.ts'
import { ConnectionError, ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, PREFACE } from './frames.ts'

/** `bytes[from, to)` is the payload, valid until this returns. False: the connection has ended, read no more. */
export interface FrameSink {
  frame(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): boolean
}

const REST_BYTES_MIN = 256
const REST_BYTES_SOME = 4_096 // more of a frame than this gets room for all of it, in memory that is used again
const REST_BYTES_MAX = FRAME_BYTES_MAX + FRAME_HEADER_BYTES
const SPARES_MAX = 8
const spares: Buffer[] = [] // of the thread
const NONE = Buffer.alloc(0)

export class FrameReader {
  private readonly sink: FrameSink
  private prefaceLeft = PREFACE.length
  private rest: Buffer = NONE
  private restLength = 0
  private readonly share: ConnectionQuota

  constructor(sink: FrameSink, share: ConnectionQuota) {
    this.sink = sink
    this.share = share
  }

  /** Whether a frame has begun and not ended. */
  get isWithin(): boolean {
    return this.restLength > 0 || this.prefaceLeft > 0
  }

  /** Forgets what it has. */
  drop(): void {
    this.recycle(this.rest)
    this.rest = NONE
    this.restLength = 0
  }

  /** Throws a ConnectionError. */
  read(chunk: Buffer): void {
    let at = 0
    if (this.prefaceLeft > 0) {
      at = this.preface(chunk)
      if (this.prefaceLeft > 0) return
    }
    if (this.restLength > 0) {
      at = this.complete(chunk, at)
      if (at < 0) return
    }
    const end = this.frames(chunk, at, chunk.length)
    if (end >= 0 && end < chunk.length) this.keep(chunk, end, chunk.length)
  }

  /** Hands on all whole frames; where the half one begins, -1 when there is no use in more. */
  private frames(bytes: Buffer, from: number, to: number): number {
    let at = from
    while (to - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + lengthAt(bytes, at)
      if (end > to) break
      const id = ((bytes[at + 5] & 127) << 24) | (bytes[at + 6] << 16) | (bytes[at + 7] << 8) | bytes[at + 8]
      if (!this.sink.frame(bytes[at + 3], bytes[at + 4], id, bytes, at + FRAME_HEADER_BYTES, end)) return -1
      at = end
    }
    return at
  }

  /** Completes the half frame and hands it on; where the next one begins, -1 when there is none. */
  private complete(chunk: Buffer, from: number): number {
    let at = from
    if (this.restLength < FRAME_HEADER_BYTES) {
      at = this.keep(chunk, at, Math.min(chunk.length, at + FRAME_HEADER_BYTES - this.restLength))
      if (this.restLength < FRAME_HEADER_BYTES) return -1
    }
    const missing = FRAME_HEADER_BYTES + lengthAt(this.rest, 0) - this.restLength
    at = this.keep(chunk, at, Math.min(chunk.length, at + missing))
    if (this.restLength < FRAME_HEADER_BYTES + lengthAt(this.rest, 0)) return -1
    const whole = this.rest
    const length = this.restLength
    this.rest = NONE
    this.restLength = 0
    try {
      return this.frames(whole, 0, length) < 0 ? -1 : at
    } finally {
      this.recycle(whole)
    }
  }

  /** Copies `chunk[from, to)`; yields `to`. */
  private keep(chunk: Buffer, from: number, to: number): number {
    const length = this.restLength + to - from
    if (length > this.rest.length) {
      const grown = memory(Math.max(REST_BYTES_MIN, length, this.rest.length * 2))
      this.share.reserveUnchecked(grown.length)
      this.rest.copy(grown, 0, 0, this.restLength)
      this.recycle(this.rest)
      this.rest = grown
    }
    chunk.copy(this.rest, this.restLength, from, to)
    this.restLength = length
    if (length >= FRAME_HEADER_BYTES) lengthAt(this.rest, 0) // too long: say so before its bytes have come
    return to
  }

  private recycle(bytes: Buffer): void {
    this.share.release(bytes.length)
    if (bytes.length === REST_BYTES_MAX && spares.length < SPARES_MAX) spares.push(bytes)
  }

  private preface(chunk: Buffer): number {
    const count = Math.min(this.prefaceLeft, chunk.length)
    const start = PREFACE.length - this.prefaceLeft
    if (PREFACE.compare(chunk, 0, count, start, start + count) !== 0) {
      throw new ConnectionError(ErrorCode.ProtocolError, 'this is not HTTP/2')
    }
    this.prefaceLeft -= count
    return count
  }
}

function lengthAt(bytes: Buffer, at: number): number {
  const length = (bytes[at] << 16) | (bytes[at + 1] << 8) | bytes[at + 2]
  if (length > FRAME_BYTES_MAX)
    throw new ConnectionError(ErrorCode.FrameSizeError, 'a frame longer than allowed')
  return length
}

function memory(bytes: number): Buffer {
  if (bytes <= REST_BYTES_SOME) return Buffer.allocUnsafeSlow(bytes)
  return spares.pop() ?? Buffer.allocUnsafeSlow(REST_BYTES_MAX)
}
