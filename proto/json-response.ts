/**
 * Formats a response as proto3 JSON (spec 6.4), for `POST /json`.
 *
 *     {"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":4294967295}]}
 *
 * One line without spaces; fields at their default are left out, except in dynamic metadata.
 */
import { STRUCT_DEPTH_MAX } from './bounds.ts'
import {
  type DescriptorStatus,
  type HeaderValue,
  type JsonValue,
  type RateLimit,
  type RateLimitResponse,
  UNIT_NAMES,
} from './ratelimit.ts'

const CODE_NAMES = ['UNKNOWN', 'OK', 'OVER_LIMIT']

/** Throws if dynamic metadata holds a number that JSON cannot represent. */
export function responseToJson(response: RateLimitResponse): string {
  const fields: string[] = []
  if (response.overallCode !== 0) fields.push(`"overallCode":${enumText(CODE_NAMES, response.overallCode)}`)
  if (response.statuses.length > 0) fields.push(`"statuses":[${response.statuses.map(statusText).join()}]`)
  if (response.responseHeadersToAdd.length > 0) {
    fields.push(`"responseHeadersToAdd":[${response.responseHeadersToAdd.map(headerText).join()}]`)
  }
  if (response.dynamicMetadata !== null) {
    fields.push(`"dynamicMetadata":${valueText(response.dynamicMetadata, 0)}`)
  }
  return `{${fields.join()}}`
}

// hot: every decision by HTTP ends here, so texts are joined as they come

function statusText(status: DescriptorStatus): string {
  let text = ''
  if (status.code !== 0) text += `,"code":${enumText(CODE_NAMES, status.code)}`
  if (status.currentLimit !== null) text += `,"currentLimit":${limitText(status.currentLimit)}`
  if (status.limitRemaining !== 0) text += `,"limitRemaining":${status.limitRemaining}`
  if (status.resetSec !== 0) text += `,"durationUntilReset":"${status.resetSec}s"`
  return `{${text.slice(1)}}`
}

function limitText(limit: RateLimit): string {
  let text = ''
  if (limit.name !== '') text += `,"name":${quoted(limit.name)}`
  if (limit.requestsPerUnit !== 0) text += `,"requestsPerUnit":${limit.requestsPerUnit}`
  if (limit.unit !== 0) text += `,"unit":${enumText(UNIT_NAMES, limit.unit)}`
  return `{${text.slice(1)}}`
}

function headerText({ key, value }: HeaderValue): string {
  const fields: string[] = []
  if (key !== '') fields.push(`"key":${quoted(key)}`)
  if (value !== '') fields.push(`"value":${quoted(value)}`)
  return `{${fields.join()}}`
}

/** JSON.stringify would put keys like `7` first and write NaN as null. Values beyond the maximum depth are null. */
function valueText(value: JsonValue, depth: number): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return numberText(value)
  if (typeof value === 'boolean') return String(value)
  if (value === null || depth === STRUCT_DEPTH_MAX) return 'null'
  if (Array.isArray(value)) return `[${value.map((element) => valueText(element, depth + 1)).join()}]`
  const fields: string[] = []
  for (const key of Object.keys(value).sort()) {
    fields.push(`${quoted(key)}:${valueText(value[key], depth + 1)}`)
  }
  return `{${fields.join()}}`
}

/** The shortest digits that parse to the same double: 1, 0.1, 1e+21. */
function numberText(value: number): string {
  if (!Number.isFinite(value)) throw new Error(`dynamic metadata holds ${value}, which JSON cannot represent`)
  return Object.is(value, -0) ? '-0' : String(value)
}

/** An unpaired surrogate, which only a rule file can contain, is written as U+FFFD. */
function quoted(text: string): string {
  return JSON.stringify(text.toWellFormed())
}

/** Numbers without a name are written as numbers. */
function enumText(names: readonly string[], number: number): string {
  const name = names[number]
  return name === undefined ? String(number) : `"${name}"`
}
