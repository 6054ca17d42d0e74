/**
 * A response as protobuf text in one line, for people to read (spec 11.4). Fields at their default are left
 * out.
 *
 *     overall_code:OK statuses:{code:OK current_limit:{requests_per_unit:5 unit:SECOND} limit_remaining:4
 *     duration_until_reset:{seconds:1}}                                               (one line, one space)
 */
import { type DescriptorStatus, type RateLimit, type RateLimitResponse, UNIT_NAMES } from './ratelimit.ts'

const CODE_NAMES = ['UNKNOWN', 'OK', 'OVER_LIMIT']

export function responseToText(response: RateLimitResponse): string {
  const fields: string[] = []
  if (response.overallCode !== 0) fields.push(`overall_code:${nameOf(CODE_NAMES, response.overallCode)}`)
  for (const status of response.statuses) fields.push(`statuses:{${statusText(status)}}`)
  for (const { key, value } of response.responseHeadersToAdd) {
    const pair = [key && `key:${quote(key)}`, value && `value:${quote(value)}`]
    fields.push(`response_headers_to_add:{${pair.filter(Boolean).join(' ')}}`)
  }
  return fields.join(' ')
}

/** Text in double quotes; what does not print is escaped (`\n`, `\x01`). */
export function quote(text: string): string {
  return JSON.stringify(text)
    .replace(/\\(?:u00([0-9a-f]{2})|.)/g, (written, hex?: string) =>
      hex === undefined ? written : `\\x${hex}`,
    )
    .replaceAll('\x7f', '\\x7f')
}

function statusText(status: DescriptorStatus): string {
  const fields: string[] = []
  if (status.code !== 0) fields.push(`code:${nameOf(CODE_NAMES, status.code)}`)
  if (status.currentLimit !== null) fields.push(`current_limit:{${limitText(status.currentLimit)}}`)
  if (status.limitRemaining !== 0) fields.push(`limit_remaining:${status.limitRemaining}`)
  if (status.resetSec !== 0) fields.push(`duration_until_reset:{seconds:${status.resetSec}}`)
  return fields.join(' ')
}

function limitText(limit: RateLimit): string {
  const fields: string[] = []
  if (limit.name !== '') fields.push(`name:${quote(limit.name)}`)
  if (limit.requestsPerUnit !== 0) fields.push(`requests_per_unit:${limit.requestsPerUnit}`)
  if (limit.unit !== 0) fields.push(`unit:${nameOf(UNIT_NAMES, limit.unit)}`)
  return fields.join(' ')
}

function nameOf(names: readonly string[], number: number): string {
  return names[number] ?? String(number)
}
