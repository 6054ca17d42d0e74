/**
 * Pull parser for JSON of a known shape: the caller requests a field, an element, a string or a whole number, and gets an
 * error with its place if the text holds something else.
 *
 *     {   "descriptors" :   [   {   "entries" :   [   {   "key" :   "user"   , …
 *     field(REQUEST, 0) = 1   element(0)        │       field(ENTRY, 0) = 0   │
 *                                               element(0)        string() = 'user'
 *
 * Nothing is skipped: the first unknown field, wrong type or repeated field ends parsing, and nesting is limited by the
 * caller. Works on one string of all bytes: slicing it takes less than half the time of creating a string per piece
 * (bench/wire.ts). Returned strings may be such slices, which keep the whole text in memory.
 *
 * One reader is reused for every text, and reading never yields.
 */
import { DECIMAL, wholeNumber } from './whole-number.ts'

/** Names of an object's fields; field i may be spelled either way. */
export interface FieldNames {
  readonly names: readonly string[]
  readonly originals: readonly string[] // as the .proto file has them
}

const SHOWN_CHARS_MAX = 40 // of foreign text within an error, which is logged
const FAST_DIGITS_MAX = 15 // numbers of 15 digits are exact as a double

const TAB = 9
const LINE_FEED = 10
const RETURN = 13
const SPACE = 32
const QUOTE = 34
const COMMA = 44
const DOT = 46
const ZERO = 48
const COLON = 58
const OPEN_LIST = 91
const BACKSLASH = 92
const CLOSE_LIST = 93
const SMALL_E = 101
const SMALL_N = 110
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125
const LOWER_CASE = 32 // E | LOWER_CASE is e
const NOTHING = -1 // after the end of the text
const SURROGATE_MIN = 0xd800

export class JsonReader {
  private text = ''
  private pos = 0
  private valueAt = 0 // start of the value that is being read, or was read last
  private depth = 0
  private readonly path: (string | number)[] = [] // its first `depth` elements lead to the value being read

  /** Starts to read a text. */
  open(text: string): void {
    this.text = text
    this.pos = 0
    this.valueAt = 0
    this.depth = 0
  }

  /** Checks that only white space follows, and releases the text. */
  close(): void {
    if (this.next() !== NOTHING) this.failSyntax('the end of the text')
    this.text = ''
  }

  /**
   * Returns the number of the next field and stops before its value; -1 after the last field. Bit i of `seen` is set if field
   * i was read before, so 0 means that the object begins.
   */
  field(known: FieldNames, seen: number): number {
    let char = this.next()
    if (seen === 0) {
      this.valueAt = this.pos
      if (char !== OPEN_OBJECT) this.expected('an object')
      this.depth++
      this.path[this.depth - 1] = ''
      this.pos++
      char = this.next()
    } else if (char === COMMA) {
      this.pos++
      char = this.next()
      if (char === CLOSE_OBJECT) this.failSyntax('a field')
    } else if (char !== CLOSE_OBJECT) this.failSyntax('"," or "}"')
    if (char === CLOSE_OBJECT) {
      this.pos++
      this.depth--
      return -1
    }
    if (char !== QUOTE) this.failSyntax('a field')
    const field = this.name(known)
    if ((seen & (1 << field)) !== 0) this.failGivenTwice(known, field)
    if (this.next() !== COLON) this.failSyntax('":"')
    this.pos++
    return field
  }

  /** Whether the list has an element `index`, which is then read next. To be called with 0, 1, 2 … until it returns false. */
  element(index: number): boolean {
    let char = this.next()
    if (index === 0) {
      this.valueAt = this.pos
      if (char !== OPEN_LIST) this.expected('a list')
      this.depth++
      this.pos++
      char = this.next()
    } else if (char === COMMA) {
      this.pos++
      char = NOTHING
    } else if (char !== CLOSE_LIST) this.failSyntax('"," or "]"')
    if (char === CLOSE_LIST) {
      this.pos++
      this.depth--
      return false
    }
    this.path[this.depth - 1] = index
    return true
  }

  /** Reads null if it comes next, and returns whether it did. */
  isNull(): boolean {
    return this.next() === SMALL_N && this.readWord('null')
  }

  /** Returns null if neither true nor false comes next. */
  boolean(): boolean | null {
    this.next()
    this.valueAt = this.pos
    if (this.readWord('true')) return true
    return this.readWord('false') ? false : null
  }

  /** Returns null if no string comes next. */
  string(): string | null {
    const isString = this.next() === QUOTE
    this.valueAt = this.pos
    return isString ? this.readQuoted() : null
  }

  /**
   * The exact value of a whole number, or of its text in quotes; a bigint beyond 2^53-1. `1.0` and `1e2` are whole.
   * Returns null if something else comes next.
   */
  wholeNumber(): number | bigint | null {
    const first = this.next()
    this.valueAt = this.pos
    if (first === QUOTE) return wholeNumber(this.readQuoted())
    const { text } = this
    const end = Math.min(text.length, this.pos + FAST_DIGITS_MAX)
    let at = this.pos
    let value = 0
    let char = first
    for (; at < end; at++) {
      char = text.charCodeAt(at)
      if (char < ZERO || char > ZERO + 9) break
      value = 10 * value + char - ZERO
    }
    const isPlain = at < end && at > this.pos && char !== DOT && (char | LOWER_CASE) !== SMALL_E
    if (isPlain && (first !== ZERO || at === this.pos + 1)) {
      this.pos = at
      return value
    }
    DECIMAL.lastIndex = this.pos
    const written = DECIMAL.exec(text)
    if (written === null) return null
    this.pos += written[0].length
    return wholeNumber(written[0])
  }

