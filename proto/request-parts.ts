/**
 * Finds the parts of a RateLimitRequest in its bytes without decoding them.
 *
 *     0a 04 's' 'h' 'o' 'p'   12 0c ··· ··· ···   12 0e ··· ··· ···   18 02
 *     domain                  descriptor 0        descriptor 1        hits_addend
 *
 * Proxies send the same descriptors repeatedly, so the engine caches them by their bytes and decodes only new ones. Accepts
 * the plain form that all known clients write: the domain first and once, known fields only, few descriptors. For anything
 * else `find` returns false and the codec decodes the whole message; both give the same result (tested).
 */

const DESCRIPTORS_MAX = 64
const BYTES_MAX = 65_536 // so that no maximum of bounds.ts can be exceeded here
const TAG_DOMAIN = (1 << 3) | 2
const TAG_DESCRIPTOR = (2 << 3) | 2
const TAG_HITS = (3 << 3) | 0

export class RequestParts {
  domainStart = 0
  domainEnd = 0
  /** Descriptor i is the bytes from `starts[i]` up to `ends[i]`. */
  readonly starts = new Int32Array(DESCRIPTORS_MAX)
  readonly ends = new Int32Array(DESCRIPTORS_MAX)
  count = 0
  hitsAddend = 0 // 0 to 2^32-1; 0 counts as 1
  private at = 0 // offset of the next byte to read

  /** True if the bytes are in plain form; the parts are then valid until the next call. */
  find(bytes: Uint8Array): boolean {
    const end = bytes.length
    if (end > BYTES_MAX || end === 0 || bytes[0] !== TAG_DOMAIN) return false
    this.at = 1
    const domainEnd = this.lengthAt(bytes)
    if (domainEnd < 0 || domainEnd === this.at) return false
    this.domainStart = this.at
    this.domainEnd = domainEnd
    this.at = domainEnd
    this.count = 0
    this.hitsAddend = 0
    while (this.at < end) {
      const tag = bytes[this.at++]
      if (tag === TAG_DESCRIPTOR) {
        const partEnd = this.lengthAt(bytes)
        if (partEnd < 0 || this.count === DESCRIPTORS_MAX) return false
        this.starts[this.count] = this.at
        this.ends[this.count++] = partEnd
        this.at = partEnd
      } else if (tag !== TAG_HITS || !this.readHits(bytes)) return false
    }
    return this.count > 0
  }

  /** Reads a length and returns the end of the part it measures; -1 if that is beyond the message, or not in plain form. */
  private lengthAt(bytes: Uint8Array): number {
    if (this.at >= bytes.length) return -1
    let length = bytes[this.at++]
    if (length >= 0x80) {
      if (this.at >= bytes.length) return -1
      const high = bytes[this.at++]
      if (high >= 0x80) return -1 // 16 KiB and more
      length = (length & 0x7f) | (high << 7)
    }
    const end = this.at + length
    return end <= bytes.length ? end : -1
  }

  private readHits(bytes: Uint8Array): boolean {
    let hits = 0
    for (let shift = 0; shift < 28; shift += 7) {
      if (this.at >= bytes.length) return false
      const byte = bytes[this.at++]
      hits |= (byte & 0x7f) << shift
      if (byte < 0x80) {
        this.hitsAddend = hits
        return true
      }
    }
    return false // 2^28 and more
  }
}
