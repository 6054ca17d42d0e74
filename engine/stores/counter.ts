/**
 * A counter of one key, that is of one window. A caller that keeps the object saves its batches and its store some work with the
 * next hit; another object with the same key is the same counter.
 */

const HASH_SEED = (Math.random() * 2 ** 32) | 0

export class Counter {
  readonly key: string
  readonly isPublic: boolean // of PUBLIC_DOMAIN, whose counters have their own buckets in the memory store
  /** Used by the Redis store: the connection that EXPIRE was sent on; 0 = none. */
  expirySetOnConnection = 0
  /** Used by the memory store: the key's fingerprint and the first word of its bucket; B is 0 until they are computed. */
  fingerprintA = 0
  fingerprintB = 0
  fingerprintBucket = 0
  /** Used by batches: the slot of this counter in the batch with this generation. */
  generation = 0
  slot = 0
  private cachedHash = 0 // 0 = not computed
  private bytes: number // -1 = not computed

  /** `bytes` is the size of the key in UTF-8, where the caller knows it. */
  constructor(key: string, bytes = -1, isPublic = false) {
    this.key = key
    this.isPublic = isPublic
    this.bytes = bytes
  }

  /** Size of the key in UTF-8, in bytes. */
  get size(): number {
    if (this.bytes === -1) this.bytes = Buffer.byteLength(this.key)
    return this.bytes
  }

  /** Never 0, equal for equal keys; differs between threads. */
  get hash(): number {
    if (this.cachedHash === 0) this.cachedHash = hashKey(this.key) || 1
    return this.cachedHash
  }
}

/** Four characters per round, as most keys are ASCII. Others mix less well, so finding them takes some more probes. */
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
