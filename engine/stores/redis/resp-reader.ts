/**
 * Redis' replies (RESP2) out of chunks of bytes that are cut anywhere.
 *
 *     :12 \r\n            ─► integer(12)                  what a hit is answered with: nothing is allocated
 *     :9007199254740993   ─► reply(9007199254740993n)     exact beyond 2^53
 *     +OK  $2 ab  $-1     ─► reply('OK'), reply('ab'), reply(null)
 *     -WRONGTYPE …        ─► reply(ErrorReply)
 *     *2 :1 -ERR …        ─► reply([1, ErrorReply])
 *
 * Only a line or a string whose end has not come yet is kept, so a chunk may be overwritten after `read`, and a long array
 * is not read anew with each chunk. Sizes are bounded: what is larger or is no RESP2 is a fault, and the connection with it.
 */

/** An error as Redis words it. Inside an array it stands for one key. */
export class ErrorReply {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type Reply = number | bigint | string | null | ErrorReply | Reply[]

export interface ReplySink {
  integer(value: number): void // -(2^53-1) to 2^53-1
  reply(value: Reply): void // everything else
}

export const LINE_BYTES_MAX = 64 * 1024
export const STRING_BYTES_MAX = 1024 * 1024
export const REPLY_BYTES_MAX = 16 * 1024 * 1024 // of an array with all it holds
export const DEPTH_MAX = 8 // arrays in arrays

const CR = 13
const LF = 10
const COLON = 58
const ZERO = 48
const SHORT_MAX = 16 // a colon and 15 digits: exact in a number

interface OpenArray {
  items: Reply[]
  leftCount: number
}

export class RespReader {
  sink: ReplySink
  fault = '' // why nothing more is read; '' = none
  private held: Buffer | null = null // the beginning of a line or string
  private readonly open: OpenArray[] = [] // outermost first
  private openBytes = 0 // of the outermost array, so far

  constructor(sink: ReplySink) {
    this.sink = sink
  }

  /** Reads `size` bytes. False: there is a fault. */
  read(chunk: Buffer, size: number): boolean {
    let bytes = chunk
    let end = size
    if (this.held !== null) {
      bytes = Buffer.concat([this.held, chunk.subarray(0, size)])
      end = bytes.length
      this.held = null
    }
    let at = 0
    while (at < end && this.fault === '') {
      if (bytes[at] === COLON && this.open.length === 0) {
        // hot: nothing is allocated in here
        let i = at + 1
        let value = 0
        for (; i < end; i++) {
          const digit = bytes[i] - ZERO
          if (digit < 0 || digit > 9) break
          value = value * 10 + digit
        }
        const length = i - at
        if (length > 1 && length <= SHORT_MAX && i + 1 < end && bytes[i] === CR && bytes[i + 1] === LF) {
          at = i + 2
          this.sink.integer(value)
          continue
        }
      }
      const next = this.readPart(bytes, at, end)
      if (next < 0) {
        if (this.fault === '') this.held = Buffer.from(bytes.subarray(at, end))
        break
      }
      if (this.open.length > 0) this.openBytes += next - at
      else this.openBytes = 0
      if (this.openBytes > REPLY_BYTES_MAX) this.fail(`a reply of more than ${REPLY_BYTES_MAX} bytes`)
      at = next
    }
    return this.fault === ''
  }

  /** Nobody wants the rest, of this chunk either. */
  stop(): void {
    this.fail('stopped')
  }

  /** One line, or one string: where the next begins, or -1 when its end is not there or it is a fault. */
  private readPart(bytes: Buffer, at: number, end: number): number {
    let cr = at + 1
    while (cr < end && bytes[cr] !== CR) cr++
    if (cr - at > LINE_BYTES_MAX) return this.fail(`a line of more than ${LINE_BYTES_MAX} bytes`)
    if (cr + 1 >= end) return -1
    if (bytes[cr + 1] !== LF) return this.fail('a line that does not end')
    const next = cr + 2
    const line = bytes.toString('utf8', at + 1, cr)
    switch (String.fromCharCode(bytes[at])) {
      case ':':
        return this.readInteger(line, next)
      case '+':
        return this.put(line, next)
      case '-':
        return this.put(new ErrorReply(line), next)
      case '$':
        return this.readString(line, bytes, next, end)
      case '*':
        return this.readArray(line, next)
      default:
        return this.fail(`it begins with byte ${bytes[at]}`)
    }
  }

  private readInteger(line: string, next: number): number {
    if (!/^[+-]?\d{1,20}$/.test(line)) return this.fail('it is no integer')
    const value = Number(line)
    return this.put(Number.isSafeInteger(value) ? value : BigInt(line), next)
  }

  private readString(line: string, bytes: Buffer, start: number, end: number): number {
    if (line === '-1') return this.put(null, start)
    const length = this.readLength(line)
    if (length > STRING_BYTES_MAX) return this.fail(`a string of more than ${STRING_BYTES_MAX} bytes`)
    if (length < 0 || start + length + 2 > end) return -1
    const close = start + length
    if (bytes[close] !== CR || bytes[close + 1] !== LF) return this.fail('a string longer than it says')
    return this.put(bytes.toString('utf8', start, close), close + 2)
  }

  private readArray(line: string, next: number): number {
    if (line === '-1') return this.put(null, next)
    const leftCount = this.readLength(line)
    if (leftCount < 0) return -1
    if (leftCount === 0) return this.put([], next)
    if (leftCount * 4 > REPLY_BYTES_MAX) return this.fail(`an array of ${leftCount}`) // no item is shorter
    if (this.open.length === DEPTH_MAX) return this.fail(`arrays deeper than ${DEPTH_MAX}`)
    this.open.push({ items: [], leftCount })
    return next
  }

  private readLength(line: string): number {
    return /^\d{1,10}$/.test(line) ? Number(line) : this.fail('it is no length')
  }

  /** A whole value: an item of the innermost array, or a reply. */
  private put(value: Reply, next: number): number {
    for (let array = this.open.at(-1); array !== undefined; array = this.open.at(-1)) {
      array.items.push(value)
      if (--array.leftCount > 0) return next
      value = array.items
      this.open.pop()
    }
    if (typeof value === 'number') this.sink.integer(value)
    else this.sink.reply(value)
    return next
  }

  private fail(what: string): number {
    if (this.fault === '') this.fault = what
    return -1
  }
}
