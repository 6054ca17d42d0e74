/**
 * Reads the headers of a call that this server uses; all others are only checked.
 *
 *     :method POST   :path /package.Service/Method   content-type application/grpc   grpc-timeout 20m   grpc-encoding gzip
 *
 * Violations of HTTP (RFC 9113, 8.2 and 8.3) make the head malformed: a stream error. What gRPC does not accept is refused
 * by the routes with a response.
 */
import { HEADER_VALUE_MAX } from '../frontend.ts'
import { HEADER_LIST_BYTES_MAX } from './bounds.ts'
import type { FieldSink } from './hpack.ts'
import { type ClassifyName, createStaticFields, MALFORMED, UNREAD } from './hpack.ts'

const METHOD = 1
const SCHEME = 2
const PATH = 3
const AUTHORITY = 4
const CONTENT_TYPE = 5
const TIMEOUT = 6
const ENCODING = 7
const TE = 8
const CONTENT_LENGTH = 9
const SERVICE_HEADER = 10 // and above: headers that services read, in the order of their registration

const KINDS = new Map([
  [':method', METHOD],
  [':scheme', SCHEME],
  [':path', PATH],
  [':authority', AUTHORITY],
  ['content-type', CONTENT_TYPE],
  ['grpc-timeout', TIMEOUT],
  ['grpc-encoding', ENCODING],
  ['te', TE],
  ['content-length', CONTENT_LENGTH],
  // connection-specific headers are not allowed in HTTP/2 (RFC 9113, 8.2.2)
  ['connection', MALFORMED],
  ['proxy-connection', MALFORMED],
  ['keep-alive', MALFORMED],
  ['transfer-encoding', MALFORMED],
  ['upgrade', MALFORMED],
])
const BAD_NAME = /[^\x21-\x39\x3b-\x40\x5b-\x7e]/ // upper case, a colon after the start, or anything but visible ASCII

/** The kind of a name, for the HPACK table. */
export function classifyHeaderName(name: string): number {
  return KINDS.get(name) ?? (name === '' || BAD_NAME.test(name) ? MALFORMED : UNREAD)
}
export const STATIC_FIELDS = createStaticFields(classifyHeaderName)

/** How names are classified on all connections of a server. */
export interface HeaderClassifier {
  classifyName: ClassifyName
  staticFields: ReturnType<typeof createStaticFields>
}

/** For services that read the headers `names`. Names that the server reads itself must not be among them. */
export function createHeaderClassifier(names: readonly string[]): HeaderClassifier {
  if (names.length === 0) return { classifyName: classifyHeaderName, staticFields: STATIC_FIELDS }
  const kinds = new Map(names.map((name, index) => [name, SERVICE_HEADER + index]))
  const classifyName = (name: string) => kinds.get(name) ?? classifyHeaderName(name)
  return { classifyName, staticFields: createStaticFields(classifyName) }
}

// biome-ignore format: milliseconds per unit
const UNIT_MS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }
const TIMEOUT_TEXT = /^(\d{1,8})([HMSmun])$/

/** Immutable once read: calls with the same header block share one head. */
export class RequestHead {
  method = ''
  path = ''
  contentType = ''
  timeoutMs = Number.POSITIVE_INFINITY // NaN = invalid
  timeoutText = ''
  encoding = ''
  contentLength = -1 // -1 = absent
  isMalformed = false
  isTooLarge = false
  serviceHeaders: string[] | null = null // in the order of the names; null = none received
}

/** Builds a head from the fields of one block. Trailers have no pseudo headers. */
export class HeadReader implements FieldSink {
  head = new RequestHead()
  private isTrailer = false
  private listBytes = 0
  private arePseudoOver = false
  private lastTimeout = '' // usually the same for each call of a peer
  private lastTimeoutMs = Number.NaN
  private pseudoSeen = 0 // one bit per kind of pseudo header

  begin(isTrailer: boolean): void {
    this.head = new RequestHead()
    this.isTrailer = isTrailer
    this.listBytes = 0
    this.arePseudoOver = isTrailer
    this.pseudoSeen = 0
  }

  /** The head read. Only `isMalformed` and `isTooLarge` are meaningful when one of them is set. */
  end(): RequestHead {
    const { head } = this
    const all = (1 << METHOD) | (1 << SCHEME) | (1 << PATH)
    if (!this.isTrailer && ((this.pseudoSeen & all) !== all || head.path === '')) head.isMalformed = true
    return head
  }

  field(kind: number, _name: string, value: string, bytes: number): void {
    this.listBytes += bytes
    if (this.listBytes > HEADER_LIST_BYTES_MAX) {
      this.head.isTooLarge = true
      return
    }
    if (kind === UNREAD) this.arePseudoOver = true
    else if (kind === MALFORMED) this.head.isMalformed = true
    else if (kind <= AUTHORITY) this.onPseudoField(kind, value)
    else {
      this.arePseudoOver = true
      this.onRegularField(kind, value)
    }
  }

  private onPseudoField(kind: number, value: string): void {
    const { head } = this
    if (this.arePseudoOver || this.pseudoSeen & (1 << kind)) head.isMalformed = true
    this.pseudoSeen |= 1 << kind
    if (kind === METHOD) head.method = value
    else if (kind === PATH) head.path = value
  }

  private onRegularField(kind: number, value: string): void {
    const { head } = this
    if (kind === CONTENT_TYPE) head.contentType = value
    else if (kind === ENCODING) head.encoding = value
    else if (kind === TIMEOUT) {
      if (value !== this.lastTimeout) {
        this.lastTimeout = value
        this.lastTimeoutMs = parseTimeoutMs(value)
      }
      head.timeoutText = value
      head.timeoutMs = this.lastTimeoutMs
    } else if (kind === TE) head.isMalformed ||= value !== 'trailers'
    else if (kind === CONTENT_LENGTH) {
      const length = /^\d{1,15}$/.test(value) ? Number(value) : -1
      if (length < 0 || (head.contentLength >= 0 && head.contentLength !== length)) head.isMalformed = true
      head.contentLength = length
    } else this.storeServiceHeader(kind - SERVICE_HEADER, value)
  }

  private storeServiceHeader(index: number, value: string): void {
    if (value.length > HEADER_VALUE_MAX) return
    this.head.serviceHeaders ??= []
    this.head.serviceHeaders[index] = value
  }
}

/** `20m` is 20 milliseconds, `1S` one second. NaN for any other form. */
export function parseTimeoutMs(text: string): number {
  const parts = TIMEOUT_TEXT.exec(text)
  return parts === null ? Number.NaN : Number(parts[1]) * UNIT_MS[parts[2]]
}
