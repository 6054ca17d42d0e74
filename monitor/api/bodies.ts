/**
 * Shared response bodies: built once per data version, cached with their compressed forms up to 64 MiB (spec 1.4).
 *
 *     get('7 sites?tier=A', build) ── hit ───► Body          the ETag is of the plain bytes, shared by all forms
 *                                  └─ miss ──► build() ──► Body     concurrent misses build once
 *
 * Bodies of old versions are no longer read and are evicted as least recently used.
 */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import { parseQualityValues } from '../../engine/runtime/quality-values.ts'

export const CACHE_BYTES_MAX = 64 * 1024 * 1024
const ENTRY_BYTES = 1_024 // overhead of an entry with its keys, maps and promises, measured
const COMPRESSED_MIN_BYTES = 1_024
const BROTLI_QUALITY = 4 // 5 times faster than 9 and 5 % larger, on lists of sites
export const BROTLI_QUALITY_MAX = 11 // for what is compressed once per start

export type Coding = 'identity' | 'br' | 'gzip'

const brotli = promisify(brotliCompress)
const zip = promisify(gzip)

export class Body {
  readonly etag: string
  readonly plain: Buffer
  private readonly isText: boolean
  private readonly forms = new Map<Coding, Buffer>()
  private readonly pending = new Map<Coding, Promise<Buffer>>()
  private readonly onGrown: (body: Body) => void
  private readonly brotliQuality: number

  /** Bytes, unlike text, are never compressed: those of pictures are already. */
  constructor(
    content: string | Buffer,
    onGrown: (body: Body) => void = () => {},
    brotliQuality = BROTLI_QUALITY,
  ) {
    this.isText = typeof content === 'string'
    this.brotliQuality = brotliQuality
    this.plain = typeof content === 'string' ? Buffer.from(content) : content
    this.etag = `W/"${createHash('sha256').update(this.plain).digest('hex').slice(0, 16)}"`
    this.onGrown = onGrown
    this.forms.set('identity', this.plain)
  }

  get bytes(): number {
    let bytes = ENTRY_BYTES
    for (const form of this.forms.values()) bytes += form.length
    return bytes
  }

  /** The coding used for a client that prefers this one. */
  codingFor(preferred: Coding): Coding {
    return this.isText && this.plain.length >= COMPRESSED_MIN_BYTES ? preferred : 'identity'
  }

  /** Synchronous when the form exists. */
  form(coding: Coding): Buffer | Promise<Buffer> {
    return this.forms.get(coding) ?? this.pending.get(coding) ?? this.make(coding)
  }

  private make(coding: Coding): Promise<Buffer> {
    const params = { [constants.BROTLI_PARAM_QUALITY]: this.brotliQuality }
    const compressing = coding === 'br' ? brotli(this.plain, { params }) : zip(this.plain)
    const made = compressing
      .then((form) => {
        this.forms.set(coding, form)
        this.onGrown(this)
        return form
      })
      .finally(() => this.pending.delete(coding))
    this.pending.set(coding, made)
    return made
  }
}

export class Bodies {
  private readonly cache: LRUCache<string, Body>
  private readonly building = new Map<string, Promise<Body>>() // bounded by the requests under way

  constructor(bytesMax = CACHE_BYTES_MAX) {
    this.cache = new LRUCache({ maxSize: bytesMax, sizeCalculation: (body, key) => body.bytes + key.length })
  }

  /** `build` returns the value to serialize as JSON. */
  get(key: string, build: () => unknown): Body {
    return this.getText(key, () => JSON.stringify(build()))
  }

  getLater(key: string, build: () => Promise<unknown>): Promise<Body> {
    return this.getTextLater(key, async () => JSON.stringify(await build()))
  }

  getText(key: string, build: () => string): Body {
    return this.cache.get(key) ?? this.keep(key, build())
  }

  async getTextLater(key: string, build: () => Promise<string>): Promise<Body> {
    const known = this.cache.get(key)
    if (known) return known
    let built = this.building.get(key)
    if (!built) {
      built = build()
        .then((text) => this.keep(key, text))
        .finally(() => this.building.delete(key))
      this.building.set(key, built)
    }
    return built
  }

  get bytes(): number {
    return this.cache.calculatedSize
  }

  private keep(key: string, text: string): Body {
    const body = new Body(text, (grown) => {
      if (this.cache.peek(key) === grown) this.cache.set(key, grown) // counts its size anew
    })
    this.cache.set(key, body)
    return body
  }
}

/** Parses Accept-Encoding: the coding with the highest weight, br before gzip; identity when neither is accepted. */
export function preferredCoding(header: string): Coding {
  let best: Coding = 'identity'
  let bestWeight = 0
  const weights = parseQualityValues(header)
  for (const coding of ['br', 'gzip'] as const) {
    const weight = weights.get(coding) ?? weights.get('*') ?? 0
    if (weight > bestWeight) [best, bestWeight] = [coding, weight]
  }
  return best
}

/** Weak comparison (RFC 9110, 13.1.2). */
export function isMatch(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch.trim() === '*') return true
  const opaque = (tag: string) => tag.replace(/^W\//, '')
  return (ifNoneMatch.match(/(?:W\/)?"[^"]*"/g) ?? []).some((tag) => opaque(tag) === opaque(etag))
}
