/**
 * Inflates gzip messages on Node's thread pool, INFLATING_MAX at a time, so that a small message which expands to megabytes
 * does not block the event loop. Connections take turns, so that one with many messages delays only itself.
 *
 *     connection A  ○ ○ ○ ○ ○ ○ ─┐
 *     connection B  ○           ─┼─► INFLATING_MAX at once
 *     connection C  ○ ○         ─┘
 *
 * The queue is bounded by the open streams, its bytes by the quota of each connection. Beyond SMALL_BYTES_MAX the length in
 * the gzip trailer (RFC 1952, 2.3.1) is trusted: a message that expands to more is rejected as damaged. So is one of
 * several gzip members whose last is not the largest part; no gRPC library produces such messages.
 */
import { createGunzip, gunzip } from 'node:zlib'
import { Garbage } from '../../../engine/runtime/release-memory.ts'
import { MESSAGE_BYTES_MAX } from '../frontend.ts'
import { INFLATING_MAX } from './bounds.ts'

const GZIP_BYTES_MIN = 18 // header and trailer (RFC 1952, 2.3)
const SMALL_BYTES_MAX = 65_536
const FREED_BYTES_MIN = 1_024 // smaller buffers are left to the garbage collector
const SMALL = { maxOutputLength: SMALL_BYTES_MAX }

export interface CompressedMessage {
  readonly bytes: Buffer // must not change; freed once inflated
  readonly stream: InflateTarget
}

export interface InflateTarget {
  /** A cancelled message is not inflated; onInflated is called all the same. */
  readonly isCancelled: boolean
  /** Called once, later. null: too large when `isTooLarge`, otherwise damaged or cancelled. */
  onInflated(compressedBytes: number, message: Buffer | null, isTooLarge: boolean): void
}

export class Inflater {
  private runningCount = 0
  private readonly garbage = new Garbage('young') // chunks that zlib allocated
  private readonly queues = new Map<object, CompressedMessage[]>() // by connection, in the order of their turns

  inflate(connection: object, compressed: CompressedMessage): void {
    const queue = this.queues.get(connection)
    if (queue === undefined) this.queues.set(connection, [compressed])
    else queue.push(compressed)
    this.start()
  }

  /** The connection has closed: discards its queue. */
  drop(connection: object): void {
    const queue = this.queues.get(connection) ?? []
    this.queues.delete(connection)
    for (const compressed of queue) discard(compressed)
  }

  private start(): void {
    while (this.runningCount < INFLATING_MAX && this.queues.size > 0) {
      const [[connection, queue]] = this.queues
      const compressed = queue.shift()!
      this.queues.delete(connection)
      if (queue.length > 0) this.queues.set(connection, queue) // after all others
      if (!compressed.stream.isCancelled) this.run(compressed)
      else discard(compressed)
    }
  }

  private run({ bytes, stream }: CompressedMessage): void {
    const announcedBytes = bytes.length < GZIP_BYTES_MIN ? 0 : bytes.readUInt32LE(bytes.length - 4) // from the gzip trailer
    if (announcedBytes > MESSAGE_BYTES_MAX) {
      setImmediate(() => {
        free(bytes)
        stream.onInflated(bytes.length, null, true)
      })
      return
    }
    this.runningCount++
    const done = (message: Buffer | null, isTooLong: boolean) => {
      this.runningCount--
      this.start()
      if (!isTooLong) free(bytes)
      else this.garbage.add(bytes.length) // zlib may still be reading it
      stream.onInflated(bytes.length, message, false)
    }
    if (announcedBytes > SMALL_BYTES_MAX) this.inflateLarge(bytes, announcedBytes, done)
    else
      gunzip(bytes, SMALL, (error, message) =>
        done(error === null ? message : null, error !== null && isTooLarge(error)),
      )
  }

  /** Inflates into one buffer of the announced size, which is freed at once on failure. */
  private inflateLarge(bytes: Buffer, length: number, done: Done): void {
    const message = Buffer.allocUnsafeSlow(length)
    const inflating = createGunzip({ chunkSize: SMALL_BYTES_MAX })
    let size = 0
    let isTooLong = false
    inflating.on('data', (chunk: Buffer) => {
      this.garbage.add(chunk.length)
      isTooLong ||= size + chunk.length > length
      if (isTooLong) inflating.destroy(new Error('longer than announced'))
      else size += chunk.copy(message, size)
    })
    inflating.once('end', () => done(message, false))
    inflating.once('error', () => {
      free(message)
      done(null, isTooLong)
    })
    inflating.end(bytes)
  }
}

function discard({ bytes, stream }: CompressedMessage): void {
  const { length } = bytes
  free(bytes)
  stream.onInflated(length, null, false)
}

type Done = (message: Buffer | null, isTooLong: boolean) => void

function isTooLarge(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ERR_BUFFER_TOO_LARGE'
}

/**
 * Releases the memory of a large buffer now, not with a later garbage collection, which an idle thread may not run for
 * hours. `bytes` must own its memory, and may be read until this turn of the event loop ends.
 */
export function free({ buffer, length }: Buffer): void {
  if (length >= FREED_BYTES_MIN) setImmediate(detach, buffer)
}

function detach(buffer: object): void {
  const { transfer } = buffer as { transfer?: (bytes: number) => unknown }
  transfer?.call(buffer, 0)
}
