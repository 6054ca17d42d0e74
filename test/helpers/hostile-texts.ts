/**
 * Texts on which a regular expression that backtracks becomes slow, derived from the expression itself.
 *
 *     prefix                        pump, repeated to the length      suffix
 *     leads to a repetition  ──►    what the repetition takes    ──►  lets the match fail, or almost end
 *
 * A pump is a sample of a part of the expression, or two characters of its classes (`a-` begins a new word each time);
 * generic pumps are added for what a sample does not show. Not exhaustive, but every quadratic or exponential shape that
 * repeats one part, or restarts at every occurrence of one part, is found by the part itself.
 */

export interface HostileText {
  prefix: string
  pump: string
  suffix: string
}

/** As long as the bound allows: exactly `chars` unless prefix and suffix alone are longer. */
export function toText({ prefix, pump, suffix }: HostileText, chars: number): string {
  const pumpChars = Math.max(0, chars - prefix.length - suffix.length)
  const text = prefix + pump.repeat(Math.ceil(pumpChars / pump.length)).slice(0, pumpChars) + suffix
  return Buffer.from(text, 'utf16le').toString('utf16le') // one flat string: `repeat` alone makes a tree
}

// biome-ignore format: a list
const GENERIC_PUMPS = [
  ' ', '\t', '\n', '\r\n', ' \n', 'a', 'A', '0', '_', '-', '.', ',', ';', ':', '/', '\\', '"', '""', '"a', '"a"', "'", '=', '@', '%',
  '*', '[', ']', '{', '}', '(', '<', '>', '#', '&', '?', '$', '~', '\0', '\u00e9', '\u2028', '\ud800',
  'a-', 'a.', '1.', 'a:', 'a/', 'a ', '-.', '/v1', '//', '::', '0_',
]
const SUFFIXES = ['', '!', '\n', '\0']

export function hostileTexts(pattern: RegExp): HostileText[] {
  const root = parse(pattern)
  const found = new Map<string, HostileText>()
  const add = (prefix: string, pump: string, suffixes: readonly string[]) => {
    if (pump === '') return
    for (const suffix of suffixes) found.set(JSON.stringify([prefix, pump, suffix]), { prefix, pump, suffix })
  }
  for (const pump of GENERIC_PUMPS) add('', pump, ['', '!'])
  const samples = [...new Set(listSamples(root))]
  for (const sample of samples) {
    const nearMisses = [
      sample.slice(0, -1),
      sample.slice(1),
      `${sample.slice(0, -1)}\0`,
      `${sample} `,
      `${sample}-`,
    ]
    for (const pump of [sample, ...nearMisses]) add('', pump, ['', '!'])
  }
  for (const { before, part, after } of listRepetitions(root, '', '')) {
    const pumps = new Set([...listSamples(part), ...listChars(part), ...listPairs(listChars(part))])
    for (const pump of pumps) {
      add(before, pump, [...SUFFIXES, after.slice(0, -1), `${after}\0`])
      add('', before + pump, SUFFIXES)
    }
  }
  return [...found.values()]
}

// The parts of an expression, as far as samples need them.
type Part =
  | { kind: 'chars'; chars: string[] } // one of them; a few stand for a class
  | { kind: 'sequence'; parts: Part[] }
  | { kind: 'choice'; parts: Part[] }
  | { kind: 'repeat'; part: Part; min: number; max: number }

const NOTHING: Part = { kind: 'sequence', parts: [] }
const REPEAT_CHARS_MAX = 64 // a sample of `.{500}` is that long; its length is no matter to the shape
const SAMPLES_MAX = 24 // of one part

/** Each repetition that has no end, or a far one, with a sample of what comes before and after it. */
function listRepetitions(
  part: Part,
  before: string,
  after: string,
): { before: string; part: Part; after: string }[] {
  if (part.kind === 'chars') return []
  if (part.kind === 'choice') return part.parts.flatMap((each) => listRepetitions(each, before, after))
  if (part.kind === 'repeat') {
    const own = part.max > 1 ? [{ before, part: part.part, after }] : []
    return [...own, ...listRepetitions(part.part, before, after)]
  }
  return part.parts.flatMap((each, index) => {
    const ahead = part.parts
      .slice(0, index)
      .map((other) => listSamples(other)[0])
      .join('')
    const behind = part.parts
      .slice(index + 1)
      .map((other) => listSamples(other)[0])
      .join('')
    return listRepetitions(each, before + ahead, behind + after)
  })
}

