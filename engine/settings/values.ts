/**
 * The kinds of values of settings: their syntax, and what is refused.
 *
 *     GRPC_PORT=8081        int       0x1f91, 0b11, 0o17 and 1_000 too; 010 is octal, as in Go
 *     DRAIN_TIMEOUT=1m30s   duration  milliseconds here; 150us gives 0.15
 *     EXTRA_TAGS=a:1,b:2    map       nothing is trimmed
 *
 * The syntax is that of envoyproxy/ratelimit (spec 10), so that its deployments need no changes. Two differences: values
 * out of range, such as port 80801, are refused at the start, and an empty text means the default if the kind has no empty
 * value (spec Q41). Infinities, NaN and hexadecimal floats are refused.
 */
import { availableParallelism } from 'node:os'

/** How one kind of value is parsed, to `T`. */
export interface Kind<T> {
  readonly name: 'string' | 'path' | 'int' | 'float' | 'bool' | 'duration' | 'list' | 'map' | 'enum'
  readonly allowed: string // completes the sentence `X="…" is not allowed: …`
  readonly hasEmpty: boolean // whether an empty text is a value; otherwise it stands for the default
  /** The value; throws BadValue for a text that is not allowed. */
  parse(text: string): T
}

/** A text that its kind does not allow. The message is the kind's `allowed`, or names what is wrong. */
export class BadValue extends Error {
  override name = 'BadValue'
}

export const string: Kind<string> = anyText('string')
export const path: Kind<string> = anyText('path')

function anyText(name: 'string' | 'path'): Kind<string> {
  return { name, allowed: 'any text', hasEmpty: true, parse: (text) => text }
}

/** Texts that match `form`, which `allowed` describes. */
export function matching(form: RegExp, allowed: string): Kind<string> {
  return {
    name: 'string',
    allowed,
    hasEmpty: form.test(''),
    parse(text) {
      if (!form.test(text)) throw new BadValue(allowed)
      return text
    },
  }
}

/** Whole numbers from `min` to `max`, both at most 2^53-1 so that a number holds them exactly. */
export function int(min: number, max: number): Kind<number> {
  return intKind({ min, max, allowed: `an integer from ${min} to ${max}`, parse: parseInteger })
}

/** As `int`, and the word `cores` for the number of CPU cores. */
export function intOrCores(min: number, max: number): Kind<number> {
  const parse = (text: string) =>
    text === 'cores' ? Math.min(availableParallelism(), max) : parseInteger(text)
  return intKind({ min, max, allowed: `an integer from ${min} to ${max}, or cores`, parse })
}

interface IntOptions {
  min: number
  max: number
  allowed: string
  parse(text: string): number // NaN if it is not a number
}

function intKind({ min, max, allowed, parse }: IntOptions): Kind<number> {
  return {
    name: 'int',
    allowed,
    hasEmpty: false,
    parse(text) {
      const value = parse(text)
      if (value >= min && value <= max) return value
      throw new BadValue(allowed) // also for NaN
    },
  }
}

// Digits of one base, each with at most one `_` before it: 0b, 0o or just 0, 0x, decimal, and 0 itself.
const INTEGER = /^[+-]?(?:0[bB](?:_?[01])+|0[oO]?(?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|[1-9](?:_?[0-9])*|0)$/

/** An integer in Go's base-0 syntax, NaN for anything else. */
function parseInteger(text: string): number {
  if (!INTEGER.test(text)) return Number.NaN
  const digits = text.replace(/^[+-]/, '').replaceAll('_', '')
  const size = Number(/^0[0-7]/.test(digits) ? `0o${digits}` : digits)
  return text.startsWith('-') && size !== 0 ? -size : size // `-0` is 0
}

const FLOAT = /^[+-]?(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9]+)?$/

/** Finite decimal numbers from `min` to `max`. */
export function float(min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY): Kind<number> {
  const bounds = [Number.isFinite(min) ? ` from ${min}` : '', Number.isFinite(max) ? ` to ${max}` : '']
  const allowed = `a number${bounds.join('')}`
  return {
    name: 'float',
    allowed,
    hasEmpty: false,
    parse(text) {
      const value = FLOAT.test(text) ? Number(text.replaceAll('_', '')) : Number.NaN
      if (Number.isFinite(value) && value >= min && value <= max) return value
      throw new BadValue(allowed)
    },
  }
}

const TRUE = new Set(['1', 't', 'T', 'TRUE', 'true', 'True'])
const FALSE = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False'])

