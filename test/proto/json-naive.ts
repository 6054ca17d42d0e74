/**
 * Reads a request as slowly and simply as can be: JSON.parse, then a look at every field. What proto/json.ts is compared
 * with. Blind where JSON.parse loses something: a field given twice under one spelling, digits beyond a double.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Descriptor, Entry, LimitOverride, RateLimitRequest } from '../../proto/ratelimit.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'

type Fields = Record<string, unknown>

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** Throws on what is no request. Hits above 2^53-1 are Infinity. */
export function naiveRequest(text: string): RateLimitRequest {
  const fields = objectOf(JSON.parse(text), ['domain', 'descriptors', 'hitsAddend|hits_addend'])
  return {
    domain: stringOf(fields.domain),
    descriptors: listOf(fields.descriptors).map(descriptorOf),
    hitsAddend: integerOf(fields.hitsAddend, 2 ** 32 - 1) ?? 0,
  }
}

/** A request as the model has it. */
export function asNaive(request: RateLimitRequest): RateLimitRequest {
  const descriptors = request.descriptors.map((descriptor) => {
    const { hitsAddend } = descriptor
    return {
      ...descriptor,
      hitsAddend: typeof hitsAddend === 'bigint' ? Number.POSITIVE_INFINITY : hitsAddend,
    }
  })
  return { ...request, descriptors }
}

export const isSame = (one: RateLimitRequest, other: RateLimitRequest) =>
  isDeepStrictEqual(asNaive(one), asNaive(other))

function descriptorOf(value: unknown): Descriptor {
  const names = ['entries', 'limit', 'hitsAddend|hits_addend', 'isNegativeHits|is_negative_hits']
  const fields = objectOf(value, names)
  const isNegative = fields.isNegativeHits ?? false
  check(typeof isNegative === 'boolean')
  const hits = integerOf(fields.hitsAddend, 2 ** 64)
  return {
    entries: listOf(fields.entries).map(entryOf),
    limit: fields.limit == null ? null : overrideOf(fields.limit),
    hitsAddend: hits !== null && hits > Number.MAX_SAFE_INTEGER ? Number.POSITIVE_INFINITY : hits,
  }
}

function entryOf(value: unknown): Entry {
  const fields = objectOf(value, ['key', 'value'])
  return { key: stringOf(fields.key), value: stringOf(fields.value) }
}

function overrideOf(value: unknown): LimitOverride {
  const fields = objectOf(value, ['unit', 'requestsPerUnit|requests_per_unit'])
  return { requestsPerUnit: integerOf(fields.requestsPerUnit, 2 ** 32 - 1) ?? 0, unit: unitOf(fields.unit) }
}

/** Fields by their first name; `known` has both spellings with a bar between. */
function objectOf(value: unknown, known: string[]): Fields {
  check(typeof value === 'object' && value !== null && !Array.isArray(value))
  const fields: Fields = {}
  for (const [name, field] of Object.entries(value as Fields)) {
    const spellings = known.find((each) => each.split('|').includes(name))
    check(spellings !== undefined)
    const [first] = spellings!.split('|')
    check(!Object.hasOwn(fields, first))
    fields[first] = field
  }
  return fields
}

function listOf(value: unknown): unknown[] {
  check(value == null || Array.isArray(value))
  return (value ?? []) as unknown[]
}

function stringOf(value: unknown): string {
  check(value == null || (typeof value === 'string' && value.isWellFormed()))
  return (value ?? '') as string
}

function integerOf(value: unknown, max: number): number | null {
  if (value == null) return null
  check(typeof value === 'number' || (typeof value === 'string' && JSON_NUMBER.test(value)))
  const number = Number(value)
  check(Number.isInteger(number) && number >= 0 && number <= max)
  return number
}

function unitOf(value: unknown): number {
  if (value == null) return 0
  const unit = typeof value === 'string' ? (UNIT_NAMES as readonly string[]).indexOf(value) : value
  check(unit !== -1 || value === -1)
  check(Number.isInteger(unit) && unit === ((unit as number) | 0))
  return (unit as number) | 0
}

function check(isRight: boolean): void {
  if (!isRight) throw new Error('no request')
}
