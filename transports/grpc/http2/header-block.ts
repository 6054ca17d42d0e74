/**
 * A header block that needs more than its HEADERS frame: HEADERS, CONTINUATION ..., the last with END_HEADERS. Nothing
 * else may come between, so a connection has at most one.
 */
import { CONTINUATIONS_MAX, HEADER_BLOCK_BYTES_MAX } from './bounds.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import { ConnectionError, ErrorCode } from './frames.ts'

export class HeaderBlock {
  id = 0 // of its stream; 0 = none is open
  isEnd = false // END_STREAM, which HEADERS carried
  isOwnParent = false // a faulty priority
  private readonly share: ConnectionQuota
  private parts: Buffer[] = []
  private bytes = 0

  constructor(share: ConnectionQuota) {
    this.share = share
  }

  get isOpen(): boolean {
    return this.id !== 0
  }

  open(id: number, isEnd: boolean, isOwnParent: boolean, bytes: Buffer, from: number, to: number): void {
    this.id = id
    this.isEnd = isEnd
    this.isOwnParent = isOwnParent
    this.parts = []
    this.add(bytes, from, to)
  }

  /** Throws a ConnectionError when it becomes too much: the table cannot be kept in step with what is not read. */
  add(bytes: Buffer, from: number, to: number): void {
    const isFull = this.parts.length > CONTINUATIONS_MAX || this.bytes + to - from > HEADER_BLOCK_BYTES_MAX
    if (isFull || !this.share.reserve(to - from)) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, 'a header block too long')
    }
    this.bytes += to - from
    this.parts.push(Buffer.from(bytes.subarray(from, to))) // a copy: the buffer is used again
  }

  /** All of it. */
  close(): Buffer {
    const whole = Buffer.concat(this.parts)
    this.drop()
    return whole
  }

  drop(): void {
    this.share.release(this.bytes)
    this.bytes = 0
    this.id = 0
    this.parts = []
  }
}
