/**
 * One request of an operator and its answer, now or minutes later. uWebSockets.js wants the request read before its callback
 * returns, the answer written in one go, and nothing touched once the client has gone; that is kept here.
 */
import type { HttpRequest, HttpResponse } from '../uws.ts'

export const TEXT = 'text/plain; charset=utf-8'
export const JSON_TYPE = 'application/json'

const CHUNK_CHARS = 64 * 1024

export interface AnswerHead {
  status?: string // the whole line, such as `200 OK`, which is the default
  type?: string // default TEXT
  headers?: Record<string, string>
}

export class Exchange {
  readonly path: string
  readonly query: URLSearchParams
  readonly accept: string
  readonly authorization: string
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
    res.onAborted(() => this.leaving.abort())
  }

  /** Aborts when the client has gone. */
  get signal(): AbortSignal {
    return this.leaving.signal
  }

  send(body: string | Uint8Array, head: AnswerHead = {}): void {
    this.answer(head, () => this.res.end(body))
  }

  /** In chunks: a million lines would not fit into one string. */
  sendPieces(pieces: Iterable<string>, head: AnswerHead = {}): void {
    this.answer(head, () => {
      let chunk = ''
      for (const piece of pieces) {
        chunk += piece
        if (chunk.length < CHUNK_CHARS) continue
        this.res.write(chunk)
        chunk = ''
      }
      this.res.end(chunk)
    })
  }

  private answer({ status, type = TEXT, headers = {} }: AnswerHead, writeBody: () => void): void {
    const { res } = this
    if (this.signal.aborted) return
    res.cork(() => {
      if (status !== undefined) res.writeStatus(status)
      res.writeHeader('Content-Type', type)
      for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value)
      if (this.isHead) res.endWithoutBody()
      else writeBody()
    })
  }
}