/** Texts the part matches, one per alternative at least. */
function listSamples(part: Part): string[] {
  if (part.kind === 'chars') return part.chars
  if (part.kind === 'choice') return part.parts.flatMap(listSamples).slice(0, SAMPLES_MAX)
  if (part.kind === 'repeat') {
    const times = Math.min(Math.max(part.min, part.max === 0 ? 0 : 1), REPEAT_CHARS_MAX)
    return listSamples(part.part).map((sample) => sample.repeat(times))
  }
  const each = part.parts.map(listSamples)
  const count = Math.min(SAMPLES_MAX, Math.max(1, ...each.map((samples) => samples.length)))
  return Array.from({ length: count }, (_, i) =>
    each.map((samples) => samples[i % samples.length] ?? '').join(''),
  )
}

function listChars(part: Part): string[] {
  if (part.kind === 'chars') return part.chars
  if (part.kind === 'repeat') return listChars(part.part)
  return [...new Set(part.parts.flatMap(listChars))].slice(0, 8)
}

function listPairs(chars: string[]): string[] {
  return chars.flatMap((one) => chars.filter((other) => other !== one).map((other) => one + other))
}

/** Reads what V8 has accepted, so nothing here can be malformed. */
function parse({ source, flags }: RegExp): Part {
  let index = 0
  return choice()

  function choice(): Part {
    const parts = [sequence()]
    while (source[index] === '|') {
      index++
      parts.push(sequence())
    }
    return parts.length === 1 ? parts[0] : { kind: 'choice', parts }
  }

  function sequence(): Part {
    const parts: Part[] = []
    while (index < source.length && source[index] !== '|' && source[index] !== ')')
      parts.push(repeated(atom()))
    return { kind: 'sequence', parts }
  }

  function repeated(part: Part): Part {
    const [text, counts] = /^(?:[*+?]|\{(\d+(?:,\d*)?)\})\??/.exec(source.slice(index)) ?? []
    if (text === undefined) return part
    index += text.length
    if (counts === undefined)
      return { kind: 'repeat', part, min: text[0] === '+' ? 1 : 0, max: text[0] === '?' ? 1 : Infinity }
    const [min, max = min] = counts.split(',')
    return { kind: 'repeat', part, min: Number(min), max: max === '' ? Infinity : Number(max) }
  }

  function atom(): Part {
    const char = source[index++]
    if (char === '(') return group()
    if (char === '[') return set()
    if (char === '^' || char === '$') return NOTHING
    if (char === '.') return { kind: 'chars', chars: ['a', '.', ' ', '/'] }
    if (char === '\\') return escaped(false)
    return { kind: 'chars', chars: [char] }
  }

  function group(): Part {
    const [opening] = /^(?:\?(?:[:=!]|<[=!]|<\w+>))?/.exec(source.slice(index)) as RegExpExecArray
    index += opening.length
    const part = choice()
    index++
    return /[=!]/.test(opening) ? NOTHING : part
  }

  function set(): Part {
    const isNegated = source[index] === '^'
    const start = index
    if (isNegated) index++
    const chars: string[] = []
    while (source[index] !== ']') {
      if (source[index] === '\\') {
        index++
        chars.push(...listChars(escaped(true)))
      } else {
        chars.push(source[index++])
      }
    }
    index++
    if (!isNegated) return { kind: 'chars', chars: [...new Set(chars)].slice(0, 8) }
    const whole = new RegExp(`[${source.slice(start, index)}`, flags.replace(/[gy]/g, ''))
    const outside = ['a', '0', ' ', '-', '.', '/', '"', ':', '\n', 'A', '\u00e9', '\0']
    return { kind: 'chars', chars: outside.filter((each) => whole.test(each)).slice(0, 6) }
  }

  function escaped(isInSet: boolean): Part {
    const rest = source.slice(index)
    const [code] = /^(?:u\{[0-9a-f]+\}|u[0-9a-f]{4}|x[0-9a-f]{2}|c[a-z]|[pP]\{[^}]*\}|k<\w+>|.)/is.exec(
      rest,
    ) as RegExpExecArray
    index += code.length
    const chars: Record<string, string[]> = {
      d: ['0', '9'],
      w: ['a', '_', '0'],
      s: [' ', '\n', '\t'],
      D: ['a', '-'],
      W: ['-', ' ', '.'],
      S: ['a', '-', '.', '/'],
      b: isInSet ? ['\b'] : [],
      B: [],
      n: ['\n'],
      r: ['\r'],
      t: ['\t'],
      v: ['\v'],
      f: ['\f'],
      0: ['\0'],
    }
    if (code in chars) return chars[code].length === 0 ? NOTHING : { kind: 'chars', chars: chars[code] }
    if (/^[ux]/.test(code) && code.length > 1) {
      return {
        kind: 'chars',
        chars: [String.fromCodePoint(Number.parseInt(code.replace(/[^0-9a-f]/gi, ''), 16))],
      }
    }
    if (/^[pPk]./.test(code)) return { kind: 'chars', chars: ['\u0001', 'a', '\u2028'] }
    if (/^[1-9]$/.test(code)) return NOTHING // a back-reference; none is used
    return { kind: 'chars', chars: [code] }
  }
}
