/**
 * Assembles gRPC messages that arrive in several DATA frames, or several in one.
 *
 *     ┌ compressed: 0 or 1
 *     │ ┌ length (32 bits)
 *     ▼ ▼            message
 *     ○ ○○○○  ○○○○○○○○○○○○○○○○○○○  ○ ○○○○  ○○○○ ...
 *
 * Most calls need none: their message is one whole frame, read in place. Memory grows with the bytes received, never with
 * the announced length.
 */
import { free } from './inflater.ts'

export const PREFIX_BYTES = 5

const BYTES_MIN = 1_024
const GROWTH_BYTES_MAX = 1_048_576 // added at most when growing
const NONE = Buffer.alloc(0)

/** Whether these bytes are exactly one uncompressed message. */
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

  /** Unread bytes. */
  get length(): number {
    return this.to - this.from
  }

  /** Announced length of the next message, -1 while unknown. */
  get nextMessageBytes(): number {
    return this.length < PREFIX_BYTES ? -1 : this.bytes.readUInt32BE(this.from + 1)
  }

  /** First byte of the next message: 0, 1, or an invalid value. */
  get compressedFlag(): number {
    return this.bytes[this.from]
  }

  get hasMessage(): boolean {
    return this.length >= PREFIX_BYTES && this.length - PREFIX_BYTES >= this.nextMessageBytes
  }

  /** Bytes of memory in use. */
  get capacity(): number {
    return this.bytes.length
  }

  /** What `capacity` will be after `add` of so many bytes. */
  capacityAfter(count: number): number {
    if (this.to + count <= this.bytes.length) return this.bytes.length
    const length = this.length + count
    if (length <= this.bytes.length) return this.bytes.length
    return Math.max(BYTES_MIN, Math.min(length * 2, length + GROWTH_BYTES_MAX))
  }

  add(bytes: Buffer, from: number, to: number): void {
    if (this.to + to - from > this.bytes.length) {
      const size = this.capacityAfter(to - from)
      const larger = size > this.bytes.length ? Buffer.allocUnsafeSlow(size) : this.bytes // otherwise there is room in front
      this.bytes.copy(larger, 0, this.from, this.to)
      if (larger !== this.bytes) free(this.bytes)
      this.bytes = larger
      this.to -= this.from
      this.from = 0
    }
    bytes.copy(this.bytes, this.to, from, to)
    this.to += to - from
  }

  /** Discards the rest. A message taken before is valid until this turn of the event loop ends. */
  drop(): void {
    free(this.bytes)
    this.bytes = NONE
    this.from = 0
    this.to = 0
  }

  /** Takes the next message, which must be whole; it is valid until the next `add`. The last one takes the memory along. */
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
