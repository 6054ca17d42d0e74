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
export const PREFIX_BYTES = 5

const BYTES_MIN = 1_024
const NONE = Buffer.alloc(0)

export class MessageReader {
  private bytes = NONE
  private from = 0
  private to = 0

  /** Bytes here, of whole messages or not. */
  get length(): number {
    return this.to - this.from
  }

  /** Of the next message, -1 while unknown. */
  get announced(): number {
    return this.length < PREFIX_BYTES ? -1 : this.bytes.readUInt32BE(this.from + 1)
  }

  /** What the next message's first byte says: 0, 1, or nonsense. */
  get packing(): number {
    return this.bytes[this.from]
  }

  get isWhole(): boolean {
    return this.length >= PREFIX_BYTES && this.length - PREFIX_BYTES >= this.announced
  }

  add(bytes: Buffer, from: number, to: number): void {
    const count = to - from
    if (this.to + count > this.bytes.length) {
      const length = this.length + count
      const grown = Buffer.allocUnsafeSlow(
        Math.max(BYTES_MIN, length, Math.min(length * 2, length + (1 << 20))),
      )
      this.bytes.copy(grown, 0, this.from, this.to)
      this.bytes = grown
      this.to -= this.from
      this.from = 0
    }
    bytes.copy(this.bytes, this.to, from, to)
    this.to += count
  }

  /** The next message, which is whole. Valid until the next `add`. */
  take(): Buffer {
    const start = this.from + PREFIX_BYTES
    const end = start + this.announced
    this.from = end
    return this.bytes.subarray(start, end)
  }
}
