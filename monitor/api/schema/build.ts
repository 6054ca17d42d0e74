/**
 * Builds schemas that say what they mean: each function takes the description and an example, numbers also take unit and range.
 *
 *     exactly('…', {…})       exactly these members, by the source contract
 *     open('…', {…})          members may be added within v1; closed in tests, open in the document
 *     choice('…', […])        a closed enumeration
 *     openChoice('…', […])    values may be added within v1; closed in tests, any code in the document
 */
import type { Schema } from './json-schema.ts'

const OPEN = Symbol('open')
export type Members = Record<string, Schema>
type OpenSchema = Schema & { [OPEN]?: true }

/** What a number counts or measures; the document has it as `x-unit`. */
export type Unit =
  | 'bytes'
  | 'characters'
  | 'days'
  | 'items'
  | 'milliseconds'
  | 'number' // an identifier, a rank or a code: has no unit
  | 'points' // of the score, 0 to 100
  | 'probes'
  | 'ratio' // 0 to 1
  | 'requests'
  | 'seconds'
  | 'sites'
  | 'unix seconds'
  | 'vantages'

export const CODE = '^[a-z][a-z0-9_]{2,40}$' // of every code; spec 10
const OPEN_CODE: Schema = { type: 'string', pattern: CODE, maxLength: 41 }
const TIMESTAMP = '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$'
export const SLUG = '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'
export const UUID_V7 = '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
export const COUNT_MAX = 2 ** 53 - 1
const INT32_MAX = 2 ** 31 - 1
export const REQUESTS_MAX = 2 ** 32 - 1 // the maximum of a rule, and the value for "unlimited"
export const YEAR_SEC = 31_536_000 // the longest window

export const exactly = (description: string, properties: Members, optional: string[] = []): Schema => ({
  type: 'object',
  description,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
  additionalProperties: false,
  properties,
})

export const open = (description: string, properties: Members): Schema => {
  return { ...exactly(description, properties), [OPEN]: true } as OpenSchema
}

/** The description is of this use; without one, that of the component stands. */
export const ref = (name: string, description?: string): Schema => {
  return { $ref: `#/components/schemas/${name}`, ...(description !== undefined && { description }) }
}

/** Adds null, in the form that most generators of clients read: a second type, or one of two schemas for a reference. */
export function nullable(schema: Schema): Schema {
  const { $ref, description, type, enum: values } = schema
  if ($ref !== undefined) return { oneOf: [ref($ref.split('/').at(-1)!), { type: 'null' }], description }
  return { ...schema, type: [type as 'string', 'null'], ...(values && { enum: [...values, null] }) }
}

export const text = (description: string, example: string, maxLength: number, more: Schema = {}): Schema => {
  return { type: 'string', description, maxLength, ...more, examples: [example] }
}

export const choice = (
  description: string,
  values: readonly string[],
  example: string = values[0],
): Schema => {
  return { type: 'string', description, enum: values, examples: [example] }
}

export const openChoice = (
  description: string,
  values: readonly string[],
  example: string = values[0],
): Schema => ({ ...choice(description, values, example), [OPEN]: true }) as OpenSchema

type Range = readonly [minimum: number, maximum: number]

/** With a format where it may exceed 32 bits, which is what many generators take for an integer. */
export const integer = (description: string, unit: Unit, range: Range, example: number): Schema => {
  const { format: _, ...schema } = number(description, unit, range, example)
  return { ...schema, type: 'integer', ...(range[1] > INT32_MAX && ({ format: 'int64' } as const)) }
}

/** As double: without it generators of Go and Java take 32 bits. */
export const number = (
  description: string,
  unit: Unit,
  [minimum, maximum]: Range,
  example: number,
): Schema => {
  return {
    type: 'number',
    format: 'double',
    description,
    'x-unit': unit,
    minimum,
    maximum,
    examples: [example],
  }
}

export const count = (description: string, unit: Unit, example: number): Schema => {
  return integer(description, unit, [0, COUNT_MAX], example)
}

export const ratio = (description: string, example: number): Schema => {
  return number(description, 'ratio', [0, 1], example)
}

export const score = (description: string, example: number): Schema => {
  return number(description, 'points', [0, 100], example)
}

/** Null = not measured. */
export const durationMs = (description: string, example: number): Schema => {
  return nullable(integer(description, 'milliseconds', [0, 600_000], example))
}

export const boolean = (description: string, example = true): Schema => {
  return { type: 'boolean', description, examples: [example] }
}

export const date = (description: string, example = '2026-03-01'): Schema => {
  return text(description, example, 10, { format: 'date', pattern: '^\\d{4}-\\d\\d-\\d\\d$' })
}

export const timestamp = (description: string, example = '2026-11-20T16:58:41Z'): Schema => {
  return text(description, example, 20, { format: 'date-time', pattern: TIMESTAMP })
}

export const slug = (description: string): Schema => {
  return text(description, 'example-relay', 63, { minLength: 1, pattern: SLUG })
}

/** Absolute with PUBLIC_BASE_URL, else root-relative. */
export const link = (description: string, example: string): Schema => {
  return text(description, example, 2_048, { pattern: '^(/|https?://)' })
}

export const list = (description: string, items: Schema, maxItems: number, more: Schema = {}): Schema => {
  const example = items.examples?.[0]
  return {
    type: 'array',
    description,
    maxItems,
    items,
    ...more,
    ...(example !== undefined && { examples: [Array(more.minItems ?? 1).fill(example)] }),
  }
}

/** An object with any names. */
export const map = (description: string, values: Schema, maxProperties: number, example: object): Schema => {
  return {
    type: 'object',
    description,
    maxProperties,
    additionalProperties: values,
    examples: [example],
  }
}

/** A copy as the document has it: open where members or values may be added within v1. */
export function opened(schema: OpenSchema): Schema {
  const { properties, items, oneOf, enum: values, description, examples } = schema
  if (schema[OPEN] && values) {
    const isNullable = values.includes(null)
    const known: Schema = { type: 'string', enum: values.filter((value) => value !== null) }
    return {
      anyOf: [known, OPEN_CODE, ...(isNullable ? [{ type: 'null' } as const] : [])],
      description,
      examples,
    }
  }
  const copy: OpenSchema = { ...schema }
  delete copy[OPEN]
  if (schema[OPEN]) delete copy.additionalProperties
  if (properties) {
    const entries = Object.entries(properties).map(([name, each]) => [name, opened(each)])
    copy.properties = Object.fromEntries(entries)
  }
  if (items) copy.items = opened(items)
  if (oneOf) copy.oneOf = oneOf.map(opened)
  return copy
}
