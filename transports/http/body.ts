/**
 * Collects a request body from its chunks, up to a bound.
 *
 *     length   0 ───────────────── bytesMax ───────────────── 2 × bytesMax
 *              kept, then decoded  │ read and discarded       │ refused
 *
 * A body up to twice the bound is read to its end, because closing with unread bytes resets the connection, and the client
 * would lose the response.
 */
import { isUtf8 } from 'node:buffer'

const FIRST_BYTES = 4_096 // enough for most bodies; doubled as needed

export class Body {
  private readonly bytesMax: number
  private bytes: Buffer = Buffer.alloc(0)
  private length = 0 // of all received bytes, kept or discarded

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax
  }

  get isTooLong(): boolean {
    return this.length > this.bytesMax
  }

  /** Beyond this the rest is not read. */
  get mustRefuse(): boolean {
    return this.length > 2 * this.bytesMax
  }

  /** Copies the chunk: it is the library's memory and gone after the call. */
  add(chunk: ArrayBuffer): void {
    const end = this.length + chunk.byteLength
    if (end <= this.bytesMax) {
      if (end > this.bytes.length) {
        const grown = Buffer.allocUnsafe(Math.min(Math.max(FIRST_BYTES, 2 * end), this.bytesMax))
        this.bytes.copy(grown, 0, 0, this.length)
        this.bytes = grown
      }
      this.bytes.set(new Uint8Array(chunk), this.length)
    } else this.bytes = Buffer.alloc(0)
    this.length = end
  }

  text(): string {
    return bodyText(this.bytes.subarray(0, this.length))
  }
}

/** Throws on bytes that are no UTF-8. A byte order mark stays, for JSON to refuse. */
export function bodyText(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new Error('the body is not UTF-8')
  return bytes.toString('utf8')
}
