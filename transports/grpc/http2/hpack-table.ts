/**
 * The table of HPACK (RFC 7541, 2.3): 61 fixed fields, then the ones of this connection, newest first.
 *
 *     index   1 ........ 61 | 62 ................ 62 + count - 1
 *             fixed         | newest ──────────► oldest, dropped when bytes run out
 *
 * A field's name is judged once, when it comes in (`kindOf`), so a field met again costs no string comparison. Values
 * of names that nobody reads are not kept, only their size: a traceparent that changes with every call costs no string.
 */

/** What a name is to whoever reads headers: its own positive numbers, or one of these two. */
export const UNREAD = 0 // known to be of no interest: the value is not kept
export const MALFORMED = -1 // may not stand in a request

export type ClassifyName = (name: string) => number

export const TABLE_BYTES_MAX = 4_096 // the protocol's default; we announce no other
const FIELD_OVERHEAD_BYTES = 32 // RFC 7541, 4.1
const FIELDS_MAX = TABLE_BYTES_MAX / FIELD_OVERHEAD_BYTES // a power of two

/** One field; `bytes` is its size in the table, whether or not the value was kept. */
export class Field {
  readonly name: string
  readonly value: string
  readonly bytes: number
  kind = UNREAD

  constructor(name: string, value: string, textBytes: number) {
    this.name = name
    this.value = value
    this.bytes = textBytes + FIELD_OVERHEAD_BYTES
  }
}

// biome-ignore format: RFC 7541, appendix A
const FIXED = [
  ':authority', ':method GET', ':method POST', ':path /', ':path /index.html', ':scheme http', ':scheme https',
  ':status 200', ':status 204', ':status 206', ':status 304', ':status 400', ':status 404', ':status 500',
  'accept-charset', 'accept-encoding gzip, deflate', 'accept-language', 'accept-ranges', 'accept',
  'access-control-allow-origin', 'age', 'allow', 'authorization', 'cache-control', 'content-disposition',
  'content-encoding', 'content-language', 'content-length', 'content-location', 'content-range', 'content-type',
  'cookie', 'date', 'etag', 'expect', 'expires', 'from', 'host', 'if-match', 'if-modified-since', 'if-none-match',
  'if-range', 'if-unmodified-since', 'last-modified', 'link', 'location', 'max-forwards', 'proxy-authenticate',
  'proxy-authorization', 'range', 'referer', 'refresh', 'retry-after', 'server', 'set-cookie',
  'strict-transport-security', 'transfer-encoding', 'user-agent', 'vary', 'via', 'www-authenticate',
].map((line) => {
  const [name, ...value] = line.split(' ')
  return new Field(name, value.join(' '), name.length + value.join(' ').length)
})
export const FIXED_COUNT = FIXED.length

export class HeaderTable {
  version = 0 // another one after each change
  readonly classifyName: ClassifyName
  private readonly fixed: readonly Field[]
  private readonly ring: (Field | null)[] = []
  private newest = 0 // counts up for ever; its place is the low bits
  private count = 0
  private bytes = 0
  private bytesMax = TABLE_BYTES_MAX

  constructor(classifyName: ClassifyName, fixed = fixedFields(classifyName)) {
    this.classifyName = classifyName
    this.fixed = fixed
  }

  /** null: there is none. */
  at(index: number): Field | null {
    if (index <= FIXED_COUNT) return index === 0 ? null : this.fixed[index - 1]
    const age = index - FIXED_COUNT - 1
    if (age >= this.count) return null
    return this.ring[(this.newest - age) & (FIELDS_MAX - 1)]
  }

  add(field: Field): void {
    this.version++
    this.shrinkTo(this.bytesMax - field.bytes)
    if (field.bytes > this.bytesMax) return // then the table is empty, and that is no error (4.4)
    this.newest = (this.newest + 1) & (FIELDS_MAX - 1)
    this.ring[this.newest] = field
    this.count++
    this.bytes += field.bytes
  }

  /** False when it is more than we announced. */
  resize(bytesMax: number): boolean {
    if (bytesMax > TABLE_BYTES_MAX) return false
    this.version++
    this.bytesMax = bytesMax
    this.shrinkTo(bytesMax)
    return true
  }

  private shrinkTo(bytes: number): void {
    while (this.bytes > bytes && this.count > 0) {
      const place = (this.newest - this.count + 1) & (FIELDS_MAX - 1)
      this.bytes -= this.ring[place]!.bytes
      this.ring[place] = null
      this.count--
    }
  }
}

/** The fixed part as one kind of reader sees it: made once, shared by its connections. */
export function fixedFields(kindOf: ClassifyName): readonly Field[] {
  return FIXED.map(({ name, value }) => {
    const field = new Field(name, value, name.length + value.length)
    field.kind = kindOf(name)
    return field
  })
}
