/**
 * Classifies a response: its code if it is a RateLimitResponse with as many statuses as there were descriptors, each OK or
 * OVER_LIMIT, with the bit LIMITED if a status names its limit and, if a policy answered, DEGRADED and which one; WRONG otherwise. Runs for every
 * call, and allocates nothing.
 *
 *     08 01   12 0d  08 01 ...   12 0d  08 01 ...        08 = overall code, 12 = a status; in it 08 = its code, 12 = its limit
 *     1a 1d  0a 14 x-ratelimit-degraded ...              1a = a response header; in it 0a = its name, 12 = its value
 */
import { Code } from '../../proto/ratelimit.ts'

/** The third result beside Code.Ok and Code.OverLimit. */
export const WRONG = -1
/** Added to a code: a rule with a limit applied. */
export const LIMITED = 4
/** Added to a code: the store could not count, and the header says so (DEGRADED_HEADER). */
export const DEGRADED = 8
/** What remains is the Code. */
export const CODE_MASK = 3
/** A code shifted right by so many bits is an index of DEGRADED_POLICIES. */
export const POLICY_SHIFT = 4
/** Policies that answer in place of the store, as the header names them; '' = none, or another value. */
export const DEGRADED_POLICIES = ['', 'allow', 'deny', 'local'] as const

const OVERALL_CODE = 0x08
const STATUS = 0x12
const STATUS_CODE = 0x08
const STATUS_LIMIT = 0x12
const HEADER = 0x1a
const DEGRADED_NAME = Buffer.from('\x0a\x14x-ratelimit-degraded', 'latin1') // with its tag and length
const POLICY_VALUES = DEGRADED_POLICIES.map((name) =>
  Buffer.from(`\x12${String.fromCharCode(name.length)}${name}`, 'latin1'),
)

let at = 0 // offset of the next byte; global, because reading is synchronous
let limited = 0 // LIMITED once a status has named its limit
let degraded = 0 // DEGRADED and the policy once the header has been seen

export function classifyResponse(bytes: Uint8Array, from: number, to: number, descriptors: number): number {
  let overall = 0
  let statuses = 0
  at = from
  limited = 0
  degraded = 0
  while (at < to) {
    const tag = readVarint(bytes, to)
    if (tag === OVERALL_CODE) overall = readVarint(bytes, to)
    else if (tag === STATUS) {
      const end = readVarint(bytes, to) + at
      if (end > to || !isCode(readStatusCode(bytes, end))) return WRONG
      at = end
      statuses++
    } else {
      const from = at
      if (!skip(bytes, tag, to)) return WRONG
      if (tag === HEADER && isDegradedHeader(bytes, from))
        degraded = DEGRADED | (readPolicy(bytes, from) << POLICY_SHIFT)
    }
  }
  if (at !== to || statuses !== descriptors || !isCode(overall)) return WRONG
  return overall | limited | degraded
}

/** Whether the header from `from` (its length, one byte because it is short) to `at` is the one of DEGRADED. */
function isDegradedHeader(bytes: Uint8Array, from: number): boolean {
  if (at - from <= DEGRADED_NAME.length) return false
  for (let i = 0; i < DEGRADED_NAME.length; i++) if (bytes[from + 1 + i] !== DEGRADED_NAME[i]) return false
  return true
}

/** The index in DEGRADED_POLICIES of the value of the header from `from` to `at`. */
function readPolicy(bytes: Uint8Array, from: number): number {
  const valueFrom = from + 1 + DEGRADED_NAME.length
  for (let policy = 1; policy < POLICY_VALUES.length; policy++) {
    const value = POLICY_VALUES[policy]
    let length = 0
    while (length < value.length && bytes[valueFrom + length] === value[length]) length++
    if (length === value.length && valueFrom + length === at) return policy
  }
  return 0
}

function readStatusCode(bytes: Uint8Array, end: number): number {
  let code = 0
  while (at < end) {
    const tag = readVarint(bytes, end)
    if (tag === STATUS_CODE) code = readVarint(bytes, end)
    else if (!skip(bytes, tag, end)) return 0
    else if (tag === STATUS_LIMIT) limited = LIMITED
  }
  return at === end ? code : 0
}

function isCode(code: number): boolean {
  return code === Code.Ok || code === Code.OverLimit
}

/** Returns false if the field cannot be skipped. */
function skip(bytes: Uint8Array, tag: number, to: number): boolean {
  const type = tag & 7
  if (tag < 8) return false // field 0
  if (type === 0) readVarint(bytes, to)
  else if (type === 1) at += 8
  else if (type === 2)
    at = readVarint(bytes, to) + at // in this order: reading the length moves `at`
  else if (type === 5) at += 4
  else return false
  return at <= to
}

/** Reads a varint. Beyond 2^53 the low bits are lost, which no field read here needs. Infinity if it does not end. */
function readVarint(bytes: Uint8Array, to: number): number {
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
