/**
 * A request and a response as protobuf text in one line, for people to read (spec 11.3, 11.4). Fields at their default are
 * omitted.
 *
 *     overall_code:OK statuses:{code:OK current_limit:{requests_per_unit:5 unit:SECOND} limit_remaining:4
 *     duration_until_reset:{seconds:1}}                                               (one line, one space)
 */
import { STRUCT_DEPTH_MAX } from './bounds.ts'
import {
  type Descriptor,
  type DescriptorStatus,
  type JsonObject,
  type JsonValue,
  type LimitOverride,
  type RateLimitRequest,
  type RateLimitResponse,
  UNIT_NAMES,
} from './ratelimit.ts'

const CODE_NAMES = ['UNKNOWN', 'OK', 'OVER_LIMIT']

export function requestToText({ domain, descriptors, hitsAddend }: RateLimitRequest): string {
  const fields: string[] = []
  if (domain !== '') fields.push(`domain:${quote(domain)}`)
  for (const descriptor of descriptors) fields.push(`descriptors:{${formatDescriptor(descriptor)}}`)
  if (hitsAddend !== 0) fields.push(`hits_addend:${hitsAddend}`)
  return fields.join(' ')
}

export function responseToText(response: RateLimitResponse): string {
  const fields: string[] = []
  if (response.overallCode !== 0) fields.push(`overall_code:${enumName(CODE_NAMES, response.overallCode)}`)
  for (const status of response.statuses) fields.push(`statuses:{${formatStatus(status)}}`)
  for (const { key, value } of response.responseHeadersToAdd) {
    fields.push(`response_headers_to_add:{${formatPair(key, value)}}`)
  }
  if (response.dynamicMetadata !== null) {
    fields.push(`dynamic_metadata:{${formatStruct(response.dynamicMetadata, 1)}}`)
  }
  return fields.join(' ')
}

/** Text in double quotes; characters that do not print are escaped (`\n`, `\x01`). */
export function quote(text: string): string {
  return JSON.stringify(text)
    .replace(/\\(?:u00([0-9a-f]{2})|.)/g, (written, hex?: string) =>
      hex === undefined ? written : `\\x${hex}`,
    )
    .replaceAll('\x7f', '\\x7f')
}

function formatDescriptor({ entries, limit, hitsAddend }: Descriptor): string {
  const fields = entries.map(({ key, value }) => `entries:{${formatPair(key, value)}}`)
  if (limit !== null) fields.push(`limit:{${formatLimit({ name: '', ...limit })}}`)
  if (hitsAddend !== null)
    fields.push(`hits_addend:{${Number(hitsAddend) === 0 ? '' : `value:${hitsAddend}`}}`)
  return fields.join(' ')
}

function formatPair(key: string, value: string): string {
  return [key && `key:${quote(key)}`, value && `value:${quote(value)}`].filter(Boolean).join(' ')
}

function formatStatus(status: DescriptorStatus): string {
  const fields: string[] = []
  if (status.code !== 0) fields.push(`code:${enumName(CODE_NAMES, status.code)}`)
  if (status.currentLimit !== null) fields.push(`current_limit:{${formatLimit(status.currentLimit)}}`)
  if (status.limitRemaining !== 0) fields.push(`limit_remaining:${status.limitRemaining}`)
  if (status.resetSec !== 0) fields.push(`duration_until_reset:{seconds:${status.resetSec}}`)
  return fields.join(' ')
}

function formatLimit(limit: LimitOverride & { name: string }): string {
  const fields: string[] = []
  if (limit.name !== '') fields.push(`name:${quote(limit.name)}`)
  if (limit.requestsPerUnit !== 0) fields.push(`requests_per_unit:${limit.requestsPerUnit}`)
  if (limit.unit !== 0) fields.push(`unit:${enumName(UNIT_NAMES, limit.unit)}`)
  return fields.join(' ')
}

/** A map's entries are messages of key and value, sorted by key. Values beyond the maximum depth are NULL_VALUE. */
function formatStruct(struct: JsonObject, depth: number): string {
  const field = (key: string) => `fields:{key:${quote(key)} value:{${formatValue(struct[key], depth)}}}`
  return Object.keys(struct).sort().map(field).join(' ')
}

function formatValue(value: JsonValue, depth: number): string {
  if (typeof value === 'string') return `string_value:${quote(value)}`
  if (typeof value === 'number') return `number_value:${numberText(value)}`
  if (typeof value === 'boolean') return `bool_value:${value}`
  if (value === null || depth >= STRUCT_DEPTH_MAX) return 'null_value:NULL_VALUE'
  if (!Array.isArray(value)) return `struct_value:{${formatStruct(value, depth + 1)}}`
  const elements = value.map((element) => `values:{${formatValue(element, depth + 1)}}`)
  return `list_value:{${elements.join(' ')}}`
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  return Object.is(value, -0) ? '-0' : String(value)
}

function enumName(names: readonly string[], number: number): string {
  return names[number] ?? String(number)
}
