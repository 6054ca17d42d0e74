/**
 * Parses a query string by the parameters of its endpoint (spec 1). An invalid value or an unknown parameter is a 400 that
 * names the parameter, and the one that was probably meant.
 */
import { ApiError } from './errors.ts'
import type { Parameter } from './schema/endpoints.ts'
import { NAME_CHARS_MAX, suggestName } from './suggestion.ts'

const INTEGER = /^(0|[1-9][0-9]{0,8})$/

/** Known parameters only; defaults are filled in, absent ones without a default are undefined. */
export type Query = Readonly<Record<string, string | number | undefined>>

/** `unknown`: the API refuses unknown parameters; pages ignore them, since links in mail and search results add their own. */
export function readQuery(
  raw: string,
  parameters: readonly Parameter[],
  unknown: 'refused' | 'ignored' = 'refused',
): Query {
  const query: Record<string, string | number | undefined> = {}
  for (const part of raw.split('&')) {
    if (part === '') continue
    const equals = part.indexOf('=')
    const rawName = equals < 0 ? part : part.slice(0, equals)
    if (unknown === 'ignored' && !parameters.some((known) => known.name === decodeOrNull(rawName))) continue
    const name = decode(rawName)
    const value = decode(equals < 0 ? '' : part.slice(equals + 1))
    const parameter = parameters.find((known) => known.name === name)
    if (!parameter) throw wrong(describeUnknown(name, parameters))
    if (query[name] !== undefined) throw wrong(`${name} must not be given twice`)
    if (value === '') throw wrong(`${name} must not be empty`)
    query[name] = readValue(parameter, value)
  }
  for (const { name, schema } of parameters) query[name] ??= schema.default as string | number | undefined
  return query
}

/** Repeats at most NAME_CHARS_MAX characters of the name; all but printable ASCII without space and backtick becomes `?`. */
function describeUnknown(name: string, parameters: readonly Parameter[]): string {
  const shown = name.slice(0, NAME_CHARS_MAX).replace(/[^!-_a-~]/g, '?')
  const names = parameters.map((known) => known.name)
  const meant = suggestName(name, names)
  if (meant !== null) return `unknown query parameter \`${shown}\`; did you mean \`${meant}\`?`
  const takes = names.length === 0 ? 'no query parameters' : `only ${names.join(', ')}`
  return `unknown query parameter \`${shown}\`; this endpoint takes ${takes}`
}

function decode(text: string): string {
  const decoded = decodeOrNull(text)
  if (decoded === null) throw wrong('the query string has a percent-encoding that is not UTF-8')
  return decoded
}

/** application/x-www-form-urlencoded: `+` is a space. */
function decodeOrNull(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return null
  }
}

function readValue({ name, schema }: Parameter, value: string): string | number {
  if (schema.type === 'integer') {
    const { minimum = 0, maximum = 0 } = schema
    const number = INTEGER.test(value) ? Number(value) : Number.NaN
    if (number >= minimum && number <= maximum) return number
    throw wrong(`${name} must be an integer from ${minimum} to ${maximum}`)
  }
  if (schema.enum && !schema.enum.includes(value)) {
    throw wrong(`${name} must be one of ${schema.enum.join(', ')}`)
  }
  const length = [...value].length
  if (schema.maxLength !== undefined && length > schema.maxLength) {
    throw wrong(`${name} must have 1 to ${schema.maxLength} characters`)
  }
  return value
}

function wrong(text: string): ApiError {
  return new ApiError('invalid_parameter', text)
}
