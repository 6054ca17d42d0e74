/**
 * Unpacks gzip messages on Node's own threads, a few at a time, so that a small message which unfolds to megabytes
 * stops nobody. Who waits is bounded by the streams there are, their bytes by what a connection may hold.
 */
import { gunzip } from 'node:zlib'
import { MESSAGE_BYTES_MAX } from '../frontend.ts'
import { INFLATING_MAX } from './bounds.ts'

/** The message; or null, and whether it would be larger than allowed (else it is damaged). */
type Done = (message: Buffer | null, isTooLarge: boolean) => void

export class Inflater {
  private running = 0
  private readonly waiting: { bytes: Buffer; done: Done }[] = []

  /** `bytes` must not change until `done`, which is called later. */
  unpack(bytes: Buffer, done: Done): void {
    if (this.running >= INFLATING_MAX) {
      this.waiting.push({ bytes, done })
      return
    }
    this.running++
    gunzip(bytes, { maxOutputLength: MESSAGE_BYTES_MAX }, (error, message) => {
      this.running--
      const next = this.waiting.shift()
      if (next !== undefined) this.unpack(next.bytes, next.done)
      const isTooLarge = (error as NodeJS.ErrnoException | null)?.code === 'ERR_BUFFER_TOO_LARGE'
      done(error === null ? message : null, isTooLarge)
    })
  }
}
