/**
 * From a header block to the head and route of a call. Two caches save the work for repeated headers:
 *
 *     block ── the same bytes as the last one, and the table unchanged? ──► the same head     (17 to 45 ns)
 *       └ no ─► HPACK ── the same coded :path as the last one? ──► its string                 (100 ns)
 *                    └ no ─► Huffman decoding                                                 (260 ns)
 *
 * An Envoy without tracing always hits the first, one with tracing always the second: its traceparent changes with each
 * call and enters the table.
 */
import { CONTINUATIONS_MAX, HEADER_BLOCK_BYTES_MAX } from './bounds.ts'
import type { ConnectionQuota } from './connection-quota.ts'
import { ConnectionError, ErrorCode } from './frames.ts'
import { HeaderDecoder } from './hpack.ts'
import {
  createHeaderClassifier,
  type HeaderClassifier,
  HeadReader,
  type RequestHead,
} from './request-head.ts'
import type { Refusal, Route, Routes } from './routes.ts'

/** A head with its route, both immutable: many calls may share them. */
export interface DecodedHeaders {
  readonly head: RequestHead
  readonly route: Route | Refusal | null // null: malformed
}

const MEMO_BYTES_MAX = 512 // per connection
const NONE = Buffer.alloc(0)

export class RequestHeadersDecoder {
  private readonly routes: Routes
  private readonly decoder: HeaderDecoder
  private readonly headReader = new HeadReader()
  private memoBytes: Buffer = NONE // allocated with the first call: many connections never have one
  private memoLength = 0 // 0 = nothing cached; an empty block is malformed and never cached
  private memoVersion = 0
  private memo: DecodedHeaders | null = null

  constructor(routes: Routes, { classifyName, staticFields }: HeaderClassifier = createHeaderClassifier([])) {
    this.routes = routes
    this.decoder = new HeaderDecoder(classifyName, staticFields)
  }

  /** Decodes the block of a new call. Throws a ConnectionError when that fails. */
  decode(bytes: Buffer, from: number, to: number): DecodedHeaders {
    if (this.memo !== null && this.isMemo(bytes, from, to)) return this.memo
    const { table } = this.decoder
    const versionBefore = table.version
    this.headReader.begin(false)
    this.decoder.decode(bytes, from, to, this.headReader)
    const head = this.headReader.end()
    const decoded: DecodedHeaders = { head, route: head.isMalformed ? null : this.routes.find(head) }
    const length = to - from
    if (table.version === versionBefore && length <= MEMO_BYTES_MAX && decoded.route !== null) {
      if (this.memoBytes === NONE) this.memoBytes = Buffer.allocUnsafeSlow(MEMO_BYTES_MAX)
      bytes.copy(this.memoBytes, 0, from, to)
      this.memoLength = length
      this.memoVersion = table.version
      this.memo = decoded
    }
    return decoded
  }

  /** Decodes the trailers of a call, of which nothing is read. Returns false when they are malformed. */
  decodeTrailers(bytes: Buffer, from: number, to: number): boolean {
    this.headReader.begin(true)
    this.decoder.decode(bytes, from, to, this.headReader)
    return !this.headReader.end().isMalformed
  }

  private isMemo(bytes: Buffer, from: number, to: number): boolean {
    const { memoBytes, memoLength } = this
    if (to - from !== memoLength || this.decoder.table.version !== this.memoVersion) return false
    for (let i = 0; i < memoLength; i++) if (bytes[from + i] !== memoBytes[i]) return false
    return true
  }
}

/**
 * A header block that continues after its HEADERS frame: CONTINUATION frames, the last with END_HEADERS. No other frame
 * may come between them, so a connection has at most one.
 */
export class HeaderBlock {
  id = 0 // of its stream; 0 = no block is open
  endsStream = false // HEADERS carried END_STREAM
  dependsOnItself = false // an invalid priority, a stream error
  private readonly quota: ConnectionQuota
  private parts: Buffer[] = []
  private bytes = 0

  constructor(quota: ConnectionQuota) {
    this.quota = quota
  }

  get isOpen(): boolean {
    return this.id !== 0
  }

  open(id: number, isEnd: boolean, isOwnParent: boolean, bytes: Buffer, from: number, to: number): void {
    this.id = id
    this.endsStream = isEnd
    this.dependsOnItself = isOwnParent
    this.parts = []
    this.add(bytes, from, to)
  }

  /** Throws a ConnectionError when it is too large: the HPACK table would get out of step with an unread block. */
  add(bytes: Buffer, from: number, to: number): void {
    const isFull = this.parts.length > CONTINUATIONS_MAX || this.bytes + to - from > HEADER_BLOCK_BYTES_MAX
    if (isFull || !this.quota.reserve(to - from)) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, 'the header block is too long')
    }
    this.bytes += to - from
    this.parts.push(Buffer.from(bytes.subarray(from, to))) // copied: the read buffer is reused
  }

  /** Returns the whole block. */
  close(): Buffer {
    const whole = Buffer.concat(this.parts)
    this.drop()
    return whole
  }

  drop(): void {
    this.quota.release(this.bytes)
    this.bytes = 0
    this.id = 0
    this.parts = []
  }
}
