/**
 * YAML 1.1 scalars as envoyproxy/ratelimit reads them (spec 1.3), which differs from YAML 1.1 in details.
 *
 *     yes        bool       0x1F, 010, 0o17, 1_000   int         1.5, 1e3, 08           float, refused as a leaf
 *     ~, null    null       12:30:45, 2026-01-02     text        2^63 to 2^64-1         uint, refused as a leaf
 *
 * Text fields take the source text of any kind (`0x1F` stays `0x1F`); the kind only decides what is refused, so values are
 * converted on demand.
 */
import type { Scalar } from 'yaml'
import { textOfBytes } from '../match/utf8.ts'

export type Kind = 'null' | 'bool' | 'int' | 'uint' | 'float' | 'str' | 'binary'

const TAG_PREFIX = 'tag:yaml.org,2002:'
const NULLS = new Set(['', '~', 'null', 'Null', 'NULL'])
const TRUES = new Set(['y', 'Y', 'yes', 'Yes', 'YES', 'true', 'True', 'TRUE', 'on', 'On', 'ON'])
const FALSES = new Set(['n', 'N', 'no', 'No', 'NO', 'false', 'False', 'FALSE', 'off', 'Off', 'OFF'])
const FLOAT_WORD = /^(\.nan|\.NaN|\.NAN|[-+]?\.(inf|Inf|INF))$/
const FLOAT = /^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$/
const INT = /^([-+]?)(?:(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|[1-9][0-9]*)|0([0-7]*))$/
const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n
const UINT64_MAX = 2n ** 64n - 1n

/** The text of a scalar; yaml.ts parses with a schema in which every scalar is text. */
export function scalarText(node: Scalar): string {
  return typeof node.value === 'string' ? node.value : ''
}

/** Short name of an explicit standard tag (`!!int` is `int`), `!foo` for a custom tag, '' without a tag. */
function scalarTag(node: Scalar): string {
  const tag = node.tag ?? ''
  return tag.startsWith(TAG_PREFIX) ? tag.slice(TAG_PREFIX.length) : tag
}

/** The kind of a scalar whose explicit tag, if any, `tagProblem` has accepted. */
export function scalarKind(node: Scalar): Kind {
  switch (scalarTag(node)) {
    case '':
      return node.type === 'PLAIN' || node.type === undefined ? plainKind(scalarText(node)) : 'str'
    case 'binary':
      return 'binary'
    case 'float':
      return 'float'
    case 'int':
    case 'bool':
    case 'null':
      return plainKind(scalarText(node))
    default:
      return 'str'
  }
}

/** Why an explicitly tagged scalar cannot be read, or ''. */
export function tagProblem(node: Scalar): string {
  const tag = scalarTag(node)
  const text = scalarText(node)
  if (tag === 'binary') return isBase64(text) ? '' : '!!binary value contains invalid base64 data'
  if (tag !== 'int' && tag !== 'float' && tag !== 'bool' && tag !== 'null') return ''
  const kind = plainKind(text)
  const found = kind === 'uint' ? 'int' : kind
  if (found === tag || (tag === 'float' && found === 'int')) return ''
  return `cannot decode !!${found} \`${text}\` as a !!${tag}`
}

/** The kind of an unquoted scalar without a tag. */
export function plainKind(text: string): Kind {
  if (NULLS.has(text)) return 'null'
  if (TRUES.has(text) || FALSES.has(text)) return 'bool'
  const first = text[0]
  if (first === '.') return FLOAT_WORD.test(text) || isFloat(text) ? 'float' : 'str'
  if (first !== '-' && first !== '+' && (first < '0' || first > '9')) return 'str'
  if (FLOAT_WORD.test(text)) return 'float'
  const plain = text.replaceAll('_', '')
  const int = parseInteger(plain)
  if (int !== null && int >= INT64_MIN && int <= INT64_MAX) return 'int'
  if (int !== null && int >= 0n && int <= UINT64_MAX && plain[0] !== '+') return 'uint'
  return isFloat(plain) ? 'float' : 'str'
}

/** A number too large for a double is text, as in envoyproxy/ratelimit. */
function isFloat(text: string): boolean {
  return FLOAT.test(text) && Number.isFinite(Number(text))
}

/** The value of a text of kind int or uint; null for any other text. A leading 0 means octal. */
export function parseInteger(text: string): bigint | null {
  const parts = INT.exec(text.replaceAll('_', ''))
  if (parts === null) return null
  const [, sign, literal, octal] = parts
  const size = BigInt(literal ?? `0o${octal || '0'}`)
  return sign === '-' ? -size : size
}

/** The value of a text of kind float. */
export function parseFloatText(text: string): number {
  const word = text.toLowerCase()
  if (word === '.nan') return Number.NaN
  if (word.endsWith('.inf')) return word[0] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  return Number(text.replaceAll('_', ''))
}

/** The value of a text of kind bool. */
export function parseBoolean(text: string): boolean {
  return TRUES.has(text)
}

/** The text of a `!!binary` scalar: its bytes as UTF-8. Invalid bytes are kept and match no request (utf8.ts). */
export function binaryText(node: Scalar): string {
  return textOfBytes(Buffer.from(scalarText(node), 'base64'))
}

function isBase64(text: string): boolean {
  const packed = text.replace(/[\r\n]/g, '')
  return packed.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(packed)
}
