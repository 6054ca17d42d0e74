/**
 * Ends a response of uWebSockets.js whose head is written; call it within `cork`.
 *
 *     all of it goes out ──► done
 *     the client does not read, so some is left ──► the rest when there is room
 *                                                   another request meanwhile ──► the library closes the connection
 *
 * What is left after 60 s is not sent: the connection is closed, so that slow readers do not hold all of them.
 *
 * With `end` the library would buffer all responses for a client that pipelines requests and reads nothing. Responses
 * without a body cannot be held back in this way, so they close the connection. Used by transports/ and monitor/.
 */
export interface Ending {
  end(body: string | Uint8Array, mustClose: boolean): unknown
  writeHeader(name: string, value: string): unknown
  close(): unknown
  tryEnd(rest: string | Uint8Array, totalBytes: number): [hasRoom: boolean, isDone: boolean]
  onWritable(handler: (offset: number) => boolean): unknown
  onAborted(handler: () => void): unknown
}

/** Replaces the handler of `onAborted` unless everything is written at once. */
export function endResponse(res: Ending, body: string | Uint8Array, mustClose: boolean): void {
  if (mustClose || body.length === 0) {
    res.end(body, true)
    return
  }
  const [, isDone] = res.tryEnd(body, Buffer.byteLength(body))
  if (isDone) return
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const deadline = setTimeout(() => res.close(), SLOW_READER_MS).unref()
  res.onAborted(() => clearTimeout(deadline))
  res.onWritable((offset) => {
    const [hasRoom, isWritten] = res.tryEnd(bytes.subarray(offset), bytes.length)
    if (isWritten) clearTimeout(deadline) // before the object is another request's
    return hasRoom
  })
}

/**
 * Ends a response to HEAD with the length of the body. The library keeps waiting for that body, so another request closes
 * the connection; without one, it is closed after LINGER_MS.
 */
export function endHeadResponse(res: Ending, bodyBytes: number): void {
  if (bodyBytes === 0) {
    res.end('', true)
    return
  }
  res.writeHeader('Connection', 'close')
  res.tryEnd('', bodyBytes)
  const timer = setTimeout(() => res.close(), LINGER_MS).unref()
  res.onAborted(() => clearTimeout(timer))
}

const LINGER_MS = 1_000
const SLOW_READER_MS = 60_000 // 64 MiB at 1 MiB/s; pages are below 1 MiB
