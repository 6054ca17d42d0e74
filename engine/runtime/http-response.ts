/**
 * The end of an answer on a port of uWebSockets.js, whose head is written; within `cork`.
 *
 *     all of it goes out ──► done
 *     the client does not read, so some does not ──► the rest when there is room
 *                                                    a further request meanwhile ──► the library ends the connection
 *
 * With `end` the library would keep answer behind answer for a client that sends one request behind the other and reads
 * nothing. Answers without a byte of body cannot be held back like that, so those end their connection. It stands here and
 * not in transports/, since the monitor has ports, too.
 */
export interface Ending {
  end(body: string | Uint8Array, mustClose: boolean): unknown
  writeHeader(name: string, value: string): unknown
  close(): unknown
  tryEnd(rest: string | Uint8Array, totalBytes: number): [hasRoom: boolean, isDone: boolean]
  onWritable(handler: (offset: number) => boolean): unknown
  onAborted(handler: () => void): unknown
}

/** Replaces the handler of `onAborted` unless all goes out at once. */
export function endResponse(res: Ending, body: string | Uint8Array, mustClose: boolean): void {
  if (mustClose || body.length === 0) {
    res.end(body, true)
    return
  }
  const [, isDone] = res.tryEnd(body, Buffer.byteLength(body))
  if (isDone) return
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  res.onAborted(ignore)
  res.onWritable((offset) => res.tryEnd(bytes.subarray(offset), bytes.length)[0])
}

/**
 * To HEAD: how long the body would be. The library goes on waiting for that body, so a further request ends the connection;
 * a client that neither sends one nor goes, as it is told to, is cut.
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

function ignore(): void {}
