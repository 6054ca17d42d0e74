/**
 * The part of JSON Schema 2020-12 that the schemas here use, and a validator for exactly that part.
 *
 *     check(schema, value, components)  ─► null, or `sites/0/tier must be one of S, A, B, C, D`
 *
 * An unknown keyword is an error, so every keyword of a schema is checked.
 */

export interface Schema {
  $ref?: string // #/components/schemas/<name>
  type?: JsonType | JsonType[]
  enum?: readonly (string | number | boolean | null)[]
  const?: string | number | boolean | null
  description?: string
  examples?: readonly unknown[]
  default?: unknown
  pattern?: string
  format?: 'uri' | 'date' | 'date-time' | 'int64' | 'double' // those of numbers are for generators; not checked
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  items?: Schema
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  properties?: Record<string, Schema>
  required?: readonly string[]
  additionalProperties?: boolean | Schema
  maxProperties?: number
  anyOf?: readonly Schema[]
  oneOf?: readonly Schema[]
  'x-unit'?: string // says what a number measures; not checked
}
type JsonType = keyof typeof TYPE_NAMES

const TYPE_NAMES = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
  null: 'null',
} as const

const KNOWN = new Set([
  ...['$ref', 'type', 'enum', 'const', 'description', 'examples', 'default', 'pattern', 'format'],
  ...['minLength', 'maxLength', 'minimum', 'maximum', 'items', 'minItems', 'maxItems', 'uniqueItems'],
  ...['properties', 'required', 'additionalProperties', 'maxProperties', 'anyOf', 'oneOf'],
  'x-unit',
])

const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/ // the only form of this API

export type Components = Readonly<Record<string, Schema>>

/** Returns the first violation with its place; null = valid. */
export function check(schema: Schema, value: unknown, components: Components, at = ''): string | null {
  for (const keyword of Object.keys(schema)) {
    if (!KNOWN.has(keyword)) return `${where(at)} has a schema with the unknown keyword ${keyword}`
  }
  if (schema.$ref !== undefined) return checkReference(schema.$ref, value, components, at)
  if (schema.anyOf) {
    const violations = schema.anyOf.map((each) => check(each, value, components, at))
    return violations.includes(null) ? null : violations.join(', or ')
  }
  if (schema.oneOf) {
    const violations = schema.oneOf.map((each) => check(each, value, components, at))
    const valid = violations.filter((violation) => violation === null).length
    if (valid === 0) return violations.join(', or ')
    return valid === 1 ? null : `${where(at)} must be only one of ${schema.oneOf.length} kinds`
  }
  if (schema.type !== undefined) {
    const types = [schema.type].flat()
    const names = types.map((type) => TYPE_NAMES[type])
    if (!types.some((type) => hasType(type, value))) return `${where(at)} must be ${names.join(' or ')}`
  }
  if (schema.const !== undefined && value !== schema.const) return `${where(at)} must be ${schema.const}`
  if (schema.enum && !schema.enum.includes(value as string)) {
    return `${where(at)} must be one of ${schema.enum.join(', ')}`
  }
  if (typeof value === 'string') return checkText(schema, value, at)
  if (typeof value === 'number') return checkNumber(schema, value, at)
  if (Array.isArray(value)) return checkArray(schema, value, components, at)
  if (typeof value === 'object' && value !== null) {
    return checkObject(schema, value as Record<string, unknown>, components, at)
  }
  return null
}

function checkReference(
  reference: string,
  value: unknown,
  components: Components,
  at: string,
): string | null {
  const target = components[reference.replace('#/components/schemas/', '')]
  return target
    ? check(target, value, components, at)
    : `${where(at)} refers to ${reference}, which is not there`
}

function checkText(schema: Schema, value: string, at: string): string | null {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, format } = schema
  const length = [...value].length // in code points, as the standard counts
  if (length < minLength || length > maxLength) {
    return `${where(at)} must have ${minLength} to ${maxLength} characters`
  }
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(value))
    return `${where(at)} must match ${pattern}`
  if (format === 'uri' && !URL.canParse(value)) return `${where(at)} must be an absolute URL`
  if (format === 'date-time' && !DATE_TIME.test(value)) return `${where(at)} must be a date with time`
  if (format === 'date' && !/^\d{4}-\d\d-\d\d$/.test(value)) return `${where(at)} must be a date`
  return null
}

function checkNumber(schema: Schema, value: number, at: string): string | null {
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = schema
  return value < minimum || value > maximum ? `${where(at)} must be from ${minimum} to ${maximum}` : null
}

function checkArray(schema: Schema, value: unknown[], components: Components, at: string): string | null {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY, items, uniqueItems } = schema
  if (value.length < minItems || value.length > maxItems) {
    return `${where(at)} must have ${minItems} to ${maxItems} items`
  }
  if (uniqueItems && new Set(value.map((item) => JSON.stringify(item))).size !== value.length) {
    return `${where(at)} must not have an item twice`
  }
  if (!items) return null
  for (const [i, item] of value.entries()) {
    const violation = check(items, item, components, `${at}/${i}`)
    if (violation !== null) return violation
  }
  return null
}

function checkObject(
  schema: Schema,
  value: Record<string, unknown>,
  components: Components,
  at: string,
): string | null {
  const { properties = {}, required = [], additionalProperties = true, maxProperties } = schema
  for (const name of required) if (!Object.hasOwn(value, name)) return `${where(at)} must have ${name}`
  if (maxProperties !== undefined && Object.keys(value).length > maxProperties) {
    return `${where(at)} must have at most ${maxProperties} members`
  }
  for (const [name, member] of Object.entries(value)) {
    const known = Object.hasOwn(properties, name) ? properties[name] : additionalProperties
    if (known === false) return `${where(at)} must not have ${JSON.stringify(name.slice(0, 32))}`
    const violation = known === true ? null : check(known, member, components, `${at}/${name}`)
    if (violation !== null) return violation
  }
  return null
}

function hasType(type: JsonType, value: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
  if (type === 'integer') return Number.isSafeInteger(value)
  if (type === 'number') return Number.isFinite(value)
  return typeof value === type // string or boolean here
}

function where(at: string): string {
  return at === '' ? 'the body' : at.slice(1)
}
