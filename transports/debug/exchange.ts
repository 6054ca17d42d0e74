/**
 * One request of an operator and its answer, now or minutes later. uWebSockets.js wants the request read before its callback
 * returns, and nothing touched once the client has gone; that is kept here.
 */
import { endHeadResponse, endResponse } from '../../engine/runtime/http-response.ts'
import type { HttpRequest, HttpResponse } from '../uws.ts'
import { isCrossSite } from './access.ts'

export const TEXT = 'text/plain; charset=utf-8'
export const JSON_TYPE = 'application/json'

const CHUNK_CHARS = 64 * 1024

export interface ResponseHead {
  status?: string // the whole line, such as `200 OK`, which is the default
  type?: string // default TEXT
  headers?: Record<string, string>
}

interface ResponseBody {
  bytesCount(): number // for HEAD
  write(): void // for everybody else
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
  private readonly leaving = new AbortController()

  constructor(res: HttpResponse, req: HttpRequest) {
    this.res = res
    this.path = req.getUrl()
    this.query = new URLSearchParams(req.getQuery() ?? '')
    this.isHead = req.getMethod() === 'head'
    this.accept = req.getHeader('accept')
    this.authorization = req.getHeader('authorization')
    this.host = req.getHeader('host')
    this.isCrossSite = isCrossSite(req)
    res.onAborted(() => this.leaving.abort())
  }

  /** Aborts when the client has gone. */
  get signal(): AbortSignal {
    return this.leaving.signal
  }

  send(body: string | Uint8Array, head: ResponseHead = {}): void {
    const write = () => endResponse(this.res, body, false)
    this.answer(head, { bytesCount: () => Buffer.byteLength(body), write })
  }

  /**
   * In chunks, as fast as the client reads: a million lines would not fit into one string, and what a client leaves unread
   * would pile up in this process. A request that follows on the same connection before all is read ends it. Resolves when
   * all is written, or the client has gone.
   */
  sendPieces(pieces: Iterable<string>, head: ResponseHead = {}): Promise<void> {
    return new Promise((resolve) => {
      this.signal.addEventListener('abort', () => resolve())
      const write = () => this.writeAll(chunksOf(pieces), resolve)
      this.answer(head, { bytesCount: () => countBytes(pieces), write })
      if (this.isHead || this.signal.aborted) resolve()
    })
  }

  private writeAll(chunks: Iterator<string, string>, onEnd: () => void): void {
    const first = chunks.next()
    if (first.done) {
      endResponse(this.res, first.value, false)
      onEnd()
    } else if (this.res.write(first.value)) this.writeOn(chunks, onEnd)
    else this.res.onWritable(() => this.writeOn(chunks, onEnd))
  }

  /** True when all is written; else goes on by itself when there is room. */
  private writeOn(chunks: Iterator<string, string>, onEnd: () => void): boolean {
    for (;;) {
      const { value, done } = chunks.next()
      if (done) {
        this.res.end(value)
        onEnd()
        return true
      }
      if (this.res.write(value)) continue
      this.res.onWritable(() => this.writeOn(chunks, onEnd))
      return false
    }
  }

  private answer({ status, type = TEXT, headers = {} }: ResponseHead, body: ResponseBody): void {
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

/** Yields what is long enough, returns the rest. */
function* chunksOf(pieces: Iterable<string>): Generator<string, string> {
  let chunk = ''
  for (const piece of pieces) {
    chunk += piece
    if (chunk.length < CHUNK_CHARS) continue
    yield chunk
    chunk = ''
  }
  return chunk
}
