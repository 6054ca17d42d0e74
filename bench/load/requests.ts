/**
 * The requests of a run, encoded once; for each call only the digits of its keys are written into a copy.
 *
 *     descriptor   user = u-0012345  ·  path = /api/v1/items       (with --entries 1 only the first)
 *                         ^^^^^^^^^ the key's number, always as many digits, so every request has the same length
 */
import { encodeRequest } from '../../proto/codec.ts'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import type { Keys, NextKey } from './keys.ts'

const DIGITS_MIN = 7
const PATH = '/api/v1/items'
const ZERO = 48

export interface Shape {
  domain: string
  descriptors: number // 1 to 10
  entries: number // 1 or 2
  hits: number // 0 to 2^32-1
  keys: Keys
}

/** An encoded request and the offsets of the keys' digits. */
export class Template {
  readonly bytes: Buffer
  private readonly offsets: number[]
  private readonly digits: number

  constructor(bytes: Buffer, shape: Shape) {
    this.bytes = bytes
    this.offsets = []
    this.digits = countDigits(shape.keys)
    const blank = `u-${'0'.repeat(this.digits)}`
    for (let at = bytes.indexOf(blank); at >= 0; at = bytes.indexOf(blank, at + 1)) this.offsets.push(at + 2)
    if (this.offsets.length !== shape.descriptors) throw new Error('the domain looks like a key')
  }

  /** Writes the request with the next keys; `into` must have space for it. */
  write(into: Buffer, at: number, nextKey: NextKey): void {
    this.bytes.copy(into, at)
    for (let i = 0; i < this.offsets.length; i++) {
      let key = nextKey(i)
      const first = at + this.offsets[i]
      for (let digit = first + this.digits - 1; digit >= first; digit--) {
        const tenth = Math.floor(key / 10)
        into[digit] = ZERO + key - tenth * 10
        key = tenth
      }
    }
  }
}

/** The request as protobuf, with blank keys. */
export function protobufRequest(shape: Shape): Buffer {
  return Buffer.from(encodeRequest(createRequest(shape)))
}

/** The request as JSON, with blank keys. */
export function jsonRequest(shape: Shape): Buffer {
  const { domain, hitsAddend, descriptors } = createRequest(shape)
  const entries = descriptors.map((each) => ({ entries: each.entries }))
  return Buffer.from(JSON.stringify({ domain, descriptors: entries, hitsAddend }))
}

/** Rules that are never exceeded. A server must have loaded them to be measured. */
export function formatRules(domain: string): string {
  const limit = '{ unit: hour, requests_per_unit: 4000000000 }'
  return `domain: ${JSON.stringify(domain)}
descriptors:
  - key: user
    rate_limit: ${limit}
    descriptors:
      - key: path
        rate_limit: ${limit}
`
}

function createRequest({ domain, descriptors, entries, hits, keys }: Shape): RateLimitRequest {
  const user = { key: 'user', value: `u-${'0'.repeat(countDigits(keys))}` }
  const all = [user, { key: 'path', value: PATH }].slice(0, entries)
  const descriptor = { entries: all, limit: null, hitsAddend: null }
  return { domain, descriptors: Array.from({ length: descriptors }, () => descriptor), hitsAddend: hits }
}

function countDigits(keys: Keys): number {
  return Math.max(DIGITS_MIN, String(keys.count - 1).length)
}
