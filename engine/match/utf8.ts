/**
 * Text to UTF-8 in a buffer of ours.
 *
 *     'a'  61      'é'  c3 a9      '€'  e2 82 ac      '😀'  f0 9f 98 80      half a pair  ef bf bd
 *
 * A loop, because requests are short and ASCII: 20 letters take 15 ns here, 60 and more through a native call.
 * Half a surrogate pair becomes U+FFFD, as everywhere in Node, so configuration and requests agree on it.
 */

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
