/**
 * A rate limit request as proto3 JSON (spec 6.3): what `POST /json` reads.
 *
 *     {"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"7"}],"hitsAddend":"3"}]}
 *
 * Strict: an unknown field, a wrong type or a repeated field (in either spelling) is an error with its place. Integers are
 * exact up to 2^64-1. Stops at the maxima of `bounds.ts`. JSON.parse would hide repeated fields and the digits that a
 * double does not hold, and would read megabytes before the first unknown field is detected.
 */
import { DESCRIPTORS_BOUND, DESCRIPTORS_MAX, ENTRIES_BOUND, ENTRIES_MAX } from './bounds.ts'
import { type FieldNames, JsonReader } from './json-reader.ts'
import {
  type Descriptor,
  type Entry,
  type LimitOverride,
  type RateLimitRequest,
  UNIT_NAMES,
} from './ratelimit.ts'

const UINT32_MAX = 2 ** 32 - 1
const UINT64_MAX = 2n ** 64n - 1n

// A field's number is its index; `originals` are the names as the .proto files have them.
const REQUEST: FieldNames = {
  names: ['domain', 'descriptors', 'hitsAddend'],
  originals: ['domain', 'descriptors', 'hits_addend'],
}
const DESCRIPTOR: FieldNames = {
  names: ['entries', 'limit', 'hitsAddend', 'isNegativeHits'],
  originals: ['entries', 'limit', 'hits_addend', 'is_negative_hits'],
}
const ENTRY: FieldNames = { names: ['key', 'value'], originals: ['key', 'value'] }
const LIMIT: FieldNames = { names: ['requestsPerUnit', 'unit'], originals: ['requests_per_unit', 'unit'] }

const json = new JsonReader()
let entriesCount = 0 // of the request that is being read

/** Throws an error with the cause and the place: `descriptors[0].entries[1].value: expected a string, got 5`. */
export function requestFromJson(text: string): RateLimitRequest {
  const request: RateLimitRequest = { domain: '', descriptors: [], hitsAddend: 0 }
  entriesCount = 0
  json.open(text)
  let seen = 0
  for (let field = json.field(REQUEST, 0); field >= 0; field = json.field(REQUEST, seen)) {
    seen |= 1 << field
    if (field === 0) request.domain = readString()
    else if (field === 1) readDescriptors(request.descriptors)
    else request.hitsAddend = Number(readUint(UINT32_MAX) ?? 0)
  }
  json.close()
  return request
}

function readDescriptors(descriptors: Descriptor[]): void {
  if (json.isNull()) return
  for (let i = 0; json.element(i); i++) {
    if (i === DESCRIPTORS_MAX) json.fail(DESCRIPTORS_BOUND)
    descriptors.push(readDescriptor())
  }
}

function readDescriptor(): Descriptor {
  const descriptor: Descriptor = { entries: [], limit: null, hitsAddend: null }
  let seen = 0
  for (let field = json.field(DESCRIPTOR, 0); field >= 0; field = json.field(DESCRIPTOR, seen)) {
    seen |= 1 << field
    if (field === 0) readEntries(descriptor.entries)
    else if (field === 1) descriptor.limit = json.isNull() ? null : readOverride()
    else if (field === 2) descriptor.hitsAddend = readUint(UINT64_MAX)
    else if (!json.isNull() && json.boolean() === null) json.expected('true or false') // ignored (spec 2.5)
  }
  return descriptor
}

function readEntries(entries: Entry[]): void {
  if (json.isNull()) return
  for (let i = 0; json.element(i); i++) {
    if (++entriesCount > ENTRIES_MAX) json.fail(ENTRIES_BOUND)
    entries.push(readEntry())
  }
}

function readEntry(): Entry {
  const entry: Entry = { key: '', value: '' }
  let seen = 0
  for (let field = json.field(ENTRY, 0); field >= 0; field = json.field(ENTRY, seen)) {
    seen |= 1 << field
    if (field === 0) entry.key = readString()
    else entry.value = readString()
  }
  return entry
}

function readOverride(): LimitOverride {
  const limit: LimitOverride = { requestsPerUnit: 0, unit: 0 }
  let seen = 0
  for (let field = json.field(LIMIT, 0); field >= 0; field = json.field(LIMIT, seen)) {
    seen |= 1 << field
    if (field === 0) limit.requestsPerUnit = Number(readUint(UINT32_MAX) ?? 0)
    else limit.unit = readUnit()
  }
  return limit
}

/** null = not set, which for text is the same as empty. */
function readString(): string {
  return json.string() ?? (json.isNull() ? '' : json.expected('a string'))
}

/** A whole number from 0 to `max`, or its text; null = not set. */
function readUint(max: number | bigint): number | bigint | null {
  if (json.isNull()) return null
  const value = json.wholeNumber() ?? json.expected('a whole number')
  if (value < 0) json.expected('a number that is not negative')
  if (value > max) json.expected(`at most ${max}`)
  return value
}

/** An enum name as written, or any int32. */
function readUnit(): number {
  if (json.isNull()) return 0
  const name = json.string()
  if (name !== null) {
    const unit = (UNIT_NAMES as readonly string[]).indexOf(name)
    return unit >= 0 ? unit : json.expected(`one of ${UNIT_NAMES.join(', ')}`)
  }
  const value = json.wholeNumber()
  const unit = Number(value) | 0
  return value !== null && Number(value) === unit ? unit : json.expected('a unit')
}
