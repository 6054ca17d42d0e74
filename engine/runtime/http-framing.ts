/**
 * Request framing on the ports that uWebSockets.js serves. The library is lenient: of two Content-Length lines it takes the
 * first, it treats any Transfer-Encoding as chunked, and its chunk decoder skips what is not a chunk. A proxy in front may
 * see the request end elsewhere, and the rest would be served as a request unknown to the proxy (RFC 9112, 11.2).
 * Every port therefore wraps its handler in `withStrictFraming`:
 *
 *     one Content-Length of digits, or none   ─► handler
 *     Transfer-Encoding: chunked, and a body  ─► handler; the connection ends with the response
 *     anything else                           ─► 400, the connection ends; the handler is not called
 *
 * The library does not expose the chunks. A response that ends its connection is therefore written one turn later: if the
 * library finds another request after what it took for the last chunk, it closes the connection at once, because the
 * first response is pending, and does not serve the second. Nothing can be done about a header line without a name, after
 * which the library hides all other lines.
 */

/** The part of uWebSockets.js' HttpResponse that is used. */
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

/** Whether a port reads request bodies. Where it does not, chunked ones are refused, because responses may be large. */
export type Chunks = 'taken' | 'refused'

const CONTENT_LENGTH = 'content-length'
const TRANSFER_ENCODING = 'transfer-encoding'
const METHODS_WITH_BODY = ['POST', 'PUT', 'PATCH']

type Handler<Res, Req> = (res: Res, req: Req) => void

/**
 * Visits all header lines, because `getHeader` returns only the first line of a name. That takes 0.2 µs per line: about 1 µs
 * of the 16 µs of CPU time of a `POST /json`.
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

// State of the visit. Global, because a closure per request would be garbage.
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
  const reason = isChunked
    ? 'a chunked body is not read here; send Content-Length'
    : 'the length of the body is not clear; send one Content-Length, or Transfer-Encoding: chunked'
  res.cork(() => {
    res.writeStatus('400 Bad Request')
    res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
    res.end(`${reason}\n`, true)
  })
}

/**
 * Makes the end of this response take effect one turn later and close the connection; until then the response is pending.
 * Bodies are passed whole, so a client that does not read keeps one response in memory.
 */
function endConnectionWith(res: FramedResponse): void {
  const end = res.end.bind(res)
  const onAborted = res.onAborted.bind(res)
  let isClosed = false
  let abort = () => {}
  onAborted(() => {
    isClosed = true // the library's object must no longer be used
    abort()
  })
  const later = (write: () => void) => {
    setImmediate(() => {
      if (!isClosed) res.cork(write)
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
