/**
 * Builds a counter key from a descriptor's bytes without decoding texts.
 *
 *     bytes  0a 0a  0a 04 'user'  12 01 '7' …           prefix and domain are written once, followed by the entries
 *     key    shop_user_7_plan_free_                     level 0 is `user_7`, level 1 is `plan_free`, as matched by the trie
 *
 * Reads the plain form only: short ASCII entries of a key and an optional value, and no other fields. For anything else
 * `read` returns false and the codec decodes the descriptor; both ways give the same result (tested).
 */
import { UNDERSCORE } from '../match/image.ts'

const LEVELS_MAX = 16
const BYTES_MAX = 1_024 // of domain and entries together
const WINDOW_BYTES_MAX = 20
const SHORT_MAX = 0x7f // longer lengths take a second byte
const TAG_ENTRY = (1 << 3) | 2
const TAG_KEY = TAG_ENTRY
const TAG_VALUE = (2 << 3) | 2
const ASCII_MAX = 0x7f

export class KeyBytes {
  readonly buffer = Buffer.alloc(BYTES_MAX)
  levelsCount = 0
  /** Level i is `key_value` from `starts[i]` to `ends[i]`, its underscore at `keyEnds[i]`. */
  readonly starts = new Int32Array(LEVELS_MAX)
  readonly keyEnds = new Int32Array(LEVELS_MAX)
  readonly ends = new Int32Array(LEVELS_MAX)
  private domainEnd = -1 // -1 = too long, or not ASCII
  /** Where the window's start is written. */
  end = 0

  /** Sets the prefix of all keys of a domain, such as `shop_`. */
  setDomain(text: string): void {
    this.domainEnd = -1
    if (text.length > BYTES_MAX / 2) return
    const size = this.buffer.write(text)
    if (size === text.length) this.domainEnd = size
  }

  /** Reads a descriptor's message, the bytes from `start` up to `end`. False: not in the plain form. */
  read(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.domainEnd < 0 || end - start > BYTES_MAX - WINDOW_BYTES_MAX - this.domainEnd) return false // a key is shorter than its message
    this.levelsCount = 0
    this.end = this.domainEnd
    let at = start
    while (at < end) {
      if (bytes[at] !== TAG_ENTRY || at + 2 > end || this.levelsCount === LEVELS_MAX) return false
      const entryEnd = at + 2 + bytes[at + 1]
      if (bytes[at + 1] > SHORT_MAX || entryEnd > end) return false
      if (!this.readEntry(bytes, at + 2, entryEnd)) return false
      at = entryEnd
    }
    return true
  }

  /** The counter key with the start of its window, as one flat string: concatenated strings cost more each time they are read. */
  text(windowStart: number): string {
    const end = this.end + this.buffer.write(String(windowStart), this.end, 'latin1')
    return this.buffer.toString('latin1', 0, end)
  }

  private readEntry(bytes: Uint8Array, start: number, end: number): boolean {
    if (end - start < 2 || bytes[start] !== TAG_KEY) return false
    const level = this.levelsCount++
    const keyEnd = start + 2 + bytes[start + 1]
    if (keyEnd > end) return false
    this.starts[level] = this.end
    if (!this.copy(bytes, start + 2, keyEnd)) return false
    this.keyEnds[level] = this.end
    this.buffer[this.end++] = UNDERSCORE
    if (keyEnd < end) {
      if (end - keyEnd < 2 || bytes[keyEnd] !== TAG_VALUE || keyEnd + 2 + bytes[keyEnd + 1] !== end)
        return false
      if (!this.copy(bytes, keyEnd + 2, end)) return false
    }
    this.ends[level] = this.end
    this.buffer[this.end++] = UNDERSCORE
    return true
  }

  private copy(bytes: Uint8Array, start: number, end: number): boolean {
    const { buffer } = this
    let to = this.end
    let bits = 0
    for (let i = start; i < end; i++) {
      const byte = bytes[i]
      bits |= byte
      buffer[to++] = byte
    }
    this.end = to
    return bits <= ASCII_MAX
  }
}
