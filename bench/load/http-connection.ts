/**
 * An HTTP/1.1 connection of the load generator, kept alive, with one call at a time: each of `--streams` is a connection of its
 * own. Responses must have a content-length, as those of both services do.
 *
 *     POST /json ... {"domain":...}   ──►   200 or 429, {"overallCode":"OK","statuses":[...]}
 */
import type { Socket } from 'node:net'
import { Code } from '../../proto/ratelimit.ts'
import { LIMITED } from './classify-response.ts'
import type { Connection, Listener } from './connection.ts'
import type { NextKey } from './keys.ts'
import { jsonRequest, type Shape, Template } from './requests.ts'

const RESPONSE_BYTES_MAX = 1_048_576 // head and body; beyond: the connection ends
const CODES: Record<string, number> = { OK: Code.Ok, OVER_LIMIT: Code.OverLimit }
const HEAD_END = '\r\n\r\n'

export interface HttpOptions {
  authority: string
  path: string
  shape: Shape
  nextKey: NextKey
}

export class HttpConnection implements Connection {
  readonly isOpen = true
  inFlight = 0
  private readonly socket: Socket
  private readonly options: HttpOptions
  private readonly listener: Listener
  private readonly template: Template
  private readonly out: Buffer
  private isWaiting = false // for `flush`
  private isLeaving = false
  private dueMs = 0
  private rest: Buffer | null = null // of an incomplete response

  /** `socket` is connected, and its bytes are passed to `read`. */
  constructor(socket: Socket, options: HttpOptions, listener: Listener) {
    this.socket = socket
    this.options = options
    this.listener = listener
    const { authority, path, shape } = options
    const body = jsonRequest(shape)
    const head = `POST ${path} HTTP/1.1\r\nhost: ${authority}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`
    this.template = new Template(Buffer.concat([Buffer.from(head + HEAD_END), body]), shape)
    this.out = Buffer.alloc(this.template.bytes.length)
  }

  get free(): number {
    return this.isLeaving ? 0 : 1 - this.inFlight
  }

  start(dueMs: number): void {
    this.inFlight = 1
    this.dueMs = dueMs
    this.template.write(this.out, 0, this.options.nextKey)
    this.isWaiting = true
  }

  flush(): void {
    if (!this.isWaiting || this.socket.destroyed) return
    this.isWaiting = false
    this.socket.write(this.out) // reused only after the response
  }

  close(): void {
    this.isLeaving = true
    this.socket.destroy()
  }

  /** Reads bytes from the server. The buffer may be reused afterwards. */
  read(chunk: Buffer): void {
    const nowMs = performance.now()
    const bytes = this.rest === null ? chunk : Buffer.concat([this.rest, chunk])
    const headEnd = bytes.indexOf(HEAD_END)
    const head = headEnd < 0 ? '' : bytes.toString('latin1', 0, headEnd)
    const length = headEnd < 0 ? 0 : readContentLength(head)
    const end = headEnd + HEAD_END.length + length
    const isWhole = headEnd >= 0 && bytes.length >= end
    if (length < 0) this.onClosed('a response without content-length')
    else if (bytes.length > RESPONSE_BYTES_MAX) this.onClosed('a response that is too large')
    else if (!isWhole) this.rest = Buffer.from(bytes)
    else if (this.inFlight === 0 || bytes.length > end) this.onClosed('a response without a request')
    else this.onWholeResponse(head, bytes.toString('utf8', headEnd + HEAD_END.length, end), nowMs)
  }

  private onWholeResponse(head: string, body: string, nowMs: number): void {
    this.rest = null
    this.inFlight = 0
    const { code, reason } = classifyJson(Number(head.slice(9, 12)), body, this.options.shape.descriptors)
    if (reason === '') this.listener.onResponse(this.dueMs, nowMs, code)
    else this.listener.onFailure(this.dueMs, reason)
    if (/^connection: *close/im.test(head)) this.leave('the server closes the connection')
    this.listener.onReadEnd(this, nowMs)
    this.flush()
    if (this.isLeaving) this.socket.destroy()
  }

  /** The socket has closed or must be closed: the call in flight fails. */
  onClosed(reason: string): void {
    this.leave(reason)
    this.socket.destroy()
    if (this.inFlight === 0) return
    this.inFlight = 0
    this.listener.onFailure(this.dueMs, `connection lost: ${reason}`)
  }

  private leave(reason: string): void {
    if (this.isLeaving) return
    this.isLeaving = true
    this.listener.onClosing(this, reason)
  }
}

/** As `classify-response.ts` for protobuf, with the reason if it is not a decision. Only OVER_LIMIT may have the status 429. */
export function classifyJson(
  status: number,
  body: string,
  descriptors: number,
): { code: number; reason: string } {
  const fail = (reason: string) => ({ code: 0, reason })
  if (status !== 200 && status !== 429) return fail(`HTTP status ${status}`)
  let response: { overallCode?: string; statuses?: { code?: string; currentLimit?: object }[] }
  try {
    response = JSON.parse(body)
  } catch {
    return fail('wrong response: not JSON')
  }
  const code = CODES[response?.overallCode ?? '']
  const { statuses } = response ?? {}
  const isRight = Array.isArray(statuses) && statuses.every((each) => (each?.code ?? '') in CODES)
  if (code === undefined || !isRight || statuses.length !== descriptors) {
    return fail('wrong response: not one status, OK or OVER_LIMIT, per descriptor')
  }
  if ((status === 429) !== (code === Code.OverLimit))
    return fail(`wrong response: ${response.overallCode} with ${status}`)
  return { code: statuses.some((each) => each.currentLimit) ? code | LIMITED : code, reason: '' }
}

/** Returns -1 if there is none. */
function readContentLength(head: string): number {
  const [, digits] = /^content-length: *(\d+)/im.exec(head) ?? []
  return digits === undefined ? -1 : Number(digits)
}
