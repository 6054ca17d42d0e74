/**
 * Messages for ShouldRateLimit: valid requests, and nearly valid bytes.
 *
 *     mutated   a byte changed, bits flipped, a piece doubled, cut, swapped in; lengths and tags included
 */
import { encodeRequest } from '../../proto/codec.ts'
import type { Descriptor, RateLimitRequest } from '../../proto/ratelimit.ts'

type Random = () => number

const KEYS = ['user', 'plan', 'path', '', 'é😀', 'x'.repeat(200)]
const VALUES = ['7', '', 'a_b', '*', 'é', 'y'.repeat(300)]
const HITS = [
  null,
  null,
  0,
  1,
  5,
  2 ** 32,
  Number.MAX_SAFE_INTEGER,
  2n ** 53n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
]
const UNITS = [0, 1, 2, 6, 7, 8, -1]
// tags of every field of a request, of unknown ones, of groups, lengths, and pieces of integers
const BYTES = [
  0x0a, 0x12, 0x18, 0x1a, 0x08, 0x10, 0x20, 0x7a, 0x78, 0x0b, 0x0c, 0x0d, 0x09, 0x00, 0x01, 0x7f, 0x80, 0xff,
]

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]

export function randomMessage(random: Random): Uint8Array {
  const request: RateLimitRequest = {
    domain: pick(random, ['fuzz', 'fuzz', 'fuzz', 'unknown', '']),
    descriptors: Array.from({ length: Math.floor(random() * 4) }, () => descriptor(random)),
    hitsAddend: pick(random, [0, 0, 1, 7, 2 ** 32 - 1]),
  }
  return encodeRequest(request)
}

function descriptor(random: Random): Descriptor {
  const entry = () => ({ key: pick(random, KEYS), value: pick(random, VALUES) })
  const limit = { requestsPerUnit: pick(random, [0, 1, 1_000, 2 ** 32 - 1]), unit: pick(random, UNITS) }
  return {
    entries: Array.from({ length: Math.floor(random() * 4) }, entry),
    limit: random() < 0.2 ? limit : null,
    hitsAddend: random() < 0.3 ? pick(random, HITS) : null,
  }
}

/** One to four changes. */
export function mutated(message: Uint8Array, random: Random): Uint8Array {
  let bytes = Array.from(message)
  for (let changes = 1 + Math.floor(random() * 4 * random()); changes > 0; changes--) {
    const start = Math.floor(random() * (bytes.length + 1))
    const end = Math.min(bytes.length, start + 1 + Math.floor(random() * 12))
    const [before, piece, after] = [bytes.slice(0, start), bytes.slice(start, end), bytes.slice(end)]
    const kind = Math.floor(random() * 6)
    if (kind === 0) bytes = [...before, pick(random, BYTES), ...bytes.slice(start + 1)]
    else if (kind === 1) bytes = [...before, pick(random, BYTES), ...bytes.slice(start)]
    else if (kind === 2) bytes = [...before, ...after]
    else if (kind === 3) bytes = [...before, ...piece, ...piece, ...after]
    else if (kind === 4) bytes = before
    else bytes = [...before, ...piece.map((byte) => byte ^ (1 << Math.floor(random() * 8))), ...after]
  }
  return Uint8Array.from(bytes)
}
