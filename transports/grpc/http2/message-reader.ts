/**
 * Puts gRPC messages together that came in several DATA frames, or several in one.
 *
 *     ┌ 0 or 1: packed
 *     │ ┌ length (32)
 *     ▼ ▼            message
 *     ○ ○○○○  ○○○○○○○○○○○○○○○○○○○  ○ ○○○○  ○○○○ ...
 *
 * Most calls never make one: their message is one whole frame, read where it lies. Memory grows with what has
 * arrived, never with what a length promises.
 */
import { free } from './inflater.ts'

export const PREFIX_BYTES = 5

const BYTES_MIN = 1_024
const GROWTH_BYTES_MAX = 1_048_576 // beyond doubling
const NONE = Buffer.alloc(0)

/** Whether these bytes are one message that is not packed, and nothing else. */
export function isOneMessage(bytes: Buffer, from: number, to: number): boolean {
  return (
    to - from >= PREFIX_BYTES &&
    bytes[from] === 0 &&
    bytes.readUInt32BE(from + 1) === to - from - PREFIX_BYTES
  )
}

export class MessageReader {
  private bytes = NONE
  private from = 0
  private to = 0

  /** Bytes here, of whole messages or not. */
  get length(): number {
    return this.to - this.from
  }

  /** Of the next message, -1 while unknown. */
  get nextMessageBytes(): number {
    return this.length < PREFIX_BYTES ? -1 : this.bytes.readUInt32BE(this.from + 1)
  }

  /** What the next message's first byte says: 0, 1, or nonsense. */
  get compressedFlag(): number {
    return this.bytes[this.from]
  }

  get hasMessage(): boolean {
    return this.length >= PREFIX_BYTES && this.length - PREFIX_BYTES >= this.nextMessageBytes
  }

  /** Bytes of memory. */
  get capacity(): number {
    return this.bytes.length
  }

  /** What `size` is after an `add` of so many bytes. */
  capacityAfter(count: number): number {
    if (this.to + count <= this.bytes.length) return this.bytes.length
    const length = this.length + count
    if (length <= this.bytes.length) return this.bytes.length
    return Math.max(BYTES_MIN, Math.min(length * 2, length + GROWTH_BYTES_MAX))
  }

  add(bytes: Buffer, from: number, to: number): void {
    if (this.to + to - from > this.bytes.length) {
      const size = this.capacityAfter(to - from)
      const larger = size > this.bytes.length ? Buffer.allocUnsafeSlow(size) : this.bytes // or there is room in front
      this.bytes.copy(larger, 0, this.from, this.to)
      if (larger !== this.bytes) free(this.bytes)
      this.bytes = larger
      this.to -= this.from
      this.from = 0
    }
    bytes.copy(this.bytes, this.to, from, to)
    this.to += to - from
  }

  /** Gives up what is left. A message taken before is valid until this turn ends. */
  drop(): void {
    free(this.bytes)
    this.bytes = NONE
    this.from = 0
    this.to = 0
  }

  /** The next message, which is whole. Valid until the next `add`. With the last one the memory goes. */
  take(): Buffer {
    const start = this.from + PREFIX_BYTES
    const end = start + this.nextMessageBytes
    const message = this.bytes.subarray(start, end)
    this.from = end
    if (end === this.to) {
      this.bytes = NONE
      this.from = 0
      this.to = 0
    }
    return message
  }
}
