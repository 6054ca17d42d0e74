/**
 * Judges an answer: its code if it is a RateLimitResponse with as many statuses as there were descriptors, each OK or
 * OVER_LIMIT, and LIMITED with it when a status names its limit; WRONG otherwise. Reads the bytes where they lie and makes nothing, for it runs with every call.
 *
 *     08 01   12 0d  08 01 ...   12 0d  08 01 ...        08 = overall code, 12 = a status; in it 08 = its code, 12 = its limit
 */
import { Code } from '../../proto/ratelimit.ts'

/** Beside Code.Ok and Code.OverLimit. */
export const WRONG = -1
/** Added to a code: a rule with a limit applied. */
export const LIMITED = 4

const OVERALL_CODE = 0x08
const STATUS = 0x12
const STATUS_CODE = 0x08
const STATUS_LIMIT = 0x12

let at = 0 // where reading goes on; one for all, since reading never pauses
let limited = 0 // LIMITED once a status has named its limit

export function classifyResponse(bytes: Uint8Array, from: number, to: number, descriptors: number): number {
  let overall = 0
  let statuses = 0
  at = from
  limited = 0
  while (at < to) {
    const tag = number(bytes, to)
    if (tag === OVERALL_CODE) overall = number(bytes, to)
    else if (tag === STATUS) {
      const end = number(bytes, to) + at
      if (end > to || !isCode(statusCode(bytes, end))) return WRONG
      at = end
      statuses++
    } else if (!skip(bytes, tag, to)) return WRONG
  }
  return at === to && statuses === descriptors && isCode(overall) ? overall | limited : WRONG
}

function statusCode(bytes: Uint8Array, end: number): number {
  let code = 0
  while (at < end) {
    const tag = number(bytes, end)
    if (tag === STATUS_CODE) code = number(bytes, end)
    else if (!skip(bytes, tag, end)) return 0
    else if (tag === STATUS_LIMIT) limited = LIMITED
  }
  return at === end ? code : 0
}

function isCode(code: number): boolean {
  return code === Code.Ok || code === Code.OverLimit
}

/** False: what follows cannot be skipped. */
function skip(bytes: Uint8Array, tag: number, to: number): boolean {
  const type = tag & 7
  if (tag < 8) return false // field 0
  if (type === 0) number(bytes, to)
  else if (type === 1) at += 8
  else if (type === 2)
    at = number(bytes, to) + at // in this order: reading the length moves `at`
  else if (type === 5) at += 4
  else return false
  return at <= to
}

/** A varint; beyond 2^53 it loses its low bits, which no field we look at has. Infinity: it does not end. */
function number(bytes: Uint8Array, to: number): number {
  let value = 0
  let scale = 1
  while (at < to) {
    const byte = bytes[at++]
    value += (byte & 127) * scale
    if (byte < 128) return value
    scale *= 128
  }
  return Number.POSITIVE_INFINITY
}
