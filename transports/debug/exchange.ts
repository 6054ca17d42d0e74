/**
 * One request to the debug port and its response, which may follow minutes later. uWebSockets.js requires that the request is
 * read before its callback returns, and that nothing is touched after the client has disconnected.
 */
import { endHeadResponse, endResponse } from '../../engine/runtime/http-response.ts'
import type { HttpRequest, HttpResponse } from '../uws.ts'
import { isCrossSite } from './access.ts'

export const TEXT = 'text/plain; charset=utf-8'
export const JSON_TYPE = 'application/json'

const CHUNK_CHARS = 64 * 1024

export interface ResponseHead {
  status?: string // the whole status line; default `200 OK`
  type?: string // default TEXT
  headers?: Record<string, string>
}

interface ResponseBody {
  bytesCount(): number // for HEAD
  write(): void // for other methods
}

export class Exchange {
  readonly path: string
  readonly query: URLSearchParams
  readonly accept: string
  readonly authorization: string
  readonly host: string
  readonly isCrossSite: boolean
  private readonly res: HttpResponse
  private readonly isHead: boolean
  private readonly disconnected = new AbortController()

  constructor(res: HttpResponse, req: HttpRequest) {
    this.res = res
    this.path = req.getUrl()
    this.query = new URLSearchParams(req.getQuery() ?? '')
    this.isHead = req.getMethod() === 'head'
    this.accept = req.getHeader('accept')
    this.authorization = req.getHeader('authorization')
    this.host = req.getHeader('host')
    this.isCrossSite = isCrossSite(req)
    res.onAborted(() => this.disconnected.abort())
  }

  /** Aborted when the client has disconnected. */
  get signal(): AbortSignal {
    return this.disconnected.signal
  }

  send(body: string | Uint8Array, head: ResponseHead = {}): void {
    const write = () => endResponse(this.res, body, false)
    this.respond(head, { bytesCount: () => Buffer.byteLength(body), write })
  }

  /**
   * Sends chunks as fast as the client reads, so that a million lines are never in memory. Another request on the connection
   * before everything is read ends it. Resolves when everything is written or the client has disconnected.
   */
  sendPieces(pieces: Iterable<string>, head: ResponseHead = {}): Promise<void> {
    return new Promise((resolve) => {
      this.signal.addEventListener('abort', () => resolve())
      const write = () => this.writeAll(toChunks(pieces), resolve)
      this.respond(head, { bytesCount: () => countBytes(pieces), write })
      if (this.isHead || this.signal.aborted) resolve()
    })
  }

  private writeAll(chunks: Iterator<string, string>, onEnd: () => void): void {
    const first = chunks.next()
    if (first.done) {
      endResponse(this.res, first.value, false)
      onEnd()
    } else if (this.res.write(first.value)) this.writeRest(chunks, onEnd)
    else this.res.onWritable(() => this.writeRest(chunks, onEnd))
  }

  /** Returns true if everything is written; otherwise continues when the socket is writable. */
  private writeRest(chunks: Iterator<string, string>, onEnd: () => void): boolean {
    for (;;) {
      const { value, done } = chunks.next()
      if (done) {
        this.res.end(value)
        onEnd()
        return true
      }
      if (this.res.write(value)) continue
      this.res.onWritable(() => this.writeRest(chunks, onEnd))
      return false
    }
  }

  private respond({ status, type = TEXT, headers = {} }: ResponseHead, body: ResponseBody): void {
    const { res } = this
    if (this.signal.aborted) return
    res.cork(() => {
      if (status !== undefined) res.writeStatus(status)
      res.writeHeader('Content-Type', type)
      for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value)
      if (this.isHead) endHeadResponse(res, body.bytesCount())
      else body.write()
    })
  }
}

function countBytes(pieces: Iterable<string>): number {
  let sum = 0
  for (const piece of pieces) sum += Buffer.byteLength(piece)
  return sum
}

/** Yields chunks of at least CHUNK_CHARS, returns the rest. */
function* toChunks(pieces: Iterable<string>): Generator<string, string> {
  let chunk = ''
  for (const piece of pieces) {
    chunk += piece
    if (chunk.length < CHUNK_CHARS) continue
    yield chunk
    chunk = ''
  }
  return chunk
}
