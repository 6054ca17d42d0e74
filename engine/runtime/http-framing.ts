/**
 * Request framing on the ports that uWebSockets.js serves. The library is lenient: of two Content-Length lines it takes the
 * first, any Transfer-Encoding is chunked to it, and its chunk decoder reads over what is not a chunk. A proxy in front may
 * see a request end elsewhere, and what remains would be served as a request that the proxy has never seen (RFC 9112, 11.2).
 * Every port therefore wraps its handler in `withStrictFraming`:
 *
 *     one Content-Length of digits, or none   ─► handler
 *     Transfer-Encoding: chunked, and a body  ─► handler; the connection ends with the answer
 *     anything else                           ─► 400, the connection ends; the handler is not called
 *
 * Chunks themselves cannot be seen from outside the library. An answer that ends its connection is therefore written one turn
 * later: if the library finds another request behind what it took for the last chunk, it closes the connection at once,
 * since the response before is pending, and neither serves nor answers it. Nothing can be done about a header line without
 * a name, behind which the library hides all other lines.
 */

/** What is needed of a response of uWebSockets.js. */
export interface FramedResponse {
  writeStatus(line: string): unknown
  writeHeader(name: string, value: string): unknown
  end(body: string | Uint8Array, mustClose: boolean): unknown
  endWithoutBody(): unknown
  tryEnd(rest: string | Uint8Array, totalBytes: number): [hasRoom: boolean, isDone: boolean]
  onAborted(handler: () => void): unknown
  cork(write: () => void): unknown
}

export interface FramedRequest {
  getCaseSensitiveMethod(): string
  forEach(visit: (name: string, value: string) => void): void // names in lower case
}

/** Whether a port reads request bodies. Where it does not, a chunked one is refused: answers may be large there. */
export type Chunks = 'taken' | 'refused'

const CONTENT_LENGTH = 'content-length'
const TRANSFER_ENCODING = 'transfer-encoding'
const METHODS_WITH_BODY = ['POST', 'PUT', 'PATCH']

type Handler<Res, Req> = (res: Res, req: Req) => void

/**
 * Visits all header lines, since `getHeader` does not show a second line of one name. That is 0.2 µs a line: about 1 µs of the
 * 16 µs of processor time that one `POST /json` takes.
 */
export function withStrictFraming<Res extends FramedResponse, Req extends FramedRequest>(
  handle: Handler<Res, Req>,
  chunks: Chunks,
): Handler<Res, Req> {
  return (res, req) => {
    lengthsCount = 0
    encodingsCount = 0
    isInvalid = false
    req.forEach(visit)
    if (encodingsCount === 0 && lengthsCount < 2 && !isInvalid) {
      handle(res, req)
      return
    }
    endConnectionWith(res)
    const isChunked = encodingsCount === 1 && lengthsCount === 0 && !isInvalid
    if (isChunked && chunks === 'taken' && METHODS_WITH_BODY.includes(req.getCaseSensitiveMethod()))
      handle(res, req)
    else refuse(res, isChunked)
  }
}

// What the visited header lines say. Of the thread, not of the call: a closure for each request would be garbage.
let lengthsCount = 0
let encodingsCount = 0
let isInvalid = false

function visit(name: string, value: string): void {
  if (name.length === CONTENT_LENGTH.length && name === CONTENT_LENGTH) {
    lengthsCount++
    if (!isDigits(value)) isInvalid = true
  } else if (name.length === TRANSFER_ENCODING.length && name === TRANSFER_ENCODING) {
    encodingsCount++
    if (value.toLowerCase() !== 'chunked') isInvalid = true
  }
}

function isDigits(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x30 || code > 0x39) return false
  }
  return text.length > 0
}

function refuse(res: FramedResponse, isChunked: boolean): void {
  const why = isChunked
    ? 'a chunked body is not read here; send Content-Length'
    : 'the length of the body is not clear; send one Content-Length, or Transfer-Encoding: chunked'
  res.cork(() => {
    res.writeStatus('400 Bad Request')
    res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
    res.end(`${why}\n`, true)
  })
}

/**
 * From here on, whatever ends this response does so a turn later and ends the connection, too. Until then the response is
 * pending. Bodies are handed over whole, so a client that does not read keeps one answer in memory.
 */
function endConnectionWith(res: FramedResponse): void {
  const end = res.end.bind(res)
  const onAborted = res.onAborted.bind(res)
  let isGone = false
  let abort = () => {}
  onAborted(() => {
    isGone = true // the library's object must not be touched any more
    abort()
  })
  const later = (write: () => void) => {
    setImmediate(() => {
      if (!isGone) res.cork(write)
    })
  }
  res.onAborted = (handler) => {
    abort = handler
    return res
  }
  res.end = (body) => later(() => end(body, true))
  res.endWithoutBody = () => later(() => end('', true))
  res.tryEnd = (body) => {
    later(() => end(body, true))
    return [true, true]
  }
}
