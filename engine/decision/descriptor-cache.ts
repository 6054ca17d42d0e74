/**
 * Descriptors met before, by their bytes: what they come to is known without reading them.
 *
 *     domain 'shop' + descriptor 0a 0a 0a 04 'user' …  ── hash ──►  slot  ── all bytes equal ──►  Target
 *                                                                      └── others: read, match, maybe keep ──┘
 *
 * One table per thread, SLOTS entries and no more: larger ones miss the CPU's caches and cost more than they save. A slot
 * keeps what is asked for: a newcomer gets it when it comes for the second time in a row and the one there was not met
 * meanwhile. So those that come once, most of them where keys are many, die young, which costs the collector nothing.
 * The hash only finds the place, so crafted collisions cost their callers the look-up and nobody anything else.
 * Gives up: a descriptor and domain of more than SLOT_BYTES are read each time.
 */
import type { ResolvedDescriptor } from './resolved-descriptor.ts'

const SLOTS = 4_096 // a power of two
const SLOT_WORDS = 32
const SLOT_BYTES = (SLOT_WORDS - 1) * 4 // of domain and descriptor, each rounded up to words

export class DescriptorCache {
  private readonly words = new Int32Array(SLOTS * SLOT_WORDS) // sizes, domain, descriptor
  private readonly targets: (ResolvedDescriptor | null)[] = new Array(SLOTS).fill(null)
  private readonly isWanted = new Uint8Array(SLOTS) // met since a newcomer came for the second time
  private readonly newcomers = new Int32Array(SLOTS) // hash of the last one
  private readonly asked = new Int32Array(SLOT_WORDS) // what is being looked for, laid out like a slot
  private readonly domain = new Uint8Array(SLOT_BYTES)
  private domainSize = 0
  private domainEnd = 1 // in words
  private domainHash = 0
  private end = 0 // of `asked`; 0 = too long to be kept
  private slot = 0
  private hash = 0 // of the last `gather`

  // hot: nothing is allocated below

  /** The domain of the descriptors that are looked for from now on. True: it is the one of before. */
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

  /** The target of a descriptor, or null. */
  find(bytes: Uint8Array, start: number, end: number): ResolvedDescriptor | null {
    const size = end - start
    this.end = 0
    if (this.domainSize > SLOT_BYTES || size > SLOT_BYTES - 4 * (this.domainEnd - 1)) return null
    const { asked, words } = this
    this.hash = this.domainHash
    const askedEnd = this.readDescriptorAt(bytes, start, end, this.domainEnd)
    asked[0] = (this.domainSize << 16) | size
    const slot = this.place()
    this.slot = slot
    this.end = askedEnd
    const at = slot * SLOT_WORDS
    for (let i = 0; i < askedEnd; i++) if (words[at + i] !== asked[i]) return null
    const target = this.targets[slot]
    if (target !== null) this.isWanted[slot] = 1
    return target
  }

  /** Keeps the target of what the last `find` did not find, if its place is to be had. */
  set(target: ResolvedDescriptor): void {
    const { slot, end, hash } = this
    if (end === 0) return
    if (this.newcomers[slot] !== hash) {
      this.newcomers[slot] = hash
      return
    }
    if (this.isWanted[slot] === 1) {
      this.isWanted[slot] = 0
      return
    }
    const at = slot * SLOT_WORDS
    for (let i = 0; i < end; i++) this.words[at + i] = this.asked[i]
    this.targets[slot] = target
  }

  /** Copies bytes into `asked` as words, the last one filled up with zeros, and mixes them into the hash. */
  private readDescriptorAt(bytes: Uint8Array, start: number, end: number, from: number): number {
    const { asked } = this
    const whole = start + ((end - start) & ~3)
    let hash = this.hash
    let at = from
    let i = start
    for (; i < whole; i += 4) {
      const word = bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24)
      asked[at++] = word
      hash = Math.imul(hash ^ word, 0x9e37_79b1)
      hash ^= hash >>> 15
    }
    if (i < end) {
      let word = bytes[i]
      if (i + 1 < end) word |= bytes[i + 1] << 8
      if (i + 2 < end) word |= bytes[i + 2] << 16
      asked[at++] = word
      hash = Math.imul(hash ^ word, 0x9e37_79b1)
      hash ^= hash >>> 15
    }
    this.hash = hash
    return at
  }

  private place(): number {
    const hash = Math.imul(this.hash ^ (this.hash >>> 13), 0x85eb_ca6b)
    return (hash ^ (hash >>> 16)) & (SLOTS - 1)
  }

  /** Forgets everything: rules have changed. */
  clear(): void {
    this.targets.fill(null)
    this.isWanted.fill(0)
    this.words.fill(0)
  }
}