export const bool: Kind<boolean> = {
  name: 'bool',
  allowed: 'true or false (also 1 t T TRUE True 0 f F FALSE False)',
  hasEmpty: false,
  parse(text) {
    if (TRUE.has(text)) return true
    if (FALSE.has(text)) return false
    throw new BadValue(this.allowed)
  },
}

/** The same, or an empty text for null. */
export function orEmpty<T>({ name, allowed, parse }: Kind<T>): Kind<T | null> {
  return { name, allowed, hasEmpty: true, parse: (text) => (text === '' ? null : parse(text)) }
}

const UNIT_NS: Record<string, number> = {
  ns: 1,
  us: 1e3,
  µs: 1e3, // U+00B5, the micro sign
  μs: 1e3, // U+03BC, the Greek letter; Go takes both
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
}
const DURATION = /^\+?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$/
const DURATION_PART = /([0-9]*)\.?([0-9]*)(ns|us|µs|μs|ms|s|m|h)/g
const DURATION_NS_MAX = 2 ** 63 // the limit of Go's durations: 292 years

/**
 * Durations in milliseconds, from `minMs` to `maxMs`; a minus is refused. Most have no upper bound, but Node's timers are
 * limited to 2^31-1 ms.
 */
export function duration(minMs = 0, maxMs = Number.POSITIVE_INFINITY): Kind<number> {
  const atLeast = minMs > 0 ? `, at least ${minMs}ms` : ''
  const atMost = Number.isFinite(maxMs) ? `, at most ${maxMs}ms` : ''
  const allowed = `a duration such as 10s, 1h30m or 150us${atLeast}${atMost}`
  return {
    name: 'duration',
    allowed,
    hasEmpty: false,
    parse(text) {
      const ms = parseDuration(text)
      if (ms >= minMs && ms <= maxMs) return ms
      throw new BadValue(allowed)
    },
  }
}

/** A duration in Go's syntax as milliseconds, NaN for anything else. Truncated to whole nanoseconds, as in Go. */
function parseDuration(text: string): number {
  if (!DURATION.test(text)) return Number.NaN
  let ns = 0
  for (const [, whole, fraction, unit] of text.matchAll(DURATION_PART)) {
    const unitNs = UNIT_NS[unit]
    ns += Number(whole) * unitNs + Math.trunc((Number(fraction) * unitNs) / 10 ** fraction.length)
  }
  return ns < DURATION_NS_MAX ? ns / 1e6 : Number.NaN
}

/** Items between commas, nothing trimmed; a blank text is the empty list. */
export const list: Kind<readonly string[]> = {
  name: 'list',
  allowed: 'items separated by commas',
  hasEmpty: true,
  parse: (text) => Object.freeze(text.trim() === '' ? [] : text.split(',')),
}

/** `key:value` items between commas, nothing trimmed; of equal keys the last one wins. */
export const map: Kind<Readonly<Record<string, string>>> = {
  name: 'map',
  allowed: 'items key:value separated by commas, one colon in each',
  hasEmpty: true,
  parse(text) {
    const items = text.trim() === '' ? [] : text.split(',')
    const pairs = items.map((item) => {
      const pair = item.split(':')
      if (pair.length !== 2) throw new BadValue(`invalid map item: ${JSON.stringify(item)}; ${this.allowed}`)
      return pair
    })
    return Object.freeze(Object.fromEntries(pairs))
  },
}

/** One of a few words, exactly as written here. */
export function exactWord<const W extends string>(...words: W[]): Kind<W> {
  return wordKind(`one of ${words.join(', ')}`, (text) => words.find((word) => word === text))
}

/** One of a few words in upper or lower case; the value is spelled as here. */
export function oneOfAnyCase<const W extends string>(...words: W[]): Kind<W> {
  return wordKind(`one of ${words.join(', ')}, in any case`, (text) => findAnyCase(words, text))
}

/** As oneOfAnyCase, but any other text means the last word, as in envoyproxy/ratelimit. */
export function oneOfOrLast<const W extends string>(...words: W[]): Kind<W> {
  return wordKind(
    `one of ${words.join(', ')}; any other text is ${words.at(-1)}`,
    (text) => findAnyCase(words, text) ?? words.at(-1),
  )
}

function findAnyCase<W extends string>(words: W[], text: string): W | undefined {
  return words.find((word) => word.toLowerCase() === text.toLowerCase())
}

function wordKind<W>(allowed: string, find: (text: string) => W | undefined): Kind<W> {
  return {
    name: 'enum',
    allowed,
    hasEmpty: false,
    parse(text) {
      const word = find(text)
      if (word !== undefined) return word
      throw new BadValue(allowed)
    },
  }
}