  /** Throws: the value read last, or to be read next, is not what is expected. */
  expected(what: string): never {
    return this.fail(`expected ${what}, got ${this.formatValue()}`)
  }

  fail(what: string): never {
    let where = ''
    for (let i = 0; i < this.depth; i++) {
      const step = this.path[i]
      if (typeof step === 'number') where += `[${step}]`
      else where += where === '' ? step : step && `.${step}`
    }
    this.text = ''
    throw new Error(where === '' ? what : `${where}: ${what}`)
  }

  /** Throws: the text is not valid JSON here. */
  private failSyntax(what: string): never {
    const char = this.text.codePointAt(this.pos)
    const got = char === undefined ? 'the end of the text' : JSON.stringify(String.fromCodePoint(char))
    return this.fail(`expected ${what} at character ${this.pos + 1}, got ${got}`)
  }

  /** Skips white space and returns the character behind it. */
  private next(): number {
    const char = this.text.charCodeAt(this.pos) // NaN after the end
    return char > SPACE ? char : this.skipSpace()
  }

  private skipSpace(): number {
    const { text } = this
    for (; this.pos < text.length; this.pos++) {
      const char = text.charCodeAt(this.pos)
      if (char !== SPACE && char !== LINE_FEED && char !== RETURN && char !== TAB) return char
    }
    return NOTHING
  }

  /** Reads a field's name and returns its number. */
  private name(known: FieldNames): number {
    const names = known.names
    for (let i = 0; i < names.length; i++) {
      if (this.readExactName(names[i])) {
        this.path[this.depth - 1] = names[i]
        return i
      }
    }
    this.path[this.depth - 1] = ''
    const name = this.readQuoted() // another spelling, an escape, or unknown
    const field = names.indexOf(name) < 0 ? known.originals.indexOf(name) : names.indexOf(name)
    if (field < 0) this.fail(`unknown field ${shorten(name)}`)
    this.path[this.depth - 1] = name
    return field
  }

  private failGivenTwice({ names, originals }: FieldNames, field: number): never {
    const [name, original] = [names[field], originals[field]]
    return this.fail(name === original ? 'given twice' : `given twice (${original} is the same as ${name})`)
  }

  /** Reads `"name"` if it comes next, and returns whether it did. */
  private readExactName(name: string): boolean {
    const { text } = this
    const start = this.pos + 1
    if (text.charCodeAt(start + name.length) !== QUOTE) return false
    for (let i = 0; i < name.length; i++) {
      if (text.charCodeAt(start + i) !== name.charCodeAt(i)) return false
    }
    this.pos = start + name.length + 1
    return true
  }

  private readWord(word: string): boolean {
    const isHere = this.text.startsWith(word, this.pos)
    if (isHere) this.pos += word.length
    return isHere
  }

  /** Reads the string whose opening quote comes next. */
  private readQuoted(): string {
    const { text } = this
    const start = this.pos + 1
    let at = start
    for (; at < text.length; at++) {
      const char = text.charCodeAt(at)
      if (char === QUOTE) {
        this.pos = at + 1
        return text.slice(start, at)
      }
      if (char < SPACE || char === BACKSLASH || char >= SURROGATE_MIN) break
    }
    return this.readEscaped(at)
  }

  /** As readQuoted, for a string with an escape, a surrogate or an error; the first one is at `specialAt`. */
  private readEscaped(specialAt: number): string {
    const { text } = this
    const start = this.pos
    let at = specialAt
    for (; ; at++) {
      const char = at < text.length ? text.charCodeAt(at) : NOTHING
      if (char === QUOTE) break
      if (char < SPACE) {
        this.pos = Math.min(at, text.length)
        this.failSyntax('the end of the string')
      }
      if (char === BACKSLASH) at++ // an escaped quote does not end the string
    }
    this.pos = at + 1
    let value: string
    try {
      value = JSON.parse(text.slice(start, at + 1))
    } catch {
      return this.fail(`the string at character ${start + 1} has an invalid escape sequence`)
    }
    return value.isWellFormed() ? value : this.fail('the text has an unpaired surrogate')
  }

  /** Formats the value at `valueAt` for an error: text and numbers, shortened; of lists and objects the kind. */
  private formatValue(): string {
    this.pos = this.valueAt
    const char = this.next()
    if (char === NOTHING) return 'the end of the text'
    if (char === OPEN_LIST) return 'a list'
    if (char === OPEN_OBJECT) return 'an object'
    if (char === QUOTE) return shorten(this.readQuoted())
    const word = /[^\s,:"[\]{}]*/y // also text that is not JSON
    word.lastIndex = this.pos
    const [written] = word.exec(this.text)!
    if (/^[\w.+-]+$/.test(written) && written.length <= SHOWN_CHARS_MAX) return written
    return shorten(written || this.text[this.pos])
  }
}

function shorten(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text)
}
