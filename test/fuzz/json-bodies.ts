/**
 * Bodies for `POST /json`: valid requests, written in every way JSON allows, and mutations of them.
 *
 *     randomRequestJson   { "descri\u0070tors" : [ {"entries":null,"hits_addend":"1.0e2"} ] , "domain":"fuzz" }
 *     mutated             a byte changed, a piece doubled, cut or swapped in, a value replaced by one of another kind
 */
type Random = () => number

const WORDS = ['user', 'plan', 'path', '7', '', 'é', '😀', 'a"b\\c', '\n\t', 'x'.repeat(40)]
const DOMAINS = ['fuzz', 'fuzz', 'fuzz', 'unknown', 'é']
const HITS32 = ['0', '1', '"7"', '1.0', '1e2', 'null', '4294967295', '"0.5e1"']
const HITS64 = [...HITS32, '"9007199254740993"', '18446744073709551615', '9223372036854775807']
const UNITS = [
  '"SECOND"',
  '"MINUTE"',
  '"YEAR"',
  '"WEEK"',
  '"DAY"',
  '3',
  '7',
  '1.0',
  '4',
  '5',
  '99',
  '-1',
  '"UNKNOWN"',
]
// pieces that mutations insert, valid JSON or not
const PIECES = [
  ...[
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '\\',
    'null',
    'true',
    'false',
    '0',
    '-',
    '.',
    'e',
    '1e9',
    '-1',
    '[]',
    '{}',
  ],
  ...[
    '1.5',
    '4294967296',
    '18446744073709551616',
    '""',
    '"x"',
    '\\u0000',
    '\\ud800',
    '\\udc00',
    '\ufeff',
    '\0',
    ' ',
  ],
  ...[
    '"domain":"d"',
    '"descriptors":[{}]',
    '"hitsAddend":1',
    '"hits_addend":1',
    '"key":"k"',
    '"foo":1',
    '/**/',
  ],
  ...[
    '{"limit":{}}',
    '"entries":[null]',
    '"isNegativeHits":true',
    '\n',
    '\t',
    '01',
    'NaN',
    "'",
    '💩',
    '\x7f',
    '\x80',
  ],
]

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]

/** A valid request, which the engine may still refuse. */
export function randomRequestJson(random: Random): string {
  const descriptors = () => list(random, random() < 0.05 ? 0 : 1, () => descriptor(random))
  return object(random, [
    ['domain', () => text(random, pick(random, DOMAINS))],
    ['descriptors', () => (random() < 0.05 ? 'null' : descriptors())],
    [pick(random, ['hitsAddend', 'hits_addend']), () => pick(random, HITS32)],
  ])
}

/** One to four changes; most results are not valid requests. */
export function mutated(body: string, random: Random): string {
  let result = body
  for (let changes = 1 + Math.floor(random() * 4 * random()); changes > 0; changes--) {
    const start = Math.floor(random() * (result.length + 1))
    const end = Math.min(result.length, start + Math.floor(random() * 12))
    const piece = result.slice(start, end)
    const kind = Math.floor(random() * 5)
    if (kind === 0) result = result.slice(0, start) + pick(random, PIECES) + result.slice(end)
    else if (kind === 1) result = result.slice(0, start) + pick(random, PIECES) + result.slice(start)
    else if (kind === 2) result = result.slice(0, start) + result.slice(end)
    else if (kind === 3) result = result.slice(0, end) + piece + result.slice(end)
    else result = withOtherValue(result, random)
  }
  return result
}

/** A number, string or null replaced by another value. */
function withOtherValue(body: string, random: Random): string {
  const values = Array.from(body.matchAll(/[:[,]\s*("[^"]*"|-?\d[\w.+-]*|null)/g))
  if (values.length === 0) return body
  const value = pick(random, values)
  const end = value.index + value[0].length
  return body.slice(0, end - value[1].length) + pick(random, PIECES) + body.slice(end)
}

function descriptor(random: Random): string {
  const entries = () => list(random, 0, () => entry(random))
  return object(random, [
    ['entries', () => (random() < 0.05 ? 'null' : entries())],
    ['limit', () => (random() < 0.6 ? 'null' : limit(random))],
    [pick(random, ['hitsAddend', 'hits_addend']), () => pick(random, HITS64)],
    [pick(random, ['isNegativeHits', 'is_negative_hits']), () => pick(random, ['true', 'false', 'null'])],
  ])
}

function entry(random: Random): string {
  const word = () => (random() < 0.05 ? 'null' : text(random, pick(random, WORDS)))
  return object(random, [
    ['key', word],
    ['value', word],
  ])
}

function limit(random: Random): string {
  return object(random, [
    ['unit', () => pick(random, UNITS)],
    [pick(random, ['requestsPerUnit', 'requests_per_unit']), () => pick(random, HITS32)],
  ])
}

/** Most of the fields, in any order. */
function object(random: Random, fields: [string, () => string][]): string {
  const chosen = fields.filter(() => random() < 0.9)
  if (random() < 0.3) chosen.reverse()
  const written = chosen.map(([name, value]) => `${text(random, name) + space(random)}:${value()}`)
  return `${space(random)}{${written.join(`${space(random)},`)}${space(random)}}`
}

/** `min` to three more elements. */
function list(random: Random, min: number, element: () => string): string {
  return `${space(random)}[${Array.from({ length: min + Math.floor(random() * 4) }, element).join()}]`
}

function space(random: Random): string {
  return random() < 0.9 ? '' : pick(random, [' ', '\n', '\t\r\n  '])
}

/** A string, sometimes with unnecessary escapes. */
function text(random: Random, value: string): string {
  if (random() < 0.9) return JSON.stringify(value)
  const escaped = Array.from({ length: value.length }, (_, i) => {
    return `\\u${value.charCodeAt(i).toString(16).padStart(4, '0')}`
  })
  return `"${escaped.join('')}"`
}
