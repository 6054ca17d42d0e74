/**
 * Encodes a descriptor read from JSON as protobuf, so that the cache finds it by the same bytes as one sent by gRPC.
 *
 *     {"entries":[{"key":"user","value":"7"}]}  ──►  0a 09  0a 04 'user'  12 01 '7'
 *
 * Plain descriptors only: entries without other fields, in ASCII, with lengths of one byte. The codec handles the rest.
 */
import type { Descriptor } from './ratelimit.ts'

const TAG_ENTRY = (1 << 3) | 2
const TAG_KEY = TAG_ENTRY
const TAG_VALUE = (2 << 3) | 2
const SHORT_MAX = 0x7f // bytes of an entry, so that each length takes one
const ASCII_MAX = 0x7f

/** Writes the message at `at` and returns its end, or -1 if it is not plain or does not fit. */
export function writePlainDescriptor(descriptor: Descriptor, into: Uint8Array, at: number): number {
  const { entries } = descriptor
  if (descriptor.limit !== null || descriptor.hitsAddend !== null) return -1
  let end = at
  for (let i = 0; i < entries.length; i++) {
    const { key, value } = entries[i]
    const size = fieldSize(key) + fieldSize(value)
    if (size > SHORT_MAX || end + 2 + size > into.length) return -1
    into[end] = TAG_ENTRY
    into[end + 1] = size
    end = writeField(TAG_KEY, key, into, end + 2)
    if (end >= 0) end = writeField(TAG_VALUE, value, into, end)
    if (end < 0) return -1
  }
  return end
}

function fieldSize(text: string): number {
  return text === '' ? 0 : 2 + text.length
}

function writeField(tag: number, text: string, into: Uint8Array, at: number): number {
  if (text === '') return at
  into[at] = tag
  into[at + 1] = text.length
  let seen = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    seen |= code
    into[at + 2 + i] = code
  }
  return seen > ASCII_MAX ? -1 : at + 2 + text.length
}
