/**
 * Converts text to UTF-8 in an existing buffer.
 *
 *     'a'  61      'é'  c3 a9      '€'  e2 82 ac      '😀'  f0 9f 98 80      lone surrogate  ef bf bd
 *
 * A loop, because requests are short and ASCII: 20 letters take 15 ns here and at least 60 ns in a native call.
 * A lone surrogate becomes U+FFFD, as everywhere in Node, in configuration and requests alike. Rules written as bytes
 * (`!!binary`) are an exception: a byte that is not UTF-8 is U+DC00 + byte in strings and that byte in the image. Such rules
 * load, remain distinct and match no request, as in envoyproxy/ratelimit.
 */
import { isUtf8 } from 'node:buffer'

const BYTE = 0xdc00 // + 0x80 to 0xff: lone surrogates that represent bytes

/** Decodes bytes; each byte that is not UTF-8 becomes a lone surrogate. */
export function textOfBytes(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString()
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    let size = 1
    while (size < 4 && !isUtf8(bytes.subarray(at, at + size))) size++
    const letter = bytes.subarray(at, at + size)
    const isLetter = letter.length === size && isUtf8(letter)
    text += isLetter ? letter.toString() : String.fromCharCode(BYTE + bytes[at])
    at += isLetter ? size : 1
  }
  return text
}

/** The other way round. */
export function bytesOfText(text: string): Buffer {
  if (text.isWellFormed()) return Buffer.from(text)
  return Buffer.concat(
    Array.from(text, (letter) => {
      const code = letter.charCodeAt(0)
      const isByte = letter.length === 1 && code >= BYTE + 0x80 && code <= BYTE + 0xff
      return isByte ? Buffer.of(code - BYTE) : Buffer.from(letter)
    }),
  )
}

export function sizeOfText(text: string): number {
  return text.isWellFormed() ? Buffer.byteLength(text) : bytesOfText(text).length
}

// hot: nothing is allocated below

/** Writes `text` from `at`, at most 3 bytes per UTF-16 unit, which must fit. Returns the end. */
export function writeUtf8(buffer: Uint8Array, at: number, text: string): number {
  const length = text.length
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0x80) return writeWide(buffer, at, text, i)
    buffer[at++] = code
  }
  return at
}

function writeWide(buffer: Uint8Array, from: number, text: string, first: number): number {
  let at = from
  for (let i = first; i < text.length; i++) {
    let code = text.charCodeAt(i)
    if (code >= 0xd800 && code <= 0xdfff) {
      const low = code < 0xdc00 && i + 1 < text.length ? text.charCodeAt(i + 1) : 0
      if (low >= 0xdc00 && low <= 0xdfff) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)
        i++
      } else code = 0xfffd
    }
    if (code < 0x80) buffer[at++] = code
    else if (code < 0x800) {
      buffer[at++] = 0xc0 | (code >> 6)
      buffer[at++] = 0x80 | (code & 0x3f)
    } else {
      if (code < 0x10000) buffer[at++] = 0xe0 | (code >> 12)
      else {
        buffer[at++] = 0xf0 | (code >> 18)
        buffer[at++] = 0x80 | ((code >> 12) & 0x3f)
      }
      buffer[at++] = 0x80 | ((code >> 6) & 0x3f)
      buffer[at++] = 0x80 | (code & 0x3f)
    }
  }
  return at
}
