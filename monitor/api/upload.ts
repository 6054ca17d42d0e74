/**
 * The one body the API takes (spec 1, 3.4): at most 4,096 bytes within 8 s.
 *
 *     start: from now on bytes are kept      whenDone: 413, 408, or the bytes, once
 *
 * Reading begins with the request, before its quota is known, since the library gives chunks to nobody once its callback
 * has returned; what they say is looked at only after. A body somewhat too long is read to its end, so that its answer
 * is not lost with the connection's reset.
 */
import { ApiError } from './errors.ts'
import type { HttpResponse } from './sockets.ts'

export const BODY_BYTES_MAX = 4_096
const DRAINED_BYTES_MAX = 64 * 1_024 // beyond, the answer comes at once and the connection goes
const TIMEOUT_MS = 8_000 // the library itself closes at about 12 s
const LINGER_MS = 250 // for the rest of a body whose header has said that it is too long

export class Upload {
  private readonly chunks: Buffer[] = [] // together at most BODY_BYTES_MAX
  private length = 0
  private outcome: Buffer | ApiError | null = null
  private done: ((outcome: Buffer | ApiError) => void) | null = null
  private readonly timer: NodeJS.Timeout

  /** `length`: what the header says; NaN without one. */
  constructor(res: HttpResponse, length: number, timeoutMs = TIMEOUT_MS) {
    const isTooLong = length > BODY_BYTES_MAX
    const end = () => this.end(isTooLong ? tooLarge() : timedOut())
    this.timer = setTimeout(end, isTooLong ? LINGER_MS : timeoutMs)
    if (length > DRAINED_BYTES_MAX) end()
    res.onData((chunk, isLast) => this.add(chunk, isLast))
  }

  whenDone(done: (outcome: Buffer | ApiError) => void): void {
    if (this.outcome !== null) done(this.outcome)
    else this.done = done
  }

  /** The client has gone, or was answered without it. */
  cancel(): void {
    clearTimeout(this.timer)
    this.done = null
    this.outcome ??= tooLarge()
  }

  private add(chunk: ArrayBuffer, isLast: boolean): void {
    if (this.outcome !== null) return
    this.length += chunk.byteLength
    if (this.length <= BODY_BYTES_MAX) this.chunks.push(Buffer.from(chunk.slice(0)))
    else this.chunks.length = 0
    if (this.length > DRAINED_BYTES_MAX || (isLast && this.length > BODY_BYTES_MAX)) this.end(tooLarge())
    else if (isLast) this.end(Buffer.concat(this.chunks))
  }

  private end(outcome: Buffer | ApiError): void {
    if (this.outcome !== null) return
    clearTimeout(this.timer)
    this.outcome = outcome
    this.done?.(outcome)
  }
}

function tooLarge(): ApiError {
  return new ApiError('payload_too_large', `the body must have at most ${BODY_BYTES_MAX} bytes`)
}

function timedOut(): ApiError {
  return new ApiError('request_timeout', `the body did not come within ${TIMEOUT_MS / 1_000} s`)
}
