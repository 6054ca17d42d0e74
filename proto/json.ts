/**
 * The rate limit messages as proto3 JSON (spec 6.3, 6.4): what `POST /json` reads and answers.
 *
 *     {"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"7"}],"hitsAddend":"3"}]}
 *     {"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":4294967295}]}
 *
 * Strict as the mapping is: an unknown field, a wrong type or a field under both its spellings is an error that
 * says what and where. JSON.parse works underneath (1.0 of the 1.4 µs that a request of two descriptors takes)
 * and hides two things: a field given twice under one spelling (the last one counts; seeing it comes with a
 * later issue), and digits beyond a double's precision (1.00000000000000000001 reads as 1).
 */
import {
  type Descriptor,
  type DescriptorStatus,
  type Entry,
  type HeaderValue,
  type LimitOverride,
  type RateLimit,
  type RateLimitRequest,
  type RateLimitResponse,
  UNIT_NAMES,
} from './ratelimit.ts'

type Fields = Record<string, unknown>

const CODE_NAMES = ['UNKNOWN', 'OK', 'OVER_LIMIT']
const UINT32_MAX = 2 ** 32 - 1
const UINT64_MAX = 2 ** 64 // as a double: 2^64-1 reads as this, too
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/
const SHOWN_CHARS_MAX = 40 // of caller text within a message; messages go to the log

/**
 * Where in the request reading is, such as `descriptors`, 0, `entries`. One for all: reading never pauses.
 */
const path: (string | number)[] = []

/**
 * Throws an error that says what is wrong and where: `descriptors[0].entries[1].value: expected a string, got
 * 5`.
 */
export function requestFromJson(text: string): RateLimitRequest {
  path.length = 0
  const fields = readFields(JSON.parse(text))
  const request: RateLimitRequest = { domain: '', descriptors: [], hitsAddend: 0 }
  for (const name in fields) {
    const value = fields[name]
    path.push(name)
    if (name === 'domain') request.domain = readString(value)
    else if (name === 'descriptors') request.descriptors = readList(value, readDescriptor)
    else if (name === 'hitsAddend' || name === 'hits_addend') {
      onlySpelling(fields, name === 'hitsAddend' ? 'hits_addend' : 'hitsAddend')
      request.hitsAddend = readInteger(value, UINT32_MAX) ?? 0
    } else unknownField()
    path.pop()
  }
  return request
}

/** One line without spaces; fields at their default are left out, as proto3 JSON does. */
export function responseToJson(response: RateLimitResponse): string {
  const fields: string[] = []
  if (response.overallCode !== 0) fields.push(`"overallCode":${enumText(CODE_NAMES, response.overallCode)}`)
  if (response.statuses.length > 0) fields.push(`"statuses":[${response.statuses.map(statusText).join()}]`)
  if (response.responseHeadersToAdd.length > 0) {
    fields.push(`"responseHeadersToAdd":[${response.responseHeadersToAdd.map(headerText).join()}]`)
  }
  return `{${fields.join()}}`
}

function readDescriptor(value: unknown): Descriptor {
  const fields = readFields(value)
  const descriptor: Descriptor = { entries: [], limit: null, hitsAddend: null }
  for (const name in fields) {
    const value = fields[name]
    path.push(name)
    if (name === 'entries') descriptor.entries = readList(value, readEntry)
    else if (name === 'limit') descriptor.limit = value === null ? null : readOverride(value)
    else if (name === 'hitsAddend' || name === 'hits_addend') {
      onlySpelling(fields, name === 'hitsAddend' ? 'hits_addend' : 'hitsAddend')
      descriptor.hitsAddend = readHits(value)
    } else if (name === 'isNegativeHits' || name === 'is_negative_hits') {
      onlySpelling(fields, name === 'isNegativeHits' ? 'is_negative_hits' : 'isNegativeHits')
      if (value !== null && typeof value !== 'boolean') expected('true or false', value) // ignored
    } else unknownField()
    path.pop()
  }
  return descriptor
}

function readEntry(value: unknown): Entry {
  const fields = readFields(value)
  const entry: Entry = { key: '', value: '' }
  for (const name in fields) {
    const value = fields[name]
    path.push(name)
    if (name === 'key') entry.key = readString(value)
    else if (name === 'value') entry.value = readString(value)
    else unknownField()
    path.pop()
  }
  return entry
}

function readOverride(value: unknown): LimitOverride {
  const fields = readFields(value)
  const limit: LimitOverride = { requestsPerUnit: 0, unit: 0 }
  for (const name in fields) {
    const value = fields[name]
    path.push(name)
    if (name === 'unit') limit.unit = readUnit(value)
    else if (name === 'requestsPerUnit' || name === 'requests_per_unit') {
      onlySpelling(fields, name === 'requestsPerUnit' ? 'requests_per_unit' : 'requestsPerUnit')
      limit.requestsPerUnit = readInteger(value, UINT32_MAX) ?? 0
    } else unknownField()
    path.pop()
  }
  return limit
}

