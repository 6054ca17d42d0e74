/**
 * Patterns as Go's RE2 has them, run by V8's linear-time engine: a pattern of an operator meets names that callers have
 * a say in, and must not hang the thread however it is written.
 *
 *     (?i)^(?P<domain>[^.]+)\.\Qa.b\E$   ──►   /^([^.]+)\.a\.b$/l  with letters as [aA], and groups by name
 *
 * Mapped: the flags i, m, s at the very start; (?P<name>…) and (?<name>…); \A \z \Q…\E \a \x7F and \x{1F600};
 * [[:alpha:]] and its kind; `.`, \s and classes as Go means them.
 * Refused, each with a sentence: back-references and look-around (RE2 has none, either), flags elsewhere, the flag U,
 * \pL and other Unicode classes, \C, octal escapes, and repeats too large for the engine (some hundred).
 * Gives up: a group inside a repeat that took no part in its last round is empty here; Go keeps its last text.
 */
import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--enable-experimental-regexp-engine') // only lets `l` be a flag; other expressions run as before

const POSIX: Record<string, string> = {
  alnum: '0-9A-Za-z',
  alpha: 'A-Za-z',
  ascii: '\\x00-\\x7F',
  blank: '\\t ',
  cntrl: '\\x00-\\x1F\\x7F',
  digit: '0-9',
  graph: '!-~',
  lower: 'a-z',
  print: ' -~',
  punct: '!-\\/:-@[-`{-~',
  space: '\\t\\n\\v\\f\\r ',
  upper: 'A-Z',
  word: '0-9A-Za-z_',
  xdigit: '0-9A-Fa-f',
}
const PERL: Record<string, string> = { d: '0-9', s: '\\t\\n\\f\\r ', w: '0-9A-Za-z_' }
const CONTROLS: Record<string, string> = { a: '\x07', f: '\f', t: '\t', n: '\n', r: '\r', v: '\v' }
const CASES = [
  [0x41, 0x5a, 32], // A to Z
  [0x61, 0x7a, -32],
] as const
const PATTERN_CHARS_MAX = 10_000

/** What a pattern found: groups[0] is all of it; a group that took no part is the empty text. */
export interface Found {
  groups: readonly string[]
  names: ReadonlyMap<string, number>
}

export class Pattern {
  private readonly regExp: RegExp
  private readonly names: ReadonlyMap<string, number>

  /**
   * Throws an Error that says what is wrong with the text. One of our own, which is known not to explode, may have the
   * usual engine: the first flush of 600,000 names takes 4 s by the built-in mapping, and 12 with the other.
   */
  constructor(text: string, isOurs = false) {
    if (text.length > PATTERN_CHARS_MAX) throw new Error(`longer than ${PATTERN_CHARS_MAX} characters`)
    const { source, flags, names } = new Translation(text)
    this.regExp = isOurs ? new RegExp(source, flags.replace('l', '')) : linear(source, flags)
    this.names = names
  }

  /** The leftmost match anywhere in the text. */
  find(text: string): Found | null {
    const match = this.regExp.exec(text)
    return match && { groups: match.map((group) => group ?? ''), names: this.names }
  }
}

function linear(source: string, flags: string): RegExp {
  new RegExp(source, flags.replace('l', '')) // for its better message
  try {
    return new RegExp(source, flags)
  } catch (error) {
    throw new Error('repeats too often to run in linear time', { cause: error })
  }
}

/** One pass over the text. */
class Translation {
  readonly names = new Map<string, number>()
  source = ''
  flags = 'l'
  private readonly text: string
  private index = 0
  private groupsCount = 0
  private isAnyCase = false

  constructor(text: string) {
    this.text = text
    this.readFlags()
    while (this.index < text.length) this.source += this.part()
  }

  private readFlags(): void {
    const opening = /^\(\?([imsU]+)\)/.exec(this.text)
    if (opening === null) return
    this.index = opening[0].length
    if (opening[1].includes('U')) throw new Error('the flag U is not supported')
    this.isAnyCase = opening[1].includes('i')
    for (const flag of ['m', 's']) if (opening[1].includes(flag)) this.flags += flag
  }

  private part(): string {
    const rest = this.text.slice(this.index)
    const [char] = rest
    if (char === '\\') return this.escape()
    if (char === '[') return this.charClass()
    if (char === '(') return this.group(rest)
    if (/^\{\d+(?:,\d*)?\}/.test(rest)) return this.take(rest.indexOf('}') + 1)
    this.index++
    if (char === '.' && !this.flags.includes('s')) return '[^\\n]'
    return '.*+?|)^$'.includes(char) ? char : this.written(char)
  }

