/**
 * From a header block to what the call is for. Two memories spare the work where a caller says the same again:
 *
 *     block ── the same bytes as the last one, and the table is as it was? ──► the same head     (17 to 45 ns)
 *       └ no ─► HPACK ── the same packed :path as the last one? ──► its text                     (100 ns)
 *                    └ no ─► Huffman                                                             (260 ns)
 *
 * An Envoy without tracing always hits the first, one with tracing always the second: its traceparent changes with each
 * call and goes into the table.
 */
import { HeaderDecoder } from './hpack.ts'
import { type Fields, fieldsWith, HeadReader, type RequestHead } from './request-head.ts'
import type { Refusal, Route, Routes } from './routes.ts'

/** A head with the decision on it, both fixed once read: it may serve many calls. */
export interface DecodedHeaders {
  readonly head: RequestHead
  readonly route: Route | Refusal | null // null: malformed
}

const MEMO_BYTES_MAX = 512 // per connection
const NONE = Buffer.alloc(0)

export class RequestHeadersDecoder {
  private readonly routes: Routes
  private readonly decoder: HeaderDecoder
  private readonly reader = new HeadReader()
  private memoBytes: Buffer = NONE // made with the first call: many connections never make one
  private memoLength = 0 // 0 = nothing remembered: an empty block is malformed, and never remembered
  private memoVersion = 0
  private memo: DecodedHeaders | null = null

  constructor(routes: Routes, { kindOf, fixed }: Fields = fieldsWith([])) {
    this.routes = routes
    this.decoder = new HeaderDecoder(kindOf, fixed)
  }

  /** The block of a new call. Throws a ConnectionError when it cannot be decoded. */
  read(bytes: Buffer, from: number, to: number): DecodedHeaders {
    if (this.memo !== null && this.isMemo(bytes, from, to)) return this.memo
    const { table } = this.decoder
    const versionBefore = table.version
    this.reader.begin(false)
    this.decoder.decode(bytes, from, to, this.reader)
    const head = this.reader.end()
    const read: DecodedHeaders = { head, route: head.isMalformed ? null : this.routes.find(head) }
    const length = to - from
    if (table.version === versionBefore && length <= MEMO_BYTES_MAX && read.route !== null) {
      if (this.memoBytes === NONE) this.memoBytes = Buffer.allocUnsafeSlow(MEMO_BYTES_MAX)
      bytes.copy(this.memoBytes, 0, from, to)
      this.memoLength = length
      this.memoVersion = table.version
      this.memo = read
    }
    return read
  }

  /** The block of a call that is known: its trailers, which say nothing we read. False: malformed. */
  readTrailers(bytes: Buffer, from: number, to: number): boolean {
    this.reader.begin(true)
    this.decoder.decode(bytes, from, to, this.reader)
    return !this.reader.end().isMalformed
  }

  private isMemo(bytes: Buffer, from: number, to: number): boolean {
    const { memoBytes, memoLength } = this
    if (to - from !== memoLength || this.decoder.table.version !== this.memoVersion) return false
    for (let i = 0; i < memoLength; i++) if (bytes[from + i] !== memoBytes[i]) return false
    return true
  }
}
