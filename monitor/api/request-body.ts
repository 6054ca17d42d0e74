/**
 * Reads a request body (spec 1, 3.4): at most 4,096 bytes within 8 s by default; agents may send more (monitor/agent).
 *
 * Reading starts in the constructor, before the quota is known: uWebSockets.js needs `onData` before the request's callback
 * returns. `whenDone` passes the bytes, or the error (413, 408), once. A body somewhat too long is read to its end, so that
 * the response is not lost in a connection reset.
 */
import { ApiError } from './errors.ts'
import type { HttpResponse } from './sockets.ts'

export const BODY_BYTES_MAX = 4_096
const DRAINED_BYTES_MAX = 64 * 1_024 // beyond, the response is sent at once and the connection closed
const TIMEOUT_MS = 8_000 // uWebSockets.js itself closes after about 12 s
const LINGER_MS = 250 // for the rest of a body whose Content-Length is too large

export class RequestBody {
  private readonly chunks: Buffer[] = [] // together at most bytesMax
  private length = 0
  private outcome: Buffer | ApiError | null = null
  private done: ((outcome: Buffer | ApiError) => void) | null = null
  private readonly timer: NodeJS.Timeout
  private readonly bytesMax: number

  /** `length`: Content-Length; NaN without one. */
  constructor(res: HttpResponse, length: number, timeoutMs = TIMEOUT_MS, bytesMax = BODY_BYTES_MAX) {
    this.bytesMax = bytesMax
    const isTooLong = length > bytesMax
    const end = () => this.end(isTooLong ? tooLarge(bytesMax) : timedOut(timeoutMs))
    this.timer = setTimeout(end, isTooLong ? LINGER_MS : timeoutMs)
    if (length > this.drainedMax) end()
    res.onData((chunk, isLast) => this.add(chunk, isLast))
  }

  whenDone(done: (outcome: Buffer | ApiError) => void): void {
    if (this.outcome !== null) done(this.outcome)
    else this.done = done
  }

  /** Ends without a callback: the client disconnected, or was answered already. */
  cancel(): void {
    clearTimeout(this.timer)
    this.done = null
    this.outcome ??= tooLarge(this.bytesMax)
  }

  private get drainedMax(): number {
    return Math.max(DRAINED_BYTES_MAX, this.bytesMax)
  }

  private add(chunk: ArrayBuffer, isLast: boolean): void {
    if (this.outcome !== null) return
    this.length += chunk.byteLength
    const isTooLong = this.length > this.bytesMax
    if (isTooLong) this.chunks.length = 0
    else this.chunks.push(Buffer.from(chunk.slice(0)))
    if (this.length > this.drainedMax || (isLast && isTooLong)) this.end(tooLarge(this.bytesMax))
    else if (isLast) this.end(Buffer.concat(this.chunks))
  }

  private end(outcome: Buffer | ApiError): void {
    if (this.outcome !== null) return
    clearTimeout(this.timer)
    this.outcome = outcome
    this.done?.(outcome)
  }
}

function tooLarge(bytesMax: number): ApiError {
  return new ApiError('payload_too_large', `the body must have at most ${bytesMax} bytes`)
}

function timedOut(timeoutMs: number): ApiError {
  return new ApiError('request_timeout', `the body was not received within ${timeoutMs / 1_000} s`)
}