  private group(rest: string): string {
    const name = /^\(\?P?<([A-Za-z_]\w*)>/.exec(rest)
    if (rest.startsWith('(?:')) return this.take(3)
    if (/^\(\?<?[=!]/.test(rest)) throw new Error(`look-around is not supported: ${rest.slice(0, 4)}`)
    if (rest.startsWith('(?') && name === null)
      throw new Error(`flags are supported at the start only: ${rest.slice(0, 5)}`)
    this.groupsCount++
    if (name !== null) {
      if (this.names.has(name[1])) throw new Error(`duplicate group name ${name[1]}`)
      this.names.set(name[1], this.groupsCount)
    }
    this.index += name === null ? 1 : name[0].length
    return '('
  }

  /** At a backslash, outside brackets. */
  private escape(): string {
    const rest = this.text.slice(this.index)
    const [, char = ''] = rest
    if (char === 'Q') return this.quoted(rest)
    if (PERL[char.toLowerCase()] !== undefined) {
      this.index += 2
      return char === char.toLowerCase() ? `[${PERL[char]}]` : `[^${PERL[char.toLowerCase()]}]`
    }
    if (char !== '' && 'bBAz'.includes(char)) {
      this.index += 2
      return char === 'A' || char === 'z' ? this.textEdge(char) : `\\${char}`
    }
    return this.written(this.escaped())
  }

  /** The character that an escape stands for. */
  private escaped(): string {
    const rest = this.text.slice(this.index)
    const [, char] = rest
    if (char === undefined) throw new Error('trailing backslash')
    const code = /^\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,5}|10[0-9A-Fa-f]{4})\})/.exec(rest)
    this.index += code?.[0].length ?? 2
    if (code !== null) return String.fromCodePoint(Number.parseInt(code[1] ?? code[2], 16))
    if (CONTROLS[char] !== undefined) return CONTROLS[char]
    if (!/[A-Za-z0-9]/.test(char)) return char
    if (/[1-9]/.test(char)) throw new Error(`back-references are not supported: \\${char}`)
    throw new Error(`\\${char} is not supported`)
  }

  private textEdge(char: string): string {
    if (this.flags.includes('m')) throw new Error(`\\${char} beside the flag m is not supported`)
    return char === 'A' ? '^' : '$'
  }

  private quoted(rest: string): string {
    const end = rest.indexOf('\\E')
    this.index += end < 0 ? rest.length : end + 2
    return [...rest.slice(2, end < 0 ? undefined : end)].map((char) => this.written(char)).join('')
  }

  private charClass(): string {
    let source = this.take(this.text[this.index + 1] === '^' ? 2 : 1)
    for (let isFirst = true; ; isFirst = false) {
      const rest = this.text.slice(this.index)
      if (rest === '') throw new Error('missing closing ]')
      if (rest.startsWith(']') && !isFirst) return source + this.take(1)
      source += this.member(rest)
    }
  }

  /** One character, range or named class inside brackets. */
  private member(rest: string): string {
    const posix = /^\[:(\^?)([a-z]+):\]/.exec(rest)
    if (posix !== null) {
      if (posix[1] !== '' || POSIX[posix[2]] === undefined) throw new Error(`${posix[0]} is not supported`)
      this.index += posix[0].length
      return POSIX[posix[2]]
    }
    if (/^\\[dDsSwW]/.test(rest)) {
      this.index += 2
      return perlMembers(rest[1])
    }
    const from = this.unit()
    const isRange = this.text[this.index] === '-' && !/^-(?:\]|$)/.test(this.text.slice(this.index))
    if (isRange) this.index++
    const to = isRange ? this.unit() : from
    if (to < from) throw new Error(`bad range ${rest.slice(0, 3)}`)
    return rangeText(from, to) + (this.isAnyCase ? toOtherCase(from, to) : '')
  }

  /** The next character inside brackets, as its number. */
  private unit(): number {
    const char = this.text[this.index] === '\\' ? this.escaped() : this.take(1)
    if (char.length > 1) throw new Error('characters beyond U+FFFF in brackets are not supported')
    return char.charCodeAt(0)
  }

  /** A character that stands for itself, in both cases if so asked. */
  private written(char: string): string {
    if (this.isAnyCase && /^[A-Za-z]$/.test(char)) return `[${char.toLowerCase()}${char.toUpperCase()}]`
    return /^[\\^$.*+?()[\]{}|]$/.test(char) ? `\\${char}` : char
  }

  private take(length: number): string {
    this.index += length
    return this.text.slice(this.index - length, this.index)
  }
}

function perlMembers(char: string): string {
  if (char === 'S') return '\\x00-\\x08\\x0B\\x0E-\\x1F!-\\uFFFF' // JavaScript's leaves out more
  return char === 's' ? PERL.s : `\\${char}`
}

function rangeText(from: number, to: number): string {
  const hex = (unit: number) => `\\u${unit.toString(16).padStart(4, '0')}`
  return from === to ? hex(from) : `${hex(from)}-${hex(to)}`
}

/** The letters of a range in their other case. */
function toOtherCase(from: number, to: number): string {
  let text = ''
  for (const [first, last, shift] of CASES) {
    const [low, high] = [Math.max(from, first), Math.min(to, last)]
    if (low <= high) text += rangeText(low + shift, high + shift)
  }
  return text
}
