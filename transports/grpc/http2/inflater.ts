/**
 * Unpacks gzip messages on Node's own threads, a few at a time, so that a small message which unfolds to megabytes
 * stops nobody. Connections take turns, so that one with many waits for itself.
 *
 *     connection A  ○ ○ ○ ○ ○ ○ ─┐
 *     connection B  ○           ─┼─► INFLATING_MAX at once
 *     connection C  ○ ○         ─┘
 *
 * Who waits is bounded by the streams there are, their bytes by what a connection may hold.
 */
import { gunzip } from 'node:zlib'
import { MESSAGE_BYTES_MAX } from '../frontend.ts'
import { INFLATING_MAX } from './bounds.ts'

export interface Packed {
  readonly bytes: Buffer // must not change
  readonly stream: Unpacking
}

export interface Unpacking {
  /** Then it need not be unpacked any more, but is told all the same. */
  readonly isCancelled: boolean
  /** Called once, later. null: it would be too large, or else is damaged, or was not wanted. */
  unpacked(packedBytes: number, message: Buffer | null, isTooLarge: boolean): void
}

export class Inflater {
  private runningCount = 0
  private readonly waiting = new Map<object, Packed[]>() // by connection, in the order of their turns

  unpack(connection: object, packed: Packed): void {
    const queue = this.waiting.get(connection)
    if (queue === undefined) this.waiting.set(connection, [packed])
    else queue.push(packed)
    this.start()
  }

  private start(): void {
    while (this.runningCount < INFLATING_MAX && this.waiting.size > 0) {
      const [[connection, queue]] = this.waiting
      const packed = queue.shift()!
      this.waiting.delete(connection)
      if (queue.length > 0) this.waiting.set(connection, queue) // behind all others
      if (packed.stream.isCancelled) packed.stream.unpacked(packed.bytes.length, null, false)
      else this.run(packed)
    }
  }

  private run({ bytes, stream }: Packed): void {
    this.runningCount++
    gunzip(bytes, { maxOutputLength: MESSAGE_BYTES_MAX }, (error, message) => {
      this.runningCount--
      this.start()
      const isTooLarge = (error as NodeJS.ErrnoException | null)?.code === 'ERR_BUFFER_TOO_LARGE'
      stream.unpacked(bytes.length, error === null ? message : null, isTooLarge)
    })
  }
}
