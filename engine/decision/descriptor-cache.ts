/**
 * Cache of resolved descriptors by the bytes of domain and descriptor, so that known ones need not be decoded.
 *
 *     domain 'shop' + descriptor 0a 0a 0a 04 'user' …  ── hash ──►  slot  ── all bytes equal ──►  ResolvedDescriptor
 *                                                                      └── others: decode, match, maybe cache ──┘
 *
 * One table per thread with SLOTS entries: larger tables miss the CPU's caches and cost more than they save. A descriptor
 * replaces the one in its slot when it comes twice in a row for that slot and the other was not used in between, so
 * descriptors that come once stay out and their objects die young. The hash only selects the slot: crafted collisions cost
 * their senders a miss and no one else anything. Domain and descriptor of more than SLOT_BYTES are decoded each time.
 */
import type { ResolvedDescriptor } from './resolved-descriptor.ts'

const SLOTS = 4_096 // a power of two
const SLOT_WORDS = 32
const SLOT_BYTES = (SLOT_WORDS - 1) * 4 // of domain and descriptor, each rounded up to words

export class DescriptorCache {
  private readonly words = new Int32Array(SLOTS * SLOT_WORDS) // sizes, domain, descriptor
  private readonly resolved: (ResolvedDescriptor | null)[] = new Array(SLOTS).fill(null)
  private readonly wasUsed = new Uint8Array(SLOTS) // since a newcomer came for the second time
  private readonly newcomers = new Int32Array(SLOTS) // hash of the last one
  private readonly descriptorWords = new Int32Array(SLOT_WORDS) // the descriptor to find, laid out like a slot
  private readonly domain = new Uint8Array(SLOT_BYTES)
  private domainSize = 0
  private domainEnd = 1 // in words
  private domainHash = 0
  private end = 0 // of `descriptorWords`; 0 = too long for a slot
  private slot = 0
  private hash = 0 // of the last readDescriptorAt

  // hot: nothing is allocated below

  /** Sets the domain of the descriptors to find. True: it is unchanged. */
  setDomain(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.isDomain(bytes, start, end)) return true
    this.domainSize = end - start
    if (this.domainSize > SLOT_BYTES) return false
    this.domain.set(bytes.subarray(start, end))
    this.hash = 0
    this.domainEnd = this.readDescriptorAt(bytes, start, end, 1)
    this.domainHash = this.hash
    return false
  }

  private isDomain(bytes: Uint8Array, start: number, end: number): boolean {
    const { domain, domainSize } = this
    if (end - start !== domainSize || domainSize > SLOT_BYTES) return false
    for (let i = 0; i < domainSize; i++) if (bytes[start + i] !== domain[i]) return false
    return true
  }

  /** The cached descriptor, or null. */
  find(bytes: Uint8Array, start: number, end: number): ResolvedDescriptor | null {
    const size = end - start
    this.end = 0
    if (this.domainSize > SLOT_BYTES || size > SLOT_BYTES - 4 * (this.domainEnd - 1)) return null
    const { descriptorWords, words } = this
    this.hash = this.domainHash
    const wantedEnd = this.readDescriptorAt(bytes, start, end, this.domainEnd)
    descriptorWords[0] = (this.domainSize << 16) | size
    const slot = this.getSlot()
    this.slot = slot
    this.end = wantedEnd
    const at = slot * SLOT_WORDS
    for (let i = 0; i < wantedEnd; i++) if (words[at + i] !== descriptorWords[i]) return null
    const descriptor = this.resolved[slot]
    if (descriptor !== null) this.wasUsed[slot] = 1
    return descriptor
  }

  /** Caches what the last `find` did not find, if its slot is available. */
  set(descriptor: ResolvedDescriptor): void {
    const { slot, end, hash } = this
    if (end === 0) return
    if (this.newcomers[slot] !== hash) {
      this.newcomers[slot] = hash
      return
    }
    if (this.wasUsed[slot] === 1) {
      this.wasUsed[slot] = 0
      return
    }
    const at = slot * SLOT_WORDS
    for (let i = 0; i < end; i++) this.words[at + i] = this.descriptorWords[i]
    this.resolved[slot] = descriptor
  }

  /** Copies bytes into `descriptorWords` as words, the last one padded with zeros, and mixes them into the hash. Returns the end. */
  private readDescriptorAt(bytes: Uint8Array, start: number, end: number, from: number): number {
    const { descriptorWords } = this
    const whole = start + ((end - start) & ~3)
    let hash = this.hash
    let at = from
    let i = start
    for (; i < whole; i += 4) {
      const word = bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24)
      descriptorWords[at++] = word
      hash = Math.imul(hash ^ word, 0x9e37_79b1)
      hash ^= hash >>> 15
    }
    if (i < end) {
      let word = bytes[i]
      if (i + 1 < end) word |= bytes[i + 1] << 8
      if (i + 2 < end) word |= bytes[i + 2] << 16
      descriptorWords[at++] = word
      hash = Math.imul(hash ^ word, 0x9e37_79b1)
      hash ^= hash >>> 15
    }
    this.hash = hash
    return at
  }

  private getSlot(): number {
    const hash = Math.imul(this.hash ^ (this.hash >>> 13), 0x85eb_ca6b)
    return (hash ^ (hash >>> 16)) & (SLOTS - 1)
  }

  /** For a change of rules. */
  clear(): void {
    this.resolved.fill(null)
    this.wasUsed.fill(0)
    this.words.fill(0)
  }
}