function readFields(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) expected('an object', value)
  return value as Fields
}

function readList<T>(value: unknown, readElement: (value: unknown) => T): T[] {
  if (value === null) return []
  if (!Array.isArray(value)) expected('a list', value)
  const elements = value as unknown[]
  const read: T[] = []
  for (let i = 0; i < elements.length; i++) {
    path.push(i)
    read.push(readElement(elements[i]))
    path.pop()
  }
  return read
}

/** null = not set, which for text is the same as empty. */
function readString(value: unknown): string {
  if (value === null) return ''
  if (typeof value !== 'string') return expected('a string', value)
  if (!value.isWellFormed()) return fail('half of a surrogate pair is no text')
  return value
}

/** A whole number from 0 to `max`, or its text; null = not set. */
function readInteger(value: unknown, max: number): number | null {
  if (value === null) return null
  let number = value
  if (typeof value === 'string') {
    if (!JSON_NUMBER.test(value)) return expected('a whole number', value)
    number = Number(value)
  }
  if (!Number.isInteger(number)) return expected('a whole number', value)
  if ((number as number) < 0 || Object.is(number, -0)) return expected('a number that is not negative', value)
  if ((number as number) > max) return expected(`at most ${max === UINT64_MAX ? '2^64-1' : max}`, value)
  return number as number
}

/** The wrapped 64-bit hits of a descriptor. Above 2^53-1 a number no longer counts in ones: Infinity. */
function readHits(value: unknown): number | null {
  const hits = readInteger(value, UINT64_MAX)
  return hits !== null && hits > Number.MAX_SAFE_INTEGER ? Number.POSITIVE_INFINITY : hits
}

/** An enum name as written, or any int32. */
function readUnit(value: unknown): number {
  if (value === null) return 0
  const unit = typeof value === 'string' ? (UNIT_NAMES as readonly string[]).indexOf(value) : value
  if (unit === -1 && typeof value === 'string') return expected(`one of ${UNIT_NAMES.join(', ')}`, value)
  if (!Number.isInteger(unit) || unit !== ((unit as number) | 0)) return expected('a unit', value)
  return unit as number
}

function onlySpelling(fields: Fields, other: string): void {
  if (other in fields) fail(`given twice, also as ${other}`)
}

function unknownField(): never {
  const name = String(path.pop())
  return fail(`unknown field ${shown(name)}`)
}

function expected(what: string, value: unknown): never {
  return fail(`expected ${what}, got ${shown(value)}`)
}

function fail(what: string): never {
  let where = ''
  for (const step of path) {
    if (typeof step === 'number') where += `[${step}]`
    else where += where === '' ? step : `.${step}`
  }
  throw new Error(where === '' ? what : `${where}: ${what}`)
}

/** A value for a message: text and numbers themselves, cut; of the rest only the kind. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  if (typeof value !== 'string') return String(value)
  return JSON.stringify(value.length > SHOWN_CHARS_MAX ? `${value.slice(0, SHOWN_CHARS_MAX)}…` : value)
}

function statusText(status: DescriptorStatus): string {
  const fields: string[] = []
  if (status.code !== 0) fields.push(`"code":${enumText(CODE_NAMES, status.code)}`)
  if (status.currentLimit !== null) fields.push(`"currentLimit":${limitText(status.currentLimit)}`)
  if (status.limitRemaining !== 0) fields.push(`"limitRemaining":${status.limitRemaining}`)
  if (status.resetSec !== 0) fields.push(`"durationUntilReset":"${status.resetSec}s"`)
  return `{${fields.join()}}`
}

function limitText(limit: RateLimit): string {
  const fields: string[] = []
  if (limit.name !== '') fields.push(`"name":${JSON.stringify(limit.name)}`)
  if (limit.requestsPerUnit !== 0) fields.push(`"requestsPerUnit":${limit.requestsPerUnit}`)
  if (limit.unit !== 0) fields.push(`"unit":${enumText(UNIT_NAMES, limit.unit)}`)
  return `{${fields.join()}}`
}

function headerText({ key, value }: HeaderValue): string {
  const fields: string[] = []
  if (key !== '') fields.push(`"key":${JSON.stringify(key)}`)
  if (value !== '') fields.push(`"value":${JSON.stringify(value)}`)
  return `{${fields.join()}}`
}

/** Numbers that have no name are written as numbers. */
function enumText(names: readonly string[], number: number): string {
  const name = names[number]
  return name === undefined ? String(number) : `"${name}"`
}
