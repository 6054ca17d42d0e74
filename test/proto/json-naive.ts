/**
 * A simple model of proto/json.ts: JSON.parse, then a check of every field. It cannot detect what JSON.parse loses: a field
 * given twice under one spelling, digits beyond a double.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Descriptor, Entry, LimitOverride, RateLimitRequest } from '../../proto/ratelimit.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'

type Fields = Record<string, unknown>

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** Throws if the text is not a request. Hits above 2^53-1 are Infinity. */
export function naiveRequest(text: string): RateLimitRequest {
  const fields = readObject(JSON.parse(text), ['domain', 'descriptors', 'hitsAddend|hits_addend'])
  return {
    domain: readString(fields.domain),
    descriptors: readList(fields.descriptors).map(readDescriptor),
    hitsAddend: readInteger(fields.hitsAddend, 2 ** 32 - 1) ?? 0,
  }
}

/** Converts a request to the form of the model. */
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

function readDescriptor(value: unknown): Descriptor {
  const names = ['entries', 'limit', 'hitsAddend|hits_addend', 'isNegativeHits|is_negative_hits']
  const fields = readObject(value, names)
  const isNegative = fields.isNegativeHits ?? false
  check(typeof isNegative === 'boolean')
  const hits = readInteger(fields.hitsAddend, 2 ** 64)
  return {
    entries: readList(fields.entries).map(readEntry),
    limit: fields.limit == null ? null : readOverride(fields.limit),
    hitsAddend: hits !== null && hits > Number.MAX_SAFE_INTEGER ? Number.POSITIVE_INFINITY : hits,
  }
}

function readEntry(value: unknown): Entry {
  const fields = readObject(value, ['key', 'value'])
  return { key: readString(fields.key), value: readString(fields.value) }
}

function readOverride(value: unknown): LimitOverride {
  const fields = readObject(value, ['unit', 'requestsPerUnit|requests_per_unit'])
  return {
    requestsPerUnit: readInteger(fields.requestsPerUnit, 2 ** 32 - 1) ?? 0,
    unit: readUnit(fields.unit),
  }
}

/** Fields by their first name; `known` has both spellings with a bar between. */
function readObject(value: unknown, known: string[]): Fields {
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

function readList(value: unknown): unknown[] {
  check(value == null || Array.isArray(value))
  return (value ?? []) as unknown[]
}

function readString(value: unknown): string {
  check(value == null || (typeof value === 'string' && value.isWellFormed()))
  return (value ?? '') as string
}

function readInteger(value: unknown, max: number): number | null {
  if (value == null) return null
  check(typeof value === 'number' || (typeof value === 'string' && JSON_NUMBER.test(value)))
  const number = Number(value)
  check(Number.isInteger(number) && number >= 0 && number <= max)
  return number
}

function readUnit(value: unknown): number {
  if (value == null) return 0
  const unit = typeof value === 'string' ? (UNIT_NAMES as readonly string[]).indexOf(value) : value
  check(unit !== -1 || value === -1)
  check(Number.isInteger(unit) && unit === ((unit as number) | 0))
  return (unit as number) | 0
}

function check(isRight: boolean): void {
  if (!isRight) throw new Error('no request')
}
