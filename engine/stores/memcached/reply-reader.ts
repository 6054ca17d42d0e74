/**
 * The replies of one connection to memcached: complete ones out of whatever pieces arrive, each checked against the oldest
 * command that has none. A reply that does not fit its command says that later ones may belong to other commands, too, so the
 * connection must be closed.
 *
 *     gets     VALUE <key> <flags> <bytes> <cas> \r\n <bytes> \r\n   for keys that were asked for; then END
 *     incr     a number · NOT_FOUND · CLIENT_ERROR about the value
 *     add      STORED · NOT_STORED
 *     any      SERVER_ERROR <text>
 */
export type CommandKind = 'gets' | 'incr' | 'add'

/** A command that waits for its reply. */
export interface ExpectedReply {
  kind: CommandKind
  keys: RequestedKeys | null // of gets
}

export interface ReplyHooks {
  /** The oldest command without a complete reply, or null. */
  getExpected(): ExpectedReply | null
  onValue(key: string, value: string): void
  /** The reply to the oldest command is complete; `line` is its last line, without \r\n. */
  onReply(line: string): void
}

/** Longer values and lines are not replies to our commands. */
const VALUE_BYTES_MAX = 1_048_576
const LINE_BYTES_MAX = 2_048

const LINE_LOGGED_MAX = 200 // characters

/** The text is at most LINE_BYTES_MAX long. A key may contain any byte above the space. */
const VALUE_LINE = /^VALUE ([^ ]{1,250}) [0-9]{1,10} ([0-9]{1,7})(?: [0-9]{1,20})? *$/
const VALUE_END = /^VALUE [^ ]+ ([0-9a-z -]{1,40})$/
const COUNT_LINE = /^[0-9]{1,20} *$/
const INCR_ERROR = /^CLIENT_ERROR (?:cannot increment|invalid numeric)/

export class ReplyReader {
  private readonly hooks: ReplyHooks
  private partial = '' // received but incomplete; one character per byte
  private isClosed = false

  constructor(hooks: ReplyHooks) {
    this.hooks = hooks
  }

  /** Reads `chunk`, one character per byte. Returns null, or why the connection must be closed; then nothing more may be read. */
  read(chunk: string): string | null {
    const text = this.partial + chunk
    let at = 0
    this.partial = ''
    while (!this.isClosed) {
      const lineEnd = text.indexOf('\r\n', at)
      if (lineEnd === -1 && text.length - at <= LINE_BYTES_MAX + 1) break // and the \r
      if (lineEnd === -1 || lineEnd - at > LINE_BYTES_MAX)
        return `it sent a line of more than ${LINE_BYTES_MAX} bytes`
      const line = text.slice(at, lineEnd)
      const expected = this.hooks.getExpected()
      if (expected === null) return `unexpected reply: ${toLogged(line)}`
      if (!line.startsWith('VALUE ')) {
        if (!fits(line, expected.kind)) return `protocol error: ${toLogged(line)}`
        at = lineEnd + 2
        this.hooks.onReply(line)
        continue
      }
      const match = VALUE_LINE.exec(line)
      const bytes = Number(match?.[2])
      if (match === null || bytes > VALUE_BYTES_MAX || expected.keys === null)
        return `unexpected value: ${toLogged(line)}`
      const start = lineEnd + 2
      const end = start + bytes
      if (text.length < end + 2) break
      if (!text.startsWith('\r\n', end)) return `a value of another length: ${toLogged(line)}`
      if (!expected.keys.take(match[1])) return `a value that was not asked for: ${toLogged(line)}`
      at = end + 2
      this.hooks.onValue(match[1], text.slice(start, end))
    }
    if (!this.isClosed) this.partial = text.slice(at)
    return null
  }

  /** Nothing more is read, not even what has arrived already. */
  close(): void {
    this.isClosed = true
    this.partial = ''
  }
}

export function isServerError(line: string): boolean {
  return line.startsWith('SERVER_ERROR')
}

/** Whether the reply says that this command failed, and nothing else. */
export function isError(line: string): boolean {
  return isServerError(line) || line.startsWith('CLIENT_ERROR')
}

/** Whether `line` is the last one of a reply to the command. After any other one, replies may no longer match commands. */
function fits(line: string, kind: CommandKind): boolean {
  if (isServerError(line)) return true
  if (kind === 'gets') return line === 'END'
  if (kind === 'add') return line === 'STORED' || line === 'NOT_STORED'
  return line === 'NOT_FOUND' || COUNT_LINE.test(line) || INCR_ERROR.test(line)
}

/** The keys of one `gets`. A value costs one comparison while values come in the order of the keys. */
export class RequestedKeys {
  private readonly keys: readonly string[]
  private next = 0 // those before it are not searched again
  private valuesCount = 0
  private set: Set<string> | null = null // of a reply in another order; proxies may send one

  constructor(keys: readonly string[]) {
    this.keys = keys
  }

  /** A value of `key` has arrived. Returns false if it was not asked for, or if there are more values than keys. */
  take(key: string): boolean {
    const { keys } = this
    if (++this.valuesCount > keys.length) return false
    while (this.next < keys.length) if (keys[this.next++] === key) return true
    this.set ??= new Set(keys)
    return this.set.has(key)
  }
}

/** Without the key of a value, which contains values of callers. */
function toLogged(line: string): string {
  const shown = line.startsWith('VALUE ') ? `VALUE … ${VALUE_END.exec(line)?.[1] ?? ''}` : line
  return JSON.stringify(shown.slice(0, LINE_LOGGED_MAX))
}
