/**
 * One counter in one window. Who keeps the object spares its batches and its store some work when it is hit again; a
 * second object with the same key means the same counter.
 */

const HASH_SEED = (Math.random() * 2 ** 32) | 0

export class Counter {
  readonly key: string
  readonly isPublic: boolean // of PUBLIC_DOMAIN, whose counters the memory store keeps apart
  /** For the store alone, 0 at first. */
  expirySetOnConnection = 0
  /** For the memory store alone: the key's fingerprint, and the first word of its bucket; B is 0 until they are known. */
  fingerprintA = 0
  fingerprintB = 0
  fingerprintBucket = 0
  /** For batches alone: where it stands in the filling of this number. */
  generation = 0
  slot = 0
  private hashed = 0 // 0 = not yet
  private bytes: number // -1 = not yet

  /** Who knows the key's bytes in UTF-8 says how many. */
  constructor(key: string, bytes = -1, isPublic = false) {
    this.key = key
    this.isPublic = isPublic
    this.bytes = bytes
  }

  /** Bytes of the key in UTF-8. */
  get size(): number {
    if (this.bytes === -1) this.bytes = Buffer.byteLength(this.key)
    return this.bytes
  }

  /** Never 0, the same for equal keys, another in each thread. */
  get hash(): number {
    if (this.hashed === 0) this.hashed = hashKey(this.key) || 1
    return this.hashed
  }
}

/** Four characters a round, as most keys are narrow; wide ones mix less well, which costs their batches some steps. */
function hashKey(key: string): number {
  const { length } = key
  let hash = HASH_SEED
  let i = 0
  for (; i + 3 < length; i += 4) {
    const low = key.charCodeAt(i) | (key.charCodeAt(i + 1) << 8)
    const word = low ^ (key.charCodeAt(i + 2) << 16) ^ (key.charCodeAt(i + 3) << 24)
    hash = Math.imul(hash ^ word, 0x9e37_79b1)
    hash ^= hash >>> 15
  }
  for (; i < length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x85eb_ca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35)
  return hash ^ (hash >>> 16)
}
